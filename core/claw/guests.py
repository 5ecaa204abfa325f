"""Strangers' objects, asked within limits: reviewers of calls, filters of messages, observers of events.

A reviewer that raises or hangs denies; a filter leaves the message as it was; an observer is only written down.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from claw.clock import SYSTEM, Clock
from claw.errors import PluginError
from claw.event import Event
from claw.kit import Brought
from claw.prompt import Piece, PromptFacts, PromptSection, rendered, standing
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
    order: tuple[tuple[PromptSection, bool], ...]
    own: dict[str, Piece] = field(default_factory=dict)
    lent: dict[tuple[str, str], tuple[float, Piece]] = field(default_factory=dict)


class Rendered:
    """The sections of one set of plugins as they were last rendered, in the operator's order.

    Core's own stable ones are made of the facts alone, and stand until a fact is another. Those of strangers are asked
    again after ``leeway.section_keep_seconds`` as well: what a plugin reads from a disk is seen by then, and a busy house
    does not go over to another thread and back for each section of each turn.

    :param mine: the plugin id of core's own sections.
    :param positions: as :func:`claw.prompt.standing` has them, and ``disabled``.
    """

    def __init__(
        self,
        sections: Sequence[PromptSection],
        mine: str,
        positions: Mapping[str, float] | None = None,
        disabled: Collection[str] = (),
        clock: Clock = SYSTEM,
    ) -> None:
        self._sections, self._mine, self._clock = sections, mine, clock
        self._positions, self._disabled = positions, disabled
        self._kept: dict[str, _Known] = {}

    async def of(self, facts: PromptFacts, yard: Yard) -> tuple[Piece, ...]:
        """What each section says: those of strangers in the yard, to text, or to the fault they have."""
        lasting = replace(facts, inbound_meta=None) if facts.inbound_meta else facts
        keep = yard.leeway.section_keep_seconds
        known, now = self._known(lasting, keep > 0), self._clock.monotonic()
        pieces = []
        for section, stable in known.order:
            if section.plugin != self._mine:
                at, piece = known.lent.get((section.plugin, section.name), (now - keep, None))
                if piece is None or now - at >= keep or not section.stable:
                    piece = await _asked(section, known.facts if section.stable else facts, stable, yard)
                    known.lent[section.plugin, section.name] = self._clock.monotonic(), piece
            elif not section.stable:
                piece = rendered(section, facts, stable)
            elif (piece := known.own.get(section.name)) is None:
                piece = known.own[section.name] = rendered(section, lasting, stable)
            if piece.text or piece.fault:
                pieces.append(piece)
        return tuple(pieces)

    def _known(self, facts: PromptFacts, is_kept: bool) -> _Known:
        key = facts.runtime.get("session", "")
        known = self._kept.pop(key, None) if is_kept else None
        if known is None or known.facts != facts:
            known = _Known(facts, standing(self._sections, facts.mode, self._positions, self._disabled))
        self._kept[key] = known
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return known


async def _asked(section: PromptSection, facts: PromptFacts, stable: bool, yard: Yard) -> Piece:
    try:
        text = await yard.ask(section.render, facts, seconds=yard.leeway.section_seconds, who=section.plugin)
        if not isinstance(text, str):
            raise TypeError(f"render answered with {type(text).__name__}, not text")
    except Exception as why:  # noqa: BLE001 - a stranger's code
        fault = PluginError(section.plugin, "run", "{why}", MEND, why=name_of(why), id=section.plugin)
        return Piece(section, "", stable, f"{type(fault).__name__}: {fault}")
    return Piece(section, text[:SECTION_CHARS].strip("\n"), stable)


def _failed(template: str, one: Brought[Any], why: BaseException, complain: Complain) -> str:
    """Tell the person who failed, why, and what to do; without the mend it is for the model."""
    fault = PluginError(one.plugin, "run", template, MEND, why=name_of(why), id=one.plugin)
    complain(str(fault))
    return f"{fault.where}: {fault.problem}"
