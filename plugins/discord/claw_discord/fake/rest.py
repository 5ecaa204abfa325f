"""The REST half of the fake: routes with the checks of the real service; forced answers take precedence.

Numbers of errors: https://discord.com/developers/docs/topics/opcodes-and-status-codes#json.
"""

import asyncio
import fnmatch
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from claw_discord.fake import FakeDiscord

BASE = "/api/v10"
_TEXT_CHARS, _NONCE_CHARS, _FILE_BYTES = 2000, 25, 10 << 20
_BUTTON_SECONDS = 3.0


@dataclass(frozen=True)
class ForcedAnswer:
    """A forced answer.

    :param cut: cut the connection instead; with ``done`` the request takes effect first.
    :param hang_seconds: wait first.
    """

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    done: bool = False
    hang_seconds: float = 0.0


@dataclass(frozen=True)
class FakeRestCall:
    """A request as received.

    :param files: names and bytes of the parts of a form.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    files: tuple[tuple[str, bytes], ...] = ()
    at: float = 0.0


class RestRefusal(Exception):
    """An error answer."""

    def __init__(self, status: int, code: int, text: str, errors: Any = None) -> None:
        super().__init__(text)
        self.status = status
        self.body = {"message": text, "code": code, **({"errors": errors} if errors else {})}


def invalid(field_name: str, code: str, text: str) -> RestRefusal:
    """Build error 50035: invalid form body."""
    error = {field_name: {"_errors": [{"code": code, "message": text}]}}
    return RestRefusal(400, 50035, "Invalid Form Body", error)


class FakeRest:
    """Every route, on one set of stored data.

    :ivar log: requests in the order of arrival.
    :ivar pinged: ids of users pinged by the bot's messages.
    :ivar confirmed: answered interactions: id → (type, seconds it took).
    :ivar thinking: commands in the "thinking" state: id → true if visible to that person alone.
    :ivar registered: the application's registered commands.
    """

    def __init__(self, world: "FakeDiscord") -> None:
        self._world = world
        self.log: list[FakeRestCall] = []
        self.pinged: list[str] = []
        self.confirmed: dict[str, tuple[int, float]] = {}
        self.thinking: dict[str, bool] = {}
        self.registered: list[dict[str, Any]] = []
        self._forced: list[list[Any]] = []
        self._by_nonce: dict[tuple[str, str], dict[str, Any]] = {}

    def fail(self, match: str, answer: ForcedAnswer, times: int) -> None:
        """Force this answer for the next ``times`` requests whose ``METHOD /path`` matches ``match`` (``*``,
        ``?`` as in a shell)."""
        self._forced.append([match, answer, times])

    def routes(self) -> list[web.RouteDef]:
        """Return all routes."""
        one = "/channels/{channel}/messages/{message}"
        table = [
            ("GET", "/users/@me", self.me),
            ("POST", "/users/@me/channels", self.open_direct),
            ("GET", "/oauth2/applications/@me", self.application),
            ("GET", "/applications/@me", self.application),
            ("GET", "/gateway/bot", self.gateway),
            ("GET", "/channels/{channel}", self.channel),
            ("GET", "/channels/{channel}/messages", self.archive),
            ("POST", "/channels/{channel}/messages", self.post),
            ("GET", one, self.message),
            ("PATCH", one, self.edit),
            ("DELETE", one, self.delete),
            ("POST", one + "/threads", self.thread),
            ("PUT", one + "/reactions/{emoji}/@me", self.react),
            ("DELETE", one + "/reactions/{emoji}/@me", self.unreact),
            ("POST", "/channels/{channel}/typing", self.typing),
            ("POST", "/interactions/{id}/{token}/callback", self.confirm),
            ("DELETE", "/webhooks/{app}/{token}/messages/@original", self.take_back),
            ("GET", "/applications/{app}/commands", self.commands),
            ("PUT", "/applications/{app}/commands", self.overwrite_commands),
        ]
        return [web.route(method, BASE + path, self._served(answer)) for method, path, answer in table]

    def _served(self, handler: Any) -> Any:
        async def serve(request: web.Request) -> web.StreamResponse:
            received = await _received(request)
            self.log.append(received)
            forced = self.forced(received.method, received.path)
            if forced and forced.hang_seconds:
                await asyncio.sleep(forced.hang_seconds)
            if forced is None or forced.done:
                answer = await self._truth(handler, request, received)
            if forced is None:
                return answer
            if forced.cut:
                assert request.transport is not None
                request.transport.abort()
                return web.Response(status=500)
            return _json(forced.body, forced.status, forced.headers)

        return serve

    async def _truth(self, handler: Any, request: web.Request, received: FakeRestCall) -> web.Response:
        public = received.path.startswith(("/interactions/", "/webhooks/"))
        try:
            known = {f"Bot {token}" for token in self._world.tokens}
            if not public and request.headers.get("Authorization") not in known:
                raise RestRefusal(401, 0, "401: Unauthorized")
            place = request.match_info.get("channel")
            if place is not None and place not in self._world.channels:
                raise RestRefusal(404, 10003, "Unknown Channel")
            if place in self._world.closed_channels:
                raise RestRefusal(403, 50001, "Missing Access")
            body = await handler(request.match_info, received)
        except RestRefusal as refusal:
            return _json(refusal.body, refusal.status)
        return web.Response(status=204) if body is None else _json(body)

    def forced(self, method: str, path: str) -> ForcedAnswer | None:
        """Return the forced answer for this request, if any."""
        for entry in self._forced:
            if entry[2] > 0 and fnmatch.fnmatch(f"{method} {path}", entry[0]):
                entry[2] -= 1
                return entry[1]  # type: ignore[no-any-return]
        return None

    # --- the bot itself

    async def me(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        return self._world.me | {"verified": True, "mfa_enabled": False, "locale": "en-US", "flags": 0}

    async def application(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        owner = self._world.users[self._world.ALICE]
        return {
            "id": self._world.ME, "name": "claw", "icon": None, "description": "", "summary": "", "owner": owner,
            "bot_public": True, "bot_require_code_grant": False, "verify_key": "0" * 64, "flags": 565248,
        }  # fmt: skip

    async def gateway(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        limit = {"total": 1000, "remaining": 998, "reset_after": 14_400_000, "max_concurrency": 1}
        return {"url": self._world.gateway_url, "shards": 1, "session_start_limit": limit}

    async def open_direct(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        recipient = str((asked.body or {}).get("recipient_id"))
        if recipient not in self._world.users:
            raise invalid("recipient_id", "NUMBER_TYPE_COERCE", "no such user")
        return self._world.direct_with(recipient)

    # --- channels and their messages

    async def channel(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        return self._world.channels[at["channel"]]

    async def archive(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        limit = int(asked.query.get("limit", "50"))
        if not 1 <= limit <= 100:
            raise invalid("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100")
        after = int(asked.query.get("after", "0"))
        found = [one for one in self._world.messages_of(at["channel"]) if int(one["id"]) > after]
        kept = found[:limit] if after else found[-limit:]
        return [self._world.visible(one) for one in reversed(kept)]

    async def message(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        return self._world.visible(self._known(at))

    async def post(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        body = asked.body if isinstance(asked.body, dict) else {}
        place = self._world.channels[at["channel"]]
        if any(one["id"] in self._world.deaf_users for one in place.get("recipients", ())):
            raise RestRefusal(403, 50007, "Cannot send messages to this user")
        nonce = str(body.get("nonce") or "")
        check_message(body, asked.files)
        if body.get("enforce_nonce") and (before := self._by_nonce.get((place["id"], nonce))):
            return before
        more = {key: body[key] for key in ("components", "poll") if key in body}
        more |= self._reference(at["channel"], body.get("message_reference") or {})
        if asked.files:
            more["attachments"] = [self._world.keep_file(place["id"], *file) for file in asked.files]
        made = self._world.make_message(body.get("content") or "", place["id"], self._world.ME, **more)
        if nonce:
            self._by_nonce[place["id"], nonce] = made
        if (body.get("allowed_mentions") or {"parse": ["users"]}).get("parse"):
            self.pinged += [one["id"] for one in made["mentions"]]
        await self._world.tell("MESSAGE_CREATE", made)
        return made | ({"nonce": nonce} if nonce else {})

    def _reference(self, channel: str, reference: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message reference of a reply; empty when the target is gone and the sender accepts that."""
        if not reference:
            return {}
        target = self._world.messages.get(str(reference.get("message_id")))
        if target is None or target["channel_id"] != channel:
            if reference.get("fail_if_not_exists", True):
                raise invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
            return {}
        points = {"type": 0, "message_id": target["id"], "channel_id": channel}
        return {"type": 19, "message_reference": points, "referenced_message": target}

    async def edit(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        message = self._own(at, "Cannot edit a message authored by another user")
        check_message({"content": message["content"], **asked.body}, ())
        changed = {key: asked.body[key] for key in ("content", "components") if key in asked.body}
        return await self._world.change(message["id"], **changed)

    async def delete(self, at: Mapping[str, str], asked: FakeRestCall) -> None:
        self._own(at, "Missing Permissions")
        await self._world.remove(at["message"])

    async def thread(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        name = (asked.body or {}).get("name") or ""
        if not 1 <= len(name) <= 100:
            raise invalid("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        self._known(at)
        if at["message"] in self._world.channels:
            raise RestRefusal(400, 160004, "A thread has already been created for this message")
        return await self._world.open_thread(at["channel"], at["message"], name)

    async def react(self, at: Mapping[str, str], asked: FakeRestCall) -> None:
        emoji = at["emoji"]
        if emoji.isascii() and not re.fullmatch(r"\w+:\d+", emoji):
            raise RestRefusal(400, 10014, "Unknown Emoji")
        self._known(at).setdefault("_reactions", []).append(emoji)

    async def unreact(self, at: Mapping[str, str], asked: FakeRestCall) -> None:
        marks = self._known(at).get("_reactions", [])
        if at["emoji"] in marks:
            marks.remove(at["emoji"])

    async def typing(self, at: Mapping[str, str], asked: FakeRestCall) -> None:
        return None

    async def confirm(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        asked_at, token = self._world.interactions.get(at["id"], (0.0, ""))
        if token != at["token"] or time.monotonic() - asked_at > _BUTTON_SECONDS:
            raise RestRefusal(404, 10062, "Unknown interaction")
        if at["id"] in self.confirmed:
            raise RestRefusal(400, 40060, "Interaction has already been acknowledged.")
        kind = (asked.body or {}).get("type")
        is_command = at["id"] in self._world.chosen
        if kind not in ((4, 5, 9) if is_command else (4, 5, 6, 7, 9)):
            raise invalid("type", "BASE_TYPE_CHOICES", "no such type of answer")
        self.confirmed[at["id"]] = kind, time.monotonic() - asked_at
        alone = bool((asked.body.get("data") or {}).get("flags", 0) & 64)
        if kind == 5:
            self.thinking[at["id"]] = alone
        if asked.query.get("with_response", "").lower() not in ("1", "true"):
            return None
        shown = {"response_message_loading": kind == 5, "response_message_ephemeral": alone}
        return {
            "interaction": {
                "id": at["id"],
                "type": 2 if is_command else 3,
                **(shown if kind in (4, 5) else {}),
            },
            "resource": {"type": kind},
        }

    async def take_back(self, at: Mapping[str, str], asked: FakeRestCall) -> None:
        tokens = {token: id for id, (_, token) in self._world.interactions.items()}
        if self.thinking.pop(tokens.get(at["token"], ""), None) is None:
            raise RestRefusal(404, 10008, "Unknown Message")

    async def commands(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        return self.registered

    async def overwrite_commands(self, at: Mapping[str, str], asked: FakeRestCall) -> Any:
        for one in asked.body:
            check_command(one)
        if len({(one.get("type", 1), one["name"]) for one in asked.body}) < len(asked.body):
            raise invalid("name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "names must be unique")
        more = {
            "application_id": self._world.ME,
            "version": "1",
            "default_member_permissions": None,
            "nsfw": False,
        }
        self.registered = [{"id": self._world.new_id(), "type": 1, **one, **more} for one in asked.body]
        return self.registered

    def _known(self, at: Mapping[str, str]) -> dict[str, Any]:
        message = self._world.messages.get(at["message"])
        if message is None or message["channel_id"] != at["channel"]:
            raise RestRefusal(404, 10008, "Unknown Message")
        return message

    def _own(self, at: Mapping[str, str], why_not: str) -> dict[str, Any]:
        message = self._known(at)
        if message["author"]["id"] != self._world.ME:
            raise RestRefusal(403, 50005 if "edit" in why_not else 50013, why_not)
        return message


def check_message(body: Mapping[str, Any], files: tuple[tuple[str, bytes], ...]) -> None:
    """Check a message as the service does.

    :raises RestRefusal: with the service's error.
    """
    content = body.get("content") or ""
    if len(content) > _TEXT_CHARS:
        raise invalid("content", "BASE_TYPE_MAX_LENGTH", f"Must be {_TEXT_CHARS} or fewer in length.")
    if not content.strip() and not files and not body.get("poll") and not body.get("embeds"):
        raise RestRefusal(400, 50006, "Cannot send an empty message")
    if len(str(body.get("nonce") or "")) > _NONCE_CHARS:
        raise invalid("nonce", "NONCE_TYPE_TOO_LONG", f"Must be {_NONCE_CHARS} or fewer in length.")
    if any(len(data) > _FILE_BYTES for _, data in files):
        raise RestRefusal(413, 40005, "Request entity too large")
    rows = body.get("components") or []
    buttons = [button for row in rows for button in row.get("components", ())]
    ids = [str(button.get("custom_id") or "") for button in buttons]
    right = (
        len(rows) <= 5
        and all(row.get("type") == 1 and 1 <= len(row.get("components", ())) <= 5 for row in rows)
        and all(1 <= len(id) <= 100 for id in ids)
        and len(set(ids)) == len(ids)
        and all(1 <= len(str(button.get("label") or "")) <= 80 for button in buttons)
    )
    if not right:
        raise invalid("components", "BASE_TYPE_BAD_LENGTH", "The components are wrong")


def check_command(command: Mapping[str, Any]) -> None:
    """Check a command as the service does (developer docs, "Application Command Naming").

    :raises RestRefusal: with the service's error.
    """
    options = command.get("options") or []
    for one in (command, *options):
        if not re.fullmatch(r"[-_'\w]{1,32}", one.get("name") or "") or one["name"] != one["name"].lower():
            raise invalid("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
        if not 1 <= len(one.get("description") or "") <= 100:
            raise invalid("description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    if len(options) > 25:
        raise invalid("options", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")


async def _received(request: web.Request) -> FakeRestCall:
    body: Any = None
    files: list[tuple[str, bytes]] = []
    if request.content_type == "multipart/form-data":
        async for part in await request.multipart():
            data = bytes(await part.read())  # type: ignore[union-attr]
            if part.name == "payload_json":  # type: ignore[union-attr]
                body = json.loads(data)
            else:
                files.append((part.filename or "", data))  # type: ignore[union-attr]
    elif request.can_read_body:
        text = await request.text()
        body = json.loads(text) if request.content_type == "application/json" else text
    headers = {name.lower(): value for name, value in request.headers.items()}
    path = request.path.removeprefix(BASE)
    return FakeRestCall(
        request.method, path, dict(request.query), headers, body, tuple(files), time.monotonic()
    )


def _json(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return JSON with exactly this content type: with a charset after it discord.py does not parse the body."""
    given = {name: value for name, value in (headers or {}).items() if name.lower() != "content-type"}
    kind = next((v for k, v in (headers or {}).items() if k.lower() == "content-type"), "application/json")
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return web.Response(body=data, status=status, headers={**given, "Content-Type": kind})
