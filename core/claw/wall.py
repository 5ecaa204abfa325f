"""The wall: a stranger's code, run within limits of time, output, folder and signals.

In-process code is trusted code (SECURITY.md); the wall keeps accidents from the house, not attacks.
"""

import asyncio
import contextlib
import io
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TextIO, TypeVar

T = TypeVar("T")

_PRINTED_CHARS = 2000
_IDLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Leeway:
    """What strangers are given before the house goes on without them: seconds, where it does not say times.

    :param hook_seconds: for one ``register_*`` hook to answer.
    :param section_keep_seconds: how long a stable section is good for without being asked again.
    :param late_times: one that was late so often in a turn is not asked again.
    :param yard_seconds: for a yard to show that nobody blocks it.
    :param silence_seconds: for a provider between two events of one answer. The last resort: providers have a
        ``timeoutSeconds`` of their own.
    :param tries: how often in a row a channel may stop listening before it is set aside.
    :param pause_seconds: before the first new try of a channel; doubled each time.
    :param stop_seconds: for answers under way, and then for channels, when the house stops.
    :param grace_seconds: for one that was told to stop, before it is left behind.
    """

    import_seconds: float = 20.0
    hook_seconds: float = 10.0
    review_seconds: float = 5.0
    filter_seconds: float = 5.0
    observe_seconds: float = 2.0
    section_seconds: float = 5.0
    section_keep_seconds: float = 3.0
    late_times: int = 2
    yard_seconds: float = 0.5
    silence_seconds: float = 3600.0
    tries: int = 5
    pause_seconds: float = 1.0
    send_seconds: float = 30.0
    stop_seconds: float = 10.0
    close_seconds: float = 5.0
    grace_seconds: float = 1.0


USUAL = Leeway()


class Escaped(Exception):
    """A stranger raised what would have ended the process (``SystemExit`` …); the text says what."""


class Printed(io.TextIOBase):
    """Takes what a stranger prints; keeps the beginning, so that nothing it prints gets between claw and a person."""

    def __init__(self) -> None:
        self.beginning, self.chars = "", 0

    def writable(self) -> bool:
        """It always is."""
        return True

    def write(self, text: str) -> int:
        """Count all, keep little."""
        if len(self.beginning) < _PRINTED_CHARS:
            self.beginning += text[: _PRINTED_CHARS - len(self.beginning)]
        self.chars += len(text)
        return len(text)


def bounded(
    run: Callable[[], T], seconds: float, threads: Callable[[BaseException], None] = lambda why: None
) -> T:
    """Run a stranger's code for at most so long, in a thread that is left behind when it hangs.

    The working folder is put back afterwards; what it prints is swallowed; signal handlers it sets are not set.

    :param threads: told what a thread raised that it started meanwhile.
    :raises TimeoutError: it did not come back. Whatever else it raises comes through.
    """
    outcome: list[T] = []
    raised: list[BaseException] = []

    def inside() -> None:
        try:
            outcome.append(run())
        except BaseException as why:  # noqa: BLE001 - handed on to the caller
            raised.append(why)

    with _folder_kept(), _signals_kept(), _threads_heard(threads), contextlib.redirect_stdout(Printed()):
        thread = threading.Thread(target=inside, daemon=True, name="claw-plugin")
        thread.start()
        thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"it did not come back within {seconds:g} s")
    if raised:
        raise raised[0]
    return outcome[0]


