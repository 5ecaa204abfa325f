"""``claw prompt stability``: what differs in the cached half of the prompt between two turns of other
messages and times.

A provider caches a prompt as long as its bytes are the same from the start: tools, then the stable sections.
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
from claw import Inbound, t
from claw.runtime import BUILTIN, DEFAULT_TIMEOUTS, SYSTEM_CLOCK, AsJson, Clock, document, with_label
from claw_config_sdk import Scenario, probe_message, takes_scenario

from claw_prompt.message_stability import repeated_messages

if TYPE_CHECKING:
    from claw.runtime import TurnContext

    from claw_prompt.message_stability import FailedPart

_LATER_SECONDS = 93_784.0  # a day, two hours, three minutes and four seconds: every field of a clock differs
_AROUND = 30


@dataclass(frozen=True)
class PromptPart:
    """A piece of what a provider caches.

    :param kind: tool, section or message.
    """

    kind: str
    name: str
    plugin: str
    text: str


@dataclass(frozen=True)
class PromptDifference:
    """A part that differs between the two turns.

    :param first: the text of the first turn where they begin to differ; ``second``: that of the second turn.
    """

    part: PromptPart
    first: str
    second: str


def prompt_differences(
    first: Sequence[PromptPart], second: Sequence[PromptPart]
) -> Iterator[PromptDifference]:
    """Yield every part that changes, comes, goes or moves from one turn to the next. Pure."""
    before, after = {_key(part): part for part in first}, {_key(part): part for part in second}
    for key in dict.fromkeys([*before, *after]):
        one, other = before.get(key), after.get(key)
        part = one or other
        assert part is not None
        if one is None or other is None or one.text != other.text:
            yield PromptDifference(part, *_difference(one.text if one else "", other.text if other else ""))
    both = [key for key in before if key in after]
    moved = next(
        (
            pair
            for pair in zip(both, (key for key in after if key in before), strict=True)
            if pair[0] != pair[1]
        ),
        None,
    )
    if moved:
        yield PromptDifference(before[moved[0]], _label(before[moved[0]]), _label(before[moved[1]]))


def parts_with_time(parts: Iterable[PromptPart], now: float) -> Iterator[tuple[PromptPart, str]]:
    """Yield parts of plugins that contain the time of now: a turn a minute later will differ, though these
    two did not. Pure."""
    moments = [datetime.fromtimestamp(now + drift, UTC) for drift in (-60, 0)]
    zoned = [moment.astimezone(zone) for moment in moments for zone in (UTC, None)]
    forms = {
        form
        for moment in zoned
        for form in (moment.strftime("%H:%M"), moment.strftime("%I:%M %p").lstrip("0"))
    }
    says_time = re.compile("|".join(rf"(?<![\d:.]){re.escape(form)}(?!\d)" for form in sorted(forms)))
    for part in parts:
        seconds = (
            found[0]
            for found in re.finditer(r"(?<!\d)\d{10}(?!\d)", part.text)
            if abs(int(found[0]) - now) < 3600
        )
        found = says_time.search(part.text)
        moment_text = found[0] if found else next(seconds, "")
        if moment_text and part.plugin not in (BUILTIN, "prompt"):
            yield part, moment_text


@takes_scenario("agent", "channel", "account", "group", "sender")
def stability(*, scenario: Scenario, as_json: AsJson = False) -> None:
    """Say whether two turns share every byte up to the cache boundary, messages included; exit 1 when not, with who
    breaks it."""
    from claw.runtime import load_setup

    contexts, unloaded = asyncio.run(_two_turns(probe_message(scenario), scenario.agent))
    unloaded += failed_sections(contexts)
    turns = asyncio.run(repeated_messages(load_setup(), probe_message(scenario)))
    unloaded += failed_parts(turns.failed, contexts)
    if not turns.sent:
        unloaded.append(t("the messages: a plugin or the policy left one of three turns without a request"))
    first, second = (
        parts_of(context) + messages_of(texts)
        for context, texts in zip(contexts, (turns.sent, turns.repeated), strict=True)
    )
    broken, timed = list(prompt_differences(first, second)), list(parts_with_time(second, SYSTEM_CLOCK.now()))
    size = sum(len(part.text.encode("utf-8", "replace")) for part in first)
    if as_json:
        found = [{**_part_data(each.part), "first": each.first, "second": each.second} for each in broken]
        found += [{**_part_data(part), "says": moment} for part, moment in timed]
        document(
            "prompt-stability",
            {
                "agent": contexts[0].agent.id,
                "stable": not found and not unloaded,
                "bytes": size,
                "breaks": found,
                "unloaded": unloaded,
            },
        )
    else:
        for line in unloaded:
            typer.echo(t("not judged: {why}", why=line))
        if not unloaded or broken or timed:
            _print(broken, timed, size)
    raise typer.Exit(code=int(bool(broken or timed or unloaded)))


def parts_of(context: "TurnContext") -> list[PromptPart]:
    """Return what a provider caches of a request, in the order in which it is sent."""
    tools = [
        PromptPart(
            "tool",
            tool.name,
            tool.plugin or BUILTIN,
            json.dumps([tool.description, tool.parameters], default=dict),
        )
        for tool in context.tools.values()
    ]
    sections = [
        PromptPart("section", piece.section.name, piece.section.plugin or BUILTIN, piece.text)
        for piece in context.rendered_sections
        if piece.stable and piece.text
    ]
    return tools + sections


def failed_sections(contexts: "Iterable[TurnContext]") -> list[str]:
    """Return a line for each section that failed: it is not in the prompt that is compared."""
    pieces = (piece for context in contexts for piece in context.rendered_sections if piece.fault)
    template = "{section}: it failed: {why}"
    return list(
        dict.fromkeys(
            t(template, section=_label(PromptPart("section", one.section.name, one.section.plugin or BUILTIN, "")),
              why=one.cause or one.fault)
            for one in pieces
        )
    )  # fmt: skip


def failed_parts(failed: "Iterable[FailedPart]", contexts: "Iterable[TurnContext]") -> list[str]:
    """Return a line for each part of a plugin that failed in a turn; sections are left to :func:`failed_sections`."""
    told = {
        (one.section.plugin, one.section.name)
        for context in contexts
        for one in context.rendered_sections
        if one.fault
    }
    lines = (
        t("plugin {id}: {problem}", id=plugin, problem=why)
        for plugin, name, why in failed
        if (plugin, name) not in told
    )
    return list(dict.fromkeys(lines))


def messages_of(texts: Sequence[str]) -> list[PromptPart]:
    """Return messages that a provider caches too, in order."""
    return [PromptPart("message", str(number), BUILTIN, text) for number, text in enumerate(texts, 1)]


async def _two_turns(message: Inbound, agent: str) -> "tuple[tuple[TurnContext, TurnContext], list[str]]":
    """Resolve the contexts of two messages of one conversation, the second one a good day later.

    :returns: both, and a line for each plugin that could not be loaded (one without its settings is no fault).
    """
    from claw.runtime import App, TurnOptions, load_setup

    later = [0.0]
    timeouts = replace(DEFAULT_TIMEOUTS, section_keep_seconds=0.0)  # each turn renders every section
    options = TurnOptions(agent=agent, folder=Path.cwd())
    async with App(
        load_setup(), timeouts=timeouts, clock=Clock(now=lambda: SYSTEM_CLOCK.now() + later[0])
    ) as app:
        one = replace(
            message, text="Good morning", message_id="first", event_id="event-1", sent_at=SYSTEM_CLOCK.now()
        )
        first = await app.resolve_turn(one, options)
        later[0] = _LATER_SECONDS
        other = replace(
            message, text="绿色的门在哪里？ And where is its key?", message_id="second", event_id="event-2",
            sent_at=SYSTEM_CLOCK.now() + later[0],
        )  # fmt: skip
        second = await app.resolve_turn(other, options)
        return (first, second), [
            state.fault_line() for state in app.host.plugin_states if state.stage not in ("", "config")
        ]


def _print(broken: Sequence[PromptDifference], timed: Sequence[tuple[PromptPart, str]], size: int) -> None:
    if not broken and not timed:
        typer.echo(t("stable: two turns share all {size} bytes before the cache boundary", size=size))
        return
    typer.echo(t("not stable: a provider cannot cache the part before the cache boundary"))
    for each in broken:
        typer.echo(f"  {_label(each.part)}")
        typer.echo("    " + with_label(t("first turn"), each.first))
        typer.echo("    " + with_label(t("second turn"), each.second))
    for part, moment in timed:
        typer.echo(f"  {_label(part)}")
        typer.echo(f"    {t('contains the time: {moment}', moment=moment)}")
    typer.echo(t("a section that has to change belongs behind the boundary: stable=False, or a position above 195 in "
                   "prompt.positions; prompt.disabled leaves it out"))  # fmt: skip


def _label(part: PromptPart) -> str:
    if part.kind == "tool":
        return t("tool {name} of plugin {id}", name=part.name, id=part.plugin)
    if part.kind == "message":
        return t("message {name} of the next request (a context engine, a filter or middleware of a plugin changes it)",
                 name=part.name)  # fmt: skip
    return t("section {name} of plugin {id}", name=part.name, id=part.plugin)


def _part_data(part: PromptPart) -> dict[str, str]:
    return {"kind": part.kind, "name": part.name, "plugin": part.plugin}


def _key(part: PromptPart) -> tuple[str, str, str]:
    return part.kind, part.plugin, part.name


def _difference(first: str, second: str) -> tuple[str, str]:
    """Cut both texts round the place where they begin to differ, each to one line."""
    at = next(
        (place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    start = max(0, at - _AROUND)
    cut = (f"{'…' if start else ''}{text[start : at + _AROUND]}" for text in (first, second))
    one, other = (" ".join(text.split()) or t("nothing") for text in cut)
    return one, other
