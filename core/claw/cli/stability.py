"""``claw prompt stability``: two turns whose messages, ids and times differ; what of the cached half differs with them.

A provider keeps a prompt as long as its bytes are the same from the first one on: tools, then the stable sections.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from claw.cli import tools as of
from claw.cli.options import AsJson
from claw.cli.show import document
from claw.clock import SYSTEM, Clock
from claw.kit import BUILTIN
from claw.message import Inbound
from claw.route import TERMINAL
from claw.scenario import Scenario
from claw.wall import USUAL
from claw.words import say

if TYPE_CHECKING:
    from claw.stage import Stage

_LATER_SECONDS = (
    93_784.0  # a day, two hours, three minutes and four seconds: every field of a clock is another
)
_AROUND = 30


@dataclass(frozen=True)
class Part:
    """A piece of what a provider caches.

    :param kind: tool or section.
    """

    kind: str
    name: str
    plugin: str
    text: str


@dataclass(frozen=True)
class Break:
    """A part that is not the same in both turns.

    :param first: what stands in the first turn where they begin to differ; ``second`` in the second.
    """

    part: Part
    first: str
    second: str


def breaks(first: Sequence[Part], second: Sequence[Part]) -> Iterator[Break]:
    """Every part that changes, comes, goes or moves from one turn to the next. Pure."""
    ours, theirs = {_key(part): part for part in first}, {_key(part): part for part in second}
    for key in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(key), theirs.get(key)
        part = one or other
        assert part is not None
        if one is None or other is None or one.text != other.text:
            yield Break(part, *_difference(one.text if one else "", other.text if other else ""))
    both = [key for key in ours if key in theirs]
    moved = next(
        (
            pair
            for pair in zip(both, (key for key in theirs if key in ours), strict=True)
            if pair[0] != pair[1]
        ),
        None,
    )
    if moved:
        yield Break(ours[moved[0]], _called(ours[moved[0]]), _called(ours[moved[1]]))


def clocks(parts: Iterable[Part], now: float) -> Iterator[tuple[Part, str]]:
    """Parts of others that say what time it is now: a turn in a minute will differ, though these two did not. Pure."""
    moments = [datetime.fromtimestamp(now + drift, UTC) for drift in (-60, 0)]
    zoned = [moment.astimezone(zone) for moment in moments for zone in (UTC, None)]
    written = {
        form
        for moment in zoned
        for form in (moment.strftime("%H:%M"), moment.strftime("%I:%M %p").lstrip("0"))
    }
    says_time = re.compile("|".join(rf"(?<![\d:.]){re.escape(form)}(?!\d)" for form in sorted(written)))
    for part in parts:
        seconds = (
            found[0]
            for found in re.finditer(r"(?<!\d)\d{10}(?!\d)", part.text)
            if abs(int(found[0]) - now) < 3600
        )
        found = says_time.search(part.text)
        said = found[0] if found else next(seconds, "")
        if said and part.plugin != BUILTIN:
            yield part, said


def stability(
    *, agent: of.Agent = "", channel: of.Channel = TERMINAL, account: of.Account = "default", group: of.Group = "",
    sender: of.Person = "", as_json: AsJson = False,
) -> None:  # fmt: skip
    """Say whether two turns share every byte up to the cache boundary; exit 1 when not, with who breaks it."""
    asked = Scenario(agent=agent, channel=channel, account=account, group=group, sender=sender)
    stages = asyncio.run(_two_turns(of.inbound_of(asked), agent))
    first, second = map(parts_of, stages)
    broken, timed = list(breaks(first, second)), list(clocks(second, SYSTEM.now()))
    size = sum(len(part.text.encode("utf-8", "replace")) for part in first)
    if as_json:
        found = [{**_named(each.part), "first": each.first, "second": each.second} for each in broken]
        found += [{**_named(part), "says": moment} for part, moment in timed]
        document(
            "prompt-stability",
            {"agent": stages[0].agent.id, "stable": not found, "bytes": size, "breaks": found},
        )
    else:
        _print(broken, timed, size)
    raise typer.Exit(code=int(bool(broken or timed)))


def parts_of(stage: "Stage") -> list[Part]:
    """What a provider caches of a request, in the order in which it is sent."""
    tools = [
        Part(
            "tool",
            tool.name,
            tool.plugin or BUILTIN,
            json.dumps([tool.description, tool.parameters], default=dict),
        )
        for tool in stage.tools.values()
    ]
    sections = [
        Part("section", piece.section.name, piece.section.plugin or BUILTIN, piece.text)
        for piece in stage.pieces
        if piece.stable and piece.text
    ]
    return tools + sections


async def _two_turns(message: Inbound, agent: str) -> "tuple[Stage, Stage]":
    """What two messages of one conversation meet, the second one a good day later."""
    from claw.app import App, look_round
    from claw.stage import Wish

    later = [0.0]
    anew = replace(USUAL, section_keep_seconds=0.0)  # each turn hears every section
    wish = Wish(agent=agent, folder=Path.cwd())
    async with App(look_round(), leeway=anew, clock=Clock(now=lambda: SYSTEM.now() + later[0])) as house:
        one = replace(
            message, text="Good morning", message_id="first", event_id="event-1", sent_at=SYSTEM.now()
        )
        first = await house.stage(one, wish)
        later[0] = _LATER_SECONDS
        other = replace(
            message, text="绿色的门在哪里？ And where is its key?", message_id="second", event_id="event-2",
            sent_at=SYSTEM.now() + later[0],
        )  # fmt: skip
        return first, await house.stage(other, wish)


def _print(broken: Sequence[Break], timed: Sequence[tuple[Part, str]], size: int) -> None:
    if not broken and not timed:
        typer.echo(say("stable: two turns share all {size} bytes before the cache boundary", size=size))
        return
    typer.echo(say("not stable: a provider cannot keep what comes before the cache boundary"))
    for each in broken:
        typer.echo(f"  {_called(each.part)}")
        typer.echo(f"    {say('first turn')}:  {each.first}")
        typer.echo(f"    {say('second turn')}: {each.second}")
    for part, moment in timed:
        typer.echo(f"  {_called(part)}")
        typer.echo(f"    {say('says what time it is: {moment}', moment=moment)}")
    typer.echo(say("a section that has to change belongs behind the boundary: stable=False, or a position above 195 in "
                   "prompt.positions; prompt.disabled leaves it out"))  # fmt: skip


def _called(part: Part) -> str:
    if part.kind == "tool":
        return say("tool {name} of plugin {id}", name=part.name, id=part.plugin)
    return say("section {name} of plugin {id}", name=part.name, id=part.plugin)


def _named(part: Part) -> dict[str, str]:
    return {"kind": part.kind, "name": part.name, "plugin": part.plugin}


def _key(part: Part) -> tuple[str, str, str]:
    return part.kind, part.plugin, part.name


def _difference(first: str, second: str) -> tuple[str, str]:
    """Both texts round the place where they begin to differ, on one line each."""
    at = next(
        (place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    start = max(0, at - _AROUND)
    cut = (f"{'…' if start else ''}{text[start : at + _AROUND]}" for text in (first, second))
    one, other = (" ".join(text.split()) or say("nothing") for text in cut)
    return one, other
