"""The contract of a place where commands run. A back end is a plugin's affair; choosing one is ours."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from claw.errors import ClawError


class Sandbox(Protocol):
    """A place with walls where a command runs: its name, and how to wrap a command line for it."""

    name: str

    async def probe(self) -> str:
        """Try it. Empty when it works here, else why not."""
        ...

    def wrap(self, argv: Sequence[str], *, workspace: Path, environment: Mapping[str, str]) -> list[str]:
        """The command line that runs ``argv`` inside the walls, writing only below ``workspace``."""
        ...


def choose(mode: str, wanted: str, there: Mapping[str, Sandbox]) -> Sandbox | None:
    """The sandbox for a turn; None when none is asked for. Never a silent fall back to none.

    :param mode: ``off``, ``all`` or ``non-main`` from ``sandbox.mode``.
    :param wanted: ``sandbox.backend``; empty = whichever is installed.
    :raises ClawError: one is asked for and is not there.
    """
    if mode == "off":
        return None
    if wanted and wanted in there:
        return there[wanted]
    if not wanted and there:
        return next(iter(there.values()))
    raise ClawError(
        "this agent runs in a sandbox, and no sandbox {wanted} is installed",
        where="sandbox.mode",
        fix="install a plugin that brings one, or set sandbox.mode: off",
        wanted=wanted,
    )
