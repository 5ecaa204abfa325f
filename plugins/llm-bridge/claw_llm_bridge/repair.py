"""Why an llm plugin cannot be imported, and the command that mends it.

Source: packaging.python.org, "Recording installed projects" (RECORD).
"""

import base64
import hashlib
import shlex
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from claw import pip_command


def commands(name: str, *, absent: bool) -> list[str]:
    """What to type so that a distribution is whole again; empty when pip's note shows nothing wrong with it.

    :param absent: something that it imports could not be found.
    """
    try:
        one = distribution(name)
    except PackageNotFoundError:
        return [install_words(name)]
    pin = f"{one.name}=={one.version}"
    if "plugins.d" in Path(str(one.locate_file(""))).parts:  # claw's own layer, changed by claw only
        return [f"claw plugins uninstall {one.name}", f"claw plugins install {pin}"]
    if next(changed(one), None):
        return [install_words("--force-reinstall", "--no-deps", pin)]
    return [install_words(pin)] if absent else []


def changed(one: Distribution) -> Iterator[str]:
    """The files of a distribution that are not any more what was installed, or are gone."""
    for path in one.files or ():
        if path.hash is None or path.hash.mode != "sha256":
            continue
        try:
            digest = hashlib.sha256(Path(str(one.locate_file(path))).read_bytes())
        except OSError:
            yield str(path)
            continue
        usual = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
        if path.hash.value.rstrip("=") not in (usual, digest.hexdigest()):  # some back ends write it in hex
            yield str(path)


def install_words(*words: str) -> str:
    """The command that installs into this environment."""
    return shlex.join([*pip_command(), "install", *words])
