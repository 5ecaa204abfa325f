"""Plugin workers: each plugin has an event loop of its own, in a thread, for what it does during a turn.

Code that blocks there stops that plugin, not the host and not other plugins. A blocked worker is abandoned
and replaced. A tool is run here too: whatever it raises or returns, and if it never returns, the model gets a result
to act on.
"""

import asyncio
import contextlib
import inspect
import json
import logging
import signal
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from claw.contracts.errors import ToolError
from claw.contracts.text import repair_text
from claw.contracts.tool import Tool, ToolContext, ToolResult, attributed, validate
from claw.contracts.transcript import Image, Text
from claw.host import isolation
from claw.host.health import PartHealth, location_of
from claw.host.isolation import DEFAULT_TIMEOUTS, ProcessExitRaised, Timeouts, describe_exception
from claw.i18n import t

T = TypeVar("T")

MAX_LEFT_TASKS = 1000
"""Limit of background tasks that a plugin may leave in its loop; beyond it all of them are cancelled."""


class PluginWorker:
    """The plugins' event loops, each created at first use.

    :param on_task_error: called with the plugin and the error of a background task that failed.
    :ivar parts: the record of the parts of plugins that fail in turns.
    """

    def __init__(
        self,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        on_task_error: Callable[[str, str], None] = lambda who, why: None,
        parts: PartHealth | None = None,
    ) -> None:
        self.timeouts, self.parts = timeouts, parts or PartHealth()
        self._on_task_error = on_task_error
        self._loops: dict[str, asyncio.AbstractEventLoop] = {}
        self._timeouts: Counter[str] = Counter()
        self._left_out_until: dict[str, float] = {}

    async def call(
        self, step: Callable[..., Any | Awaitable[Any]], *values: Any, seconds: float | None, who: str = ""
    ) -> Any:
        """Call ``step`` in the loop of plugin ``who``, sync or async, and wait for its answer.

        :param seconds: at most; None = as long as its loop is not blocked. A step that may take any time sees its
            cancellation before the caller goes on.
        :param who: the plugin that is called; after ``Timeouts.max_timeouts`` late calls it is left out for a while.
        :raises TimeoutError: it did not answer; if it blocks its loop, that loop is abandoned.
        :raises ProcessExitRaised: it raised an exception that would end the process. All other exceptions pass through.
        """
        late, clock = self._timeouts[who], asyncio.get_running_loop().time
        if who and late >= self.timeouts.max_timeouts and clock() < self._left_out_until[who]:
            raise TimeoutError(f"it did not answer {late} times, and is asked again later")
        loop = self._loop_of(who)
        answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_outcome(step, *values), loop))
        limit = self.timeouts.review_seconds if seconds is None else seconds
        try:  # no wait_for: in Python 3.11 it loses a cancellation that arrives together with the answer
            async with asyncio.timeout(seconds):
                while seconds is None and not (await asyncio.wait({answer}, timeout=limit))[0]:
                    if not await _is_responsive(loop, self.timeouts.worker_seconds):
                        raise TimeoutError
                value, why = await answer
        except TimeoutError:
            self.count_timeout(who)
            answer.cancel()
            if not await _is_responsive(loop, self.timeouts.worker_seconds):
                self._loops.pop(who, None)  # abandon the thread that the plugin blocks
            raise TimeoutError(f"it did not answer within {limit:g} s") from None
        except asyncio.CancelledError:
            answer.cancel()
            if seconds is None:  # whoever passes through the loop now comes behind the step
                await _is_responsive(loop, self.timeouts.worker_seconds)
            raise
        if why:
            raise why
        return value

    def count_timeout(self, who: str) -> None:
        """Count a call of a plugin that took too long."""
        self._timeouts[who] += 1
        pause = self.timeouts.late_pause_seconds
        self._left_out_until[who] = asyncio.get_running_loop().time() + pause

    def close(self) -> None:
        """Stop the loops, with what plugins left there; a blocked thread is a daemon and ends with the process."""
        loops, self._loops = self._loops, {}
        for loop in loops.values():
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                loop.call_soon_threadsafe(loop.stop)

    def _loop_of(self, who: str) -> asyncio.AbstractEventLoop:
        loop = self._loops.get(who)
        if loop is None or loop.is_closed():  # a forgotten task that raises SystemExit ends its loop
            runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
            loop = self._loops[who] = runner.get_loop()
            loop.set_exception_handler(partial(self._on_loop_error, who))
            threading.Thread(target=_run_loop, args=(runner,), daemon=True, name="claw-plugin").start()
        return loop

    def _on_loop_error(self, who: str, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        why = context.get("exception")
        self._on_task_error(who, describe_exception(why) if why else str(context.get("message")))


async def _outcome(step: Callable[..., Any], *values: Any) -> tuple[Any, Exception | None]:
    """Return the answer of a step and what it raised: a task that raises after its caller has gone would be logged."""

    async def call() -> Any:
        answer = step(*values)
        answer = await answer if inspect.isawaitable(answer) else answer
        if len(left := asyncio.all_tasks() - {asyncio.current_task()}) > MAX_LEFT_TASKS:
            for task in left:  # the plugin starts tasks and never waits for them
                task.cancel()
        return answer

    try:
        return await isolated(call()), None
    except Exception as why:  # noqa: BLE001 - raised again in the caller's loop
        return None, why


async def _is_responsive(loop: asyncio.AbstractEventLoop, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError, RuntimeError):  # it is blocked; it has ended
        async with asyncio.timeout(seconds):
            await in_loop(loop, asyncio.sleep)(0)
            return True
    return False


def _run_loop(runner: asyncio.Runner) -> None:
    with runner:  # at the end it cancels what is left in the loop
        runner.get_loop().run_forever()


def is_own_exit(why: BaseException) -> bool:
    """Return true if claw itself ends here, and not a plugin that raises such an exception: our own
    cancellation, a stream that we close, the person's Ctrl-C. That arrives in the main thread only, where a running
    loop turns it into a cancellation (``asyncio.Runner``): a KeyboardInterrupt there is a plugin's.
    """
    if isinstance(why, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    if isinstance(why, KeyboardInterrupt):
        is_main = threading.current_thread() is threading.main_thread()
        return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return isinstance(why, GeneratorExit)


async def isolated(step: Awaitable[T]) -> T:
    """Wait for a plugin's coroutine.

    :raises ProcessExitRaised: in place of an exception that would end the process, or that pretends that we were
        cancelled. Any other ``Exception`` passes through.
    """
    try:
        return await step
    except Exception:
        raise
    except BaseException as why:
        if is_own_exit(why):
            raise
        raise ProcessExitRaised(describe_exception(why)) from why


def in_loop(
    loop: asyncio.AbstractEventLoop, step: Callable[..., Coroutine[Any, Any, T]], *first: Any
) -> Callable[..., Awaitable[T]]:
    """Return a coroutine function that runs ``step(*first, …)`` in ``loop``, whichever loop calls it."""

    async def call(*values: Any, **named: Any) -> T:
        if asyncio.get_running_loop() is loop:
            return await step(*first, *values, **named)
        running = asyncio.run_coroutine_threadsafe(step(*first, *values, **named), loop)
        return await asyncio.wrap_future(running)

    return call


async def within(
    seconds: float | None,
    step: Awaitable[T],
    grace_seconds: float = DEFAULT_TIMEOUTS.grace_seconds,
    on_abandoned: Callable[[], None] = lambda: None,
) -> T:
    """Wait for a plugin's coroutine as :func:`isolated` does, for at most ``seconds``.

    :param grace_seconds: a coroutine that ignores its cancellation is abandoned after this time.
    :raises TimeoutError: it did not return.
    """
    task = asyncio.ensure_future(isolated(step))
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            # One that was cancelled before it began would warn that nobody awaited it.
            if asyncio.iscoroutine(step):
                task.add_done_callback(lambda _: step.close())
            task.add_done_callback(_forget_abandoned)
            _abandoned.add(task)
            if not (await asyncio.wait({task}, timeout=grace_seconds))[0]:
                on_abandoned()
    raise TimeoutError(f"it did not come back within {seconds:g} s")


_abandoned: set["asyncio.Future[Any]"] = set()


def _forget_abandoned(task: "asyncio.Future[Any]") -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()


GRACE_SECONDS = 4.0
"""Time for a cancelled tool to clean up before it is abandoned."""
_LEFT = "the tool {tool} (plugin {plugin}) was stopped but did not end: it was abandoned and its result is discarded"
_log = logging.getLogger(__name__)


async def check_and_run(tool: Tool, arguments: Any, context: ToolContext) -> ToolResult:
    """Check the arguments, then :func:`run_tool` the tool."""
    kept, problem = validate(tool, arguments)
    return ToolResult(problem, is_error=True) if problem else await run_tool(tool, kept, context)


async def run_tool(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, grace_seconds: float = GRACE_SECONDS
) -> ToolResult:
    """Run a tool with arguments that :func:`claw.contracts.tool.validate` accepted.

    It raises nothing but ``CancelledError``.

    :param grace_seconds: a tool that does not end within this time of its cancellation is abandoned.
    """

    def log_abandoned() -> None:
        _log.warning(t(_LEFT, tool=tool.name, plugin=tool.plugin or "-"))

    step, seconds = _isolated(tool, arguments, context), tool.timeout_seconds
    try:
        return await within(seconds, step, grace_seconds, log_abandoned)
    except TimeoutError:
        template = "{tool} took longer than {seconds:g} s and was stopped"
        return ToolResult(t(template, tool=tool.name, seconds=seconds or 0), is_error=True)


async def _isolated(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """Run the tool and return a result, whatever the plugin does. Only our own cancellation passes through."""
    try:
        return _as_result(tool, await tool.run(arguments, context))
    except ToolError as error:
        return ToolResult(repair_text(isolation.text_of(error) or type(error).__name__), is_error=True)
    except BaseException as error:
        if is_own_exit(error):
            raise
        _log.info("tool %s of plugin %s raised", tool.name, tool.plugin, exc_info=error)
        isolation.show_traceback(error)
        message, place = isolation.text_of(error).strip(), location_of(error)
        if " " not in message:  # KeyError('x') says nothing without its name
            message = f"{type(error).__name__}: {message}".removesuffix(": ")
        details = {"error": type(error).__name__, "plugin": tool.plugin}
        message = attributed(tool, message) + (f" [{place}]" if place else "")
        return ToolResult(repair_text(message), details, is_error=True)


def _as_result(tool: Tool, answer: Any) -> ToolResult:
    if isinstance(answer, dict):
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        return ToolResult(repair_text(text), details=answer)
    result = ToolResult(answer) if isinstance(answer, str) else answer
    content = result.content if isinstance(result, ToolResult) else None
    if isinstance(content, str):
        return replace(result, content=repair_text(content))
    if isinstance(content, list | tuple) and all(isinstance(block, Text | Image) for block in content):
        blocks = (Text(repair_text(block.text)) if isinstance(block, Text) else block for block in content)
        return replace(result, content=tuple(blocks))
    kind = "ToolResult(content=…)" if isinstance(answer, ToolResult) else type(answer).__name__
    wrong = t("{tool} returned {kind}; a tool must return str, dict or ToolResult", tool=tool.name, kind=kind)
    return ToolResult(attributed(tool, wrong), is_error=True)
