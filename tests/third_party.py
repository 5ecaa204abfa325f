"""The command line from outside, on a machine of its own; and third-party plugins, installed as pip would."""

import ctypes
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOOL = '''
from claw import hookimpl, tool

@tool({options})
def {name}() -> str:
    """Say how it is."""
    {body}

@hookimpl
def register_tools(config):
    return [{name}]
'''


def plugin_code(name: str, body: str = "return 'fine'", options: str = "") -> str:
    """The code of a plugin with one tool."""
    return TOOL.format(name=name, body=body, options=options)


ENGINE = """
from claw import hookimpl

class Engine:
    name = "{name}"

    def wrap(self, call, turn):
{wrap}

    async def compact(self, turn, focus):
        return ""

    async def before_reset(self, turn):
        pass

@hookimpl
def register_context_engines(config):
    return [Engine()]
"""


def engine_code(name: str, wrap: str) -> str:
    """The code of a plugin with a context engine that compacts nothing.

    :param wrap: the body of its method ``wrap(self, call, turn)``, not indented.
    """
    return ENGINE.format(name=name, wrap=textwrap.indent(textwrap.dedent(wrap).strip("\n"), " " * 8))


def installed(
    folder: Path, plugin: str, code: str, manifest: dict[str, Any] | str | None = None, package: str = ""
) -> Path:
    """Install a plugin in ``folder`` as a distribution of its own; the folder, for ``path=``.

    :param manifest: as data (its id is filled in) or as text; None = it has none.
    """
    package = package or f"stranger_{plugin.replace('-', '_')}"
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(code)
    if manifest is not None:
        text = manifest if isinstance(manifest, str) else json.dumps({"id": plugin, **manifest})
        (folder / package / "claw-plugin.json").write_text(text)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[claw.plugins]\n{plugin} = {package}\n")
    return folder


@dataclass(frozen=True)
class Said:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on stderr; more than one, or a traceback, fails the test."""
        assert "Traceback" not in self.err + self.out, self.err + self.out
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


@dataclass
class Machine:
    """A person's machine: a home, a folder to work in, an environment with nothing else in it."""

    root: Path
    path: Sequence[Path] = ()
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home, self.workspace = self.root / "claw", self.root / "work"
        self.home.mkdir(parents=True)
        self.workspace.mkdir()

    def configured(self, text: str, name: str = "config.yaml") -> None:
        """Write the config file."""
        (self.home / name).write_text(text, encoding="utf-8")

    def command(self, *words: str, home: Path | None = None, **environ: str) -> dict[str, Any]:
        """``claw WORDS`` as arguments of a process."""
        return {
            "args": [sys.executable, "-m", "claw", *words],
            "cwd": self.workspace,
            "env": {
                "PATH": os.defpath,
                "HOME": str(self.root),
                "CLAW_HOME": str(home or self.home),
                "LANG": "C.UTF-8",
                "PYTHONPATH": os.pathsep.join(map(str, self.path)),
                **self.environ,
                **environ,
            },
        }

    def claw(
        self, *words: str, stdin: str = "", home: Path | None = None, plain: bool = False, **environ: str
    ) -> Said:
        """Run ``claw WORDS`` to its end.

        :param plain: without the right of root to read what is closed to it.
        """
        done = subprocess.run(
            **self.command(*words, home=home, **environ), input=stdin, capture_output=True, text=True, timeout=60,
            preexec_fn=_like_anybody if plain else None,
        )  # fmt: skip
        return Said(done.returncode, done.stdout, done.stderr)

    @property
    def session(self) -> Path:
        """The one session file."""
        [path] = self.home.glob("agents/*/sessions/*.jsonl")
        return path


def _like_anybody() -> None:
    """Drop the capabilities by which root passes over file modes (linux/capability.h: 1 and 2; prctl 24)."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (1, 2):
            libc.prctl(24, capability, 0, 0, 0)
