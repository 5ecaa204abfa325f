"""The yard: an event loop of their own, in a thread, for what plugins do during a turn.

What blocks there stops plugins, not the house. A yard that is stuck is left behind, and a new one takes its place.
"""

import asyncio
import contextlib
import inspect
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 2
STRAYS = 1000
"""Tasks that plugins may leave behind in the yard; beyond it they are cancelled."""


class Yard:
    """One loop in one daemon thread, made at the first need."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._late: Counter[str] = Counter()

    async def ask(
        self, step: Callable[..., Any | Awaitable[Any]], *values: Any, seconds: float, who: str = ""
    ) -> Any:
        """Call ``step`` in the yard, sync or async, and wait for its answer for at most ``seconds``.

        :param who: the plugin that answers; one that was late ``PATIENCE`` times is not asked again.
        :raises TimeoutError: it did not answer; when it blocks the loop, the yard is left behind.
        """
        if who and self._late[who] >= PATIENCE:
            raise TimeoutError(f"it did not answer {PATIENCE} times, and is not asked again")
        loop = self._running()

        async def inside() -> Any:
            answer = step(*values)
            answer = await answer if inspect.isawaitable(answer) else answer
            if len(strays := asyncio.all_tasks() - {asyncio.current_task()}) > STRAYS:
                for task in strays:  # somebody starts tasks and never waits for them
                    task.cancel()
            return answer

        future = asyncio.run_coroutine_threadsafe(inside(), loop)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except TimeoutError:
            self._late[who] += 1
            future.cancel()
            if not await self._answers(loop):
                self._loop = None  # somebody blocks it: that thread stays with him
            raise TimeoutError(f"it did not answer within {seconds:g} s") from None

    def close(self) -> None:
        """End the loop; a task that somebody left there is cancelled, a blocked thread is a daemon."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(_end, loop)

    async def _answers(self, loop: asyncio.AbstractEventLoop, seconds: float = 0.5) -> bool:
        alive = asyncio.get_running_loop().create_future()
        here = asyncio.get_running_loop()
        loop.call_soon_threadsafe(here.call_soon_threadsafe, _settle, alive)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(alive, seconds)
            return True
        return False

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_live, args=(self._loop,), daemon=True, name="claw-yard").start()
        return self._loop


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


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
