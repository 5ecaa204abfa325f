"""The commands that speak of the state of a home, and a check of what each says (``World``, ``wrong_cells``)."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from integration.confinement import Confinement
from integration.forked_claw import ForkServer
from third_party import Machine, Said, installed

LISTED, INFO, STATUS, DOCTOR = "plugins list", "plugins info bad", "status", "doctor"
EXPLAIN, VALIDATE, CHANNELS, TURNS = "tools explain bad_do", "config validate", "channels list", "turns list"
DOCTOR_OF_PLUGINS = "plugins doctor bad"
TOOLS, START, STATUS_OF_CHANNELS, USAGE = "tools list --all", "gateway start", "channels status", "usage"

LIES = {
    LISTED: r"^bad +\S+ +(loaded|idle)\b",
    INFO: r"^state: (loaded|idle)$",
    STATUS: "$never",
    DOCTOR: "no problems found",
    DOCTOR_OF_PLUGINS: "no problems found",
    EXPLAIN: r"^bad_do: available",
    VALIDATE: " is valid",
    CHANNELS: r"\b(loaded|up)\b",
    TOOLS: r"^bad_do +\S* +available\b",
    STATUS_OF_CHANNELS: r"\bup\b",
    TURNS: r"no turn is recorded|\bdelivered\b",
    USAGE: "$never",
    START: "$never",
}
"""Surface → pattern of its output for something that works; a cell where that is right uses :func:`may`."""


@dataclass(frozen=True)
class Cell:
    """The expected output of one surface for one state.

    :param says: patterns of which each must be found.
    :param lies: patterns of which none may be found.
    :param code: the exit code; None = any.
    """

    says: tuple[str, ...]
    lies: tuple[str, ...] = ()
    code: int | None = None


@dataclass(frozen=True)
class World:
    """A state of the world.

    :param cells: command → what it must say.
    :param plugins: id → code and manifest.
    :param before: commands that run first; their outcome is no matter.
    :param prepare: called with the machine before any command.
    """

    cells: Mapping[str, Cell]
    plugins: Mapping[str, tuple[str, dict[str, Any] | str | None]] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    before: tuple[str, ...] = ("tools list",)
    prepare: Callable[["Forked"], None] = lambda machine: None


def cell(*says: str, code: int | None = None) -> Cell:
    """A cell of something that cannot work."""
    return Cell(says, code=code)


def may(*says: str, code: int | None = None) -> Cell:
    """A cell that may also speak well of what works."""
    return Cell(says, ("$never",), code)


class Forked(Machine):
    """A machine whose commands are forked."""

    server: ForkServer

    def __post_init__(self) -> None:
        super().__post_init__()
        self.open = ExitStack()

    def confine(self, **restrictions: Any) -> None:
        """Run the commands from now on in a process of their own, with these restrictions (``Confinement``)."""
        confined = ForkServer(confined=Confinement(**restrictions))
        self.open.callback(confined.close)
        self.server = confined

    def write(self, config: Mapping[str, Any]) -> None:
        """Write the config file, in English and closed to others."""
        self.configured(json.dumps({"locale": "en", **config}))
        (self.home / "config.yaml").chmod(0o600)

    def begin(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start ``claw WORDS``, which ends with the machine."""
        null = subprocess.DEVNULL
        process = subprocess.Popen(**self.command(*words), stdin=null, stdout=null, stderr=null)
        self.open.enter_context(process)
        self.open.callback(process.kill)
        return process

    def claw(
        self, *words: str, stdin: str = "", home: Path | None = None, plain: bool = False, **environ: str
    ) -> Said:
        """Run ``claw WORDS`` to its end, in a fork."""
        order = self.command(*words, home=home, **environ)
        done = self.server.run({"words": words, "cwd": str(order["cwd"]), "env": order["env"]})
        assert "Traceback" not in done["out"] + done["err"], done
        return Said(done["code"], done["out"], done["err"])


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    served = ForkServer()
    yield served
    served.close()


def machine_in(world: World, root: Path, server: ForkServer) -> Forked:
    """The home of a state; what has to happen before has happened."""
    site = root / "site"
    site.mkdir()
    for id, (code, manifest) in world.plugins.items():
        installed(site, id, code, manifest)
    machine = Forked(root / "machine", [site])
    machine.server = server
    machine.write(world.config)
    machine.home.chmod(0o700)
    world.prepare(machine)
    for words in world.before:
        machine.claw(*words.split())
    return machine


def wrong_cells(world: World, machine: Forked) -> list[str]:
    """The cells that do not say what they must, with what they say; a gateway that a cell started is stopped."""
    wrong = []
    for surface, wanted in world.cells.items():
        said = machine.claw(*surface.split())
        text = said.out + said.err
        lies = wanted.lies or tuple(filter(None, [LIES.get(surface)]))
        faults = [f"no {one!r}" for one in wanted.says if not re.search(one, text, re.MULTILINE)]
        faults += [f"a wrong {one!r}" for one in lies if re.search(one, text, re.MULTILINE)]
        if wanted.code not in (None, said.code):
            faults.append(f"exit code {said.code}")
        wrong += [f"{surface}: {fault}\n{text}" for fault in faults]
    if START in world.cells:
        machine.claw("gateway", "stop")
    machine.open.close()
    return wrong
