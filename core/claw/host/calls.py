"""Calls to objects of plugins, within limits: reviewers of calls, filters of messages, observers of events.

A reviewer that raises or hangs denies; a filter leaves the message as it was; an observer is only written down.
"""

import contextlib
import inspect
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import chain
from math import inf
from typing import Any, TypeVar

from claw.contracts import prompt
from claw.contracts.errors import PluginError
from claw.contracts.events import Event
from claw.contracts.extensions import CallContext, Review, Reviewer, Statement
from claw.contracts.messages import ApprovalRequest, Decision, Inbound
from claw.contracts.prompt import PromptFacts, PromptSection, RenderedSection
from claw.contracts.provider import CallAccount
from claw.contracts.tool import ToolResult
from claw.contracts.transcript import ToolCall, Usage
from claw.host.isolation import describe_exception
from claw.host.registry import BUILTIN, Contribution, Registry
from claw.host.worker import PluginWorker, isolated
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


@contextlib.contextmanager
def _reported(
    one: Contribution[Any], template: str, plugins: PluginSet, part: str = ""
) -> Iterator[list[str]]:
    """Run a plugin's code in this block: report what it raises, in place of raising it, else record that it works.

    The list gets the problem, as a text for the model: what failed and why.

    :param template: of the problem, in English. With ``part``, the method or event, it names the part of the plugin.
    """
    problems: list[str] = []
    try:
        yield problems
    except Exception as why:  # noqa: BLE001 - plugin code
        cause = describe_exception(why)
        fault = PluginError(one.plugin, "run", template, FIX, why=cause, id=one.plugin)
        plugins.log(str(fault))
        plugins.worker.parts.failed(one.plugin, template, name=part, why=cause)
        problems.append(f"{fault.where}: {fault.problem}")
    else:
        plugins.worker.parts.worked(one.plugin, template, name=part)


async def run_reviewers(call: ToolCall, context: CallContext, plugins: PluginSet) -> tuple[ToolCall, Review]:
    """Ask every reviewer; the strictest answer wins, changed arguments are handed on to the next one.

    The review that is returned has the notes of all reviewers, and the first reason to end the turn.
    """
    strictest, notes, end_turn = Review(), list[str](), ""
    seconds = plugins.worker.timeouts.review_seconds
    for one in _reviewers(plugins, everything=not context.problem):
        with _reported(one, _REVIEWER, plugins, "before") as problems:
            said = await plugins.worker.call(one.value.before, call, context, seconds=seconds, who=one.plugin)
            said = _checked_review(Review() if said is None else said)
        if problems:
            said = Review("deny", problems[0])
        if said.arguments is not None:
            call = ToolCall(call.id, call.name, said.arguments)
        notes.append(said.note[:NOTE_CHARS])
        if said.verdict == "deny":
            end_turn = end_turn or said.end_turn
        strictest = max(strictest, said, key=lambda review: _STRICTNESS.index(review.verdict))
    return call, replace(strictest, note="".join(notes), end_turn=end_turn)


def _checked_review(said: Review) -> Review:
    if said.verdict not in _STRICTNESS:
        raise ValueError(f"the verdict of a review is one of {', '.join(_STRICTNESS)}, not {said.verdict!r}")
    if not isinstance(said.arguments, dict | None):
        raise TypeError(f"arguments are a dict, not {type(said.arguments).__name__}")
    if not isinstance(said.note, str) or not isinstance(said.end_turn, str):
        raise TypeError("note and end_turn of a review are text")
    return said


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
    with _reported(approver, _APPROVER, plugins) as problems:
        ask, who = approver.value.ask, approver.plugin
        decision = await plugins.worker.call(ask, request, seconds=None, who=who)
        if not isinstance(decision, Decision) or decision.verdict not in _DECISIONS:
            raise TypeError(f"ask answered with {decision!r:.200}, not a Decision")
        if decision.allowed or decision.reason:
            return decision
        return replace(decision, reason=t("the user was asked and did not allow it"))
    return Decision("deny", problems[0])


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


