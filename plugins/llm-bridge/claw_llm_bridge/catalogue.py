"""The recorded tools of the installed llm plugins, as of the last change of the environment."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from claw import Section, child_environment
from claw.runtime import make_folder, replace_file
from pydantic import Field

from claw_llm_bridge.inspection import brings_tools, plugins

INSPECTION_SECONDS = 8.0
"""Time limit of a start for listing the plugins, once after each change of the environment."""
_FIRST_PART = 0.6  # of that time, for the first plugin that is slow and those before it
_PASSED = ("PYTHONPATH", "VIRTUAL_ENV", "LLM_USER_PATH")
_FORM = 2  # increased when the record's format changes


class BridgeSettings(Section):
    """``plugins.entries.llm-bridge.config``."""

    toolboxes: dict[str, dict[str, Any]] = Field(
        {}, description="Constructor arguments: toolbox → name → value."
    )
    timeout_seconds: float = Field(60, gt=0, description="How long a call may take.")
    env_allow: tuple[str, ...] = Field(
        (), description="Names of claw's own variables that the plugins may see while their tools are listed."
    )


@dataclass(frozen=True)
class LlmTool:
    """One tool of an llm plugin.

    :param name: its name in llm; ``Toolbox_method`` for one of a toolbox.
    :param box: the toolbox it belongs to; empty for a function.
    """

    name: str
    box: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class LlmPlugin:
    """One llm plugin.

    :param name: of its distribution.
    :param entry: its entry point, ``value`` the object it names.
    :param lacking: toolboxes that cannot be made, with the constructor arguments that are not set.
    :param unopened: toolboxes that raise when they are made, with the error.
    :param why: why nothing of it can be used; empty when it can.
    :param absent: something that it imports is not installed.
    """

    name: str
    version: str
    entry: str
    value: str
    tools: tuple[LlmTool, ...] = ()
    lacking: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unopened: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    absent: bool = False

    @property
    def short(self) -> str:
        """Its name without the common prefix: ``llm-tools-readonly-fs`` → ``readonly_fs``."""
        bare = re.sub(r"^llm[-_.](tools[-_.])?", "", self.name.lower())
        return re.sub(r"[^a-z0-9]+", "_", bare)

    def full_name(self, line: LlmTool) -> str:
        """Return the tool's name in claw: ``plugin__tool``, in characters that every model service
        accepts, at most 64.
        """
        return re.sub(r"[^A-Za-z0-9_-]", "_", f"{self.short}__{line.name}")[:64]


class PluginCatalogue:
    """The record of the tools of llm plugins, in the plugin's folder.

    :param environ: claw's environment; the process that lists the plugins gets its variables without secrets.
    """

    def __init__(self, folder: Path, settings: BridgeSettings, environ: Mapping[str, str]) -> None:
        self._file = folder / "catalogue.json"
        self._settings, self._environ = settings, environ

    def current(self, *, refresh: bool = False) -> tuple[tuple[LlmPlugin, ...], bool]:
        """Return the plugins, and true if they had to be listed again because the environment changed."""
        if not refresh and (noted := self._recorded(self._mark())) is not None:
            return noted, False
        plugins = inspect_plugins(self._settings, self._environ)
        make_folder(self._file.parent)
        # Taken afterwards: Python may have written bytecode beside a module when it was imported.
        tree = {
            "mark": self._mark(),
            "plugins": [asdict(plugin) for plugin in plugins],
        }
        replace_file(self._file, json.dumps(tree, ensure_ascii=False).encode())
        return plugins, True

    def _mark(self) -> str:
        present = [name for name in self._settings.env_allow if name in self._environ]  # never a value
        return fingerprint(sys.path, self._settings, present)

    def _recorded(self, mark: str) -> tuple[LlmPlugin, ...] | None:
        try:
            tree = json.loads(self._file.read_text(encoding="utf-8"))
            return tuple(map(_plugin, tree["plugins"])) if tree["mark"] == mark else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def fingerprint(path: Iterable[str], settings: BridgeSettings, present: Iterable[str] = ()) -> str:
    """Return the key of the record: every folder of installed packages with its modification time, the settings,
    and the names of the allowed variables that are set.
    """
    times = []
    for folder in path:
        try:
            times.append(os.stat(folder or ".").st_mtime_ns if os.path.isdir(folder) else 0)
        except OSError:
            times.append(0)
    values = [_FORM, sys.version, list(path), times, settings.model_dump(mode="json"), list(present)]
    return json.dumps(values, default=repr)


def inspect_plugins(
    settings: BridgeSettings, environ: Mapping[str, str], seconds: float = INSPECTION_SECONDS
) -> tuple[LlmPlugin, ...]:
    """List every llm plugin in a separate process; skip by name one that crashes that process, and one that is slow.

    :param seconds: for all of them together.
    """
    if find_spec("llm") is None:
        return ()
    until, has_waited = time.monotonic() + seconds, False
    found: list[LlmPlugin] = []
    while True:
        skip = [[plugin.name, plugin.entry] for plugin in found]
        asked = {"path": sys.path, "toolboxes": settings.toolboxes, "skip": skip}
        environment = child_environment(environ, (*_PASSED, *settings.env_allow))
        # Of the time for all, a part is kept for those behind the first one that is slow.
        limit = until if has_waited else time.monotonic() + (until - time.monotonic()) * _FIRST_PART
        lines, ended = _ask(asked, environment, max(limit - time.monotonic(), 0.1))
        found += [_plugin(line) for line in lines if "starts" not in line]
        if ended or not lines or "starts" not in lines[-1]:
            return tuple(found)
        late = time.monotonic() >= limit
        why = f"it was not read within {seconds:g} s" if late else "it ends the process that imports it"
        found.append(_plugin(lines[-1]["starts"] | {"why": why}))
        if late and has_waited:
            return (*found, *_unread(found, f"others before it were not read within {seconds:g} s"))
        has_waited = has_waited or late


def _unread(found: Iterable[LlmPlugin], why: str) -> Iterator[LlmPlugin]:
    """Yield the plugins with tools that are not among those found."""
    read = {(plugin.name, plugin.entry) for plugin in found}
    for entry in plugins():
        if entry.dist and (entry.dist.name, entry.name) not in read and brings_tools(entry):
            yield LlmPlugin(entry.dist.name, entry.dist.version, entry.name, entry.value, why=why)


def _ask(asked: Mapping[str, Any], environment: dict[str, str], seconds: float) -> tuple[list[Any], bool]:
    """Run the inspection once; return its lines, and true if it completed."""
    command = [sys.executable, "-P", "-m", "claw_llm_bridge.inspection"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(asked).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=seconds,
            check=False,
        )
        text, ended = done.stdout, done.returncode == 0
    except subprocess.TimeoutExpired as late:
        text, ended = late.stdout or b"", False
    lines = [json.loads(line) for line in text.decode("utf-8", "replace").splitlines() if line.endswith("}")]
    return lines, ended and not (lines and "starts" in lines[-1])


def _plugin(tree: Mapping[str, Any]) -> LlmPlugin:
    return LlmPlugin(**{**tree, "tools": tuple(LlmTool(**line) for line in tree.get("tools", ()))})
