"""A connection to one server: opened at the first call, reopened with backoff when it broke."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from claw import ClawError, ToolError, t

from claw_mcp import sdk
from claw_mcp.logins import LoginNeeded
from claw_mcp.offers import all_offers, full_name
from claw_mcp.record import Offer, pause_seconds
from claw_mcp.requests import ServerRequests, outside_calls
from claw_mcp.settings import ServerSettings

_log = logging.getLogger(__name__)
T = TypeVar("T")

LONGEST_PAUSE_SECONDS = 60.0
END_SECONDS = 4.0
_PAGES = 50


class Unreachable(ToolError):
    """A server could not be reached.

    :param said: the last lines it wrote to stderr.
    :param needs_login: it answered 401: a person has to log in.
    """

    said: tuple[str, ...] = ()
    needs_login = False


@dataclass
class _Session:
    """One session of the connection. The SDK wants its session entered and left by one task, so a task owns
    it.

    :param ready: the client, or the error instead.
    :param refused: why the server does not accept the authorization of requests any more; the session is over then.
    """

    loop: asyncio.AbstractEventLoop
    ready: "asyncio.Future[Any]"
    refused: ClawError | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    changed: bool = False
    task: "asyncio.Task[None] | None" = None

    @property
    def alive(self) -> bool:
        return (
            self.loop.is_running()
            and self.task is not None
            and not self.task.done()
            and not self.over.is_set()
        )


class ServerConnection:
    """The connection to one server.

    :param on_offers: called with the server's tools each time they were listed.
    :param clock: seconds that only grow.
    """

    def __init__(
        self,
        name: str,
        server: ServerSettings,
        place: sdk.SessionEnvironment,
        on_offers: Callable[[tuple[Offer, ...]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.server, self.place = name, server, place
        self.requests = ServerRequests(name, server)
        self._record_offers, self._clock = on_offers, clock
        self._withheld: set[str] = set()
        self._session: _Session | None = None
        self._lock: asyncio.Lock | None = None
        self._failures, self._next_try, self._why, self._needs_login = 0, 0.0, "", False

    async def offers(self) -> tuple[Offer, ...]:
        """Connect to the server and list its tools."""
        client = await self._client()
        offers = await self._list(client)
        self._record_offers(offers)
        return offers

    async def ask(self, request: Callable[[Any], Awaitable[T]], *, again: bool) -> T:
        """Send one request to the server.

        :param again: it may be sent a second time when the session is lost meanwhile.
        :raises Unreachable: the server cannot be reached.
        :raises ToolError: the session was lost meanwhile, or the server refused.
        """
        client = await self._client()
        try:
            if self._session and self._session.changed:
                self._session.changed = False
                self._record_offers(await self._list(client))
            answer = await request(client)
        except ClawError:
            raise
        except Exception as why:  # errors of the SDK and the transport, of any type
            if self._session and self._session.refused:
                raise await self._failed(self._session.refused) from why
            if not sdk.is_lost(why):
                raise ToolError(
                    "the MCP server {name} answered: {why}", name=self.name, why=_in_words(_first_cause(why))
                ) from why
            await self._drop()
            if again:
                return await self.ask(request, again=False)
            raise ToolError(
                "the MCP server {name} went away during the call; whether it was carried out is not known",
                name=self.name,
            ) from why
        self._failures = 0
        return answer

    async def close(self) -> None:
        """End the session, and the program if one was started."""
        await self._drop()

    async def _client(self) -> Any:
        if self._lock is None or (self._session and self._session.loop is not asyncio.get_running_loop()):
            self._lock, self._session = asyncio.Lock(), None
        async with self._lock:
            if self._session and self._session.alive:
                return self._session.ready.result()
            wait = self._next_try - self._clock()
            if wait > 0:
                template = "the MCP server {name} is not there ({why}); it is tried again in {seconds:.0f} s"
                raise self._error(template, seconds=max(wait, 1))
            return await self._connect()

    async def _connect(self) -> Any:
        if fault := self.server.config_fault(self.name):
            raise self._unreachable(fault, [])
        loop = asyncio.get_running_loop()
        new = _Session(loop, loop.create_future())
        stderr_tail = sdk.StderrTail(self.server.secrets)
        running, named = self._run_session(new, stderr_tail), f"mcp {self.name}"
        new.task = loop.create_task(running, name=named, context=outside_calls())
        self._session = new
        try:
            async with asyncio.timeout(
                self.server.connect_seconds
            ):  # no wait_for: in 3.11 it can lose a cancellation
                client = await asyncio.shield(new.ready)
            if not isinstance(client, BaseException):
                async with asyncio.timeout(self.server.connect_seconds):
                    self._record_offers(await self._list(client))
                return client
            why: BaseException = client
        except asyncio.CancelledError:
            new.over.set()
            new.task.cancel()
            raise
        except Exception as wrong:  # noqa: BLE001  the SDK's, by whatever name
            why = new.refused or wrong
        raise await self._failed(why, stderr_tail)

    async def _failed(self, why: BaseException, stderr_tail: sdk.StderrTail | None = None) -> Unreachable:
        """End the session, let some time pass before the next attempt, and return the error."""
        await self._drop()
        self._failures += 1
        self._next_try = self._clock() + pause_seconds(self._failures, LONGEST_PAUSE_SECONDS)
        return self._unreachable(why, stderr_tail.settle() if stderr_tail else [])

    def _unreachable(self, why: BaseException, said: list[str]) -> Unreachable:
        leaf = _first_cause(why)
        if isinstance(leaf, TimeoutError):
            self._why = f"no answer within {self.server.connect_seconds:g} s"
        elif isinstance(leaf, ClawError):
            self._why = str(leaf)
        else:
            has_ended = isinstance(leaf, ConnectionError) or sdk.is_lost(leaf)
            self._why = said[-1] if said and has_ended else _in_words(leaf)
        self._needs_login = isinstance(leaf, LoginNeeded)
        error = self._error("the MCP server {name} could not be reached: {why}")
        error.said = tuple(said)
        return error

    def _error(self, template: str, **values: object) -> Unreachable:
        find, log_in = (
            "The operator finds the cause with: claw mcp refresh {name}",
            "The operator logs in with: claw mcp login {name}",
        )
        fix = log_in if self._needs_login else find
        error = Unreachable(template, fix=fix, name=self.name, why=self._why, **values)
        error.needs_login = self._needs_login
        return error

    async def _run_session(self, new: _Session, stderr_tail: sdk.StderrTail) -> None:
        def changed() -> None:
            new.changed = True

        def refused(why: ClawError) -> None:
            new.refused = why
            new.over.set()  # so that no request waits for a response

        try:
            callbacks = self.requests.callbacks
            events = sdk.SessionEvents(new.over.set, changed, self._withhold, refused, callbacks)
            async with sdk.session(self.server, self.place, stderr_tail, events) as client:
                stderr_tail.close()
                new.ready.set_result(client)
                await new.over.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as why:  # noqa: BLE001  reported through ``ready``, unless the session was over
            if not new.ready.done():
                new.ready.set_result(why)
        finally:
            new.over.set()
            stderr_tail.close()
            stderr_tail.kill()  # children of a server that has ended, or the server if this task was cancelled
            if not new.ready.done():
                new.ready.set_result(ConnectionError("it ended"))

    async def _drop(self) -> None:
        gone, self._session = self._session, None
        if gone is None or gone.task is None or gone.loop is not asyncio.get_running_loop():
            return
        gone.over.set()
        done, _ = await asyncio.wait({gone.task}, timeout=END_SECONDS)
        if not done:
            gone.task.cancel()
            await asyncio.wait({gone.task}, timeout=END_SECONDS)

    async def _list(self, client: Any) -> tuple[Offer, ...]:
        has = client.server_capabilities
        tools = await pages(client.list_tools, "tools") if has.tools is not None else []
        # Many servers claim both and have none: then no tools are registered for them.
        resources = has.resources is not None and (
            await _has_any(client.list_resources, "resources")
            or await _has_any(client.list_resource_templates, "resource_templates")
        )
        prompts = has.prompts is not None and await _has_any(client.list_prompts, "prompts")
        named = dict[str, Offer]()
        for offer in all_offers(tools, resources=resources, prompts=prompts):
            first = named.setdefault(full_name(self.name, offer.name), offer)
            if first is not offer:
                why = t("the tool {tool} has the same name here", tool=first.name)
                self._withhold(offer.name, why)
        return (*named.values(),)

    def _withhold(self, tool: str, why: str) -> None:
        """Log that a tool is left out, once."""
        said = t(
            "the tool {tool} of the MCP server {name} is withheld: {why}", tool=tool, name=self.name, why=why
        )
        if said not in self._withheld:
            self._withheld.add(said)
            _log.warning(said)


async def pages(ask: Callable[..., Awaitable[Any]], what: str) -> list[Any]:
    """Return all pages of a list."""
    found: list[Any] = []
    cursor = None
    for _ in range(_PAGES):
        page = await ask(cursor=cursor)
        found += getattr(page, what)
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


async def _has_any(ask: Callable[..., Awaitable[Any]], what: str) -> bool:
    """Return true if the server lists something; one that claims the list, and refuses the request, has nothing."""
    try:
        return bool(await pages(ask, what))
    except Exception as why:  # errors of the SDK and the transport, of any type
        if sdk.is_lost(why):
            raise
        return False


def _in_words(why: BaseException) -> str:
    """Return an error in one line; of an answer that the SDK cannot read, where it differs."""
    if not isinstance(why, ValueError) or not hasattr(why, "errors"):
        return " ".join(str(why).split()) or type(why).__name__
    return t("the MCP SDK cannot read its answer ({fault})", fault=sdk.first_fault(why))


def _first_cause(why: BaseException) -> BaseException:
    """Return the first exception in a group that is not a group."""
    while isinstance(why, BaseExceptionGroup):
        why = why.exceptions[0]
    return why
