"""What is wrong with an account, by asking the platform. Nothing is sent: the one card that is made lies in no chat.

The console grants an app its rights one by one, and a feature whose right is missing fails without a word to the person
who writes. So each feature is tried with a request that can do nothing (an id that nobody has, nobody to send to): the
platform looks at rights first, and its answer 99991672 lists the scopes of which one is missing. What nobody can try is
hearing: an event whose scope is missing never comes. Those are looked up in the list of what the app was granted.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from claw import Finding, say

from claw_feishu.cards import Card
from claw_feishu.longconn import Broken, Fatal, LongConnection, Telling
from claw_feishu.tenant import SCOPE_MISSING, FeishuError

if TYPE_CHECKING:
    from claw_feishu.channel import FeishuChannel
    from claw_feishu.settings import FeishuSettings

_IM = "/open-apis/im/v1"
_SCOPES = "/open-apis/application/v6/scopes"
_GRANTED = 1
_NOBODY = "om_00000000000000000000000000000000"


@dataclass(frozen=True)
class Try:
    """A request that does nothing, and what cannot be done when it lacks a right.

    :param purpose: English template.
    """

    purpose: str
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None


def tries(settings: "FeishuSettings") -> Iterator[Try]:
    """What an account with these settings will want to do."""
    one = f"{_IM}/messages/{_NOBODY}"
    sending = {"receive_id_type": "chat_id"}
    yield Try(
        "answers can be sent", "POST", f"{_IM}/messages", sending, {"msg_type": "text", "content": "{}"}
    )
    yield Try("quoted messages and files can be read", "GET", one)
    yield Try("files can be fetched", "GET", f"{one}/resources/img_v3_none", {"type": "image"})
    if settings.typing_reaction:
        reaction = {"reaction_type": {"emoji_type": settings.typing_reaction}}
        yield Try("a reaction can show that it is working", "POST", f"{one}/reactions", body=reaction)
    if settings.resolve_names:
        yield Try("names of chats are known", "GET", f"{_IM}/chats/oc_00000000000000000000000000000000")
        person = "/open-apis/contact/v3/users/ou_00000000000000000000000000000000"
        yield Try("names of people are known", "GET", person, {"user_id_type": "open_id"})


@dataclass(frozen=True)
class Hearing:
    """Something that is heard only with a scope.

    :param purpose: English template.
    :param scopes: any one of them will do; the console has older and newer names.
    """

    purpose: str
    scopes: tuple[str, ...]
    grave: bool = True


def hearings(settings: "FeishuSettings") -> Iterator[Hearing]:
    """What an account with these settings wants to hear."""
    if settings.dm_policy != "disabled":
        yield Hearing("direct messages are heard", ("im:message.p2p_msg:readonly", "im:message.p2p_msg"))
    groups = [group for group in settings.groups.values() if group.enabled]
    if settings.group_policy == "open" or (settings.group_policy == "allowlist" and groups):
        named = "im:message.group_at_msg:readonly", "im:message.group_at_msg", "im:message.group_msg"
        yield Hearing("groups that mention the bot are heard", named)
        if not all(group.require_mention for group in groups):
            yield Hearing("what groups say without a mention is heard", named[2:])
        elif settings.group_history:
            yield Hearing("what groups said before they mention the bot is known", named[2:], grave=False)


async def diagnose(channel: "FeishuChannel") -> list[Finding]:
    """Token, bot, streaming cards, rights, and in websocket mode whether a connection may be made."""
    found: dict[str, Finding] = {}
    for purpose, ask, must in _questions(channel):
        try:
            await ask()
        except FeishuError as why:
            if why.is_credentials:
                mend = say("compare appId and appSecret with the app's page in the developer console")
                return [Finding("", "credentials", why.problem, mend)]
            if why.code == SCOPE_MISSING:
                found.setdefault(" ".join(why.scopes), _scope(why.scopes, purpose, channel.settings))
            elif not why.permanent:
                return [*found.values(), Finding("", "unreachable", why.problem, say("try again in a while"))]
            elif must:
                found[purpose] = Finding("", "refused", f"{say(purpose)}: {why.problem}", why.fix)
    found |= await _unheard(channel)
    if channel.settings.mode == "websocket":
        try:
            await LongConnection(channel.tenant, _nothing, Telling(), channel.pace).endpoint(
                channel.settings.base_url
            )
        except (Fatal, Broken) as why:
            found["connection"] = Finding("", "connection", str(why))
    return list(found.values())


def _questions(channel: "FeishuChannel") -> Iterator[tuple[str, Callable[[], Awaitable[Any]], bool]]:
    """What is asked: for what, how, and whether any refusal is a fault; the others are refused as a matter of course."""
    tenant = channel.tenant
    yield "the app can be used", tenant.token, True
    yield "the app has a bot", channel.who_we_are, True
    if channel.settings.streaming or channel.settings.render_mode != "text":
        yield "answers can grow on cards", partial(Card.made, tenant), True
    for one in tries(channel.settings):
        yield (
            one.purpose,
            partial(tenant.call, one.method, one.path, one.body, query=one.query or None),
            False,
        )


async def _unheard(channel: "FeishuChannel") -> dict[str, Finding]:
    """What the app was not granted to hear; nothing when the platform does not say what it was granted."""
    try:
        listed = (await channel.tenant.call("GET", _SCOPES))["data"]["scopes"]
        granted = {one["scope_name"] for one in listed if one["grant_status"] == _GRANTED}
    except (FeishuError, KeyError, TypeError):
        return {}
    return {
        one.purpose: _scope(one.scopes, one.purpose, channel.settings, grave=one.grave)
        for one in hearings(channel.settings)
        if granted and granted.isdisjoint(one.scopes)
    }


def _scope(scopes: Sequence[str], purpose: str, settings: "FeishuSettings", *, grave: bool = True) -> Finding:
    query = urlencode({"q": ",".join(scopes), "op_from": "openapi", "token_type": "tenant"}, safe=",:")
    link = f"{settings.base_url}/app/{settings.app_id}/auth?{query}"
    problem = say(
        "no scope for this: {purpose}; missing: {scopes}", purpose=say(purpose), scopes=", ".join(scopes)
    )
    mend = say("add one of them at {link}, then create a version of the app and publish it", link=link)
    return Finding("", "scope", problem, mend, grave)


async def _nothing(event: dict[str, Any]) -> None:
    return None