def turn_usage(turn: str, plugins: PluginSet) -> tuple[Usage | None, float | None]:
    """Return the tokens of a turn's model calls and their cost in US dollars, as far as a plugin knows them."""
    return next(_answers_of_middleware("turn_usage", _checked_usage, turn, plugins), (None, None))


def _checked_usage(said: Any) -> tuple[Usage | None, float | None]:
    usage, cost = said
    if not isinstance(usage, Usage | None) or not isinstance(cost, float | int | None):
        raise TypeError(f"turn_usage answered with {said!r:.200}, not a Usage and a cost")
    return usage, cost


def describe_message(message: Inbound, capabilities: Container[str], plugins: PluginSet) -> str:
    """Return the text of filters that precedes the words of a message in the requests of its turn."""
    filters = plugins.registry.filters
    return "".join(_answers_of(filters, _FILTER, "describe", _checked_lines, plugins, message, capabilities))


def _checked_lines(said: Any) -> str:
    if inspect.iscoroutine(said):
        said.close()
    if not isinstance(said, str | None):
        raise TypeError(f"describe answered with {type(said).__name__}, not text")
    return f"{said}\n" if said and not said.endswith("\n") else said or ""


def _answers_of_middleware(
    name: str, read: Callable[[Any], T], value: object, plugins: PluginSet
) -> Iterator[T]:
    return _answers_of(plugins.registry.middleware, _MIDDLEWARE, name, read, plugins, value)


def _answers_of(
    parts: Sequence[Contribution[Any]],
    template: str,
    name: str,
    read: Callable[[Any], T],
    plugins: PluginSet,
    *values: object,
) -> Iterator[T]:
    """Yield what each part answers that has a method of this name; a plain function, which must not block.

    :param template: of the problem, when one fails.
    """
    for one in parts:
        if step := getattr(one.value, name, None):
            answers: list[T] = []
            with _reported(one, template, plugins, name):
                answers.append(read(step(*values)))
            yield from answers


async def review_tool_result(
    call: ToolCall, result: ToolResult, context: CallContext, plugins: PluginSet, has_run: bool = True
) -> ToolResult:
    """Let every reviewer that looks at results replace this one; one that raises makes it an error.

    :param has_run: false for the answer to a call that did not run: only reviewers with ``all_calls`` are given it.
    """
    seconds = plugins.worker.timeouts.review_seconds
    for one in _reviewers(plugins, everything=has_run):
        if after := getattr(one.value, "after", None):
            with _reported(one, _REVIEWER, plugins, "after") as problems:
                changed = await plugins.worker.call(
                    after, call, result, context, seconds=seconds, who=one.plugin
                )
                if not isinstance(changed or result, ToolResult):
                    raise TypeError(f"a result is a ToolResult, not {type(changed).__name__}")
                result = changed or result
            if problems:
                result = ToolResult(problems[0], is_error=True)
    return result


async def run_filters(message: T, way: str, plugins: PluginSet) -> T | None:
    """Pass a message through every filter; None when one drops it.

    :param way: ``inbound`` or ``outbound``: the method that is asked.
    """
    seconds, kind = plugins.worker.timeouts.filter_seconds, type(message)
    for one in plugins.registry.filters:
        if step := getattr(one.value, way, None):
            with _reported(one, _FILTER, plugins, way):
                answer = await plugins.worker.call(step, message, seconds=seconds, who=one.plugin)
                if not isinstance(answer, kind | None):
                    given = type(answer).__name__
                    raise TypeError(f"{way} answers with {kind.__name__} or None, not {given}")
                if answer is None:
                    return None
                message = answer
    return message


async def notify_observers(event: Event, plugins: PluginSet) -> None:
    """Pass an event to every observer."""
    seconds = plugins.worker.timeouts.observe_seconds
    for one in plugins.registry.observers:
        with _reported(one, _OBSERVER, plugins, type(event).__name__):
            await plugins.worker.call(one.value.on_event, event, seconds=seconds, who=one.plugin)


