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
    from pathlib import Path

    from claw.contracts.errors import ClawError
    from claw.storage.files import SYSTEM_DISK, Lock

    lock = Lock(Path(home) / GATEWAY_LOCK)
    try:
        lock.take()
        SYSTEM_DISK.rename(
            os.path.join(home, LAYERS_FOLDER, STAGED_LINK), os.path.join(home, LAYERS_FOLDER, CURRENT_LINK)
        )
    except (ClawError, OSError):
        return False
    finally:
        lock.close()
    return True


def _lock_until_exit(fd: int) -> None:
    """Hold a shared lock until this process ends, so that no change removes the folder while it is in use."""
    import fcntl

    _held.append(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pass
