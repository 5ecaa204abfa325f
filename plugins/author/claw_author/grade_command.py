"""``claw plugins grade``: check the rules, print the grade, and record it for ``claw plugins list``."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import UsageError, t
from claw.runtime import AsJson, InstalledPlugin, PluginHealth, document, home_of, installed_plugins, table

from claw_author.grades import GRADES, RULES, RuleResult, grade_of
from claw_author.grading import GradedPlugin, check_rules
from claw_author.judgement import installed_plugin, judge_installed, judge_project
from claw_author.project import development_environment, find


def grade(
    plugin: Annotated[str, typer.Argument(help="Folder of a project, or id of an installed plugin.")] = ".",
    at_least: Annotated[
        str, typer.Option("--at-least", help="Exit 1 below this grade: bronze, silver, gold or platinum.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Grade a plugin by rules that are checked now: bronze, silver, gold or platinum.

    Its code runs in processes of its own. The tests and the README are in its project, so name its folder for more
    than silver.
    """
    if at_least and at_least not in GRADES:
        raise UsageError(
            "there is no grade {grade}",
            fix="choose one of {grades}",
            grade=at_least,
            grades=[*GRADES],
        )
    if sys.stderr.isatty():
        typer.echo(t("checking {id}", id=plugin), err=True)
    id, results = _grade_project(Path(plugin)) if Path(plugin).is_dir() else _grade_installed(plugin)
    reached = grade_of(results)
    if as_json:
        document("pluginGrade", {"plugin": id, "grade": reached, "rules": _data(results)})
    else:
        typer.echo(f"{id}: {t(reached)}")
        _print(results)
    is_enough = not at_least or (reached in GRADES and GRADES.index(reached) >= GRADES.index(at_least))
    raise typer.Exit(0 if is_enough else 1)


def _grade_project(folder: Path) -> tuple[str, dict[str, RuleResult]]:
    project = find(folder)
    package = project.manifest.parent if project.has_manifest else project.manifest.parent.with_suffix(".py")
    known = next((one for one in installed_plugins() if one.id == project.plugin and not one.rival), None)
    is_installed = known is not None and known.folder is not None and known.folder.samefile(package)
    with tempfile.TemporaryDirectory(prefix="claw-grade-") as place:
        environ = dict(os.environ) if is_installed else development_environment(project, Path(place))
        manifest, findings = judge_project(project)
        results = check_rules(GradedPlugin(project.plugin, package, manifest, findings, project, environ))
    if known and is_installed:
        _record(known, results)
    return project.plugin, results


def _grade_installed(plugin: str) -> tuple[str, dict[str, RuleResult]]:
    found = installed_plugin(plugin)
    manifest, findings = judge_installed(found)
    package = found.folder or Path()
    results = check_rules(GradedPlugin(found.id, package, manifest, findings, None, dict(os.environ)))
    _record(found, results)
    return found.id, results


def _record(found: InstalledPlugin, results: dict[str, RuleResult]) -> None:
    PluginHealth(home_of(os.environ) / "plugins").record_grade(found, grade_of(results))


def _data(results: dict[str, RuleResult]) -> list[dict[str, Any]]:
    return [
        {"rule": rule, "grade": grade, "kept": results[rule].kept, "why": list(results[rule].why)}
        for grade, rules in RULES.items()
        for rule in rules
    ]


def _print(results: dict[str, RuleResult]) -> None:
    words = {True: t("passed"), False: t("failed"), None: t("not checked")}
    rows = [
        [t(grade), rule, words[results[rule].kept], "\n".join(results[rule].why) or t(meaning)]
        for grade, rules in RULES.items()
        for rule, meaning in rules.items()
    ]
    colours = {t("passed"): "green", t("failed"): "bold red", t("not checked"): "dim"}
    table([t("grade"), t("rule"), t("result"), t("why")], rows, colours)
