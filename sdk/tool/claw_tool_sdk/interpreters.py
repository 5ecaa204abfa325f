"""Programs that run code which they are given, and those whose words alone decide what they do."""

from collections.abc import Sequence

_INTERPRETERS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish", "ash", "python", "pypy", "perl", "ruby", "node",
    "nodejs", "deno", "bun", "php", "lua", "luajit", "tclsh", "r", "rscript", "awk", "gawk", "mawk", "nawk", "sed",
    "gsed", "jq", "osascript", "pwsh", "powershell", "java", "busybox", "env", "xargs", "find", "vi", "vim", "ed",
    "ex", "emacs", "julia", "guile", "m", "expect", "wish", "sqlite", "gdb",
})  # fmt: skip
"""Programs that run code given as an argument or input; a version suffix (python3.12) is ignored."""


def is_interpreter(program: str) -> bool:
    """Return true if a program, given by name or path, runs any code or program that it is given."""
    return program.rsplit("/", 1)[-1].lower().rstrip("0123456789.-") in _INTERPRETERS


_DECIDED_BY_WORDS = frozenset({
    "basename", "cat", "chgrp", "chmod", "chown", "cksum", "cmp", "comm", "cp", "cut", "date", "df", "diff", "dirname",
    "du", "echo", "expand", "expr", "false", "fmt", "fold", "grep", "head", "hostname", "id", "join", "kill", "ln", "ls",
    "md5sum", "mkdir", "mkfifo", "mv", "nl", "nproc", "od", "paste", "printf", "ps", "pwd", "readlink", "realpath", "rm",
    "rmdir", "seq", "sha1sum", "sha256sum", "sha512sum", "sleep", "stat", "sync", "tac", "tail", "tee", "touch", "tr",
    "true", "truncate", "uname", "unexpand", "uniq", "unlink", "uptime", "wc", "which", "whoami",
})  # fmt: skip
"""Programs of GNU coreutils 9, diffutils 3, grep 3 and procps 4: no option of theirs starts a program, and none obeys a
file as its configuration."""


def is_decided_by_words(words: Sequence[str]) -> bool:
    """Return true if the words of a command alone decide what it does: it obeys no file and starts no other program.

    False for ``git`` (hooks and settings of a repository), ``make``, ``npm``, interpreters, and any program that is not
    known.
    """
    folder, _, name = words[0].rpartition("/")
    return name in _DECIDED_BY_WORDS and folder in ("", "/bin", "/usr/bin")
