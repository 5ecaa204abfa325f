"""Programs that run code which they are given."""

_INTERPRETERS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish", "ash", "python", "pypy", "perl", "ruby", "node",
    "nodejs", "deno", "bun", "php", "lua", "luajit", "tclsh", "r", "rscript", "awk", "gawk", "mawk", "nawk", "sed",
    "gsed", "jq", "osascript", "pwsh", "powershell", "java", "busybox", "env", "xargs", "find", "vi", "vim", "ed",
    "ex", "emacs",
})  # fmt: skip
"""Programs that run code given as an argument or input; a version suffix (python3.12) is ignored."""


def is_interpreter(program: str) -> bool:
    """Return true if a program, given by name or path, runs any code or program that it is given."""
    return program.rsplit("/", 1)[-1].lower().rstrip("0123456789.-") in _INTERPRETERS
