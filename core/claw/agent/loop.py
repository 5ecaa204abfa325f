"""The agent loop: model → tools → model, reported as events. It knows messages, a stream, a tool runner and a
sink.

A run continues until an answer calls no tool and there is nothing to add. Learnt from pi-mono's agent loop.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from claw.contracts import events
from claw.contracts.errors import ProviderError
from claw.contracts.provider import AnswerBroken, Finished, ModelCall, TextDelta
from claw.contracts.text import repair_text, to_json
from claw.contracts.tool import ToolResult
from claw.contracts.transcript import (
    UNREADABLE_CALL,
    Assistant,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    User,
)

Emit = Callable[[events.Event], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call that was looked up, checked and allowed; ``run`` raises nothing but its cancellation."""

    run: Callable[[], Awaitable[ToolResult]]
    parallel: bool = True


async def _no_messages() -> Sequence[User]:
    return ()


@dataclass(frozen=True)
class LoopCallbacks:
    """The callbacks and limits of the loop.

    :param ask: makes one model call.
    :param prepare: looks up, checks and reviews a call, given the tool choice of its answer; a ``ToolResult`` is
        its refusal. Called in call order, before any call of the answer runs.
    :param emit: receives every event, in order; what it writes is written before the loop continues.
    :param steer: returns what came in meanwhile; called before the first model call and after each step.
    :param follow_up: returns what to go on with; called when the run would stop. All of one result go into
        one step.
    :param max_steps: model calls at most; None = no limit.
    :param tool_choice: until an answer has the call that it asks for; then ``auto``. ``none`` holds for all of them.
    :param grace_seconds: how long a cancelled tool may add to end before it is abandoned.
    """

    ask: ModelCall
    prepare: Callable[[ToolCall, str], Awaitable[PreparedCall | ToolResult]]
    emit: Callable[[events.Event], Awaitable[None]]
    steer: Callable[[], Awaitable[Sequence[User]]] = _no_messages
    follow_up: Callable[[], Awaitable[Sequence[User]]] = _no_messages
    max_steps: int | None = None
    tool_choice: str = "auto"
    grace_seconds: float = 3.0


async def run_loop(
    past: Sequence[Message], prompt: Message | None, steps: LoopCallbacks, pending: Sequence[ToolCall] = ()
) -> Assistant | None:
    """Answer ``prompt``.

    :param past: the history, with each call paired with its result.
    :param prompt: None to go on with ``past``, whose last messages were not answered yet.
    :param pending: calls of the last answer in ``past`` that have no result yet: they run first.
    :returns: the last answer; None when ``max_steps`` is 0.
    :raises ProviderError: no model answered, or not with the call that ``tool_choice`` asks for, though asked again;
        what was received so far has been emitted.
    """
    messages: list[Message] = [*past]

    async def record(message: Message) -> None:
        messages.append(message)
        await steps.emit(events.MessageRecorded(message))

    async def add(added: Sequence[User]) -> bool:
        for message in added:
            await record(message)
        return bool(added)

    if prompt is not None:
        await record(prompt)
    await _run_calls(pending, "auto", steps, record)
    await add(await steps.steer())
    answer: Assistant | None = None
    choice, number = steps.tool_choice, 0
    while steps.max_steps is None or number < steps.max_steps:
        number += 1
        await steps.emit(events.StepStarted(number))
        answer = await _call_model(messages, choice, steps, record, number)
        asked, missing = choice, lacks_call(answer, choice)
        choice = choice if missing or choice == "none" else "auto"
        if answer.stop_reason in ("error", "aborted"):
            await steps.emit(events.StepEnded(answer, ()))
            break
        results, ends_turn = await _run_calls(answer.tool_calls, asked, steps, record)
        await steps.emit(events.StepEnded(answer, results))
        if ends_turn:
            break
        if missing and (number == steps.max_steps or not _has_unreadable(answer)):
            why = "the model did not call the tool that was asked for (tool choice {choice})"
            fix = "Ask again, or choose another model with /model"
            raise ProviderError(why, reason="no_call", where=answer.model, fix=fix, choice=choice)
        steered = await add(await steps.steer())
        if not (answer.tool_calls or steered or await add(await steps.follow_up())):
            break
    else:
        await steps.emit(events.RunEnded("max_steps"))
        return answer
    await steps.emit(events.RunEnded(answer.stop_reason))
    return answer


