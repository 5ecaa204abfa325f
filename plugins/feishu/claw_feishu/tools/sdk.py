"""Use of the vendor SDK lark-oapi by the tools: imported at the first call, run in a thread, with a token
from ``Tenant``.

Its own token cache fetches in the middle of a call and keeps a token that the service reports stale; so it gets neither
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

from claw import ToolContext, ToolError
from claw_tool_sdk import pip_command

from claw_feishu.tenant import RATE_LIMITED, TIMEOUT_SECONDS, TOKEN_STALE, FeishuError, judge

if TYPE_CHECKING:
    from claw_feishu.channel import FeishuChannel

EXTRA = "claw-feishu[tools]"
LONGEST_WAIT_SECONDS = 10.0
"""Longest rate-limit pause that is waited out; a longer one is reported to the model."""


class Traits(TypedDict):
    """Arguments of ``@tool`` shared by tools."""

    optional: bool
    owner_only: bool
    effects: Literal["none", "once"]
    parallel: bool


READS: Traits = {"optional": True, "owner_only": True, "effects": "none", "parallel": True}
WRITES: Traits = {"optional": True, "owner_only": True, "effects": "once", "parallel": False}

Call = Callable[[Any, Any], Any]
"""Function that makes one request: (``lark_oapi.Client``, ``RequestOption``) → the SDK's response. Runs in a thread."""


def _load() -> ModuleType:
    first = "lark_oapi" not in sys.modules
    lark = import_module("lark_oapi")
    if first:
        logging.getLogger("Lark").handlers.clear()  # it writes to stdout, which belongs to claw's replies
        with suppress(AttributeError):  # its own event loop is never run
            lark.ws.client.loop.close()
    return lark


class Sdk:
    """The SDK for the configured accounts.

    :param channels: returns the accounts by name.
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
        """Make one request; return ``data`` of its answer.

        :param account: account name; empty = the account of this turn's message, else the first.
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
            elif not last and fault.code == RATE_LIMITED and _is_short_pause(fault):
                await asyncio.sleep(fault.retry_after_seconds or 0)
            else:
                raise ToolError("{why}", why=fault)
        raise AssertionError("unreachable")

    def _channel(self, context: ToolContext, account: str) -> "FeishuChannel":
        channels = self._channels()
        if not channels:
            raise ToolError("Feishu is not configured here: channels.feishu has no appId and appSecret")
        if not account:
            account = _turn_account(context)
            return channels.get(account) or next(iter(channels.values()))
        if account not in channels:
            raise ToolError(
                "channels.feishu has no account {account}; it has {others}",
                account=account,
                others=sorted(channels),
            )
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
        fault = judge(answer.status_code, _lower(answer.headers), _with_field_errors(body), "")
        return fault, dict(body.get("data") or {})

    def _client(self, channel: "FeishuChannel", token: str) -> tuple[Any, Any]:
        try:
            lark = self._load()
        except ImportError as missing:
            command = EXTRA
            with suppress(Exception):  # without pip, the name alone says what to install
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
    """Refuse an action with missing arguments.

    :raises ToolError: names those that are missing.
    """
    missing = [name for name, value in given.items() if value in ("", None, [], {})]
    if missing:
        raise ToolError("action {action} needs {names}", action=action, names=[*missing])


def token_in(text: str) -> str:
    """Return the token of a document, given as token or as its URL: ``https://…/docx/TOKEN?from=…``.

    :raises ToolError: as :func:`id_in` does.
    """
    return id_in(text.strip().partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2])


def id_in(text: str) -> str:
    """Check an id before it becomes part of a request path: ``..`` for an event would delete its calendar.

    :raises ToolError: the id would change the path.
    """
    if text in (".", "..") or not set(text).isdisjoint("/\\?#%"):
        raise ToolError("{id} is not a Feishu id", id=text)
    return text


def once_token(context: ToolContext, part: str = "") -> str:
    """Return the idempotency token of this call: in the form of a UUID version 4, and equal for an equal call."""
    digest = hashlib.sha256(f"{context.session_key}\n{context.call_id}\n{part}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


async def share(
    sdk: Sdk, context: ToolContext, account: str, token: str, kind: str, people: list[str], perm: str
) -> dict[str, Any]:
    """Share a document made by the app with people: until then only the app sees it.

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


def _turn_account(context: ToolContext) -> str:
    """Return the account through which this turn's message came."""
    address = context.talk.resolve_address() if context.talk else None
    return address.account if address and address.channel == "feishu" else "default"


def _is_short_pause(fault: FeishuError) -> bool:
    return (fault.retry_after_seconds or 0) <= LONGEST_WAIT_SECONDS


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _with_field_errors(body: Any) -> Any:
    """Return the answer, with the fields that the service refused added to its message."""
    inner = body.get("error") if isinstance(body, dict) else None
    violations = inner.get("field_violations") if isinstance(inner, dict) else None
    if not violations:
        return body
    details = "; ".join(f"{one.get('field')}: {one.get('description')}" for one in violations)
    return {**body, "msg": f"{body.get('msg', '')}: {details}"}
