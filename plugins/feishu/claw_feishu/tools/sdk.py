"""lark-oapi, lent to the tools: imported at the first call, in a thread, with a token of ours.

Its own token cache fetches in the middle of a call and keeps a token that the service calls stale; so it gets neither
the app secret nor that job: ``Tenant`` gives the token, and one renewal.
"""

import asyncio
import hashlib
import json
import logging
import shlex
import sys
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from claw import ToolContext, ToolError, pip_command

from claw_feishu.tenant import RATE_LIMITED, TIMEOUT_SECONDS, TOKEN_STALE, FeishuError, judge

if TYPE_CHECKING:
    from claw_feishu.channel import FeishuChannel

EXTRA = "claw-feishu[tools]"
PATIENCE_SECONDS = 10.0
"""A rate limit that ends sooner is waited for; a later one is told to the model."""


class Traits(TypedDict):
    """What ``@tool`` is told of a tool."""

    optional: bool
    owner_only: bool
    effects: Literal["none", "once"]
    parallel: bool


READS: Traits = {"optional": True, "owner_only": True, "effects": "none", "parallel": True}
WRITES: Traits = {"optional": True, "owner_only": True, "effects": "once", "parallel": False}

Call = Callable[[Any, Any], Any]
"""Makes one request: (``lark_oapi.Client``, ``RequestOption``) → the SDK's response. Runs in a thread."""


def _load() -> ModuleType:
    first = "lark_oapi" not in sys.modules
    lark = import_module("lark_oapi")
    if first:
        logging.getLogger("Lark").handlers.clear()  # it writes to stdout, which belongs to what claw answers
        with suppress(AttributeError):  # a loop of its own, which nobody here runs
            lark.ws.client.loop.close()
    return lark


class Sdk:
    """The SDK, for the accounts of this house.

    :param channels: accounts by name.
    :param load: imports the SDK.
    """

    def __init__(
        self,
        channels: "Callable[[], Mapping[str, FeishuChannel]]",
        load: Callable[[], ModuleType] = _load,
    ) -> None:
        self._channels, self._load = channels, load
        self._clients: dict[tuple[str, str], Any] = {}

    async def ask(self, context: ToolContext, account: str, call: Call) -> dict[str, Any]:
        """One request; what stands under ``data`` of its answer.

        :param account: of which account; empty = the one this turn came from, else the first.
        :raises ToolError: the SDK is not installed, there is no such account, or the service refuses it.
        """
        channel = self._channel(context, account)
        tenant = channel.tenant
        for last in (False, True):
            try:
                token = await tenant.token()
            except FeishuError as why:
                raise ToolError("{why}", why=why) from why
            fault, data = await asyncio.to_thread(self._once, channel, token, call)
            if fault is None:
                return data
            if not last and fault.code in TOKEN_STALE:
                tenant.forget(token)
            elif not last and fault.code == RATE_LIMITED and _soon(fault):
                await asyncio.sleep(fault.retry_after_seconds or 0)
            else:
                raise ToolError("{why}", why=fault)
        raise AssertionError("unreachable")

    def _channel(self, context: ToolContext, account: str) -> "FeishuChannel":
        channels = self._channels()
        if not channels:
            raise ToolError("Feishu is not configured here: channels.feishu has no appId and appSecret")
        if not account:
            account = _source(context)
            return channels.get(account) or next(iter(channels.values()))
        if account not in channels:
            raise ToolError(
                "there is no account {account} under channels.feishu, but {others}",
                account=account, others=", ".join(sorted(channels)),
            )  # fmt: skip
        return channels[account]

    def _once(
        self, channel: "FeishuChannel", token: str, call: Call
    ) -> tuple[FeishuError | None, dict[str, Any]]:
        client, option = self._client(channel, token)
        try:
            answer = call(client, option).raw
        except OSError as why:  # requests' own errors are OSErrors
            raise ToolError(
                "the connection to Feishu broke ({why}); what was asked may have been done: look before it is repeated",
                why=type(why).__name__,
            ) from why
        except ValueError as why:
            raise ToolError("Feishu did not answer with JSON; try again later") from why
        body = json.loads(answer.content)
        fault = judge(answer.status_code, _lower(answer.headers), _telling(body), "")
        return fault, dict(body.get("data") or {})

    def _client(self, channel: "FeishuChannel", token: str) -> tuple[Any, Any]:
        try:
            lark = self._load()
        except ImportError as missing:
            command = EXTRA
            with suppress(Exception):  # no pip here: the name alone says what to install
                command = shlex.join([*pip_command(), "install", EXTRA])
            raise ToolError(
                "this needs lark-oapi, which is not installed: {command}", command=command
            ) from missing
        key = channel.settings.base_url, channel.settings.app_id
        if key not in self._clients:
            builder = lark.Client.builder().app_id(channel.settings.app_id).domain(channel.settings.base_url)
            self._clients[key] = builder.enable_set_token(True).timeout(TIMEOUT_SECONDS).build()
        return self._clients[key], lark.RequestOption.builder().tenant_access_token(token).build()


