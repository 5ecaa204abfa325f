"""Diagnosis of an account by asking the platform. Nothing is sent: the one card that is created is in no chat.

The console grants an app its scopes one by one, and a feature whose scope is missing fails silently for the person
who writes. So each feature is tried with a request without effect (an unknown id, no receiver): the
platform checks scopes first, and its answer 99991672 lists the scopes of which one is missing. Receiving cannot be
tried: an event whose scope is missing never comes. Those scopes are looked up in the list of the app's granted scopes.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from claw import Finding, t
from claw.runtime import with_label

from claw_feishu.cards import Card
from claw_feishu.longconn import Broken, ConnectionEvents, Fatal, LongConnection
from claw_feishu.tenant import SCOPE_MISSING, FeishuError

if TYPE_CHECKING:
    from claw_feishu.channel import FeishuChannel
    from claw_feishu.settings import FeishuSettings

_IM = "/open-apis/im/v1"
_SCOPES = "/open-apis/application/v6/scopes"
_GRANTED = 1
_NOBODY = "om_00000000000000000000000000000000"


@dataclass(frozen=True)
class PermissionProbe:
    """A request without effect, and the feature that fails when it lacks a scope.

    :param purpose: English template.
    """

    purpose: str
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None


def permission_probes(settings: "FeishuSettings") -> Iterator[PermissionProbe]:
    """Yield the requests that an account with these settings will need."""
    one = f"{_IM}/messages/{_NOBODY}"
    sending = {"receive_id_type": "chat_id"}
    yield PermissionProbe(
        "answers can be sent", "POST", f"{_IM}/messages", sending, {"msg_type": "text", "content": "{}"}
    )
    yield PermissionProbe("quoted messages and files can be read", "GET", one)
    yield PermissionProbe("files can be fetched", "GET", f"{one}/resources/img_v3_none", {"type": "image"})
    if settings.typing_reaction:
        reaction = {"reaction_type": {"emoji_type": settings.typing_reaction}}
        yield PermissionProbe(
            "a reaction can show that it is working", "POST", f"{one}/reactions", body=reaction
        )
    if settings.resolve_names:
        yield PermissionProbe(
            "names of chats are known", "GET", f"{_IM}/chats/oc_00000000000000000000000000000000"
        )
        person = "/open-apis/contact/v3/users/ou_00000000000000000000000000000000"
        yield PermissionProbe("names of people are known", "GET", person, {"user_id_type": "open_id"})


@dataclass(frozen=True)
class InboundTests:
    """A kind of event that requires a scope.

    :param purpose: English template.
    :param scopes: any one of them suffices; the console has older and newer names.
    """

    purpose: str
    scopes: tuple[str, ...]
    grave: bool = True


def event_scopes(settings: "FeishuSettings") -> Iterator[InboundTests]:
    """Yield the kinds of event that an account with these settings receives."""
    if settings.dm_policy != "disabled":
        yield InboundTests(
            "direct messages are received", ("im:message.p2p_msg:readonly", "im:message.p2p_msg")
        )
    groups = [group for group in settings.groups.values() if group.enabled]
    if settings.group_policy == "open" or (settings.group_policy == "allowlist" and groups):
        named = "im:message.group_at_msg:readonly", "im:message.group_at_msg", "im:message.group_msg"
        yield InboundTests("group messages that mention the bot are received", named)
        if not all(group.require_mention for group in groups):
            yield InboundTests("group messages without a mention are received", named[2:])
        elif settings.group_history:
            yield InboundTests(
                "earlier group messages are available when the bot is mentioned", named[2:], grave=False
            )


async def diagnose(channel: "FeishuChannel") -> list[Finding]:
    """Check token, bot, streaming cards and scopes, and in websocket mode the connection endpoint."""
    found: dict[str, Finding] = {}
    for purpose, ask, must in _checks(channel):
        try:
            await ask()
        except FeishuError as why:
            if why.is_credentials:
                fix = t("compare appId and appSecret with the app's page in the developer console")
                return [Finding("", "credentials", why.problem, fix)]
            if why.code == SCOPE_MISSING:
                found.setdefault(" ".join(why.scopes), _scope_finding(why.scopes, purpose, channel.settings))
            elif not why.permanent:
                return [
                    *found.values(),
                    Finding("", "unreachable", why.problem, t("try again in a while")),
                ]
            elif must:
                found[purpose] = Finding("", "refused", with_label(t(purpose), why.problem), why.fix)
    found |= await _missing_event_scopes(channel)
    if channel.settings.mode == "websocket":
        try:
            await LongConnection(channel.tenant, _ignore, ConnectionEvents(), channel.pace).endpoint(
                channel.settings.base_url
            )
        except (Fatal, Broken) as why:
            found["connection"] = Finding("", "connection", str(why))
    return list(found.values())


def _checks(channel: "FeishuChannel") -> Iterator[tuple[str, Callable[[], Awaitable[Any]], bool]]:
    """Yield the checks: purpose, request, and true if any refusal is a fault (the others are refused as expected)."""
    tenant = channel.tenant
    yield "the app can be used", tenant.token, True
    yield "the app has a bot", channel.who_we_are, True
    if channel.settings.streaming or channel.settings.render_mode != "text":
        yield "answers can grow on cards", partial(Card.made, tenant), True
    for one in permission_probes(channel.settings):
        yield (
            one.purpose,
            partial(tenant.call, one.method, one.path, one.body, query=one.query or None),
            False,
        )


async def _missing_event_scopes(channel: "FeishuChannel") -> dict[str, Finding]:
    """Return findings for events whose scope is not granted; none when the platform does not list the scopes."""
    try:
        listed = (await channel.tenant.call("GET", _SCOPES))["data"]["scopes"]
        granted = {one["scope_name"] for one in listed if one["grant_status"] == _GRANTED}
    except (FeishuError, KeyError, TypeError):
        return {}
    return {
        one.purpose: _scope_finding(one.scopes, one.purpose, channel.settings, grave=one.grave)
        for one in event_scopes(channel.settings)
        if granted and granted.isdisjoint(one.scopes)
    }


def _scope_finding(
    scopes: Sequence[str], purpose: str, settings: "FeishuSettings", *, grave: bool = True
) -> Finding:
    query = urlencode({"q": ",".join(scopes), "op_from": "openapi", "token_type": "tenant"}, safe=",:")
    link = f"{settings.base_url}/app/{settings.app_id}/auth?{query}"
    problem = t("missing scope for: {purpose}; it needs: {scopes}", purpose=t(purpose), scopes=[*scopes])
    fix = t("add one of them at {link}, then create a version of the app and publish it", link=link)
    return Finding("", "scope", problem, fix, grave)


async def _ignore(event: dict[str, Any]) -> None:
    return None
