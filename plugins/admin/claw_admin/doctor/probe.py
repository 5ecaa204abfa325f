"""A probe of one plugin: it is loaded in a process of its own, and its cost, registrations and accesses are
recorded.

``look`` starts that process; ``main`` runs in it. Nothing of the plugin gets into the calling process.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from claw import t
from claw.runtime import (
    CRASHED,
    FAILED,
    HUNG,
    MAX_CRASHES,
    InstalledPlugin,
    LoadFailure,
    PluginHealth,
    files_digest,
)

SECONDS = 90.0
_MARK, _IMPORTED, _END = "claw: plugin begins", "claw: plugin is imported", "claw: plugin ends"
_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
_CHILD += "from claw_admin.doctor.probe import main; main(*sys.argv[2:])"
_FILE = "seen.json"
_LOADING = ("import", "register")
_ALONE = "alone"
"""A value of the record of a failure in a process of its own."""


class ImportTime(msgspec.Struct, frozen=True):
    """An import, and what it cost in ms with all that it imported."""

    module: str
    ms: float


class ProbeResult(msgspec.Struct, frozen=True):
    """The record of a plugin's import and of its answers to the hooks.

    :param import_ms: import time of its package and all that it imports, beyond what claw itself has loaded; without the
        share of it in which the process waited for a processor.
    :param waited: that share, 0 to 1.
    :param memory_kb: growth of the process.
    :param modules: number of modules that it loaded.
    :param chain: from its package down, the heaviest import each time.
    :param contributed_names: hook → names of its contributions.
    :param deprecated: warnings that its own code caused.
    :param network: hosts that it looked up or connected to; ``written``: files opened for writing.
    :param fault: stage, cause and fix, when it was quarantined.
    :param notes: what of it cannot be used, each with its fix.
    :param failures: the same as records of plugin health; none when the fault is not in its code.
    """

    import_ms: float = 0.0
    waited: float = 0.0
    memory_kb: int = 0
    modules: int = 0
    chain: tuple[ImportTime, ...] = ()
    contributed_names: dict[str, tuple[str, ...]] = {}
    deprecated: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    subprocess: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    fault: tuple[str, str, str] | None = None
    failures: tuple[LoadFailure, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


def probe_plugin(plugin: str, times: int = 1) -> ProbeResult:
    """Load ``plugin`` in a process of its own; of several runs, return the quickest."""
    return min((_run_probe(plugin) for _ in range(times)), key=lambda seen: seen.import_ms)


def _run_probe(plugin: str) -> ProbeResult:
    with tempfile.TemporaryDirectory(prefix="claw-doctor-") as folder:
        command = [sys.executable, "-X", "importtime", "-P", "-c", _CHILD]
        arguments = [msgspec.json.encode(sys.path).decode(), plugin, folder]
        try:
            done = subprocess.run(
                [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            why = t("it did not answer within {seconds} s", seconds=SECONDS)
            return ProbeResult(
                fault=("import", why, ""), failures=(LoadFailure(plugin, HUNG, "import", why),)
            )
        log = done.stderr.decode(errors="replace")
        failures = PluginHealth(Path(folder, "plugins")).failures().get(plugin, ())
        try:
            seen = msgspec.json.decode(Path(folder, _FILE).read_bytes(), type=ProbeResult)
        except OSError:
            why = t("the process ended with code {code}", code=done.returncode)
            stage = "register" if _IMPORTED in log else "import"
            failure = failures[0] if failures else LoadFailure(plugin, CRASHED, stage, "")
            failure = replace(failure, stage=stage, cause=why, times=MAX_CRASHES)
            return ProbeResult(fault=(stage, why, ""), failures=(failure,))
    roots = parse_import_times(log.partition(_MARK)[2].partition(_END)[0].splitlines())
    total = sum(root.ms for root, _ in roots) * (1 - seen.waited)
    return msgspec.structs.replace(
        seen, import_ms=round(total, 1), chain=heaviest_chain(roots), failures=failures
    )


def record_health(
    found: InstalledPlugin, seen: ProbeResult, home: Path, *, parts: bool = False
) -> LoadFailure | None:
    """Record for every process of ``home`` that a plugin did not load, or that it loads again.

    :param parts: if it loads, also forget its parts that failed in turns, and that it failed beside the other plugins.
    :returns: its failure beside the other plugins, if that stays: another may be the cause.
    """
    health = PluginHealth(home / "plugins")
    if seen.failures:
        digest = files_digest(found)
        rows = (replace(one, values={**one.values, _ALONE: 1}) for one in seen.failures)
        health.record(*(replace(one, digest=digest, run=0, at=0.0) for one in rows))
    elif not seen.fault:
        known = () if parts else health.failures().get(found.id, ())
        beside = (
            one for one in known if one.kind == FAILED and one.stage in _LOADING and _ALONE not in one.values
        )
        if failure := next((one for one in beside if one.holds_for(found)), None):
            return failure
        health.clear(found.id, parts=parts, digest="" if found.is_first_party else files_digest(found))
    return None


Tree = tuple[ImportTime, "list[Tree]"]
_TIMED = re.compile(r"import time:\s*\d+ \|\s*(\d+) \| (\s*)(\S+)")


def parse_import_times(log: Sequence[str]) -> list[Tree]:
    """Parse the output of ``python -X importtime`` into a forest: each module is the parent of what it imported."""
    roots: list[Tree] = []
    open_: list[tuple[int, list[Tree]]] = [(-1, roots)]
    for line in reversed(log):
        if timed := _TIMED.match(line):
            depth = len(timed[2]) // 2
            while open_[-1][0] >= depth:
                open_.pop()
            tree: Tree = (ImportTime(timed[3], int(timed[1]) / 1000), [])
            open_[-1][1].append(tree)
            open_.append((depth, tree[1]))
    return roots


def heaviest_chain(forest: Sequence[Tree]) -> tuple[ImportTime, ...]:
    """Follow the heaviest root down, as long as one import makes up at least half of the one above it."""
    chain: list[ImportTime] = []
    while forest:
        link, below = max(forest, key=lambda tree: tree[0].ms)
        if chain and link.ms < chain[-1].ms / 2:
            break
        chain.append(link)
        forest = below
    return tuple(chain)


def _waited_seconds() -> float:
    """Return how long this thread was ready and had no processor (proc(5), "schedstat"); 0 where nobody counts it."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _import(package: str, shares: list[float]) -> None:
    """Import a package, and add the share of the time in which this thread waited for a processor."""
    begun, waited = time.perf_counter(), _waited_seconds()
    __import__(package)
    shares.append((_waited_seconds() - waited) / (time.perf_counter() - begun))


