"""The layer: what claw installed, in a numbered folder of its own, put on ``sys.path`` behind everything else.

``current`` is a symbolic link to one folder; a process stays with the folder it began with. Only the standard library's
lightest parts are imported here, because every command comes through ``activate``.
"""

import os
import sys

FOLDER = "plugins.d"
CURRENT, STAGED = "current", "staged"
EDITABLE, NOTE = "editable.paths", "layer.json"
GATEWAY_LOCK = "gateway.lock"
"""In the home; held by a running gateway. As long as it is held, what is staged waits."""
_held: list[int] = []
_names: set[str] = set()


def activate(home: str) -> str:
    """Put the current layer of ``home`` on ``sys.path``; the folder, or empty when there is none for this Python."""
    root = os.path.join(home, FOLDER)
    if os.path.lexists(os.path.join(root, STAGED)):
        promote(home)
    try:
        folder = os.path.join(root, os.readlink(os.path.join(root, CURRENT)))
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return ""
    if not folder.endswith(sys.implementation.cache_tag):
        os.close(fd)
        _tell_other_python(folder)
        return ""
    _hold(fd)
    _names.update(name for name in os.listdir(fd) if name.endswith(".dist-info"))
    sys.path.append(folder)
    try:
        with open(os.path.join(folder, EDITABLE), encoding="utf-8") as file:
            sys.path += file.read().splitlines()
    except OSError:
        pass
    return folder


def origin(distribution: str) -> str:
    """``layer`` for what claw installed, ``environment`` for all else."""
    wanted = distribution.lower().replace("-", "_").replace(".", "_")
    return "layer" if any(name.lower().partition("-")[0] == wanted for name in _names) else "environment"


def _tell_other_python(folder: str) -> None:
    from claw import words

    words.use(words.language_of(os.environ))
    text = words.say(
        "the plugins in {folder} are left out: another Python made them; claw plugins sync builds them for this one",
        folder=folder,
    )
    sys.stderr.write(f"claw: {text}\n")


def promote(home: str) -> bool:
    """Make the staged layer current, unless a gateway runs."""
    from pathlib import Path

    from claw.errors import ClawError
    from claw.store import SYSTEM, Lock

    lock = Lock(Path(home) / GATEWAY_LOCK)
    try:
        lock.take()
        SYSTEM.rename(os.path.join(home, FOLDER, STAGED), os.path.join(home, FOLDER, CURRENT))
    except (ClawError, OSError):
        return False
    finally:
        lock.close()
    return True


def _hold(fd: int) -> None:
    """A shared lock until this process ends, so that nobody clears the folder away under it."""
    import fcntl

    _held.append(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pass
