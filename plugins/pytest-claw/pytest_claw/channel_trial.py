"""The environment of a channel test: the service behind the channel, as its author's fake plays it, and an
inbox.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any, Protocol

import pytest
from claw import Address, Channel, DeliveryError, Inbound, Outbound, Receipt

CHAT_TYPES = ("direct", "group", "channel")
_LONGEST_PAUSE_SECONDS = 2.0  # the longest requested pause that a suite waits for
_GRACE_SECONDS = 0.2  # for a cancelled task
_of_channel: ContextVar[bool] = ContextVar("of_channel", default=False)


class ServiceSide(Protocol):
    """A channel and its scripted service. All but ``address`` may be async; an attribute may be a method.

    ``FakeChannel`` is such a place by itself; one whose channel is another object has it as ``channel``. A method
    that makes no sense for a service is left out, and the suite lists it in its ``without``.
    """

    channel: Channel
    """The channel under test; it does not run yet."""
    shown: list[str]
    """The channel's messages that people see now in the chat of :meth:`address`, in order."""
    acknowledged: list[Any]
    """One item for each delivery that the service takes for acknowledged. Without: ``acknowledgement``."""

    def address(self) -> Address:
        """The direct chat in which people write, as the channel addresses it."""
        ...

    def says(self, text: str) -> Any:
        """A person writes ``text`` in that chat."""
        ...

    def again(self) -> Any:
        """The service delivers the last message a second time."""
        ...

    def says_in_group(self, text: str, mention: str) -> Any:
        """A person writes in a group; ``mention`` is ``us``, ``namesake`` (of another who is called so), or empty."""
        ...

    def bot_says(self, text: str) -> Any:
        """Another bot writes, where people write. Without: ``bots``."""
        ...

    def disconnect(self) -> Any:
        """The connection breaks; the service can be reached again at once."""
        ...

    def fail_next(self, how: str, seconds: float, *, edit: bool) -> Any:
        """The next request to send a message (with ``edit``: to rewrite one) fails.

        ``refused``: it will never be taken. ``busy``: come again in so many seconds. ``down``: an error of the service's.
        ``lost``: it is carried out, and the connection breaks before the answer.
        """
        ...

    def hang_next(self) -> Any:
        """The service never answers the next request to send, and does not carry it out."""
        ...

    def impostor(self) -> Channel:
        """A channel like the one that is tried, with credentials that the service does not know."""
        ...


class RecordingInbox:
    """An inbox that accepts every message.

    :ivar answers: its first answers; after them it answers True.
    :ivar open: while it is not set, no call gets an answer.
    """

    def __init__(self, *answers: bool) -> None:
        self.received: list[Inbound] = []
        self.answers = list(answers)
        self.open = asyncio.Event()
        self.open.set()

    async def submit(self, inbound: Inbound) -> bool:
        """Record the message."""
        self.received.append(inbound)
        await self.open.wait()
        return self.answers.pop(0) if self.answers else True

    @property
    def texts(self) -> list[str]:
        """The texts of the messages, in order."""
        return [one.text for one in self.received]