def needed(action: str, **given: Any) -> None:
    """Refuse an action whose arguments are not all there.

    :raises ToolError: names those that are missing.
    """
    missing = [name for name, value in given.items() if value in ("", None, [], {})]
    if missing:
        raise ToolError("action {action} needs {names}", action=action, names=", ".join(missing))


def token_in(text: str) -> str:
    """The token of a document, from itself or from the address that people copy: ``https://…/docx/TOKEN?from=…``.

    :raises ToolError: as :func:`id_in` does.
    """
    return id_in(text.strip().partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2])


def id_in(text: str) -> str:
    """An id as it may stand in the path of a request: ``..`` for an event would delete its calendar.

    :raises ToolError: it would make another path of it.
    """
    if text in (".", "..") or not set(text).isdisjoint("/\\?#%"):
        raise ToolError("{id} is no id of Feishu", id=text)
    return text


def once_token(context: ToolContext, part: str = "") -> str:
    """By this the service knows a repeat of this call: a UUID of version 4 in form, the same for the same call."""
    digest = hashlib.sha256(f"{context.session_key}\n{context.call_id}\n{part}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


async def share(
    sdk: Sdk, context: ToolContext, account: str, token: str, kind: str, people: list[str], perm: str
) -> dict[str, Any]:
    """Let people at a document that the app made: until then only the app sees it.

    :param kind: docx, sheet, bitable or wiki.
    """

    def one(open_id: str) -> Call:
        def call(client: Any, option: Any) -> Any:
            from lark_oapi.api.drive.v1 import BaseMember, CreatePermissionMemberRequest

            member = BaseMember({"member_type": "openid", "member_id": open_id, "perm": perm})
            request = CreatePermissionMemberRequest.builder().token(token).type(kind).request_body(member)
            return client.drive.v1.permission_member.create(request.build(), option)

        return call

    for open_id in people:
        await sdk.ask(context, account, one(open_id))
    return {"shared_with": people, "perm": perm}


def _source(context: ToolContext) -> str:
    """The account of ours that this turn came in by."""
    address = context.talk.place() if context.talk else None
    return address.account if address and address.channel == "feishu" else "default"


def _soon(fault: FeishuError) -> bool:
    return (fault.retry_after_seconds or 0) <= PATIENCE_SECONDS


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _telling(body: Any) -> Any:
    """The answer, its message with the fields that the service found wrong."""
    inner = body.get("error") if isinstance(body, dict) else None
    violations = inner.get("field_violations") if isinstance(inner, dict) else None
    if not violations:
        return body
    told = "; ".join(f"{one.get('field')}: {one.get('description')}" for one in violations)
    return {**body, "msg": f"{body.get('msg', '')}: {told}"}
