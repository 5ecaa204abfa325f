"""Check the rules of the grades, each in a process of its own where it runs code of the plugin."""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from claw import t
from claw.runtime import HOOKS, Manifest
from claw_tool_sdk import undeclared_access

from claw_author.grades import IMPORT_MS, RuleResult, broken, unchecked
from claw_author.linting import ManifestFinding, unannotated
from claw_author.project import Project
from claw_author.readme import readme_problems

SUITE_SECONDS = 600
_OF_MANIFEST = {"manifest", "undeclared", "absent"}
_OF_LOAD = {"import", "register", "find", "part", "incompatible", "integrity"}


@dataclass(frozen=True)
class GradedPlugin:
    """A plugin to grade.

    :param package: the folder of its package, or its one file.
    :param project: the folder of its project; None for one that is only installed, without its tests and its README.
    :param environ: the environment in which it is found.
    """

    id: str
    package: Path
    manifest: Manifest
    findings: Sequence[ManifestFinding]
    project: Project | None
    environ: Mapping[str, str]


def check_rules(plugin: GradedPlugin) -> dict[str, RuleResult]:
    """Return rule → its result."""
    report = _suite_report(plugin)
    return {
        **_load_results(plugin, report),
        "typed": broken(*_untyped(plugin.package)),
        "conformance": _conformance(plugin, report),
        "closes": _closes(report),
        "docs": _docs(plugin),
    }


def _load_results(plugin: GradedPlugin, report: dict[str, Any] | RuleResult) -> dict[str, RuleResult]:
    """Return the results of the rules that ``claw plugins doctor`` and ``check`` answer."""
    words = ["plugins", "doctor", plugin.id, "--budget-ms", f"{IMPORT_MS:g}", "--json"]
    command = [sys.executable, "-m", "claw", *words]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", env=dict(plugin.environ))  # fmt: skip
    try:
        said = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip() or "?").splitlines()[-1]
        said = {"findings": [{"kind": "import", "problem": last}], "plugins": []}
    problems = [(str(one["kind"]), str(one["problem"])) for one in said.get("findings", ())]
    manifest = [one for one in plugin.findings if one.rule == "manifest"]
    other = [one for one in plugin.findings if one.rule != "manifest"]
    row = next(iter(said["plugins"]), {})
    seen = {kind: list(row.get(kind, ())) for kind in ("network", "subprocess")} | {
        "paths": row.get("written", [])
    }
    calls = report["accesses"] if isinstance(report, dict) else {}
    together = {kind: [*seen[kind], *calls.get(kind, ())] for kind in seen}
    return {
        "loads": broken(*(text for kind, text in problems if kind in _OF_LOAD)),
        "manifest": broken(
            *(f"{one.where}: {one.problem}" for one in manifest),
            *(text for kind, text in problems if kind in _OF_MANIFEST),
        ),
        "check": broken(
            *(f"{one.where}: {one.problem}" for one in other),
            *(text for kind, text in problems if kind == "deprecated"),
        ),
        "import-time": broken(*(text for kind, text in problems if kind == "budget")),
        "access": broken(*_undeclared(plugin, together)),
    }


def _undeclared(plugin: GradedPlugin, seen: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the accesses that the manifest does not declare. Its own data folder needs no declaration."""
    own = f"{os.sep}plugins{os.sep}{plugin.id}{os.sep}"
    paths = [path for path in seen["paths"] if own not in path and path != os.devnull]
    for name, what in undeclared_access(plugin.manifest.capabilities, {**seen, "paths": paths}).items():
        yield t("it used {what}; its manifest does not declare {name}", what=[*what[:5]], name=name)


def _untyped(package: Path) -> Iterator[str]:
    if package.is_dir() and not (package / "py.typed").is_file():
        yield t("there is no {file}", file="py.typed")
    for file in sorted(package.rglob("*.py")) if package.is_dir() else [package]:
        name = file.relative_to(package.parent).as_posix()
        yield from unannotated(ast.parse(file.read_text(encoding="utf-8", errors="replace")), name)


def _suite_report(plugin: GradedPlugin) -> dict[str, Any] | RuleResult:
    """Run the suites of a project; return their report, or why they cannot be run."""
    project = plugin.project
    if project is None:
        return unchecked(t("its tests are in its project: claw plugins grade FOLDER"))
    if not (find_spec("pytest") and find_spec("pytest_claw")):
        return unchecked(t("first: {command}", command="python -m pip install pytest pytest-claw"))
    tests = [one for one in project.conformance if (project.folder / one.partition("::")[0]).exists()]
    if not tests:
        return broken(t("there is no {file}", file=[*project.conformance]))
    with tempfile.TemporaryDirectory(prefix="claw-grade-") as place:
        file = Path(place, "report.json")
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--claw-report={file}",
            f"--claw-package={plugin.package.absolute()}", f"--basetemp={Path(place, 'tests')}",
            "-W", "default::ResourceWarning", "-W", "default::pytest.PytestUnraisableExceptionWarning", *tests,
        ]  # fmt: skip
        environ = {**plugin.environ, "CLAW_HOME": str(Path(place, "home"))}
        try:
            done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  errors="replace", cwd=project.folder, env=environ, timeout=SUITE_SECONDS)  # fmt: skip
        except subprocess.TimeoutExpired:
            return broken(t("it did not end within {seconds} s", seconds=SUITE_SECONDS))
        if not file.is_file() or done.returncode not in (0, 1, 5):
            lines = (done.stdout + done.stderr).strip().splitlines()
            return broken(
                t("its tests cannot be run: {why}", why=lines[-1][:300] if lines else done.returncode)
            )
        report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return report


def _conformance(plugin: GradedPlugin, report: dict[str, Any] | RuleResult) -> RuleResult:
    if isinstance(report, RuleResult):
        return report
    suites, suite_of_hook = report["suites"], report["suiteOfHook"]
    failed = [f"{one['class']}::{test['test']}: {test['why']}" for one in suites for test in one["failed"]]
    passed = {one["suite"] for one in suites if one["passed"]}
    suite_of = {kind.kind: suite_of_hook[hook] for hook, kind in HOOKS.items()}
    suite_of["command"] = suite_of_hook["register_commands"]
    missing = {suite_of[kind] for kind in plugin.manifest.kinds if kind in suite_of} - passed
    tools = {tool for one in suites if one["passed"] for tool in one["tools"]}
    untested = [
        one.name for one in plugin.manifest.tools if one.name not in tools and "ToolSuite" not in missing
    ]
    return broken(
        *failed,
        *(t("no test is of {suite}", suite=suite) for suite in sorted(missing)),
        *(t("no test of {suite} is of the tool {tool}", suite="ToolSuite", tool=tool) for tool in untested),
    )


def _closes(report: dict[str, Any] | RuleResult) -> RuleResult:
    if isinstance(report, RuleResult):
        return unchecked(t("its suites did not run")) if report.kept is False else report
    return broken(*report["left"])


def _docs(plugin: GradedPlugin) -> RuleResult:
    if plugin.project is None:
        return unchecked(t("its tests are in its project: claw plugins grade FOLDER"))
    return broken(*readme_problems(plugin.project.folder / "README.md", plugin.environ))
