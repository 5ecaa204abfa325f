"""The wall: a stranger's code, run within limits of time, output, folder and signals.

In-process code is trusted code (SECURITY.md); the wall keeps accidents from the house, not attacks.
"""

import asyncio
import contextlib
import io
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_PRINTED_CHARS = 2000
_IDLE_SECONDS = 10.0


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
        raise TimeoutError(f"it did not come back within {seconds:.0f} s")
    if raised:
        raise raised[0]
    return outcome[0]


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
