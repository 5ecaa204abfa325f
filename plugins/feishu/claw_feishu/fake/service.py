"""Stored data and REST answers of the fake: tokens, messages, cards, files, reactions, names.

It is strict where the real one is: stale tokens, sequences, sizes, ids of the wrong kind. Codes as in ``tenant.py``.
"""

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from claw_feishu.fake.cards import Cards, CardState, ok, refusal, tables
from claw_feishu.fake.office import SCOPES as OFFICE_SCOPES, Office
from claw_feishu.fake.server import FakeAnswer, FakeCall

TOKEN_SECONDS = 7140
SAME_TOKEN_SECONDS = 1800
UUID_SECONDS = 3600
TEXT_BYTES, RICH_BYTES = 150 << 10, 30 << 10
IMAGE_BYTES, FILE_BYTES = 10 << 20, 30 << 20
TABLES = 5
_KINDS = {"chat_id": "oc_", "open_id": "ou_", "union_id": "on_"}
_TYPES = {"text", "post", "interactive", "image", "file", "audio", "media"}
_SCOPES = (
    *OFFICE_SCOPES,
    ("cardkit", "cardkit:card:write"),
    ("contact", "contact:user.base:readonly"),
    ("chats", "im:chat:readonly"),
    ("reactions", "im:message.reactions:write_only"),
    ("resources", "im:resource"),
    ("images", "im:resource"),
    ("files", "im:resource"),
    ("messages", "im:message:send_as_bot"),
)

HEARING = (
    "im:message.p2p_msg:readonly",
    "im:message.group_at_msg:readonly",
    "im:message.group_msg",
)
"""Scopes without which events are not delivered."""

Handle = Callable[[FakeCall, "re.Match[str]"], FakeAnswer]


@dataclass
class Shown:
    """A message in a chat, by the bot or a person.

    :ivar content: parsed.
    """

    message_id: str
    chat_id: str
    msg_type: str
    content: Any
    sender: str
    sender_type: str
    at: float
    reply_to: str = ""
    thread_id: str = ""
    deleted: bool = False
    edits: int = 0