class ChannelTrial:
    """One place under test, with the operations of the tests. Belongs to the loop in which it was made.

    :param suite: supplies the time limits.
    """

    def __init__(self, place: Any, suite: Any) -> None:
        self.place, self.suite = place, suite
        self.channel: Any = getattr(place, "channel", place)
        self.inbox = RecordingInbox()
        self._questions, self._question = count(1), dict[str, Any]()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._context = copy_context()
        self._context.run(_of_channel.set, True)
        asyncio.get_running_loop().set_task_factory(self._make_task)

    async def does(self, name: str, *given: Any, **more: Any) -> Any:
        """Run an action of people or the service."""
        act = getattr(self.place, name, None)
        if act is None:
            what = (inspect.getdoc(getattr(ServiceSide, name)) or "").split("\n")[0]
            pytest.fail(f"the place of {type(self.suite).__name__} has no `{name}`: {what}", pytrace=False)
        answer = act(*given, **more) if callable(act) else act
        return await answer if inspect.isawaitable(answer) else answer

    async def shown(self) -> list[str]:
        """Return the channel's messages that people see."""
        return [self.suite.plain(one) for one in await self.does("shown")]

    async def acknowledged(self) -> int:
        """Return how many deliveries the service takes for acknowledged."""
        return len(await self.does("acknowledged"))

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something holds; ``what`` says what did not happen."""
        try:
            async with asyncio.timeout(self.suite.limit_seconds):
                while not (await found if inspect.isawaitable(found := holds()) else found):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        except TimeoutError:
            pytest.fail(what, pytrace=False)

    async def received(self, text: str) -> Inbound:
        """Wait for the message whose text contains ``text``."""

        def found() -> Inbound | None:
            return next((one for one in self.inbox.received if text in one.text), None)

        await self.until(found, f"{text!r} was not handed in")
        came = found()
        assert came is not None
        return came

    async def until_shown(self, *messages: str) -> None:
        """Wait until people see exactly these."""

        async def holds() -> bool:
            return await self.shown() == list(messages)

        try:
            await self.until(holds, "")
        except pytest.fail.Exception:
            assert await self.shown() == list(messages), "what people see"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RecordingInbox]:
        """Run the channel, from when it is up until it is cancelled."""
        task = self.start(self.channel.run(self.inbox))
        try:
            await self._until_listening(task)
            yield self.inbox
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=self.suite.stop_seconds)

    async def close(self) -> None:
        """Close what the channel keeps open."""
        if close := getattr(self.channel, "close", None):
            closing = close()
            if inspect.isawaitable(closing):
                await closing

    def start(self, doing: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Start a coroutine of the channel: tasks that it makes are known as its own, apart from those of
        the service.
        """
        return asyncio.get_running_loop().create_task(doing, context=self._context.copy())

    @property
    def tasks(self) -> set["asyncio.Task[Any]"]:
        """The channel's own tasks that have not ended."""
        return {task for task in self._tasks if not task.done()}

    async def left(self, before: "set[asyncio.Task[Any]] | None" = None) -> list[str]:
        """Describe the channel's tasks that have not ended and are not in ``before``."""
        if tasks := self.tasks - (before or set()):
            await asyncio.wait(tasks, timeout=_GRACE_SECONDS)
        return [str(task.get_coro()) for task in tasks if not task.done()]

    async def question(self) -> dict[str, Any]:
        """Return the fields of a message that answers a person, who asks now if no question waits. Empty for a service in
        which a channel may write unasked.
        """
        if "pushes" in self.suite.without and not self._question:
            text = f"question {next(self._questions)}"
            await self.does("says", text)
            asked = await self.received(text)
            self._question = {"address": asked.address, "answers": asked.message_id}
        return self._question

    def outbound(self, text: str, key: str = "key-1", **more: Any) -> Outbound:
        """Return a message to send in the chat of the place, or at another ``address``."""
        return Outbound(key, more.pop("address", None) or self.place.address(), text, **more)

    async def send(self, text: str, key: str = "key-1", **more: Any) -> Receipt:
        """Send it; a send that does not end in time fails the test."""
        fields = {**await self.question(), **more}
        receipt: Receipt = await self._in_time(self.channel.send(self.outbound(text, key, **fields)), "send")
        self._question = {}
        return receipt

    async def deliver(self, text: str, key: str = "key-1") -> Receipt:
        """Send it as claw does: retry while the error is temporary."""
        until = asyncio.get_running_loop().time() + self.suite.limit_seconds
        while True:
            try:
                return await self.send(text, key)
            except DeliveryError as why:
                if why.permanent or why.outcome_unknown or asyncio.get_running_loop().time() > until:
                    raise
            await asyncio.sleep(0.01)

    async def refusal(self, how: str, seconds: float = 60.0, **more: Any) -> DeliveryError:
        """Return the error of ``send`` when the service fails in this way."""
        await self.does("fail_next", how, seconds, edit=False)
        try:
            await self.send("hello", **more)
        except DeliveryError as why:
            return why
        except Exception as other:  # noqa: BLE001 - whatever it is, it is the finding
            pytest.fail(
                f"{how}: send raised {type(other).__name__}, which is no DeliveryError: {other}",
                pytrace=False,
            )
        pytest.fail(f"{how}: send answered as if the service had taken it", pytrace=False)

    async def finish(self, writer: Any, text: str) -> Receipt:
        """Finish a streaming reply as claw does: retry while the service only asks for a pause."""
        outbound = self.outbound(text, **await self.question())
        for _ in range(8):
            try:
                receipt: Receipt = await self._in_time(writer.finish(outbound), "finish")
            except DeliveryError as why:
                if why.permanent:
                    raise
                await asyncio.sleep(min(why.retry_after_seconds or 0.05, _LONGEST_PAUSE_SECONDS))
            else:
                self._question = {}
                return receipt
        pytest.fail("finish failed eight times", pytrace=False)

    async def _in_time(self, doing: Any, what: str) -> Any:
        task = self.start(doing)
        done, _ = await asyncio.wait({task}, timeout=self.suite.limit_seconds)
        if not done:
            task.cancel()
            pytest.fail(
                f"{what} did not end within {self.suite.limit_seconds:g} s: one attempt, no waiting",
                pytrace=False,
            )
        return task.result()

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        doing: Any,
        context: Context | None = None,
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(doing, loop=loop, context=context)
        if (context or copy_context()).get(_of_channel):
            self._tasks.add(task)
        return task

    async def _until_listening(self, task: "asyncio.Task[None]") -> None:
        """Wait until it listens: by its state, or without one by a message that arrives."""
        if hasattr(self.channel, "state"):
            await self.until(
                lambda: task.done() or self.channel.state.state == "up", "its state never became `up`"
            )
        else:
            await self.does("says", "are you there?")
            await self.until(lambda: task.done() or self.inbox.received, "nothing is handed in")
            await asyncio.sleep(0.02)
            self.inbox.received.clear()
        if task.done():
            task.result()
            pytest.fail("run ended by itself: it listens until it is cancelled", pytrace=False)


@contextmanager
def quick(seconds: float, what: str) -> Iterator[None]:
    """Fail if the block takes longer."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    yield
    took = clock() - begun
    assert took <= seconds, f"{what} took {took:.1f} s"
