"""``claw policy``: the rules of a run laid open, what should hold kept as scenarios, and what a new file would change."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from claw.app import House, look_round
from claw.cli import tools as of
from claw.cli.options import AsJson
from claw.cli.show import document, table
from claw.config.loaded import validate
from claw.config.problems import Teller
from claw.config.source import read
from claw.explain import Explanation
from claw.policy import LAYERS
from claw.route import TERMINAL
from claw.scenario import (
    Rule,
    Scenario,
    Scenarios,
    Tools,
    change,
    derived,
    differences,
    in_force,
    judgement_of,
)
from claw.standing import LOADED
from claw.words import say

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Rules for tools: shown, tested, compared."
)

ConfigFile = Annotated[str, typer.Option("--config", help="Config file to judge by; - = the present one.")]
NOW = "-"
EXPECTATION_FAILED = 5


@app.command()
def show(
    *, agent: of.Agent = "", channel: of.Channel = TERMINAL, account: of.Account = "default", group: of.Group = "",
    sender: of.Person = "", owner: of.Owner = None, model: of.Model = "", sandbox: of.Boxed = None,
    depth: of.Depth = 0, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show the gates and layers that apply to a run: each list with file and line, and the tools it takes away."""
    house = _house(NOW)
    asked = Scenario(
        agent=agent, channel=channel, account=account, group=group, sender=sender, owner=owner, model=model,
        sandbox=sandbox, depth=depth,
    )  # fmt: skip
    judged = judgement_of(asked, house)
    stages = list(in_force(judged, house.config))
    if as_json:
        told = [
            {"stage": name, "rules": list(map(asdict, rules)), "takes": takes}
            for name, rules, takes in stages
        ]
        body = {"run": of.run_of(judged), "file": house.config.file, "stages": told, "tools": judged.standing}
        document("policy", body)
        return
    typer.echo(f"{judged.run.agent_id}, {of.models_of(judged)}, {house.config.file}")
    rows = [row for stage in stages for row in _rows(*stage)]
    table([say("stage"), say("rule"), say("where"), say("takes away")], rows)
    typer.echo(f"{say('available')}: {', '.join(judged.standing) or '-'}")


@app.command("test")
def hold(
    file: Annotated[Path, typer.Argument(help="Scenarios: a YAML or JSON file.")],
    config: ConfigFile = NOW, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Hold each scenario of FILE against what its run would have. Exit code 5: something is not as expected."""
    house = _house(config)
    found = [
        (one, differences(one, judgement_of(one, house), house.config, house.standings))
        for one in _read(file, expecting=True)
    ]
    wrong = sum(bool(apart) for _, apart in found)
    if as_json:
        told = [
            {"scenario": _named(one), "differences": list(map(of.described, apart))} for one, apart in found
        ]
        document("policy-test", {"config": house.config.file, "passed": not wrong, "scenarios": told})
    elif wrong:
        rows = [[str(one), *_apart(answer)] for one, apart in found for answer in apart]
        table([say("scenario"), say("tool"), say("is"), say("why")], rows)
    typer.echo(
        say("{count:scenario|scenarios}, {wrong} not as expected", count=len(found), wrong=wrong), err=True
    )
    raise typer.Exit(code=EXPECTATION_FAILED if wrong else 0)


@app.command()
def diff(
    old: Annotated[str, typer.Argument(help="Config file; - = the present one.")],
    new: Annotated[str, typer.Argument(help="Config file; - = the present one.")],
    scenarios: Annotated[
        Path | None, typer.Option("--scenarios", help="Judge these runs, not all that the two files tell apart.")
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Say which tools each run gains and loses when OLD becomes NEW. Exit code 1: some run gains one."""
    before, after = _house(old), _house(new)
    runs = _read(scenarios) if scenarios else derived(before.config, after.config)
    changes = [(run, *change(run, before, after)) for run in runs]
    gains = sum(bool(gained) for _, gained, _ in changes)
    told = [(run, gained, lost) for run, gained, lost in changes if gained or lost]
    if as_json:
        rows = [
            {"scenario": _named(run), "gained": dict(sorted(gained)), "lost": dict(sorted(lost))}
            for run, gained, lost in told
        ]
        document("policy-diff", {"scenarios": len(changes), "gains": gains, "changed": rows})
    elif told:
        table([say("scenario"), say("gains"), say("loses")], list(_grouped(told)))
    typer.echo(
        say("{count:scenario|scenarios}, {gains:gains|gain} a tool", count=len(changes), gains=gains),
        err=True,
    )
    raise typer.Exit(code=1 if gains else 0)


def _house(file: str) -> House:
    """What is known under a config file, without a home being made or a plugin imported."""
    house = look_round(file=None if file == NOW else Path(file))
    for one in house.standings:
        manifest = one.found.manifest
        if one.state == LOADED and (not manifest or ("tool" in manifest.kinds and not manifest.tools)):
            line = say("no manifest tells the tools of plugin {id}, so they are not judged here", id=one.id)
            typer.echo(f"claw: {line}", err=True)
    return house


def _read(file: Path, expecting: bool = False) -> tuple[Scenario, ...]:
    source = read(file)
    teller = Teller(source.tree, source.lines, str(file))
    found = validate(Scenarios, source.tree, teller, home=file.parent, environ=os.environ).scenarios
    if not found:
        raise teller.tell(("scenarios",), "holds no scenario", "Write at least one")
    for at, one in enumerate(found):
        if expecting and one.expect is None and not (one.has or one.lacks):
            raise teller.tell(("scenarios", at), "expects nothing", "Add expect, has or lacks")
    return found


def _named(run: Scenario) -> dict[str, Any]:
    return {"name": str(run), **run.model_dump(exclude_defaults=True, exclude={"name"})}


def _rows(stage: str, rules: Sequence[Rule], takes: Sequence[str]) -> Iterable[list[str]]:
    """A line for each rule of a gate or layer; the first one has the stage and what it takes away."""
    first = [stage, ", ".join(takes)]
    for rule in rules:
        text = f"{rule.kind}: {', '.join(rule.words)}"
        if not rule.restricts:
            text += f" ({say('switches on, restricts nothing')})"
        place = rule.key or say("claw's own list")
        place += "".join(f" ({part})" for part in (rule.whose, rule.model) if part)
        if rule.line:
            place += f", {say('line {line}', line=rule.line)}"
        yield [first[0], text, place, first[1]]
        first = ["", ""]
    if not rules:
        yield [stage, say("no rule") if stage in LAYERS else say("gate"), "", first[1]]


def _apart(answer: Explanation) -> list[str]:
    is_ = say("available") if answer.available else say("not available")
    why = say("nothing takes it away") if answer.available else answer.why
    return [answer.name, is_, f"{why}  {answer.file}:{answer.line}" if answer.line else why]


def _grouped(changes: Iterable[tuple[Scenario, Tools, Tools]]) -> Iterable[list[str]]:
    """Runs that change alike are told once, by the first of them."""
    alike: dict[tuple[Tools, Tools], list[str]] = {}
    for run, gained, lost in changes:
        alike.setdefault((gained, lost), []).append(str(run))
    for both, (name, *others) in alike.items():
        head = say("{name} and {count} more", name=name, count=len(others)) if others else name
        yield [head, *(", ".join(f"{tool} ({plugin})" for tool, plugin in sorted(tools)) for tools in both)]
