"""Calls to objects of plugins, within limits: reviewers of calls, filters of messages, observers of events.

A reviewer that raises or hangs denies; a filter leaves the message as it was; an observer is only written down.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import inf
from typing import Any, TypeVar

from claw.contracts.errors import PluginError
from claw.contracts.events import Event
from claw.contracts.extensions import CallContext, Review, Reviewer, Statement
from claw.contracts.messages import ApprovalRequest, Decision
from claw.contracts.prompt import (
    PromptFacts,
    PromptSection,
    RenderedSection,
    ordered_sections,
    render_section,
)
from claw.contracts.provider import CallAccount
from claw.contracts.tool import ToolResult
from claw.contracts.transcript import ToolCall
from claw.host.isolation import Timeouts, describe_exception
from claw.host.registry import BUILTIN, Contribution, Registry
from claw.host.worker import PluginWorker, is_own_exit, isolated
from claw.i18n import t
from claw.storage.clock import SYSTEM_CLOCK, Clock

SECTION_CHARS = 24_000
"""Limit of the text that one plugin may add to every request; ``claw prompt show`` lists the sizes."""
NOTE_CHARS = 2000
"""Most of what one reviewer may put behind a result."""
_MOST_KEPT = 256  # conversations, those spoken in last
_STRICTNESS = ("allow", "ask", "deny")
_DECISIONS = ("once", "always", "deny", "nobody")

FIX = "update it, or disable it: claw config set plugins.entries.{id}.enabled false"
_REVIEWER, _APPROVER = "its reviewer failed: {why}", "its approver failed: {why}"
_FILTER, _OBSERVER = "its filter failed: {why}", "its observer failed: {why}"
_MIDDLEWARE, _SECTION = "its middleware failed: {why}", "its prompt section {name} failed: {why}"
T = TypeVar("T")
Log = Callable[[str], None]


@dataclass(frozen=True)
class PluginSet:
    """The objects of plugins that turns call, the threads in which their code runs, and the log."""

    registry: Registry
    worker: PluginWorker
    log: Log

    @property
    def limits(self) -> Timeouts:
        """The time limits of these calls."""
        return self.worker.timeouts


async def run_reviewers(call: ToolCall, context: CallContext, plugins: PluginSet) -> tuple[ToolCall, Review]:
    """Ask every reviewer; the strictest answer wins, changed arguments are handed on to the next one.

    The review that is returned has the notes of all reviewers, and the first reason to end the turn.
    """
    strictest, notes, end_turn = Review(), list[str](), ""
    seconds = plugins.limits.review_seconds
    for one in _reviewers(plugins, everything=not context.problem):
        try:
            answer = await plugins.worker.call(
                one.value.before, call, context, seconds=seconds, who=one.plugin
            )
            said = Review() if answer is None else answer
            rank = _STRICTNESS.index(said.verdict)
            if not isinstance(said.arguments, dict | None):
                raise TypeError(f"arguments are a dict, not {type(said.arguments).__name__}")
            if not isinstance(said.note, str) or not isinstance(said.end_turn, str):
                raise TypeError("note and end_turn of a review are text")
        except Exception as why:  # noqa: BLE001 - plugin code
            said = Review("deny", _failed(_REVIEWER, one, why, plugins, "before"))
            rank = _STRICTNESS.index("deny")
        else:
            plugins.worker.parts.worked(one.plugin, _REVIEWER, name="before")
        if said.arguments is not None:
            call = ToolCall(call.id, call.name, said.arguments)
        if said.note:
            notes.append(said.note[:NOTE_CHARS])
        if said.verdict == "deny":
            end_turn = end_turn or said.end_turn
        if rank > _STRICTNESS.index(strictest.verdict):
            strictest = said
    return call, replace(strictest, note="".join(notes), end_turn=end_turn)


def _reviewers(plugins: PluginSet, everything: bool) -> Sequence[Contribution[Reviewer]]:
    """Return the reviewers that are asked: all of them, or those that want to see every call."""
    reviewers = plugins.registry.reviewers
    return reviewers if everything else [one for one in reviewers if getattr(one.value, "all_calls", False)]


async def ask_approver(request: ApprovalRequest, plugins: PluginSet) -> Decision:
    """Ask a person by way of the approver, in the loop of its plugin. Without one, and whatever one does that is no
    answer, the call is refused. A person may take any time; an approver that blocks its loop is given up.
    """
    approver = plugins.registry.approver
    if approver is None:
        why_not = t("it needs approval, and no plugin in use asks for it (claw-approvals does)")
        return Decision("nobody", why_not)
    try:
        decision = await _call_unless_blocked(approver.value.ask, request, plugins.worker, approver.plugin)
        if not isinstance(decision, Decision) or decision.verdict not in _DECISIONS:
            raise TypeError(f"ask answered with {decision!r:.200}, not a Decision")
    except Exception as why:  # noqa: BLE001 - a plugin's code
        return Decision("deny", _failed(_APPROVER, approver, why, plugins))
    plugins.worker.parts.worked(approver.plugin, _APPROVER)
    if decision.allowed or decision.reason:
        return decision
    return replace(decision, reason=t("the user was asked and did not allow it"))


async def _call_unless_blocked(
    step: Callable[[T], Awaitable[Any]], value: T, worker: PluginWorker, who: str
) -> Any:
    """Await ``step(value)`` in the loop of plugin ``who``, for as long as that loop is not blocked.

    :raises TimeoutError: it is blocked, and was abandoned. All other exceptions of the step pass through.
    """

    async def run() -> Any:
        return await isolated(step(value))

    seconds = worker.timeouts.review_seconds
    find_loop = partial(worker.call, asyncio.get_running_loop, seconds=seconds, who=who)
    future = asyncio.run_coroutine_threadsafe(run(), await find_loop())
    ended = asyncio.wrap_future(future)
    try:
        while not (await asyncio.wait({ended}, timeout=seconds))[0]:
            await find_loop()
        return ended.result()
    except asyncio.CancelledError:
        future.cancel()
        with contextlib.suppress(TimeoutError):
            await find_loop()  # the step has seen its cancellation
        raise


def describe_malformed(call: ToolCall, plugins: PluginSet) -> str:
    """Return the error that the model is given for a call that could not be parsed."""
    why = call.arguments.get("why") or "it cannot be read"
    plain = f"Your tool call was not made: {why}. Call the tool again, in the way that your tools are called."
    return next(_answers_of_middleware("describe_malformed", str, call, plugins), plain)


def statements_at_end(turn: str, plugins: PluginSet) -> tuple[Statement, ...]:
    """Return the SQL statements of middleware that are committed together with the end of a turn."""
    return tuple(chain.from_iterable(_answers_of_middleware("at_end", list, turn, plugins)))


def describe_cost(account: CallAccount, plugins: PluginSet) -> str:
    """Return the cost of a conversation and of its agent today, as text; empty when no plugin keeps accounts."""
    return next(_answers_of_middleware("describe_cost", str, account, plugins), "")


def _answers_of_middleware(
    name: str, read: Callable[[Any], T], value: object, plugins: PluginSet
) -> Iterator[T]:
    """Yield what each middleware answers that has a method of this name."""
    for one in plugins.registry.middleware:
        if step := getattr(one.value, name, None):
            try:
                answer = read(step(value))
            except Exception as why:  # noqa: BLE001 - a plugin's code
                _failed(_MIDDLEWARE, one, why, plugins, name)
            else:
                plugins.worker.parts.worked(one.plugin, _MIDDLEWARE, name=name)
                yield answer


async def review_tool_result(
    call: ToolCall, result: ToolResult, context: CallContext, plugins: PluginSet, has_run: bool = True
) -> ToolResult:
    """Let every reviewer that looks at results replace this one; one that raises makes it an error.

    :param has_run: false for the answer to a call that did not run: only reviewers with ``all_calls`` are given it.
    """
    seconds = plugins.limits.review_seconds
    for one in _reviewers(plugins, everything=has_run):
        after = getattr(one.value, "after", None)
        if after is None:
            continue
        try:
            changed = await plugins.worker.call(after, call, result, context, seconds=seconds, who=one.plugin)
            if not isinstance(changed or result, ToolResult):
                raise TypeError(f"a result is a ToolResult, not {type(changed).__name__}")
            result = changed or result
        except Exception as why:  # noqa: BLE001 - plugin code
            failure = _failed(_REVIEWER, one, why, plugins, "after")
            result = ToolResult(failure, is_error=True)
        else:
            plugins.worker.parts.worked(one.plugin, _REVIEWER, name="after")
    return result


async def run_filters(message: T, way: str, plugins: PluginSet) -> T | None:
    """Pass a message through every filter; None when one drops it.

    :param way: ``inbound`` or ``outbound``: the method that is asked.
    """
    seconds, kind = plugins.limits.filter_seconds, type(message)
    for one in plugins.registry.filters:
        step = getattr(one.value, way, None)
        if step is None:
            continue
        try:
            answer = await plugins.worker.call(step, message, seconds=seconds, who=one.plugin)
            if not isinstance(answer, kind | None):
                raise TypeError(f"{way} answers with {kind.__name__} or None, not {type(answer).__name__}")
        except Exception as why:  # noqa: BLE001 - plugin code
            _failed(_FILTER, one, why, plugins, way)
            continue
        plugins.worker.parts.worked(one.plugin, _FILTER, name=way)
        if answer is None:
            return None
        message = answer
    return message


async def notify_observers(event: Event, plugins: PluginSet) -> None:
    """Pass an event to every observer."""
    seconds = plugins.limits.observe_seconds
    for one in plugins.registry.observers:
        try:
            await plugins.worker.call(one.value.on_event, event, seconds=seconds, who=one.plugin)
        except Exception as why:  # noqa: BLE001 - plugin code
            _failed(_OBSERVER, one, why, plugins, type(event).__name__)
        else:
            plugins.worker.parts.worked(one.plugin, _OBSERVER, name=type(event).__name__)


@dataclass
class _Known:
    """The sections of plugins in one conversation as they were last rendered, valid while the facts are these."""

    facts: PromptFacts
    order: tuple[tuple[PromptSection, bool], ...]
    rendered: dict[tuple[str, str], tuple[float, RenderedSection]] = field(default_factory=dict)


class SectionCache:
    """The sections of one set of plugins as they were last rendered, in the operator's order.

    Core's own sections are rendered each time. Stable ones of plugins are rendered again when a fact changes, and after
    ``timeouts.section_keep_seconds``: by then a change of what a plugin reads from a disk is seen. All sections of a
    plugin that are due are rendered in one call to its thread. A plugin's section of the same name replaces one of core,
    and core's own replaces that one when it fails.

    :param positions: as :func:`claw.contracts.prompt.ordered_sections` has them, and ``disabled``.
    """

    def __init__(
        self,
        sections: Sequence[PromptSection],
        positions: Mapping[str, float] | None = None,
        disabled: Collection[str] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        taken = {section.name for section in sections if section.plugin != BUILTIN}
        self._sections = [one for one in sections if one.plugin != BUILTIN or one.name not in taken]
        self._substitutes = {one.name: one for one in sections if one.plugin == BUILTIN and one.name in taken}
        self._clock, self._positions, self._disabled = clock, positions, disabled
        self._orders: dict[str, tuple[tuple[PromptSection, bool], ...]] = {}
        self._kept: dict[str, _Known] = {}

    async def render(
        self, facts: PromptFacts, worker: PluginWorker, log: Log
    ) -> tuple[PromptFacts, tuple[RenderedSection, ...]]:
        """Return the facts with what sections add to them, such as the context files, and the text of each section."""
        seconds = worker.timeouts.section_seconds
        volatile: Sequence[RenderedSection] = ()
        for section in self._sections:
            if section.prepare is None:
                continue
            order = self._order(facts.mode)
            due = [each for each in order if each[0].plugin == section.plugin and not each[0].stable]
            step = partial(_prepare_and_render, section, due)
            try:
                facts, volatile = await worker.call(step, facts, seconds=seconds, who=section.plugin)
            except Exception as why:  # noqa: BLE001 - plugin code
                failed = _failed_section(section, section.stable, why)
                log(failed.fault)
                _record_section(failed, worker)
                volatile = ()
                continue
            for line in facts.warnings:
                log(str(line))
            facts = replace(facts, warnings=()) if facts.warnings else facts
        return facts, await self._pieces(facts, worker, volatile)

    async def _pieces(
        self, facts: PromptFacts, worker: PluginWorker, volatile: Sequence[RenderedSection]
    ) -> tuple[RenderedSection, ...]:
        """Return the text of each section.

        :param volatile: the volatile sections that are rendered already.
        """
        lasting = replace(facts, inbound_meta=None) if facts.inbound_meta else facts
        known = self._known(lasting, worker.timeouts.section_keep_seconds > 0)
        await self._render_due(known, facts, worker, volatile)
        pieces = []
        for section, stable in known.order:
            if section.plugin == BUILTIN:
                piece = render_section(section, lasting if section.stable else facts, stable)
            else:
                piece = known.rendered[section.plugin, section.name][1]
            if piece.text or piece.fault:
                pieces.append(piece)
            if piece.fault and (substitute := self._substitutes.get(section.name)):
                pieces.append(render_section(substitute, facts, stable))
        return tuple(pieces)

    async def _render_due(
        self, known: _Known, facts: PromptFacts, worker: PluginWorker, volatile: Sequence[RenderedSection]
    ) -> None:
        """Render the sections of plugins that are volatile, new, or older than they are kept, plugin by plugin."""
        keep, now = worker.timeouts.section_keep_seconds, self._clock.monotonic()
        ready = {(piece.section.plugin, piece.section.name): (now, piece) for piece in volatile}
        known.rendered |= ready
        for piece in volatile:
            _record_section(piece, worker)
        due: dict[str, list[tuple[PromptSection, bool]]] = {}
        for section, stable in known.order:
            key = section.plugin, section.name
            if section.plugin != BUILTIN and key not in ready:
                at, _ = known.rendered.get(key, (-inf, None))
                if now - at >= keep or not section.stable:
                    due.setdefault(section.plugin, []).append((section, stable))
        for plugin, sections in due.items():
            for piece in await _render_all(plugin, sections, known.facts, facts, worker):
                known.rendered[plugin, piece.section.name] = self._clock.monotonic(), piece
                _record_section(piece, worker)

    def _known(self, facts: PromptFacts, is_kept: bool) -> _Known:
        key = facts.runtime.get("session", "")
        known = self._kept.pop(key, None) if is_kept else None
        if known is None or known.facts != facts:
            known = _Known(facts, self._order(facts.mode))
        self._kept[key] = known
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return known

    def _order(self, mode: str) -> tuple[tuple[PromptSection, bool], ...]:
        if mode not in self._orders:
            self._orders[mode] = ordered_sections(self._sections, mode, self._positions, self._disabled)
        return self._orders[mode]


async def _prepare_and_render(
    section: PromptSection, volatile: Sequence[tuple[PromptSection, bool]], facts: PromptFacts
) -> tuple[PromptFacts, list[RenderedSection]]:
    """Let a section add to the facts, and render the volatile sections of its plugin with them, in one call."""
    assert section.prepare is not None
    prepared = section.prepare(facts)
    if not isinstance(prepared, PromptFacts):
        raise TypeError(f"prepare answered with {type(prepared).__name__}, not PromptFacts")
    return prepared, await _render_sections(volatile, prepared, prepared)


async def _render_all(
    plugin: str,
    sections: Sequence[tuple[PromptSection, bool]],
    lasting: PromptFacts,
    facts: PromptFacts,
    worker: PluginWorker,
) -> list[RenderedSection]:
    """Render sections of one plugin in one call to its thread; without an answer in time all of them fail.

    :param lasting: the facts for stable sections, which do not change with the message.
    """
    step = partial(_render_sections, sections, lasting, facts)
    try:
        pieces: list[RenderedSection] = await worker.call(
            step, seconds=worker.timeouts.section_seconds, who=plugin
        )
    except Exception as why:  # noqa: BLE001 - plugin code
        return [_failed_section(one, stable, why) for one, stable in sections]
    return pieces


async def _render_sections(
    sections: Sequence[tuple[PromptSection, bool]], lasting: PromptFacts, facts: PromptFacts
) -> list[RenderedSection]:
    most = SECTION_CHARS + _own_words(lasting)
    return [
        await _render_one(section, stable, lasting if section.stable else facts, most)
        for section, stable in sections
    ]


async def _render_one(section: PromptSection, stable: bool, facts: PromptFacts, most: int) -> RenderedSection:
    try:
        text: Any = section.render(facts)
        text = await isolated(text) if inspect.isawaitable(text) else text
        if not isinstance(text, str):
            raise TypeError(f"render answered with {type(text).__name__}, not text")
    except Exception as why:  # noqa: BLE001 - plugin code
        return _failed_section(section, stable, why)
    except BaseException as why:
        if is_own_exit(why):
            raise
        return _failed_section(section, stable, why)
    return RenderedSection(section, text[:most].strip("\n"), stable)


def _own_words(facts: PromptFacts) -> int:
    """Return the size of what the operator gave for the prompt, which a section may repeat: it has limits of its own."""
    files = sum(len(file.path) + len(file.text or "") for file in facts.context_files)
    tools = sum(len(tool.name) + len(tool.description) for tool in facts.tools)
    return files + tools + len(facts.agent.settings.system_prompt or "") + len(facts.extra)


def _failed_section(section: PromptSection, stable: bool, why: BaseException) -> RenderedSection:
    return RenderedSection(section, "", stable, _section_fault(section, why), describe_exception(why))


def _record_section(piece: RenderedSection, worker: PluginWorker) -> None:
    """Record the failure of a section, or that it works."""
    if piece.fault:
        worker.parts.failed(piece.section.plugin, _SECTION, name=piece.section.name, why=piece.cause)
    else:
        worker.parts.worked(piece.section.plugin, _SECTION, name=piece.section.name)


def _section_fault(section: PromptSection, why: BaseException) -> str:
    fault = PluginError(section.plugin, "run", "{why}", FIX, why=describe_exception(why), id=section.plugin)
    return f"{type(fault).__name__}: {fault}"


def _failed(template: str, of: Contribution[Any], why: Exception, plugins: PluginSet, part: str = "") -> str:
    """Report who failed, why, and what to do; without the fix it is for the model."""
    cause = describe_exception(why)
    fault = PluginError(of.plugin, "run", template, FIX, why=cause, id=of.plugin)
    plugins.log(str(fault))
    plugins.worker.parts.failed(of.plugin, template, name=part, why=cause)
    return f"{fault.where}: {fault.problem}"
