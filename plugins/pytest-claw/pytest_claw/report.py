"""``--claw-report FILE``: only the suites run, and what they saw of a plugin is written down, for ``claw plugins grade``.

The file is JSON: ``suites`` (class, suite, tools, passed, failed), ``accesses`` (network, subprocess, paths) ``left``
(threads, processes and open resources after the last test) and ``suiteOfHook``.
"""

import gc
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
_STANDS_FOR = {"OwnProtocolSuite": "ProviderSuite"}
_GRACE_SECONDS = 0.5
_OF_CLAW = "tools of "
"""Beginning of the names of threads in which claw runs plain functions of tools."""
_LOOPBACK = ("127.", "localhost", "::1")


class SuiteReport:
    """A pytest plugin that leaves out every test that is of no suite.

    :param file: where the report is written.
    :param suite_of_hook: hook → the suite for its objects.
    :param package: folder of the plugin's package, or its one file: accesses count when its code is on the stack.
    """

    def __init__(self, file: Path, package: str, suite_of_hook: Mapping[str, str]) -> None:
        self._file, self._package, self._suite_of_hook = file, package, dict(suite_of_hook)
        self._names = {*suite_of_hook.values(), *_STANDS_FOR, "FaultSuite"}
        self._suites: dict[str, dict[str, Any]] = {}
        self._accesses: dict[str, dict[str, None]] = {"network": {}, "subprocess": {}, "paths": {}}
        self._left: dict[str, None] = {}
        self._is_over = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests of suites."""
        kept = [item for item in items if self._suite_of(item)]
        config.hook.pytest_deselected(items=[item for item in items if not self._suite_of(item)])
        items[:] = kept

    def pytest_sessionstart(self) -> None:
        """Begin to record. An audit hook cannot be removed; it does nothing after the session."""
        self._threads, self._children = set(threading.enumerate()), _children()
        sys.addaudithook(self._on_audit_event)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Add an outcome to its suite."""
        report = yield
        where = item.nodeid.rpartition("::")[0]
        suite = self._suites.setdefault(
            where, {"class": where, "suite": self._suite_of(item), "tools": [], "passed": 0, "failed": []}
        )
        if (tool := _tool_of(item)) and tool not in suite["tools"]:
            suite["tools"].append(tool)
        if report.failed:
            text = str(getattr(report.longrepr, "reprcrash", None) or report.longrepr or "")
            line = next(iter(text.splitlines()), "")
            suite["failed"].append({"test": item.name, "why": line[:300]})
        elif report.when == "call" and report.passed:
            suite["passed"] += 1
        return report

    def pytest_warning_recorded(self, warning_message: Any) -> None:
        """Note a resource that nothing closed."""
        if text := _unclosed(warning_message):
            self._left[text] = None

    def pytest_sessionfinish(self) -> None:
        """Note what is left, and write the report."""
        gc.collect()
        self._is_over = True
        for thread in set(threading.enumerate()) - self._threads - {threading.current_thread()}:
            thread.join(_GRACE_SECONDS)  # its executor may have been collected just now
            if thread.is_alive() and not thread.name.startswith(_OF_CLAW):
                self._left[f"thread {thread.name}"] = None
        for child in _children() - self._children:
            self._left[f"process {_command(child)}"] = None

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Write the report: by now pytest has reported the resources that its last collection found."""
        body = {
            "suites": list(self._suites.values()),
            "accesses": {kind: list(seen) for kind, seen in self._accesses.items()},
            "left": list(self._left),
            "suiteOfHook": self._suite_of_hook,
        }
        self._file.write_text(json.dumps(body, ensure_ascii=False), encoding="utf-8")

    def _suite_of(self, item: pytest.Item) -> str:
        """Return the name of the suite that a test belongs to; empty for others."""
        bases = getattr(getattr(item, "cls", None), "__mro__", ())
        found = next((one.__name__ for one in bases if one.__name__ in self._names and _is_ours(one)), "")
        return _STANDS_FOR.get(found, found)

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record an access (docs.python.org, "Audit events table")."""
        if self._is_over:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes | os.PathLike) and flags & _WRITES and self._is_its_code():
                self._accesses["paths"][os.path.abspath(os.fsdecode(path))] = None
        elif event in ("socket.getaddrinfo", "socket.connect", "socket.sendto"):
            host = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
            name = str(host[0] if isinstance(host, tuple) else host)
            if not name.startswith(_LOOPBACK) or self._is_its_code():
                self._accesses["network"][name] = None
        elif event in _PROGRAMS and self._is_its_code():
            self._accesses["subprocess"][os.fsdecode(arguments[0] or arguments[1][0])] = None

    def _is_its_code(self) -> bool:
        return any(file.startswith(self._package) for file in _files_on_stack())


def _files_on_stack() -> Iterator[str]:
    frame: Any = sys._getframe(2)
    while frame:
        yield frame.f_code.co_filename
        frame = frame.f_back


def _tool_of(item: pytest.Item) -> str:
    """Return the name of the tool under test; empty for others."""
    try:  # a property of the author's may raise
        return str(getattr(getattr(getattr(item, "instance", None), "tool", None), "name", ""))
    except Exception:  # noqa: BLE001
        return ""


def _is_ours(suite: type) -> bool:
    return suite.__module__.partition(".")[0] == "pytest_claw"


def _unclosed(message: Any) -> str:
    """Return the text of a warning about a resource that was not closed; empty for others."""
    text, category = str(message.message), message.category
    if issubclass(category, ResourceWarning):
        return text.splitlines()[0][:200]
    if "ResourceWarning" in text:  # raised in a destructor: pytest reports it with its traceback
        lines = [line for line in text.splitlines() if "ResourceWarning" in line]
        return lines[-1].strip()[:200]
    return ""


def _children() -> set[int]:
    """Return the ids of the child processes; none where the system does not list them (proc(5), "children")."""
    found = set[int]()
    for file in Path("/proc/self/task").glob("*/children"):
        try:
            found |= {int(word) for word in file.read_text().split()}
        except OSError:
            continue
    return found


def _command(process: int) -> str:
    try:
        line = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return str(process)
    return line.decode(errors="replace").strip()[:120] or str(process)
