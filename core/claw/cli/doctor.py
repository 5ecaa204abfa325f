"""``claw doctor`` and ``claw plugins doctor``: what is wrong, what mends it, and with ``--fix`` the mend."""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from claw.cli.checkup import chain_of, clashes, compare, examine
from claw.cli.options import AsJson
from claw.cli.plugin_list import no_plugin
from claw.cli.probe import Seen, look
from claw.cli.show import document, table
from claw.errors import ClawError
from claw.finding import Finding
from claw.standing import BLOCKED, DISABLED, INCOMPATIBLE, Standing
from claw.words import say

app = typer.Typer(add_completion=False, help="Say what is wrong in this house.")
plugins_app = typer.Typer(add_completion=False)
Fix = Annotated[
    bool, typer.Option("--fix", help="Mend what can be mended without asking, and say what was done.")
]


@app.command()
def doctor(
    channel: Annotated[
        str, typer.Argument(help="A channel (feishu, or feishu/ACCOUNT): ask its service, and nothing else.")
    ] = "",
    fix: Fix = False,
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Also ask the service of each channel, and each model of the default agent one word.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look at config, plugins, permissions, sessions, state and keys; exit 1 when something is wrong."""
    from claw.cli import rounds

    if channel:
        found = rounds.channels(channel)
    else:
        found = [*rounds.house()]
        if online and not any(one.kind == "config" and one.grave for one in found):
            found += [*rounds.channels(), *rounds.models()]
            found = list(dict.fromkeys(found))
    left, mended = _mended(found) if fix else (found, [])
    if as_json:
        document("doctor", {"findings": [_plain(one) for one in left], "mended": mended})
    else:
        _tell(left, mended)
    raise typer.Exit(code=1 if any(one.grave for one in left) else 0)


@plugins_app.command("doctor")
def plugins_doctor(
    plugin: Annotated[str, typer.Argument(help="One plugin; default: all that are in use or could be.")] = "",
    cost: Annotated[bool, typer.Option("--cost", help="What each import costs, and its slowest chain.")] = False,
    budget_ms: Annotated[
        float | None, typer.Option("--budget-ms", help="What an import may cost, in ms; more is a finding.")
    ] = None,
    fix: Fix = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Load each plugin in a process of its own and hold what it does against what it declares.

    Exit 1 when something is wrong.
    """
    from claw.app import look_round
    from claw.config.outline import outline

    house = look_round()
    wanted = outline(house.config.raw)
    chosen = _chosen(house.standings, plugin)
    times = 2 if cost or budget_ms is not None else 1
    seen: dict[str, Seen] = {}
    found: list[Finding] = [one for one in clashes(house.found) if plugin in ("", one.about)]
    for standing in chosen:
        found += examine(standing, wanted, os.environ)
        if _may_load(standing, named=bool(plugin)):
            if sys.stderr.isatty():
                typer.echo(say("looking at {id}", id=standing.id), err=True)
            seen[standing.id] = look(standing.id, times)
            told = compare(standing, seen[standing.id], wanted, budget_ms)
            found += (
                one for one in told if (one.about, one.problem) not in {(f.about, f.problem) for f in found}
            )
    left, mended = _mended(found) if fix else (found, [])
    if as_json:
        rows = [_described(one, seen.get(one.id)) for one in chosen]
        document("plugins-doctor", {"plugins": rows, "findings": [_plain(f) for f in left], "mended": mended})
    else:
        if cost:
            _costs(seen)
        _tell(left, mended)
    raise typer.Exit(code=1 if any(one.grave for one in left) else 0)


def _chosen(standings: Sequence[Standing], plugin: str) -> list[Standing]:
    known = {one.id: one for one in standings}
    if not plugin:
        return list(standings)
    if plugin not in known:
        raise no_plugin(plugin, known)
    return [known[plugin]]


def _may_load(standing: Standing, named: bool) -> bool:
    """One that the operator keeps out, or whose files changed, is not run to be looked at."""
    if standing.state in (BLOCKED, INCOMPATIBLE) or standing.stage in ("find", "integrity"):
        return False
    return named or standing.state != DISABLED


def _mended(found: Iterable[Finding]) -> tuple[list[Finding], list[str]]:
    """Mend what can be; what is left, and what was done."""
    from claw.cli.config import file_of
    from claw.cli.rounds import close
    from claw.config.edit import set_value

    left, done = [], []
    for one in found:
        try:
            if one.kind == "permissions":
                done.append(close(one))
            elif one.edit:
                key, value = one.edit
                set_value(file_of(os.environ), key, value, os.environ)
                done.append(f"claw config set {key} {str(value).lower()}")
            else:
                left.append(one)
        except (ClawError, OSError):
            left.append(one)
    return left, done


def _tell(found: Sequence[Finding], mended: Sequence[str]) -> None:
    for line in mended:
        typer.echo(say("mended: {what}", what=line))
    for one in sorted(found, key=lambda one: not one.grave):
        mark = say("wrong") if one.grave else say("note")
        names_a_key_below = f" {one.about}." in f" {one.problem}"
        about = "" if names_a_key_below else f"{one.about}: "
        typer.echo(f"{mark}: {about}{one.problem}" + (f" ({one.mend})" if one.mend else ""))
    grave = sum(one.grave for one in found)
    typer.echo(say("{count} wrong", count=grave) if grave else say("nothing is wrong"), err=True)


def _costs(seen: dict[str, Seen]) -> None:
    rows = [
        [id, f"{one.import_ms:.1f}", f"{one.memory_kb / 1024:.1f}", str(one.modules), chain_of(one)]
        for id, one in sorted(seen.items(), key=lambda item: -item[1].import_ms)
    ]
    table([say("plugin"), say("import, ms"), say("memory, MB"), say("modules"), say("slowest chain")], rows)


def _plain(finding: Finding) -> dict[str, Any]:
    return {name: value for name, value in asdict(finding).items() if name != "edit"}


def _described(standing: Standing, seen: Seen | None) -> dict[str, Any]:
    body: dict[str, Any] = {"id": standing.id, "state": standing.state, "looked": seen is not None}
    if seen:
        body |= {
            "importMs": seen.import_ms, "memoryKb": seen.memory_kb, "modules": seen.modules,
            "chain": [{"module": link.module, "ms": link.ms} for link in seen.chain],
            "brought": seen.brought, "network": seen.network, "subprocess": seen.subprocess, "written": seen.written,
        }  # fmt: skip
    return body
