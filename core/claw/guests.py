"""Strangers' objects, asked within limits: reviewers of calls, filters of messages, observers of events.

A reviewer that raises or hangs denies; a filter leaves the message as it was; an observer is only written down.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from claw.clock import SYSTEM, Clock
from claw.errors import PluginError
from claw.event import Event
from claw.kit import Brought
from claw.prompt import PromptFacts, PromptSection
from claw.tool import Result
from claw.transcript import ToolCall
from claw.wall import name_of
from claw.yard import Yard

SECTION_CHARS = 24_000
"""Most of what one stranger may put into every request; ``claw prompt show`` tells what each one takes."""
_MOST_KEPT = 512  # rendered sections, of the conversations spoken in last
_STRICTNESS = ("allow", "ask", "deny")

MEND = "update it, or do without it: claw config set plugins.entries.{id}.enabled false"

T = TypeVar("T")
Complain = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Review:
    """What a reviewer says of a call.

    :param verdict: allow, ask or deny.
    :param why: told to the model, and to the person who is asked.
    :param arguments: other arguments to run with; None = as they are.
    """

    verdict: str = "allow"
    why: str = ""
    arguments: dict[str, Any] | None = None


async def review(
    call: ToolCall, reviewers: Sequence[Brought[Any]], yard: Yard, complain: Complain
) -> tuple[ToolCall, Review]:
    """Ask every reviewer; the strictest answer wins, changed arguments are handed on to the next one."""
    strictest = Review()
    for one in reviewers:
        try:
            answer = await yard.ask(
                one.thing.before, call, seconds=yard.leeway.review_seconds, who=one.plugin
            )
            said = Review() if answer is None else answer
            rank = _STRICTNESS.index(said.verdict)
            if not isinstance(said.arguments, dict | None):
                raise TypeError(f"arguments are a dict, not {type(said.arguments).__name__}")
        except Exception as why:  # noqa: BLE001 - a stranger's code
            said = Review("deny", _failed("its reviewer failed: {why}", one, why, complain))
            rank = _STRICTNESS.index("deny")
        if said.arguments is not None:
            call = ToolCall(call.id, call.name, said.arguments)
        if rank > _STRICTNESS.index(strictest.verdict):
            strictest = said
    return call, strictest


async def review_result(
    call: ToolCall, result: Result, reviewers: Sequence[Brought[Any]], yard: Yard, complain: Complain
) -> Result:
    """Let every reviewer that looks at results replace this one; one that raises makes it an error."""
    for one in reviewers:
        after = getattr(one.thing, "after", None)
        if after is None:
            continue
        try:
            seconds = yard.leeway.review_seconds
            changed = await yard.ask(after, call, result, seconds=seconds, who=one.plugin) or result
            if not isinstance(changed, Result):
                raise TypeError(f"a result is a ToolResult, not {type(changed).__name__}")
            result = changed
        except Exception as why:  # noqa: BLE001 - a stranger's code
            result = Result(_failed("its reviewer failed: {why}", one, why, complain), is_error=True)
    return result


async def filtered(
    message: T, way: str, filters: Sequence[Brought[Any]], yard: Yard, complain: Complain
) -> T | None:
    """Pass a message through every filter; None when one drops it.

    :param way: ``inbound`` or ``outbound``: the method that is asked.
    """
    for one in filters:
        step = getattr(one.thing, way, None)
        if step is None:
            continue
        try:
            answer = await yard.ask(step, message, seconds=yard.leeway.filter_seconds, who=one.plugin)
            if not isinstance(answer, type(message) | None):
                raise TypeError(
                    f"{way} answers with {type(message).__name__} or None, not {type(answer).__name__}"
                )
        except Exception as why:  # noqa: BLE001 - a stranger's code
            _failed("its filter failed: {why}", one, why, complain)
            continue
        if answer is None:
            return None
        message = answer
    return message


async def tell(event: Event, observers: Sequence[Brought[Any]], yard: Yard, complain: Complain) -> None:
    """Tell every observer."""
    for one in observers:
        try:
            await yard.ask(one.thing.hear, event, seconds=yard.leeway.observe_seconds, who=one.plugin)
        except Exception as why:  # noqa: BLE001 - a stranger's code
            _failed("its observer failed: {why}", one, why, complain)


class Rendered:
    """The stable sections of strangers as they were last rendered. They are asked again when a fact is another, or
    after ``leeway.section_keep_seconds``: what a plugin reads from a disk is seen by then, and a busy house does not
    go over to another thread and back for each section of each turn.
    """

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, str, str], tuple[float, PromptFacts, PromptSection]] = {}

    async def of(
        self, sections: Sequence[PromptSection], facts: PromptFacts, yard: Yard, mine: str
    ) -> tuple[PromptSection, ...]:
        """The sections with those of strangers rendered already, in the yard: text, or an error that names the fault.

        :param mine: the plugin id of core's own sections, which are rendered where they stand.
        """
        lasting = replace(facts, inbound_meta=None) if facts.inbound_meta else facts
        found = []
        for each in sections:
            if each.plugin == mine:
                found.append(each)
            elif each.stable:
                found.append(await self._lasting(each, lasting, yard))
            else:
                found.append(await _rendered(each, facts, yard))
        return tuple(found)

    async def _lasting(self, section: PromptSection, facts: PromptFacts, yard: Yard) -> PromptSection:
        key = section.plugin, section.name, facts.runtime.get("session", "")
        at, known, text = self._kept.pop(key, (0.0, None, section))
        now = self._clock.monotonic()
        if known is None or now - at >= yard.leeway.section_keep_seconds or known != facts:
            at, text = now, await _rendered(section, facts, yard)
        self._kept[key] = at, facts, text
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return text


async def _rendered(section: PromptSection, facts: PromptFacts, yard: Yard) -> PromptSection:
    try:
        text = await yard.ask(section.render, facts, seconds=yard.leeway.section_seconds, who=section.plugin)
        if not isinstance(text, str):
            raise TypeError(f"render answered with {type(text).__name__}, not text")
    except Exception as why:  # noqa: BLE001 - a stranger's code
        fault = PluginError(section.plugin, "run", "{why}", MEND, why=name_of(why), id=section.plugin)
        return replace(section, render=partial(_raised, fault))
    return replace(section, render=partial(_as_it_is, text[:SECTION_CHARS]))


def _failed(template: str, one: Brought[Any], why: BaseException, complain: Complain) -> str:
    """Tell the person who failed, why, and what to do; without the mend it is for the model."""
    fault = PluginError(one.plugin, "run", template, MEND, why=name_of(why), id=one.plugin)
    complain(str(fault))
    return f"{fault.where}: {fault.problem}"


def _raised(fault: PluginError, facts: PromptFacts) -> str:
    raise fault


def _as_it_is(text: str, facts: PromptFacts) -> str:
    return text
