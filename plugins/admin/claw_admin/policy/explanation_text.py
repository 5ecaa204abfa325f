"""Explanations of tools as text and as data, and ``claw tools explain``."""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import typer
from claw import PluginError, t
from claw.runtime import App, AsJson, Host, Judgement, document, load_setup, with_label
from claw_config_sdk import Scenario, takes_scenario

from claw_admin.policy.explain import Explanation, JudgedTools, explain_tool
from claw_admin.policy.fixes import ConfigEdit
from claw_admin.policy.judged_run import judge_scenario, judged_models, run_data


@takes_scenario()
def explain(name: str, *, scenario: Scenario, as_json: AsJson = False) -> None:
    """Show if a run has the tool NAME, the deciding rule, and the change to make. Exit code 0: it has; 1: not."""
    host_app = App(load_setup(only_looks=True), log=lambda line: typer.echo(f"claw: {line}", err=True))
    try:
        judged = judge_scenario(scenario, host_app.runtime)
        answer = explain_tool(name, host_app.config, JudgedTools(judged), host_app.host.plugin_states)
        if answer.available:
            answer = verify_tool(answer, host_app.host)
    finally:
        asyncio.run(host_app.close())
    if as_json:
        document("tool", {"run": run_data(judged), **explanation_data(answer)})
    else:
        typer.echo("\n".join(explanation_lines(answer, judged)))
    raise typer.Exit(code=0 if answer.available else 1)


def verify_tool(answer: Explanation, host: Host) -> Explanation:
    """Load the plugin of a tool that policy allows; if it fails, the tool is not available."""
    try:
        host.supply(answer.plugin, answer.name)
    except PluginError as failed:
        changes = {"available": False, "stage": "not-brought", "why": failed.problem, "fix": failed.fix}
        return replace(answer, steps=(), **changes)  # type: ignore[arg-type]
    return answer


def explanation_lines(answer: Explanation, judged: Judgement) -> Iterator[str]:
    """Yield the explanation as lines of text."""
    verdict = t("available") if answer.available else t("not available")
    by = t("core tool, from plugin {id}" if answer.core else "plugin {id}", id=answer.plugin)
    yield with_label(answer.name, verdict) + (f" ({by})" if answer.plugin else "")
    if answer.why:
        yield "  " + with_label(t("why"), answer.why)
    if answer.key:
        whose = f" ({answer.whose})" if answer.whose else ""
        location = f"{answer.file}:{answer.line}" if answer.line else answer.file
        yield "  " + with_label(t("rule"), f"{answer.key}{whose}  {location}".rstrip())
    for edit in answer.edits:
        yield "  " + with_label(t("run"), edit.command)
    if answer.fix:
        yield "  " + with_label(t("fix"), answer.fix)
    for text, edits in answer.rivals:
        yield "  " + with_label(t("note"), text) + "".join(f" ({edit.command})" for edit in edits)
    if judged.fallbacks or judged.run.model:
        yield "  " + with_label(t("model"), judged_models(judged))
    if answer.steps:
        yield "  " + with_label(t("gates and layers"), "").rstrip()
    for step in answer.steps:
        verdict = t("in") if step.passes else t("out")
        at = f"  ({step.key}, {t('line {line}', line=step.line)})" if step.line else ""
        yield f"    {step.stage:<16} {verdict:<4} {step.note}{at}".rstrip()


def explanation_data(answer: Explanation) -> dict[str, Any]:
    """Return an explanation as plain data, for ``--json``: its fields, each edit with its command."""
    rivals = [{"note": text, "edits": [_edit(edit) for edit in edits]} for text, edits in answer.rivals]
    return asdict(answer) | {"edits": [_edit(edit) for edit in answer.edits], "rivals": rivals}


def _edit(edit: ConfigEdit) -> dict[str, Any]:
    return {"command": edit.command, **asdict(edit)}
