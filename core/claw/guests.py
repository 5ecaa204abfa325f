"""Strangers' objects, asked within limits: reviewers of calls, filters of messages, observers of events.

A reviewer that raises or hangs denies; a filter leaves the message as it was; an observer is only written down.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
_MOST_KEPT = 256  # conversations, those spoken in last
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


@dataclass
class _Known:
    """What one conversation's stable sections say, as long as the facts are these."""

    facts: PromptFacts
    own: dict[str, PromptSection] = field(default_factory=dict)
    lent: dict[tuple[str, str], tuple[float, PromptSection]] = field(default_factory=dict)


class Rendered:
    """The stable sections as they were last rendered.

    Core's own are made of the facts alone, and stand until a fact is another. Those of strangers are asked again after
    ``leeway.section_keep_seconds`` as well: what a plugin reads from a disk is seen by then, and a busy house does not
    go over to another thread and back for each section of each turn.
    """

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._kept: dict[str, _Known] = {}

    async def of(
        self, sections: Sequence[PromptSection], facts: PromptFacts, yard: Yard, mine: str
    ) -> tuple[PromptSection, ...]:
        """The sections, rendered already: those of strangers in the yard, to text, or to an error that names the fault.

        :param mine: the plugin id of core's own sections. Of these the volatile ones are left as they are.
        """
        lasting = replace(facts, inbound_meta=None) if facts.inbound_meta else facts
        known = self._known(lasting) if yard.leeway.section_keep_seconds > 0 else _Known(lasting)
        found = []
        for each in sections:
            if each.plugin == mine:
                found.append(_of_core(each, known) if each.stable else each)
            elif each.stable:
                found.append(await self._lasting(each, known, yard))
            else:
                found.append(await _rendered(each, facts, yard))
        return tuple(found)

    def _known(self, facts: PromptFacts) -> _Known:
        key = facts.runtime.get("session", "")
        known = self._kept.pop(key, None)
        if known is None or known.facts != facts:
            known = _Known(facts)
        self._kept[key] = known
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return known

    async def _lasting(self, section: PromptSection, known: _Known, yard: Yard) -> PromptSection:
        key, now = (section.plugin, section.name), self._clock.monotonic()
        at, rendered = known.lent.get(key, (now - yard.leeway.section_keep_seconds, section))
        if now - at >= yard.leeway.section_keep_seconds:
            rendered = await _rendered(section, known.facts, yard)
            known.lent[key] = now, rendered
        return rendered


def _of_core(section: PromptSection, known: _Known) -> PromptSection:
    if section.name not in known.own:
        try:
            known.own[section.name] = replace(section, render=partial(_as_it_is, section.render(known.facts)))
        except Exception:  # noqa: BLE001 - who puts the prompt together tells of it
            return section
    return known.own[section.name]


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
