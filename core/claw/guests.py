"""Strangers' objects, asked within limits: reviewers of calls, filters of messages, observers of events.

A reviewer that raises or hangs denies; a filter leaves the message as it was; an observer is only written down.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from claw.errors import PluginError
from claw.event import Event
from claw.kit import Brought
from claw.prompt import PromptFacts, PromptSection
from claw.tool import Result
from claw.transcript import ToolCall
from claw.wall import name_of
from claw.words import say
from claw.yard import Yard

REVIEW_SECONDS = 5.0
FILTER_SECONDS = 5.0
OBSERVE_SECONDS = 2.0
SECTION_SECONDS = 5.0
SECTION_CHARS = 24_000
"""Most of what one stranger may put into every request; ``claw prompt show`` tells what each one takes."""
_STRICTNESS = ("allow", "ask", "deny")

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


async def review(call: ToolCall, reviewers: Sequence[Brought[Any]], yard: Yard) -> tuple[ToolCall, Review]:
    """Ask every reviewer; the strictest answer wins, changed arguments are handed on to the next one."""
    strictest = Review()
    for one in reviewers:
        try:
            answer = await yard.ask(one.thing.before, call, seconds=REVIEW_SECONDS, who=one.plugin)
            said = Review() if answer is None else answer
            rank = _STRICTNESS.index(said.verdict)
        except Exception as why:  # noqa: BLE001 - a stranger's code
            said = Review(
                "deny", say("reviewer of plugin {id} failed: {why}", id=one.plugin, why=name_of(why))
            )
            rank = _STRICTNESS.index("deny")
        if said.arguments is not None:
            call = ToolCall(call.id, call.name, said.arguments)
        if rank > _STRICTNESS.index(strictest.verdict):
            strictest = said
    return call, strictest


async def review_result(
    call: ToolCall, result: Result, reviewers: Sequence[Brought[Any]], yard: Yard
) -> Result:
    """Let every reviewer that looks at results replace this one; one that raises makes it an error."""
    for one in reviewers:
        after = getattr(one.thing, "after", None)
        if after is None:
            continue
        try:
            result = await yard.ask(after, call, result, seconds=REVIEW_SECONDS, who=one.plugin) or result
        except Exception as why:  # noqa: BLE001 - a stranger's code
            result = Result(
                say("reviewer of plugin {id} failed: {why}", id=one.plugin, why=name_of(why)), is_error=True
            )
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
            answer = await yard.ask(step, message, seconds=FILTER_SECONDS, who=one.plugin)
        except Exception as why:  # noqa: BLE001 - a stranger's code
            complain(say("filter of plugin {id} failed: {why}", id=one.plugin, why=name_of(why)))
            continue
        if answer is None:
            return None
        if not isinstance(answer, type(message)):
            complain(say("filter of plugin {id} failed: {why}", id=one.plugin, why=type(answer).__name__))
            continue
        message = answer
    return message


async def tell(event: Event, observers: Sequence[Brought[Any]], yard: Yard, complain: Complain) -> None:
    """Tell every observer."""
    for one in observers:
        try:
            await yard.ask(one.thing.hear, event, seconds=OBSERVE_SECONDS, who=one.plugin)
        except Exception as why:  # noqa: BLE001 - a stranger's code
            complain(say("observer of plugin {id} failed: {why}", id=one.plugin, why=name_of(why)))


async def rendered(
    sections: Sequence[PromptSection], facts: PromptFacts, yard: Yard, mine: str
) -> tuple[PromptSection, ...]:
    """The sections with those of strangers rendered already, in the yard: text, or an error that names the fault.

    :param mine: the plugin id of core's own sections, which are rendered where they stand.
    """
    return tuple([each if each.plugin == mine else await _rendered(each, facts, yard) for each in sections])


async def _rendered(section: PromptSection, facts: PromptFacts, yard: Yard) -> PromptSection:
    try:
        text = await yard.ask(section.render, facts, seconds=SECTION_SECONDS, who=section.plugin)
    except Exception as why:  # noqa: BLE001 - a stranger's code
        fault = PluginError(section.plugin, "run", "{why}", why=name_of(why))
        return replace(section, render=partial(_raised, fault))
    if isinstance(text, str) and len(text) > SECTION_CHARS:
        text = text[:SECTION_CHARS]
    return replace(section, render=partial(_as_it_is, text))


def _raised(fault: PluginError, facts: PromptFacts) -> str:
    raise fault


def _as_it_is(text: str, facts: PromptFacts) -> str:
    return text
