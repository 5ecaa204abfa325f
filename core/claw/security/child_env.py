"""Environment of child processes: the variables listed here, and those that the operator names."""

import re
from collections.abc import Collection, Mapping

from claw.security.redaction import redact
from claw.security.secret_patterns import is_secret_name

_PASSED = frozenset({
    "COLORTERM", "COLUMNS", "HOME", "LANG", "LANGUAGE", "LINES", "LOGNAME", "NO_COLOR", "PATH", "SHELL", "TEMP", "TERM",
    "TMP", "TMPDIR", "TZ", "USER",
})  # fmt: skip
_LOCALE = re.compile(r"LC_[A-Z]+")
_PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"


def child_environment(environ: Mapping[str, str], allow: Collection[str] = ()) -> dict[str, str]:
    """Return the variables for a child process: home, language, terminal, time zone, temporary folder, ``PATH``.

    Variables that change what a program runs (``LD_PRELOAD``, ``PYTHONPATH``, ``BASH_ENV`` …) are excluded, and so are
    values that look like credentials. ``PATH`` keeps absolute folders only, so that the working directory has no effect.

    :param allow: exact names that the operator passes through, whatever their value.
    """
    passed = {
        name: value
        for name, value in environ.items()
        if name in allow or (_is_harmless(name) and redact(value) == value and "\n" not in value)
    }
    if "PATH" not in allow:
        folders = [folder for folder in environ.get("PATH", "").split(":") if folder.startswith("/")]
        passed["PATH"] = ":".join(folders) or _PLAIN_PATH
    return passed


def _is_harmless(name: str) -> bool:
    return name in _PASSED or (_LOCALE.fullmatch(name) is not None and not is_secret_name(name))