class FakePlatform:
    """The REST side.

    :ivar messages: by id, in order of creation; ``ours``: those of the bot.
    :ivar people: open id → name; ``chats``: chat id → its data in the service's form.
    :ivar office: documents, sheets, bases, wikis, calendars.
    :ivar missing_scopes: calls that need one of them are refused with 99991672.
    :ivar left: chats without the bot.
    """

    def __init__(self, app_id: str, app_secret: str, bot_open_id: str, now: Callable[[], float]) -> None:
        self.app_id, self.app_secret, self.bot_open_id, self._now = app_id, app_secret, bot_open_id, now
        self.messages: dict[str, Shown] = {}
        self._desk = Cards(now)
        self.cards = self._desk.states
        self.files: dict[str, bytes] = {}
        self.reactions: dict[str, tuple[str, str, str]] = {}
        self.people: dict[str, str] = {}
        self.chats: dict[str, dict[str, Any]] = {}
        self.missing_scopes: set[str] = set()
        self.left: set[str] = set()
        self._token, self._issued = "", 0.0
        self._uuids: dict[str, tuple[str, float]] = {}
        self._numbers = iter(range(1, 1 << 62))
        self._routes: list[tuple[str, re.Pattern[str], Handle]] = []
        self.office = Office(self.fresh)
        for method, path, handle in (*self._own_routes(), *self.office.routes()):
            self.route(method, path, handle)

    def route(self, method: str, path: str, handle: Handle) -> None:
        """Add a route; ``path`` is a regular expression for the whole path. The newest of equal ones wins."""
        self._routes.insert(0, (method, re.compile(path), handle))

    def expire_token(self) -> None:
        """Make every token given so far stale."""
        self._token = ""

    def serve(self, call: FakeCall) -> FakeAnswer:
        """Answer one request."""
        if call.path == "/open-apis/auth/v3/tenant_access_token/internal":
            return self._give_token(call)
        for method, path, handle in self._routes:
            found = path.fullmatch(call.path)
            if found and method == call.method:
                return self._refused(call) or handle(call, found)
        return FakeAnswer(404, b"404 page not found", content_type="text/plain")

    @property
    def ours(self) -> list[Shown]:
        """Messages of the bot that were not recalled."""
        return [one for one in self.messages.values() if one.sender == self.app_id and not one.deleted]

    def text_of(self, message_id: str) -> str:
        """Return the visible text of a message."""
        shown = self.messages[message_id]
        if shown.msg_type == "text":
            return str(shown.content["text"])
        if shown.msg_type == "post":
            rows = next(iter(shown.content.values()))["content"]
            return "\n".join("".join(part.get("text", "") for part in row) for row in rows)
        if shown.msg_type == "interactive":
            return self.card_of(message_id).text
        return f"[{shown.msg_type}]"

    def card_of(self, message_id: str) -> CardState:
        """Return the card of a message."""
        return self.cards[self._card_id(message_id)]

    def fresh(self, prefix: str) -> str:
        """Return an unused id."""
        return f"{prefix}{next(self._numbers):06d}{secrets.token_hex(6)}"

    def _own_routes(self) -> tuple[tuple[str, str, Handle], ...]:
        im, cards = "/open-apis/im/v1", "/open-apis/cardkit/v1/cards"
        one = rf"{im}/messages/([\w-]+)"
        return (
            ("GET", "/open-apis/bot/v3/info", self._bot),
            ("GET", "/open-apis/application/v6/scopes", self._granted),
            ("GET", r"/open-apis/contact/v3/users/([\w-]+)", self._person),
            ("GET", rf"{im}/chats/([\w-]+)", self._chat),
            ("GET", f"{im}/messages", self._in_thread),
            ("POST", f"{im}/messages", self._send),
            ("POST", rf"{one}/reply", self._reply),
            ("GET", one, self._get),
            ("PUT", one, self._edit),
            ("PATCH", one, self._change_card),
            ("DELETE", one, self._recall),
            ("POST", rf"{one}/reactions", self._react),
            ("GET", rf"{one}/reactions", self._reacted),
            ("DELETE", rf"{one}/reactions/([\w-]+)", self._unreact),
            ("GET", rf"{one}/resources/([\w.-]+)", self._resource),
            ("POST", f"{im}/images", self._image),
            ("POST", f"{im}/files", self._file),
            ("POST", cards, self._desk.make),
            ("POST", f"{cards}/id_convert", self._convert),
            ("PUT", rf"{cards}/(\w+)/elements/(\w+)/content", self._desk.write),
            ("PATCH", rf"{cards}/(\w+)/settings", self._desk.set),
            ("PUT", rf"{cards}/(\w+)", self._desk.replace),
        )

    # --- tokens and identity

    def _give_token(self, call: FakeCall) -> FakeAnswer:
        given = call.body if isinstance(call.body, dict) else {}
        if given.get("app_id") != self.app_id:
            return FakeAnswer(body={"code": 10003, "msg": "invalid param"})
        if given.get("app_secret") != self.app_secret:
            return FakeAnswer(body={"code": 10014, "msg": "app secret invalid"})
        if not self._token or self._remaining < SAME_TOKEN_SECONDS:
            self._token, self._issued = self.fresh("t-"), self._now()
        return FakeAnswer(
            body={"code": 0, "msg": "ok", "tenant_access_token": self._token, "expire": int(self._remaining)}
        )

    @property
    def _remaining(self) -> float:
        return self._issued + TOKEN_SECONDS - self._now()

    def _refused(self, call: FakeCall) -> FakeAnswer | None:
        scheme, _, token = call.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not token:
            return refusal(99991661, "Missing access token for authorization.")
        if token != self._token or self._remaining <= 0:
            return refusal(99991663, "Invalid access token for authorization.")
        needed = next((scope for part, scope in _SCOPES if f"/{part}" in call.path), "")
        if needed in self.missing_scopes:
            said = f"Access denied. One of the following scopes is required: [{needed}]."
            return refusal(99991672, said)
        return None

    # --- names

    def _bot(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        return ok(bot={"activate_status": 2, "app_name": "claw", "open_id": self.bot_open_id})

    def _granted(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        """List every scope that the app requested; 1 = granted, 2 = not."""
        names = dict.fromkeys((*HEARING, *(scope for _, scope in _SCOPES)))
        listing = [
            {
                "scope_name": name,
                "grant_status": 2 if name in self.missing_scopes else 1,
                "scope_type": "tenant",
            }
            for name in names
        ]
        return ok({"scopes": listing})

    def _person(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if found[1] not in self.people:
            return refusal(41050, "no user authority error")
        return ok({"user": {"open_id": found[1], "name": self.people[found[1]]}})

    def _chat(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        return ok({"name": "", "chat_mode": "group", **self.chats.get(found[1], {})})

    # --- messages

    def _send(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        kind, to = call.query.get("receive_id_type", ""), str(call.body.get("receive_id", ""))
        if not to.startswith(_KINDS.get(kind, "")):
            return refusal(230001, f"Your request contains an invalid request parameter, ext=invalid {kind}")
        if to in self.left:
            return refusal(230002, "Bot/User can NOT be out of the chat.")
        return self._say(call, to)

    def _reply(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        target = self.messages.get(found[1])
        if target is None or target.deleted:
            return refusal(230011, "The message was withdrawn.")
        thread = target.thread_id
        if call.body.get("reply_in_thread") and not thread:
            thread = target.thread_id = self.fresh("omt_")
        return self._say(call, target.chat_id, reply_to=found[1], thread=thread)

    def _say(self, call: FakeCall, chat: str, reply_to: str = "", thread: str = "") -> FakeAnswer:
        kind, content, uuid = call.body.get("msg_type"), call.body.get("content"), call.body.get("uuid", "")
        if uuid in self._uuids and self._now() - self._uuids[uuid][1] < UUID_SECONDS:
            return ok(self._told(self.messages[self._uuids[uuid][0]]))
        if fault := self._unfit(kind, content, uuid, len(call.raw)):
            return fault
        shown = Shown(
            self.fresh("om_"),
            chat,
            str(kind),
            json.loads(content),
            self.app_id,
            "app",
            self._now(),
            reply_to,
            thread,
        )
        if kind == "interactive" and shown.content.get("type") != "card":
            self._desk.keep(shown.message_id, shown.content)
        self.messages[shown.message_id] = shown
        if uuid:
            self._uuids[uuid] = shown.message_id, self._now()
        return ok(self._told(shown))

    def _unfit(self, kind: Any, content: Any, uuid: Any, size: int) -> FakeAnswer | None:
        if kind not in _TYPES or not isinstance(content, str) or len(uuid) > 50:
            return refusal(230001, "Your request contains an invalid request parameter")
        try:
            parsed = json.loads(content)
        except ValueError:
            return refusal(230001, "content is not a string in json format")
        if size > (TEXT_BYTES if kind == "text" else RICH_BYTES):
            return refusal(230025, "The length of the message content reaches its limit.")
        if kind == "interactive":
            card = parsed.get("data", {}).get("card_id") if parsed.get("type") == "card" else None
            if card is not None and card not in self.cards:
                return refusal(
                    230099, "Failed to create card content, ext=ErrCode: 11310; ErrMsg: cardid is invalid"
                )
            if tables(content) > TABLES:
                return refusal(
                    230099,
                    "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card table number over limit",
                )
        key = parsed.get("image_key") or parsed.get("file_key")
        if kind in ("image", "file", "audio", "media") and key not in self.files:
            return refusal(230001, "invalid key")
        return None

    def _told(self, shown: Shown) -> dict[str, Any]:
        content = json.dumps(shown.content, ensure_ascii=False)
        return {
            "message_id": shown.message_id,
            "chat_id": shown.chat_id,
            "msg_type": shown.msg_type,
            "create_time": str(round(shown.at * 1000)),
            "deleted": shown.deleted,
            "body": {"content": content},
            "sender": {"id": shown.sender, "sender_type": shown.sender_type},
            **({"thread_id": shown.thread_id} if shown.thread_id else {}),
            **({"parent_id": shown.reply_to} if shown.reply_to else {}),
        }

    def _get(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        shown = self.messages.get(found[1])
        return (
            ok({"items": [self._told(shown)]}) if shown else refusal(230110, "The message has been deleted.")
        )

    def _in_thread(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        kind, wanted = call.query.get("container_id_type"), call.query.get("container_id")
        if kind not in ("thread", "chat") or not wanted:
            return refusal(230001, "Your request contains an invalid request parameter")
        there = self.messages.values()
        items = [one for one in there if wanted == (one.thread_id if kind == "thread" else one.chat_id)]
        return ok({"items": [self._told(one) for one in items], "has_more": False})

    def _edit(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        shown = self.messages.get(found[1])
        if shown is None or shown.sender != self.app_id or shown.msg_type not in ("text", "post"):
            return refusal(230054, "This operation is not supported for this message type.")
        shown.msg_type, shown.content = call.body["msg_type"], json.loads(call.body["content"])
        shown.edits += 1
        return ok(self._told(shown))

    def _change_card(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        """Replace an inline card of a message; CardKit cards have calls of their own."""
        shown = self.messages.get(found[1])
        if shown is None or shown.sender != self.app_id or shown.msg_type != "interactive":
            return refusal(230054, "This operation is not supported for this message type.")
        if shown.content.get("type") == "card" or tables(call.body["content"]) > TABLES:
            return refusal(230099, "Failed to create card content, ext=ErrCode: 11310; ErrMsg: not this card")
        shown.content = json.loads(call.body["content"])
        self._desk.keep(shown.message_id, shown.content)
        shown.edits += 1
        return ok({})

    def _recall(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        shown = self.messages.get(found[1])
        if shown is None or shown.sender != self.app_id:
            return refusal(230026, "No permission to recall this message.")
        shown.deleted = True
        return ok({})

    # --- reactions

    def _react(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if found[1] not in self.messages:
            return refusal(231003, "The message is not found.")
        id = self.fresh("re_")
        self.reactions[id] = found[1], call.body["reaction_type"]["emoji_type"], self.app_id
        return ok({"reaction_id": id})

    def _reacted(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        items = [
            {"reaction_id": id, "operator": {"operator_id": who, "operator_type": "app"}}
            for id, (message, kind, who) in self.reactions.items()
            if message == found[1] and kind == call.query.get("reaction_type", kind)
        ]
        return ok({"items": items, "has_more": False})

    def _unreact(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        return ok({}) if self.reactions.pop(found[2], None) else refusal(231003, "The reaction is not found.")

    # --- files

    def _resource(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        shown = self.messages.get(found[1])
        if shown is None or found[2] not in json.dumps(shown.content) or found[2] not in self.files:
            return refusal(234003, "File not in msg.")
        if call.query.get("type") not in ("image", "file"):
            return refusal(234001, "Invalid request param.")
        return FakeAnswer(body=self.files[found[2]], content_type="application/octet-stream")

    def _image(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        return self._upload(call.body.get("image"), IMAGE_BYTES, "image_key", "img_v3_")

    def _file(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if not call.body.get("file_name") or not call.body.get("file_type"):
            return refusal(234001, "Invalid request param.")
        return self._upload(call.body.get("file"), FILE_BYTES, "file_key", "file_v3_")

    def _upload(self, data: Any, most: int, name: str, prefix: str) -> FakeAnswer:
        if not isinstance(data, bytes) or not data:
            return refusal(234010, "File's size can't be 0.")
        if len(data) > most:
            return refusal(234006, "The file size exceed the max value.")
        key = self.fresh(prefix)
        self.files[key] = data
        return ok({name: key})

    # --- cards

    def _card_id(self, message_id: str) -> str:
        content = self.messages[message_id].content
        return str(content["data"]["card_id"]) if content.get("type") == "card" else message_id

    def _convert(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        shown = self.messages.get(str(call.body.get("message_id")))
        if shown is None or shown.deleted or shown.msg_type != "interactive":
            return refusal(200770, "message is not a card")
        return ok({"card_id": self._card_id(shown.message_id)})
