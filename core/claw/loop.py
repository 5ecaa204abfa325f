"""The loop: model → tools → model, told as events. It knows messages, a stream, a way to run a tool, and a sink.

A turn goes on until an answer asks for no tool and nobody has anything to add. Learnt from pi-mono's agent loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from claw.event import (
    Event,
    RunEnded,
    Said,
    StepEnded,
    StepStarted,
    TextPiece,
    ThinkingPiece,
    ToolBegan,
    ToolEnded,
)
from claw.provider import Ask, BrokenOff, Finished, TextDelta
from claw.tool import Result
from claw.transcript import Assistant, Message, Text, ToolCall, ToolResult, User
from claw.unicode import sound, written

Emit = Callable[[Event], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that was looked up, checked and allowed, ready to run; it never raises but when it is cancelled."""

    run: Callable[[], Awaitable[Result]]
    parallel: bool = True


async def _nothing() -> Sequence[User]:
    return ()


@dataclass(frozen=True)
class Steps:
    """What the loop may call.

    :param ask: one model call.
    :param prepare: look a call up, check and review it; a ``Result`` is its refusal. Asked in call order, before
        any call of the answer runs.
    :param emit: told every event, in order; what it writes is written before the loop goes on.
    :param steer: what came in meanwhile; asked before the first model call and after each step.
    :param follow_up: what to go on with; asked when the run would stop. All of one answer goes into one step.
    :param max_steps: model calls at most; None = no limit.
    :param tool_choice: for the first model call; then ``auto``. ``none`` holds for all of them.
    :param grace_seconds: how long a cancelled tool may take to end before it is left behind.
    """

    ask: Ask
    prepare: Callable[[ToolCall], Awaitable[Prepared | Result]]
    emit: Emit
    steer: Callable[[], Awaitable[Sequence[User]]] = _nothing
    follow_up: Callable[[], Awaitable[Sequence[User]]] = _nothing
    max_steps: int | None = None
    tool_choice: str = "auto"
    grace_seconds: float = 3.0


async def run_loop(
    past: Sequence[Message], prompt: Message | None, steps: Steps, pending: Sequence[ToolCall] = ()
) -> Assistant | None:
    """Answer ``prompt``.

    :param past: paired messages that came before.
    :param prompt: None to go on with ``past``, whose last messages were not answered yet.
    :param pending: calls of the last answer in ``past`` that have no result yet: they run first.
    :returns: the last answer; None when ``max_steps`` is 0.
    :raises ProviderError: no model answered; what was said so far has been emitted.
    """
    messages: list[Message] = [*past]

    async def say(message: Message) -> None:
        messages.append(message)
        await steps.emit(Said(message))

    async def take(added: Sequence[User]) -> bool:
        for message in added:
            await say(message)
        return bool(added)

    if prompt is not None:
        await say(prompt)
    await _run_calls(pending, steps, say)
    await take(await steps.steer())
    answer: Assistant | None = None
    choice, number = steps.tool_choice, 0
    while steps.max_steps is None or number < steps.max_steps:
        number += 1
        await steps.emit(StepStarted(number))
        answer = await _listen(messages, choice, steps, say, number)
        choice = choice if choice == "none" else "auto"
        if answer.stop_reason in ("error", "aborted"):
            await steps.emit(StepEnded(answer, ()))
            break
        results, over = await _run_calls(answer.tool_calls, steps, say)
        await steps.emit(StepEnded(answer, results))
        if over:
            break
        steered = await take(await steps.steer())
        if not (answer.tool_calls or steered or await take(await steps.follow_up())):
            break
    else:
        await steps.emit(RunEnded("max_steps"))
        return answer
    await steps.emit(RunEnded(answer.stop_reason))
    return answer


async def _listen(
    messages: Sequence[Message], choice: str, steps: Steps, say: Callable[[Message], Awaitable[None]],
    number: int = 1,
) -> Assistant:  # fmt: skip
    """One model call. What was heard of an answer that breaks off is kept, marked as broken off."""
    heard: list[str] = []
    stream = steps.ask(messages, choice)
    try:
        async for event in stream:
            if isinstance(event, Finished):
                answer, _ = written(event.message)
                await say(answer)
                return answer
            if isinstance(event, TextDelta):
                text = sound(event.text)
                heard.append(text)
                await steps.emit(TextPiece(text))
            elif isinstance(event, BrokenOff):
                # In the transcript, not in what this turn goes on with: another answer takes its place.
                await steps.emit(Said(_half(heard, event.why)))
                heard.clear()
                await steps.emit(StepStarted(number))
            else:
                await steps.emit(ThinkingPiece(sound(event.text)))
    except BaseException as broken:
        if heard:
            stopped = isinstance(broken, asyncio.CancelledError)
            await say(_half(heard, "" if stopped else str(broken), "aborted" if stopped else "error"))
        raise
    finally:
        if close := getattr(stream, "aclose", None):
            await close()
    raise AssertionError("a stream of model events ended without Finished")


def _half(heard: Sequence[str], why: str, stop_reason: str = "error") -> Assistant:
    return Assistant((Text("".join(heard)),), stop_reason=stop_reason, error=why)


async def _run_calls(
    calls: Sequence[ToolCall], steps: Steps, say: Callable[[Message], Awaitable[None]]
) -> tuple[tuple[ToolResult, ...], bool]:
    """Run the calls of one answer: prepared in order, run together when all allow it, recorded in call order."""
    if not calls:
        return (), False
    prepared = [await steps.prepare(call) for call in calls]

    async def one(call: ToolCall, ready: Prepared | Result) -> Result:
        await steps.emit(ToolBegan(call))
        result = ready if isinstance(ready, Result) else await ready.run()
        await steps.emit(ToolEnded(call, result))
        return result

    together = all(not isinstance(ready, Prepared) or ready.parallel for ready in prepared)
    if together:
        outcomes = await _all(
            [one(call, ready) for call, ready in zip(calls, prepared, strict=True)], steps.grace_seconds
        )
    else:
        outcomes = []
        for call, ready in zip(calls, prepared, strict=True):
            outcomes += await _all([one(call, ready)], steps.grace_seconds)
    results = tuple(
        ToolResult(call.id, call.name, result.blocks, result.details, result.is_error)
        for call, result in zip(calls, outcomes, strict=True)
    )
    for result in results:
        await say(result)
    return results, all(result.ends_turn for result in outcomes)


async def _all(runs: Sequence[Awaitable[Result]], grace_seconds: float) -> list[Result]:
    """All results, in order. When cancelled, the runs are cancelled and given ``grace_seconds``, no longer.

    Not a TaskGroup: that would wait for ever for a tool that ignores its cancellation.
    """
    tasks = [asyncio.ensure_future(run) for run in runs]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=grace_seconds)
        raise
    return [task.result() for task in tasks]
