"""The plugin layer: the distributions that claw installed, in a numbered folder at the end of ``sys.path``.

``current`` is a symbolic link to one folder; a process keeps the folder that it started with. Imports here are only the
lightest parts of the standard library, because every command runs ``activate``.
"""

import os
import sys

LAYERS_FOLDER = "plugins.d"
CURRENT_LINK, STAGED_LINK = "current", "staged"
EDITABLE_FILE, METADATA_FILE = "editable.paths", "layer.json"
GATEWAY_LOCK = "gateway.lock"
"""Lock file in the home, held by a running gateway; a staged layer waits until it is free."""
_held: list[int] = []
_names: set[str] = set()


def activate_layer(home: str) -> str:
    """Add the current layer of ``home`` to ``sys.path``; return its folder, empty without one for this Python."""
    root = os.path.join(home, LAYERS_FOLDER)
    if os.path.lexists(os.path.join(root, STAGED_LINK)):
        promote_staged(home)
    try:
        folder = os.path.join(root, os.readlink(os.path.join(root, CURRENT_LINK)))
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return ""
    if not folder.endswith(sys.implementation.cache_tag):
        os.close(fd)
        _warn_of_other_python(folder)
        return ""
    _lock_until_exit(fd)
    _names.update(name for name in os.listdir(fd) if name.endswith(".dist-info"))
    sys.path.append(folder)
    try:
        with open(os.path.join(folder, EDITABLE_FILE), encoding="utf-8") as file:
            sys.path += file.read().splitlines()
    except OSError:
        pass
    return folder


def installed_in(distribution: str) -> str:
    """Return ``layer`` for a distribution that claw installed, else ``environment``."""
    wanted = distribution.lower().replace("-", "_").replace(".", "_")
    return "layer" if any(name.lower().partition("-")[0] == wanted for name in _names) else "environment"


def _warn_of_other_python(folder: str) -> None:
    from claw import i18n

    i18n.use_language(i18n.language_of(os.environ))
    text = i18n.t(
        "the plugins in {folder} are not used: they were installed for another Python; claw "
        "plugins sync installs them for this one",
        folder=folder,
    )
    sys.stderr.write(f"claw: {text}\n")


def promote_staged(home: str) -> bool:
    """Make the staged layer current, unless a gateway runs; return true if done."""
    root, flags = os.path.join(home, LAYERS_FOLDER), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(os.path.join(home, GATEWAY_LOCK), flags, 0o600)
        try:
            _lock_alone(fd)
            os.rename(os.path.join(root, STAGED_LINK), os.path.join(root, CURRENT_LINK))
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def _lock_alone(fd: int) -> None:
    """Lock a file; try again soon, because a command that looks for the holder locks it for a moment."""
    import fcntl
    import time

    for pause_seconds in (0.005, 0.005):
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause_seconds)
    return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_until_exit(fd: int) -> None:
    """Hold a shared lock until this process ends, so that no change removes the folder while it is in use."""
    import fcntl

    _held.append(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pass
