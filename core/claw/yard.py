"""The yard: for each plugin an event loop of its own, in a thread, for what it does during a turn.

What blocks there stops that plugin, not the house and not its neighbours. A yard that is stuck is left behind, and a
new one takes its place.
"""

import asyncio
import contextlib
import inspect
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from claw.wall import USUAL, Leeway, name_of, survived

STRAYS = 1000
"""Tasks that a plugin may leave behind in its yard; beyond it they are cancelled."""


class Yard:
    """The loops, each made at the first need.

    :param overheard: told whose forgotten task failed, and what it raised.
    """

    def __init__(
        self, leeway: Leeway = USUAL, overheard: Callable[[str, str], None] = lambda who, why: None
    ) -> None:
        self.leeway = leeway
        self._overheard = overheard
        self._loops: dict[str, asyncio.AbstractEventLoop] = {}
        self._late: Counter[str] = Counter()

    async def ask(
        self, step: Callable[..., Any | Awaitable[Any]], *values: Any, seconds: float, who: str = ""
    ) -> Any:
        """Call ``step`` in the yard of ``who``, sync or async, and wait for its answer for at most ``seconds``.

        :param who: the plugin that answers; one that was late ``leeway.late_times`` is not asked again.
        :raises TimeoutError: it did not answer; when it blocks the loop, the yard is left behind.
        :raises Escaped: it raised what would end the process. Whatever else it raises comes through.
        """
        if who and self._late[who] >= self.leeway.late_times:
            raise TimeoutError(f"it did not answer {self._late[who]} times, and is not asked again")
        loop = self._running(who)

        async def inside() -> Any:
            answer = step(*values)
            answer = await answer if inspect.isawaitable(answer) else answer
            if len(strays := asyncio.all_tasks() - {asyncio.current_task()}) > STRAYS:
                for task in strays:  # somebody starts tasks and never waits for them
                    task.cancel()
            return answer

        future = asyncio.run_coroutine_threadsafe(survived(inside()), loop)
        try:  # no wait_for: in Python 3.11 it loses a cancelling that comes together with the answer
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if future.done() and not future.cancelled():
                raise  # it is the stranger's own
            self._late[who] += 1
            future.cancel()
            if not await _answers(loop, self.leeway.yard_seconds):
                self._loops.pop(who, None)  # that thread stays with him who blocks it
            raise TimeoutError(f"it did not answer within {seconds:g} s") from None

    def close(self) -> None:
        """End the loops; a task that somebody left there is cancelled, a blocked thread is a daemon."""
        loops, self._loops = self._loops, {}
        for loop in loops.values():
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(_end, loop)

    def _running(self, who: str) -> asyncio.AbstractEventLoop:
        loop = self._loops.get(who)
        if loop is None or loop.is_closed():  # a forgotten task that raises SystemExit ends its loop
            loop = self._loops[who] = asyncio.new_event_loop()
            loop.set_exception_handler(partial(self._hear, who))
            threading.Thread(target=_live, args=(loop,), daemon=True, name="claw-yard").start()
        return loop

    def _hear(self, who: str, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        why = context.get("exception")
        self._overheard(who, name_of(why) if why else str(context.get("message")))


async def _answers(loop: asyncio.AbstractEventLoop, seconds: float) -> bool:
    here = asyncio.get_running_loop()
    alive = here.create_future()
    with contextlib.suppress(TimeoutError, RuntimeError):
        loop.call_soon_threadsafe(_answer_to, here, alive)
        async with asyncio.timeout(seconds):
            await alive
        return True
    return False


def _live(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _end(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.call_later(0.2 if tasks else 0, loop.stop)


def _answer_to(loop: asyncio.AbstractEventLoop, alive: "asyncio.Future[None]") -> None:
    with contextlib.suppress(RuntimeError):  # who asked is gone
        loop.call_soon_threadsafe(_settle, alive)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
