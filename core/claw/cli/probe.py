"""One plugin loaded in a process of its own, and what was seen of it: cost, registrations, and what it touched.

``look`` starts that process; ``main`` is what runs in it. Nothing of the plugin gets into the process that asks.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from claw.words import say

SECONDS = 90.0
_MARK, _END = "claw: plugin begins", "claw: plugin ends"
_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from claw.cli.probe import main; main(*sys.argv[2:])"
_FILE = "seen.json"


class Link(msgspec.Struct, frozen=True):
    """An import: what it cost with all that it imported, in ms."""

    module: str
    ms: float


class Seen(msgspec.Struct, frozen=True):
    """What a plugin did while it was imported and asked.

    :param import_ms: of its package and all that is imported for it, beyond what claw itself has loaded.
    :param memory_kb: by how much the process grew.
    :param modules: how many more were loaded.
    :param chain: from its package down the heaviest import each time.
    :param brought: hook → names of what it answered with.
    :param tools: as the manifest would write them.
    :param deprecated: warnings that its own code caused.
    :param network: hosts that it looked up or spoke to; ``written``: files opened for writing.
    :param fault: stage, cause and mend, when it was set aside.
    """

    import_ms: float = 0.0
    memory_kb: int = 0
    modules: int = 0
    chain: tuple[Link, ...] = ()
    brought: dict[str, tuple[str, ...]] = {}
    tools: tuple[dict[str, Any], ...] = ()
    deprecated: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    subprocess: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    fault: tuple[str, str, str] | None = None


def look(plugin: str, times: int = 1) -> Seen:
    """Load ``plugin`` in a process of its own; of several times the quickest counts."""
    return min((_look(plugin) for _ in range(times)), key=lambda seen: seen.import_ms)


def _look(plugin: str) -> Seen:
    with tempfile.TemporaryDirectory(prefix="claw-doctor-") as folder:
        command = [sys.executable, "-X", "importtime", "-P", "-c", _CHILD]
        arguments = [msgspec.json.encode(sys.path).decode(), plugin, folder]
        try:
            done = subprocess.run(
                [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Seen(fault=("import", say("it did not come back within {seconds} s", seconds=SECONDS), ""))
        log = done.stderr.decode(errors="replace")
        try:
            seen = msgspec.json.decode(Path(folder, _FILE).read_bytes(), type=Seen)
        except OSError:
            code = done.returncode
            return Seen(fault=("import", say("the process ended with code {code}", code=code), ""))
    roots = imports(log.partition(_MARK)[2].partition(_END)[0].splitlines())
    total = sum(root.ms for root, _ in roots)
    return msgspec.structs.replace(seen, import_ms=round(total, 1), chain=heaviest(roots))


Tree = tuple[Link, "list[Tree]"]
_TIMED = re.compile(r"import time:\s*\d+ \|\s*(\d+) \| (\s*)(\S+)")


def imports(log: Sequence[str]) -> list[Tree]:
    """The forest of imports in what ``python -X importtime`` wrote: a module stands below all that it imported."""
    roots: list[Tree] = []
    open_: list[tuple[int, list[Tree]]] = [(-1, roots)]
    for line in reversed(log):
        if timed := _TIMED.match(line):
            depth = len(timed[2]) // 2
            while open_[-1][0] >= depth:
                open_.pop()
            tree: Tree = (Link(timed[3], int(timed[1]) / 1000), [])
            open_[-1][1].append(tree)
            open_.append((depth, tree[1]))
    return roots


def heaviest(forest: Sequence[Tree]) -> tuple[Link, ...]:
    """Down from the heaviest root, as long as one import makes up at least half of the one above it."""
    chain: list[Link] = []
    while forest:
        link, below = max(forest, key=lambda tree: tree[0].ms)
        if chain and link.ms < chain[-1].ms / 2:
            break
        chain.append(link)
        forest = below
    return tuple(chain)


def main(plugin: str, folder: str) -> None:
    """Load ``plugin`` as a house of this home would, and leave what was seen in ``folder``."""
    from claw.app import look_round
    from claw.config.view import PluginConfig
    from claw.guard.fetch import Network
    from claw.host import Host
    from claw.store import SYSTEM as DISK

    house, network = look_round(), Network()
    home = house.config.home
    host = Host(
        house.standings, lambda id: PluginConfig(house.config, id, network.client, home / "plugins" / id), Path(folder)
    )  # fmt: skip
    found = next(one for one in house.found if one.id == plugin)
    traces = _Traces((folder, str(home / "plugins" / plugin), os.devnull))
    deprecated = _deprecations(str(found.folder or ""))
    before, modules = _memory_kb(), len(sys.modules)
    traces.begin()
    sys.stderr.write(f"\n{_MARK}\n")
    with contextlib.suppress(BaseException):  # the host tells what is wrong with it
        __import__(found.package)  # what ``import_module`` imports is not timed
    answered = host.ask(plugin)
    sys.stderr.write(f"\n{_END}\n")
    traces.watching = False
    standing = next(one for one in host.standings if one.id == plugin)
    brought = answered or {}
    seen = Seen(
        memory_kb=_memory_kb() - before,
        modules=len(sys.modules) - modules,
        brought={hook: tuple(_name(thing) for thing in things) for hook, things in brought.items()},
        tools=tuple(_line(tool) for tool in brought.get("register_tools", ())),
        deprecated=tuple(dict.fromkeys(deprecated)),
        network=tuple(dict.fromkeys(traces.network)),
        subprocess=tuple(dict.fromkeys(traces.subprocess)),
        written=tuple(dict.fromkeys(traces.written)),
        fault=(standing.stage, standing.why, standing.mend) if answered is None else None,
    )
    DISK.replace(Path(folder, _FILE), msgspec.json.encode(seen))
    sys.stderr.flush()
    os._exit(0)  # what the plugin left running, or registered for the end, is not waited for


def _name(thing: Any) -> str:
    return str(getattr(thing, "name", "") or type(thing).__name__)


def _line(tool: Any) -> dict[str, Any]:
    return {
        "name": tool.name, "optional": tool.optional, "ownerOnly": tool.owner_only, "effects": tool.effects,
        "parameters": msgspec.to_builtins(dict(tool.parameters), enc_hook=repr),
    }  # fmt: skip


def _memory_kb() -> int:
    try:  # proc(5), "statm": the second number is the pages in memory
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except OSError:  # not Linux; what it never grew beyond is not seen there
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)


def _deprecations(folder: str) -> list[str]:
    """From now on, the deprecation warnings whose blame falls on a file in ``folder``."""
    import warnings

    told: list[str] = []

    def show(
        message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if folder and filename.startswith(folder + os.sep):
            told.append(f"{Path(filename).relative_to(folder)}:{lineno}: {message}")

    warnings.simplefilter("always", DeprecationWarning)
    warnings.showwarning = show
    return told


class _Traces:
    """What is touched, by the audit events of Python (docs.python.org, "Audit events table")."""

    def __init__(self, own: tuple[str, ...]) -> None:
        self.network: list[str] = []
        self.subprocess: list[str] = []
        self.written: list[str] = []
        self.watching, self._own = False, own

    def begin(self) -> None:
        """From now on; an audit hook cannot be taken away, so ``watching`` ends it."""
        self.watching = True
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event == "open":
            self._opened(*arguments)
        elif event == "socket.getaddrinfo":
            self.network.append(str(arguments[0]))
        elif event in ("socket.connect", "socket.sendto"):
            place = arguments[1]
            self.network.append(str(place[0] if isinstance(place, tuple) else place))
        elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
            self.subprocess.append(os.fsdecode(arguments[0] or arguments[1][0]))

    def _opened(self, path: Any, mode: str | None, flags: int) -> None:
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        if isinstance(path, str | bytes | os.PathLike) and flags & writes:
            place = os.path.abspath(os.fsdecode(path))
            if not place.startswith(self._own) and f"{os.sep}__pycache__{os.sep}" not in place:
                self.written.append(place)
