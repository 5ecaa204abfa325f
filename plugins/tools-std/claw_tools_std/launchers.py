"""Programs that can start other programs, and the arguments by which they do: a program on the allow list may not.
Pure.

Facts from the manuals of GNU coreutils 9, findutils 4, tar 1.34, git 2.39, rsync 3.2, zip 3.0, OpenSSH 9, ripgrep 13.
GNU programs accept any unambiguous prefix of a long option, so any prefix counts here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

FRONTS = frozenset({"env", "nice", "nohup", "setsid", "timeout"})
"""Programs that run the rest of their words as a command: :func:`wrapped_command` returns it."""

_RUN_ANYTHING = frozenset({
    "ash", "at", "awk", "batch", "busybox", "choom", "chroot", "chrt", "crontab", "doas", "ed", "emacs", "entr", "ex",
    "expect", "flock", "gawk", "gdb", "ionice", "ld.so", "less", "linux32", "linux64", "ltrace", "man", "mawk",
    "more", "mosh", "nano", "nawk", "newgrp", "npx", "nsenter", "parallel", "pkexec", "prlimit", "prove", "run-parts",
    "runuser", "scp", "screen", "script", "setarch", "setpriv", "sftp", "sg", "ssh", "ssh-agent", "start-stop-daemon",
    "stdbuf", "strace", "su", "sudo", "systemd-run", "taskset", "tmux", "toybox", "unshare", "vi", "view", "vim",
    "vimdiff", "watch", "xargs",
})  # fmt: skip
"""Programs that run commands from their words or files, in more ways than a list could hold."""


@dataclass(frozen=True, slots=True)
class _Options:
    """The options by which a program find_launch another one.

    :param long: long options, whole; any prefix of one counts.
    :param short: letters of short options, alone or in a cluster.
    :param words: a pattern for a whole word.
    """

    long: tuple[str, ...] = ()
    short: str = ""
    words: str = ""

    def has(self, word: str) -> bool:
        name = word.partition("=")[0]
        if name.startswith("--"):
            return len(name) > 2 and any(option.startswith(name) for option in self.long)
        cluster = len(word) > 1 and word[0] == "-" and any(char in self.short for char in word[1:])
        return cluster or bool(self.words and re.fullmatch(self.words, word))


_STARTING = {
    "fd": _Options(("--exec", "--exec-batch"), "xX"),
    "find": _Options(words="-(exec|execdir|ok|okdir)"),
    "install": _Options(("--strip-program",)),
    "rg": _Options(("--pre", "--hostname-bin")),
    "rsync": _Options(("--rsh", "--rsync-path"), "e"),
    # its e runs a command, its w writes: only --sandbox in front disables them
    "sed": _Options(words=".*"),
    "apt": _Options(("--option", "--config-file"), "oc"),
    "diff3": _Options(("--diff-program",)),
    "dpkg": _Options(("--pre-invoke", "--post-invoke")),
    "gcc": _Options(words="-wrapper|-B.*|-specs.*|--specs.*|@.*"),
    "gpg": _Options(("--agent-program", "--dirmngr-program", "--keyboxd-program", "--photo-viewer", "--options")),
    "make": _Options(("--eval",), "fE"),
    "npm": _Options(("--script-shell", "--call"), "c", "exec|x"),
    "pip": _Options(("--python",)),
    "sdiff": _Options(("--diff-program",)),
    "sort": _Options(("--compress-program",)),
    "split": _Options(("--filter",)),
    "sqlite3": _Options(words=".*"),  # edit(), .shell and .init: only -safe in front disables them
    # a name with a colon is a file of another machine, which rsh or ssh fetches
    "tar": _Options(
        (
            "--checkpoint-action", "--use-compress-program", "--to-command", "--rsh-command", "--rmt-command",
            "--info-script", "--new-volume-script",
        ),
        "IF", "[^-/][^/]*:.*",
    ),
    "tcpdump": _Options(short="z"),
    "wget": _Options(("--use-askpass", "--execute", "--config"), "e"),
    "zip": _Options(("--unzip-command",), words=".*TT.*"),
}  # fmt: skip
_SAFE_FIRST = {"sed": "--sandbox", "sqlite3": "-safe"}
"""The option, in front of all others, by which a program starts no other one."""
_SAME = {
    "apt-get": "apt",
    "g++": "gcc",
    "cc": "gcc",
    "pip3": "pip",
    "fdfind": "fd",
    "gtar": "tar",
    "bsdtar": "tar",
    "gsed": "sed",
    "gfind": "find",
    "gsort": "sort",
}

# Its subcommands that start no configured program; an alias is none of them.
_GIT = frozenset({
    "add", "am", "apply", "bisect", "blame", "branch", "cat-file", "check-ignore", "checkout", "cherry", "cherry-pick",
    "clean", "clone", "commit", "count-objects", "describe", "diff", "diff-index", "diff-tree", "fetch", "format-patch",
    "fsck", "gc", "grep", "hash-object", "init", "log", "ls-files", "ls-remote", "ls-tree", "merge", "merge-base", "mv",
    "name-rev", "prune", "pull", "push", "range-diff", "rebase", "reflog", "remote", "repack", "reset", "restore",
    "rev-list", "rev-parse", "revert", "rm", "shortlog", "show", "show-branch", "show-ref", "sparse-checkout", "stash",
    "status", "submodule", "switch", "symbolic-ref", "tag", "update-index", "update-ref", "version", "whatchanged",
    "worktree", "write-tree",
})  # fmt: skip
_GIT_FIRST = frozenset(
    {"-P", "--no-pager", "--no-optional-locks", "--literal-pathspecs", "--version", "--help"}
)
_GIT_ANYWHERE = _Options(
    ("--upload-pack", "--receive-pack", "--exec", "--ext-diff", "--open-files-in-pager", "--config", "--config-env",
     "--template", "--extcmd", "--exec-path", "--upload-archive"),
    words=r"[A-Za-z0-9+.-]+::.*",
)  # fmt: skip
_GIT_SHORT = {"clone": "cu", "rebase": "xi", "grep": "O"}
_GIT_WORDS = {"bisect": {"run", "visualize", "view"}, "submodule": {"foreach", "update", "add"}}


def wrapped_command(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command that a program of :data:`FRONTS` runs; empty when it is not clear."""
    rest = tuple(words[1:])
    if words[0].rsplit("/", 1)[-1] == "timeout":
        rest = rest[1:] if rest and re.fullmatch(r"[0-9.]+[smhd]?", rest[0]) else ()
    return () if not rest or rest[0].startswith("-") or "=" in rest[0] else rest


def find_launch(program: str, words: Sequence[str]) -> str:
    """Return the word by which ``program`` (a bare name) would start another one; its own name when any word may;
    empty when none does."""
    name = _SAME.get(program, program)
    if name in _RUN_ANYTHING:
        return program
    if name == "git":
        return _git(words)
    options, rest = _STARTING.get(name), list(words[1:])
    if rest[:1] == [_SAFE_FIRST.get(name)]:
        return ""
    if name == "tar" and rest and not rest[0].startswith("-"):
        rest[0] = f"-{rest[0]}"  # its first word is a cluster of options, also without the dash
    return next(filter(options.has, rest), "") if options else ""


def _git(words: Sequence[str]) -> str:
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        first = rest.pop(0)
        if first == "-C" and rest:
            rest.pop(0)
        elif first not in _GIT_FIRST:
            return first
    if not rest:
        return ""
    command, options = rest[0], rest[1:]
    if command not in _GIT:
        return command
    option_words = _GIT_WORDS.get(command, set())
    short = _Options(short=_GIT_SHORT.get(command, ""))
    for word in options:
        if word in option_words or _GIT_ANYWHERE.has(word) or short.has(word):
            return word
    return ""