async def _call_model(
    messages: Sequence[Message],
    choice: str,
    steps: LoopCallbacks,
    record: Callable[[Message], Awaitable[None]],
    number: int,
) -> Assistant:
    """Make one model call. The part received of an answer that breaks off is kept, and marked so.

    :param number: of the call in this run; only the first answer is completed with a call that it lacks.
    """
    parts: list[str] = []
    stream = steps.ask(messages, choice)
    try:
        async for event in stream:
            if isinstance(event, Finished):
                answer, _ = to_json(_with_missing_call(event.message, choice if number == 1 else "auto"))
                await record(answer)
                return answer
            if isinstance(event, TextDelta):
                text = repair_text(event.text)
                parts.append(text)
                await steps.emit(events.TextStreamed(text))
            elif isinstance(event, AnswerBroken):
                # For the transcript only: another answer takes its place in the messages of this turn.
                await steps.emit(events.MessageRecorded(_cut_off(parts, event.why)))
                parts.clear()
                await steps.emit(events.StepStarted(number))
            else:
                await steps.emit(events.ThinkingStreamed(repair_text(event.text)))
    except BaseException as broken:
        if parts:
            stopped = isinstance(broken, asyncio.CancelledError)
            await record(_cut_off(parts, "" if stopped else str(broken), "aborted" if stopped else "error"))
        raise
    finally:
        if close := getattr(stream, "aclose", None):
            await close()
    raise AssertionError("a stream of model events ended without Finished")


def lacks_call(message: Message, choice: str) -> bool:
    """Return true if a message does not have the call that a tool choice asks for, in a form that can be read."""
    calls = {call.name for call in getattr(message, "tool_calls", ())} - {UNREADABLE_CALL}
    return choice not in ("auto", "none", *calls) and not (choice == "required" and calls)


def _with_missing_call(answer: Assistant, choice: str) -> Assistant:
    """Add a call that cannot be read to an answer that lacks the required call: its error asks for it again."""
    broken = answer.stop_reason in ("error", "aborted")
    if broken or _has_unreadable(answer) or not lacks_call(answer, choice):
        return answer
    wanted = "no tool was called, and one" if choice == "required" else f"the tool {choice}"
    arguments = {"written": "", "why": f"{wanted} was asked for"}
    missing = ToolCall(f"call_{uuid.uuid4().hex[:24]}", UNREADABLE_CALL, arguments)
    return msgspec.structs.replace(answer, content=(*answer.content, missing), stop_reason="tool_use")


def _has_unreadable(answer: Assistant) -> bool:
    return any(call.name == UNREADABLE_CALL for call in answer.tool_calls)


def _cut_off(parts: Sequence[str], why: str, stop_reason: str = "error") -> Assistant:
    return Assistant((Text("".join(parts)),), stop_reason=stop_reason, error=why)


async def _run_calls(
    calls: Sequence[ToolCall], choice: str, steps: LoopCallbacks, record: Callable[[Message], Awaitable[None]]
) -> tuple[tuple[ToolResultMessage, ...], bool]:
    """Run the calls of one answer: prepared in order, together when all allow it, recorded in call order."""
    if not calls:
        return (), False
    prepared = [await steps.prepare(call, choice) for call in calls]

    async def one(call: ToolCall, ready: PreparedCall | ToolResult) -> ToolResult:
        await steps.emit(events.ToolBegan(call))
        result = ready if isinstance(ready, ToolResult) else await ready.run()
        await steps.emit(events.ToolEnded(call, result))
        return result

    pairs = list(zip(calls, prepared, strict=True))
    together = all(not isinstance(ready, PreparedCall) or ready.parallel for ready in prepared)
    outcomes: list[ToolResult] = []
    for group in [pairs] if together else [[pair] for pair in pairs]:
        outcomes += await _gather([one(call, ready) for call, ready in group], steps.grace_seconds)
    results = tuple(
        ToolResultMessage(call.id, call.name, result.blocks, result.details, result.is_error)
        for call, result in zip(calls, outcomes, strict=True)
    )
    for result in results:
        await record(result)
    return results, all(result.ends_turn for result in outcomes)


async def _gather(runs: Sequence[Awaitable[ToolResult]], grace_seconds: float) -> list[ToolResult]:
    """Return all results, in order. When cancelled, cancel the runs and wait for ``grace_seconds``, no
    longer.

    Not a TaskGroup: that would wait for ever for a tool that ignores its cancellation.
    """
    tasks = [asyncio.ensure_future(run) for run in runs]
    try:  # ``gather`` takes the errors that nobody asks for, also those of late tasks
        await asyncio.wait([asyncio.gather(*tasks, return_exceptions=True)])
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=grace_seconds)
        raise
    return [task.result() for task in tasks]