Pieces = dict[str, RenderedSection]
"""The sections of one plugin as they were rendered, by name."""


class SectionCache:
    """The sections of one set of plugins as they were last rendered, in the operator's order.

    All sections of a plugin are rendered in one call to its thread: for each turn, if one of them is volatile or adds to
    the facts; else when a fact changed, and after ``timeouts.section_keep_seconds``, when a change of what a plugin reads
    from a disk is seen. Core's own are rendered each time. A plugin's section of the same name replaces one of core, and
    core's own replaces that one when it fails.

    :param positions: as :func:`claw.contracts.prompt.ordered_sections` has them, and ``disabled``.
    """

    def __init__(
        self,
        plugins: PluginSet,
        positions: Mapping[str, float] | None = None,
        disabled: Collection[str] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        sections = plugins.registry.sections
        own = {section.name: section for section in sections if section.plugin == BUILTIN}
        others = [section for section in sections if section.plugin != BUILTIN]
        self._substitutes = {one.name: own.pop(one.name) for one in others if one.name in own}
        self._plugins = dict.fromkeys(one.plugin for one in others)
        self._preparing = [one for one in others if one.prepare]
        self._volatile = {one.plugin for one in others if not one.stable}
        self._order = cache(
            lambda mode: prompt.ordered_sections([*others, *own.values()], mode, positions, disabled)
        )
        self._kept: dict[tuple[str, str], tuple[float, PromptFacts, Pieces]] = {}
        self._worker, self._log, self._clock = plugins.worker, plugins.log, clock

    async def render(self, facts: PromptFacts) -> tuple[PromptFacts, tuple[RenderedSection, ...]]:
        """Return the facts with what sections add to them, such as the context files, and the text of each section."""
        rendered, unprepared = dict[str, Pieces](), dict[str, Pieces]()
        for plugin in (*(section.plugin for section in self._preparing), *self._plugins):
            is_new = plugin in rendered
            preparing = [one for one in self._preparing if one.plugin == plugin and not is_new]
            pieces = None if preparing else self._valid(plugin, facts, is_new)
            if pieces is None:
                facts, pieces = await self._ask(plugin, facts, preparing, unprepared.setdefault(plugin, {}))
                for line in facts.warnings:
                    self._log(str(line))
                facts = replace(facts, warnings=()) if facts.warnings else facts
            rendered[plugin] = pieces
        return facts, tuple(self._pieces(facts, rendered))

    def _pieces(self, facts: PromptFacts, rendered: Mapping[str, Pieces]) -> Iterator[RenderedSection]:
        """Yield each section that has a text or failed; behind one that failed, core's own of that name."""
        for section, stable in self._order(facts.mode):
            if section.plugin == BUILTIN:
                piece = _own_section(section, _lasting(facts) if section.stable else facts, stable)
            else:
                piece = rendered[section.plugin][section.name]
            if piece.text or piece.fault:
                yield piece
            if piece.fault and (substitute := self._substitutes.get(section.name)):
                yield _own_section(substitute, facts, stable)

    def _valid(self, plugin: str, facts: PromptFacts, is_new: bool) -> Pieces | None:
        """Return what is kept of a plugin's sections if it still holds for these facts.

        :param is_new: they were rendered in this turn.
        """
        at, known, pieces = self._kept.get((_session_of(facts), plugin), (-inf, None, {}))
        age, keep = self._clock.monotonic() - at, self._worker.timeouts.section_keep_seconds
        is_valid = is_new or (age < keep and plugin not in self._volatile)
        return pieces if is_valid and known == _lasting(facts) else None

    async def _ask(
        self, plugin: str, facts: PromptFacts, preparing: Sequence[PromptSection], failed: Pieces
    ) -> tuple[PromptFacts, Pieces]:
        """Render the sections of a plugin, in one call to its thread; without an answer in time all of them fail.

        :param preparing: the sections that first add to the facts.
        :param failed: those that could not in this turn: they stay failed, whatever later plugins add.
        """
        own = [one for one in self._order(facts.mode) if one[0].plugin == plugin]

        async def ask(facts: PromptFacts) -> tuple[PromptFacts, Pieces]:
            for section in preparing:
                try:
                    facts = _prepared(section, facts)
                except Exception as why:  # noqa: BLE001 - plugin code
                    failed[section.name] = _failed_section(section, section.stable, why)
            lasting, most = _lasting(facts), SECTION_CHARS + _own_words(facts)
            return facts, failed | {
                section.name: await _render_one(section, stable, lasting if section.stable else facts, most)
                for section, stable in own
                if section.name not in failed
            }

        seconds, parts = self._worker.timeouts.section_seconds, self._worker.parts
        try:
            facts, pieces = await self._worker.call(ask, facts, seconds=seconds, who=plugin)
        except Exception as why:  # noqa: BLE001 - plugin code
            pieces = {section.name: _failed_section(section, stable, why) for section, stable in own}
            failed |= pieces if preparing else {}
        for name, piece in pieces.items():
            if piece.fault:
                parts.failed(plugin, _SECTION, name=name, why=piece.cause)
            else:
                parts.worked(plugin, _SECTION, name=name)
        key = _session_of(facts), plugin
        self._kept.pop(key, None)
        self._kept[key] = self._clock.monotonic(), _lasting(facts), pieces
        if len(self._kept) > _MOST_KEPT * len(self._plugins):
            del self._kept[next(iter(self._kept))]
        return facts, pieces


def _own_section(section: PromptSection, facts: PromptFacts, stable: bool) -> RenderedSection:
    """Render a section of core itself."""
    return RenderedSection(section, section.render(facts).strip("\n"), stable)


def _session_of(facts: PromptFacts) -> str:
    return facts.runtime.get("session", "")


def _lasting(facts: PromptFacts) -> PromptFacts:
    """Return the facts without those of the message."""
    of_message = facts.inbound_meta or facts.warnings
    return replace(facts, inbound_meta=None, warnings=()) if of_message else facts


def _prepared(section: PromptSection, facts: PromptFacts) -> PromptFacts:
    answer = section.prepare(facts) if section.prepare else facts
    if not isinstance(answer, PromptFacts):
        raise TypeError(f"prepare answered with {type(answer).__name__}, not PromptFacts")
    for name in (field.name for field in fields(facts)):
        kind, given = type(getattr(facts, name)), type(getattr(answer, name))
        if not issubclass(given, kind):
            raise TypeError(f"{name} of the facts is {kind.__name__}, not {given.__name__}")
    fixed, after = ((one.mode, one.inbound_meta, _session_of(one)) for one in (facts, answer))
    if fixed != after:
        raise ValueError("prepare changes neither mode nor inbound_meta nor the session")
    return answer


async def _render_one(section: PromptSection, stable: bool, facts: PromptFacts, most: int) -> RenderedSection:
    try:
        text = await isolated(_text_of(section, facts))
    except Exception as why:  # noqa: BLE001 - plugin code
        return _failed_section(section, stable, why)
    return RenderedSection(section, text[:most].strip("\n"), stable)


async def _text_of(section: PromptSection, facts: PromptFacts) -> str:
    text: Any = section.render(facts)
    text = await text if inspect.isawaitable(text) else text
    if not isinstance(text, str):
        raise TypeError(f"render answered with {type(text).__name__}, not text")
    return text


def _own_words(facts: PromptFacts) -> int:
    """Return the size of what the operator gave for the prompt, which a section may repeat: it has limits of its own."""
    files = sum(len(file.path) + len(file.text or "") for file in facts.context_files)
    tools = sum(len(tool.name) + len(tool.description) for tool in facts.tools)
    return files + tools + len(facts.agent.settings.system_prompt or "") + len(facts.extra)


def _failed_section(section: PromptSection, stable: bool, why: BaseException) -> RenderedSection:
    cause = describe_exception(why)
    fault = PluginError(section.plugin, "run", "{why}", FIX, why=cause, id=section.plugin)
    return RenderedSection(section, "", stable, f"{type(fault).__name__}: {fault}", cause)
