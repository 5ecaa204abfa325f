"""All configured servers: their tools from the records, and the calls to them."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from claw import ClawError, Text, Tool, ToolContext, ToolError, ToolResult, t
from claw_tool_sdk import tool_shares

from claw_mcp import offers, sdk
from claw_mcp.connection import ServerConnection, Unreachable, pages
from claw_mcp.logins import LOGINS, LoginFile
from claw_mcp.record import (
    Offer,
    ServerRecord,
    ServerRecords,
    accepted,
    identity_of,
    pause_seconds,
    with_failure,
    with_offers,
)
from claw_mcp.settings import McpSettings, ServerSettings

LONGEST_PAUSE_SECONDS = 3600.0
"""Maximum pause between attempts to reach a new server."""

_WAIT_SECONDS = 3600.0
"""Maximum time that a server waits for a person or a model during a call, which does not count towards its own limit."""

T = TypeVar("T")
_log = logging.getLogger(__name__)
Request = Callable[[Any], Awaitable[ToolResult | str]]


class Fleet:
    """The configured servers. None is started before the first call of one of its tools.

    :param now: seconds since 1970.
    """

    def __init__(
        self,
        settings: McpSettings,
        records: ServerRecords,
        place: sdk.SessionEnvironment,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.servers: Mapping[str, ServerSettings] = settings.servers
        self._records, self._now = records, now
        self._logins = {
            name: LoginFile(records.folder / LOGINS, name, server.url, place.learn)
            for name, server in self.servers.items()
            if server.url
        }
        self._links = {
            name: ServerConnection(
                name, server, replace(place, login=self._logins.get(name)), partial(self._record_offers, name)
            )
            for name, server in self.servers.items()
        }
        self._digests: dict[str, dict[str, str]] = {}

    def login(self, name: str) -> LoginFile | None:
        """Return the login at a server; None for a program."""
        return self._logins.get(name)

    def record(self, name: str) -> ServerRecord:
        """Return the record of a server."""
        return self._records.read(name, identity_of(self.servers[name].identity))

    def tools(self) -> list[Tool]:
        """Return every tool that is known and accepted."""
        visible = {name: self.record(name).visible for name in self.servers}
        shares = tool_shares({name: len(its) for name, its in visible.items()})
        for name, most in shares.items():
            if most < (count := len(visible[name])):
                text = "the MCP server {name} has {count} tools, and the first {most} of them are used"
                _log.warning(t(text, name=name, count=count, most=most))
        used = {name: its[: shares[name]] for name, its in visible.items()}
        return [self._tool(full, server, offer) for full, (server, offer) in offers.known_names(used).items()]

    def unreached(self) -> list[str]:
        """Return the servers that were never reached and are due for an attempt, with exponential backoff. A server
        that a plugin ships waits for the operator.
        """
        records = {name: self.record(name) for name in self.servers}
        return [
            name
            for name, record in records.items()
            if not (record.known or self.servers[name].plugin)
            and self.servers[name].config_fault(name) is None
            and not self.servers[name].lacks_secret
            and self._now() >= record.tried_at + pause_seconds(record.failures * 6, LONGEST_PAUSE_SECONDS)
        ]

    async def connect(self, names: Iterable[str], seconds: float | None = None) -> dict[str, ClawError]:
        """Reach these servers in parallel, and record their tools.

        :param seconds: for all of them together; None = no common limit.
        :returns: those that could not be reached, and why.
        """
        failed: dict[str, ClawError] = {}

        async def one(name: str) -> None:
            if fault := self.servers[name].config_fault(name):
                failed[name] = fault  # a fault of the config file, not of the server: it is not recorded
                return
            try:
                async with asyncio.timeout(seconds):
                    await self._links[name].offers()
            except TimeoutError:
                template = "the MCP server {name} could not be reached: no answer within {seconds:g} s"
                failed[name] = ToolError(template, name=name, seconds=seconds)
            except ClawError as why:
                failed[name] = why
            if name in failed and not self.servers[name].lacks_secret:
                self._records.write(name, with_failure(self.record(name), failed[name], self._now()))

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(one(name))
        return failed

    async def ask(self, name: str, request: Callable[[Any], Awaitable[T]]) -> T:
        """Send a request, which may be repeated, to a server (``mcp.Client``).

        :raises ToolError: it cannot be reached, or refused.
        """
        return await self._links[name].ask(request, again=True)

    def accept(self, name: str, offers: Iterable[str] = ()) -> ServerRecord:
        """Record that the operator accepts the server's present tools."""
        record = accepted(self.record(name), tuple(offers))
        self._records.write(name, record)
        return record

    def forget(self, name: str) -> None:
        """Delete the record of a server, what was accepted of it, and the login at it."""
        self._records.remove(name)
        LoginFile(self._records.folder / LOGINS, name).remove()

    async def close(self) -> None:
        """End every session."""
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def _record_offers(self, name: str, offers: tuple[Offer, ...]) -> None:
        before = self.record(name)
        after = with_offers(before, offers)
        self._digests[name] = {offer.name: offer.digest for offer in offers}
        if after != before:
            self._records.write(name, after)

    def _tool(self, full: str, name: str, offer: Offer) -> Tool:
        server = self.servers[name]
        seconds = server.timeout_seconds + server.connect_seconds

        async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult | str:
            request = _request(offer, arguments, context)

            async def held(client: Any) -> ToolResult | str:
                self._hold(name, offer)
                return await request(client)

            link = self._links[name]
            try:
                async with link.requests.during(context, seconds) as call:
                    result = await link.ask(held, again=offer.effects != "once")
            except TimeoutError:
                template = "{tool} took longer than {seconds:g} s and was stopped"
                raise ToolError(template, tool=full, seconds=seconds) from None
            except Unreachable as why:
                if not self.record(name).why:  # the first cause, not the pause after it
                    self._records.write(name, with_failure(self.record(name), why, self._now()))
                raise
            return _with_notes(result, call.notes)

        return Tool(
            name=full,
            description=offer.description or offer.name,
            parameters=offer.parameters,
            run=run,
            optional=server.optional,
            owner_only=server.owner_only,
            effects=offer.effects,  # type: ignore[arg-type]
            timeout_seconds=seconds + _WAIT_SECONDS,
            close=self.close,
        )

    def _hold(self, name: str, offer: Offer) -> None:
        """Stop a call when the server now describes the tool differently from the accepted description."""
        digests = self._digests.get(name, {})
        if offer.name not in digests:
            raise ToolError("the MCP server {name} has no {tool} any more", name=name, tool=offer.name)
        if digests[offer.name] != offer.digest:
            raise ToolError(
                "the MCP server {name} describes {tool} in another way than was accepted, so it is withheld. "
                "The operator sees the change with: claw mcp show {name}, and accepts it with: claw mcp accept {name}",
                name=name,
                tool=offer.name,
            )