def is_ours(why: BaseException) -> bool:
    """Whether it is the house that ends here, and not a stranger who says so: our own cancelling, a stream that we
    close, the person's Ctrl-C (which comes to the main thread alone)."""
    if isinstance(why, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    if isinstance(why, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    return isinstance(why, GeneratorExit)


async def survived(step: Awaitable[T]) -> T:
    """Wait for a stranger's coroutine.

    :raises Escaped: in place of what would end the process, or pretend that we were cancelled. Any other ``Exception``
        comes through.
    """
    try:
        return await step
    except Exception:
        raise
    except BaseException as why:
        if is_ours(why):
            raise
        raise Escaped(name_of(why)) from why


async def within(seconds: float, step: Awaitable[T], grace_seconds: float = USUAL.grace_seconds) -> T:
    """:func:`survived`, for at most so long.

    :param grace_seconds: one that does not even end when it is cancelled is left behind after this time.
    :raises TimeoutError: it did not come back.
    """
    task = asyncio.ensure_future(survived(step))
    try:
        await _over(task, seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_heard)
            _left_behind.add(task)
    await _over(task, grace_seconds)
    raise TimeoutError(f"it did not come back within {seconds:g} s")


async def _over(task: "asyncio.Task[Any]", seconds: float) -> None:
    """Until it is done, for at most so long: ``asyncio.wait`` for one task, at a third of its cost."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def end(*_: Any) -> None:
        if not over.done():
            over.set_result(None)

    task.add_done_callback(end)
    timer = loop.call_later(seconds, end)
    try:
        await over
    finally:
        timer.cancel()
        task.remove_done_callback(end)


_left_behind: set["asyncio.Future[Any]"] = set()


def _heard(task: "asyncio.Future[Any]") -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()


@contextlib.contextmanager
def own_stdout() -> Iterator[TextIO]:
    """Claw's own stdout, for claw alone: what strangers, or programs they start, print meanwhile is swallowed."""
    real = sys.stdout
    try:
        ours = real.fileno() == 1
    except (OSError, ValueError):
        ours = False
    if not ours:  # somebody has put something else in its place, and no program can inherit that
        with contextlib.redirect_stdout(Printed()):
            yield real
        return
    real.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    try:
        with (
            os.fdopen(kept, "w", encoding=real.encoding, errors=real.errors, closefd=False) as own,
            contextlib.redirect_stdout(Printed()),
        ):
            yield own
    finally:
        os.dup2(kept, 1)
        os.close(kept)


class Threads:
    """At most ``width`` calls at once, each in a daemon thread: one that hangs does not keep the process from ending.

    (A ``ThreadPoolExecutor`` is joined when the interpreter ends, so a hanging tool would hold the terminal.) A thread
    waits a while for the next call, as making one costs more than most calls.
    """

    def __init__(self, width: int, name: str) -> None:
        self._width, self._name = width, name
        self._alive = self._idle = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._guard = threading.Condition()

    async def run(self, call: Callable[[], T]) -> T:
        """The answer of ``call``, which must not raise. Who is cancelled while he waits for a thread leaves the queue."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            if not answer.cancelled():
                result = call()
                with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                    loop.call_soon_threadsafe(_settle, answer, result)

        with self._guard:
            self._waiting.append(work)
            start = self._idle < len(self._waiting) and self._alive < self._width
            self._alive += start
            self._guard.notify()
        if start:
            threading.Thread(target=self._work, daemon=True, name=self._name).start()
        return await answer

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._waiting:
                    self._idle += 1
                    self._guard.wait(_IDLE_SECONDS)
                    self._idle -= 1
                if not self._waiting:
                    self._alive -= 1
                    return
                work = self._waiting.popleft()
            work()


def _settle(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def name_of(why: BaseException) -> str:
    """What an exception says, also when saying it raises."""
    try:
        text = str(why)
    except BaseException:  # noqa: BLE001 - a stranger's __str__
        text = ""
    if isinstance(why, Escaped):
        return text
    return f"{type(why).__name__}: {text}" if text else type(why).__name__


@contextlib.contextmanager
def _folder_kept() -> Iterator[None]:
    try:
        before = os.getcwd()
    except FileNotFoundError:  # somebody removed it; there is nothing to keep
        yield
        return
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _threads_heard(tell: Callable[[BaseException], None]) -> Iterator[None]:
    """What a stranger's own thread raises is told here and not printed over the person's screen."""
    before = threading.excepthook

    def hook(raised: threading.ExceptHookArgs) -> None:
        if raised.exc_value is not None:
            tell(raised.exc_value)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Signals belong to the house: while strangers load, setting a handler off the main thread does nothing."""
    real = signal.signal

    def kept(number: int, handler: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            return real(number, handler)
        return signal.getsignal(number)

    signal.signal = kept  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = real