def main(plugin: str, folder: str) -> None:
    """Load ``plugin`` as a start in this home would, and write what was recorded to ``folder``."""
    from claw import HttpClients, PluginConfig
    from claw.runtime import DEFAULT_TIMEOUTS, SYSTEM_DISK, Host, load_setup, run_bounded

    setup, network = load_setup(), HttpClients()
    home = setup.config.home
    health = PluginHealth(Path(folder, "plugins"))
    host = Host(
        setup.plugin_states,
        lambda id: PluginConfig(setup.config, id, network.client, home / "plugins" / id),
        health,
    )
    found = next(one for one in setup.found if one.id == plugin)
    accesses = _AccessLog((folder, str(home / "plugins" / plugin), os.devnull))
    deprecated = _record_deprecations(str(found.folder or ""))
    before, modules = _memory_kb(), len(sys.modules)
    accesses.begin()
    sys.stderr.write(f"\n{_MARK}\n")
    late, waited = "", list[float]()
    with contextlib.suppress(BaseException), health.guard(plugin):  # the host reports what is wrong with it
        try:  # what ``import_module`` imports is not timed
            run_bounded(lambda: _import(found.package, waited), DEFAULT_TIMEOUTS.import_seconds)
        except TimeoutError as why:
            late = str(why)
        sys.stderr.write(f"\n{_IMPORTED}\n")
    answers = host.ask(plugin)
    if (
        late and answers is not None
    ):  # the host met an import that was under way: a start would not wait for it
        health.record(LoadFailure(plugin, HUNG, "import", late))
    sys.stderr.write(f"\n{_END}\n")
    accesses.watching = False
    state = next(one for one in host.plugin_states if one.id == plugin)
    contributions = answers or {}
    fault = (state.stage, state.why, state.fix) if answers is None else ("import", late, "") if late else None
    seen = ProbeResult(
        waited=min(max(*waited, 0.0), 0.95) if waited else 0.0,
        memory_kb=_memory_kb() - before,
        modules=len(sys.modules) - modules,
        contributed_names={
            hook: tuple(_name(thing) for thing in things) for hook, things in contributions.items()
        },
        deprecated=tuple(dict.fromkeys(deprecated)),
        network=tuple(dict.fromkeys(accesses.network)),
        subprocess=tuple(dict.fromkeys(accesses.subprocess)),
        written=tuple(dict.fromkeys(accesses.written)),
        fault=fault,
        notes=tuple((note.problem, note.fix) for note in host.notes.get(plugin, ())),
    )
    SYSTEM_DISK.replace(Path(folder, _FILE), msgspec.json.encode(seen))
    sys.stderr.flush()
    os._exit(0)  # threads and exit handlers of the plugin are not waited for


def _name(thing: Any) -> str:
    return str(getattr(thing, "name", "") or type(thing).__name__)


def _memory_kb() -> int:
    try:  # proc(5), "statm": the second number is the pages in memory
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except OSError:  # not Linux; what it never grew beyond is not seen there
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)


def _record_deprecations(folder: str) -> list[str]:
    """Record, from now on, the deprecation warnings whose blame falls on a file in ``folder``."""
    import warnings

    recorded: list[str] = []

    def show(
        message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if folder and filename.startswith(folder + os.sep):
            recorded.append(f"{Path(filename).relative_to(folder)}:{lineno}: {message}")

    warnings.simplefilter("always", DeprecationWarning)
    warnings.showwarning = show
    return recorded


class _AccessLog:
    """The accesses of a plugin, from the audit events of Python (docs.python.org, "Audit events table")."""

    def __init__(self, own: tuple[str, ...]) -> None:
        self.network: list[str] = []
        self.subprocess: list[str] = []
        self.written: list[str] = []
        self.watching, self._own_paths = False, own

    def begin(self) -> None:
        """Start recording; an audit hook cannot be removed, so ``watching = False`` ends it."""
        self.watching = True
        sys.addaudithook(self._on_audit_event)

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event == "open":
            self._on_open(*arguments)
        elif event == "socket.getaddrinfo":
            self.network.append(str(arguments[0]))
        elif event in ("socket.connect", "socket.sendto"):
            target = arguments[1]
            self.network.append(str(target[0] if isinstance(target, tuple) else target))
        elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
            self.subprocess.append(os.fsdecode(arguments[0] or arguments[1][0]))

    def _on_open(self, path: Any, mode: str | None, flags: int) -> None:
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        if isinstance(path, str | bytes | os.PathLike) and flags & writes:
            target = os.path.abspath(os.fsdecode(path))
            if not target.startswith(self._own_paths) and f"{os.sep}__pycache__{os.sep}" not in target:
                self.written.append(target)
