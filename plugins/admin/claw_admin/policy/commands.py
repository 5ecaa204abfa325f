"""``claw policy``: show the rules that apply to a run, test them against scenarios, compare two config files."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import t
from claw.runtime import (
    LAYERS,
    LOADED,
    AsJson,
    ConfigSections,
    Layout,
    Setup,
    document,
    load_setup,
    read_config,
    table,
    with_label,
)
from claw_config_sdk import Scenario, takes_scenario

from claw_admin.policy.explain import Explanation
from claw_admin.policy.explanation_text import explanation_data
from claw_admin.policy.judged_run import judge_scenario, judged_models, run_data
from claw_admin.policy.scenarios import (
    ActiveRule,
    PolicyScenario,
    Scenarios,
    Tools,
    active_rules,
    derive_scenarios,
    differences,
    tool_changes,
)

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Show, test and compare the rules for tools."
)

ConfigFile = Annotated[str, typer.Option("--config", help="Config file; - = the present one.")]
NOW = "-"
EXPECTATION_FAILED = 5


@app.command()
@takes_scenario()
def show(*, scenario: Scenario, as_json: AsJson = False) -> None:
    """Show the gates and layers that apply to a run: each list with file and line, and the tools it removes."""
    setup = _setup_of(NOW)
    judged = judge_scenario(scenario, setup)
    stages = list(active_rules(judged, setup.config))
    if as_json:
        data = [
            {"stage": name, "rules": list(map(asdict, rules)), "takes": takes}
            for name, rules, takes in stages
        ]
        body = {
            "run": run_data(judged),
            "file": setup.config.file,
            "stages": data,
            "tools": judged.allowed_names,
        }
        document("policy", body)
        return
    typer.echo(f"{judged.run.agent_id}, {judged_models(judged)}, {setup.config.file}")
    rows = [row for stage in stages for row in _rows(*stage)]
    table([t("stage"), t("rule"), t("where"), t("removes")], rows)
    typer.echo(with_label(t("available"), [*judged.allowed_names] or "-"))


@app.command("test")
def hold(
    file: Annotated[Path, typer.Argument(help="Scenarios: a YAML or JSON file.")],
    config: ConfigFile = NOW,
    as_json: AsJson = False,
) -> None:
    """Compare each scenario of FILE with the tools of its run. Exit code 5: a scenario is not as expected."""
    setup = _setup_of(config)
    found = [
        (one, differences(one, judge_scenario(one, setup), setup.config, setup.plugin_states))
        for one in _read(file, expecting=True)
    ]
    wrong = sum(bool(deviations) for _, deviations in found)
    if as_json:
        data = [
            {
                "scenario": _scenario_data(one),
                "differences": list(map(explanation_data, deviations)),
            }
            for one, deviations in found
        ]
        document("policy-test", {"config": setup.config.file, "passed": not wrong, "scenarios": data})
    elif wrong:
        rows = [[str(one), *_deviation_cells(answer)] for one, deviations in found for answer in deviations]
        table([t("scenario"), t("tool"), t("is"), t("why")], rows)
    typer.echo(
        t("{count:scenario|scenarios}, {wrong} not as expected", count=len(found), wrong=wrong), err=True
    )
    raise typer.Exit(code=EXPECTATION_FAILED if wrong else 0)


@app.command()
def diff(
    old: Annotated[str, typer.Argument(help="Config file; - = the present one.")],
    new: Annotated[str, typer.Argument(help="Config file; - = the present one.")],
    scenarios: Annotated[
        Path | None,
        typer.Option("--scenarios", help="Only these runs; default: all that the files distinguish."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tools that each run gains and loses when OLD becomes NEW. Exit code 1: a run gains a tool."""
    before, after = _setup_of(old), _setup_of(new)
    runs = _read(scenarios) if scenarios else derive_scenarios(before.config, after.config)
    changes = [(run, *tool_changes(run, before, after)) for run in runs]
    gains = sum(bool(gained) for _, gained, _ in changes)
    changed = [(run, gained, lost) for run, gained, lost in changes if gained or lost]
    if as_json:
        rows = [
            {"scenario": _scenario_data(run), "gained": dict(sorted(gained)), "lost": dict(sorted(lost))}
            for run, gained, lost in changed
        ]
        document("policy-diff", {"scenarios": len(changes), "gains": gains, "changed": rows})
    elif changed:
        table([t("scenario"), t("gains"), t("loses")], list(_grouped_rows(changed)))
    typer.echo(
        t("{count:scenario|scenarios}, {gains:gains|gain} a tool", count=len(changes), gains=gains),
        err=True,
    )
    raise typer.Exit(code=1 if gains else 0)


def _setup_of(file: str) -> Setup:
    """Return the setup under a config file, without creating a home or importing a plugin."""
    setup = load_setup(file=None if file == NOW else Path(file))
    for one in setup.plugin_states:
        manifest = one.found.manifest
        if one.state == LOADED and (not manifest or ("tool" in manifest.kinds and not manifest.tools)):
            line = t(
                "plugin {id} has no manifest that lists its tools, so they are not checked here", id=one.id
            )
            typer.echo(f"claw: {line}", err=True)
    return setup


def _read(file: Path, expecting: bool = False) -> tuple[PolicyScenario, ...]:
    source = read_config(file)
    sections = ConfigSections(
        Layout(source.tree), source.lines, str(file), home=file.parent, environ=os.environ
    )
    found = sections.read(Scenarios, source.tree).scenarios
    if not found:
        raise sections.error(("scenarios",), "contains no scenario", "Write at least one")
    for index, one in enumerate(found):
        if expecting and one.expect is None and not (one.has or one.lacks):
            raise sections.error(("scenarios", index), "expects nothing", "Add expect, has or lacks")
    return found


def _scenario_data(run: PolicyScenario) -> dict[str, Any]:
    return {"name": str(run), **run.model_dump(exclude_defaults=True, exclude={"name"})}


def _rows(stage: str, rules: Sequence[ActiveRule], takes: Sequence[str]) -> Iterable[list[str]]:
    """Yield a table row for each rule of a gate or layer; the first one has the stage and what it takes away."""
    first = [stage, ", ".join(takes)]
    for rule in rules:
        text = f"{rule.kind}: {', '.join(rule.words)}"
        if not rule.restricts:
            text += f" ({t('enables, restricts nothing')})"
        location = rule.key or t("claw's built-in list")
        location += "".join(f" ({part})" for part in (rule.whose, rule.model) if part)
        if rule.line:
            location += f", {t('line {line}', line=rule.line)}"
        yield [first[0], text, location, first[1]]
        first = ["", ""]
    if not rules:
        yield [stage, t("no rule") if stage in LAYERS else t("gate"), "", first[1]]


def _deviation_cells(answer: Explanation) -> list[str]:
    is_ = t("available") if answer.available else t("not available")
    why = t("nothing removes it") if answer.available else answer.why
    return [answer.name, is_, f"{why}  {answer.file}:{answer.line}" if answer.line else why]


def _grouped_rows(changes: Iterable[tuple[PolicyScenario, Tools, Tools]]) -> Iterable[list[str]]:
    """Yield one row for all runs that change alike, under the name of the first of them."""
    alike: dict[tuple[Tools, Tools], list[str]] = {}
    for run, gained, lost in changes:
        alike.setdefault((gained, lost), []).append(str(run))
    for both, (name, *others) in alike.items():
        head = t("{name} and {count} more", name=name, count=len(others)) if others else name
        yield [head, *(", ".join(f"{tool} ({plugin})" for tool, plugin in sorted(tools)) for tools in both)]