def _with_notes(result: ToolResult | str, notes: list[str]) -> ToolResult | str:
    """Return the result with the notes behind it."""
    if not notes:
        return result
    known = result if isinstance(result, ToolResult) else ToolResult(result)
    return replace(known, content=(*known.blocks, *map(Text, notes)))


def _request(offer: Offer, arguments: dict[str, Any], context: ToolContext) -> Request:
    """Return the request to the server for a model's call."""
    if offer.kind == "tool":
        return partial(_call, offer.name, arguments, context)
    return partial(_GATED[offer.name], arguments)


async def _call(name: str, arguments: dict[str, Any], context: ToolContext, client: Any) -> ToolResult:
    async def progress(done: float, total: float | None, message: str | None) -> None:
        context.progress(message or (f"{done:g} / {total:g}" if total else f"{done:g}"))

    try:
        answer = await client.call_tool(name, arguments, progress_callback=progress)
    except Exception as why:
        if not (addresses := offers.addresses_to_open(why)):
            raise
        template = "the person has to open this first, and the call can be repeated then: {addresses}"
        raise ToolError(template, addresses=" ".join(addresses)) from why
    return offers.result_of(answer)


async def _resource_list(arguments: dict[str, Any], client: Any) -> str:
    listed = await pages(client.list_resources, "resources")
    try:
        templates = await pages(client.list_resource_templates, "resource_templates")
    except Exception:  # noqa: BLE001  the SDK's; many servers have no templates
        templates = []
    return offers.format_resources(listed, templates)


async def _resource_read(arguments: dict[str, Any], client: Any) -> ToolResult:
    return offers.format_contents((await client.read_resource(arguments["uri"])).contents)


async def _prompt_list(arguments: dict[str, Any], client: Any) -> str:
    return offers.format_prompts(await pages(client.list_prompts, "prompts"))


async def _prompt_get(arguments: dict[str, Any], client: Any) -> ToolResult:
    return offers.format_prompt(await client.get_prompt(arguments["name"], arguments.get("arguments") or {}))


_GATED: dict[str, Callable[..., Awaitable[ToolResult | str]]] = {
    "resource_list": _resource_list,
    "resource_read": _resource_read,
    "prompt_list": _prompt_list,
    "prompt_get": _prompt_get,
}
