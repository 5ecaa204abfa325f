"""Fake Bot API server on a loopback port, for tests and for trials without an account.

async with FakeTelegram() as fake:
    fake.says("hello")                       # a user writes in a direct chat
    ...                                      # a bot with fake.token at fake.url answers
    assert fake.shown(fake.CHAT) == ["hi"]

It holds ``getUpdates`` as the real one does, forgets confirmed updates, answers 409 when two poll or a webhook is set,
refuses what the real one refuses, and can be made to fail, hang or drop the connection.
"""

import asyncio
import itertools
import json
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from claw_telegram.fake_html import CannotParse, parse, utf16_units
from claw_telegram.fake_http import FakeHttpRequest, answer, read_request
from claw_telegram.fake_updates import FakeRefusal, Updates

__all__ = ["FakeBotCall", "FakeRefusal", "FakeTelegram", "too_fast"]

TEXT, CAPTION = 4096, 1024
UPLOAD_BYTES, DOWNLOAD_BYTES = 50 << 20, 20 << 20
_NOT_MODIFIED = (
    "Bad Request: message is not modified: specified new message content and reply markup are the same"
)
_FILES = ("photo", "document", "voice", "audio", "video", "animation")

_FIRST_SUPERGROUP = -1_000_000_000_000
_USER = {"id": 111222333, "is_bot": False, "first_name": "Zhang", "username": "zhangsan"}

Json = dict[str, Any]


def too_fast(seconds: float) -> FakeRefusal:
    """Build a 429 answer with the seconds to wait."""
    return FakeRefusal(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


@dataclass(frozen=True)
class FakeBotCall:
    """One call by the bot as received, including refused ones."""

    method: str
    params: Json
    files: dict[str, tuple[str, str, bytes]]
    headers: dict[str, str]


@dataclass
class _FakeFault:
    method: str
    refusal: FakeRefusal | None
    times: int
    kind: str = "refuse"
    released: asyncio.Event = field(default_factory=asyncio.Event)


class FakeTelegram:
    """The fake Telegram service and the users who write to the bot.

    :ivar topics: chat id → existing topics; other chats have none.
    :ivar drafts: chat id → every draft shown: number and text.
    :ivar calls_per_second: calls to chats that are allowed within a second, in all; 0 = any number. More are refused
        with 429 and a pause of ``pause_seconds``; ``too_many`` counts them.
    """

    CHAT, GROUP = 111222333, -1001987654321

    def __init__(
        self, token: str = "6543210987:AAE_fake-token-of-a-loopback-service01", username: str = "claw_bot"
    ) -> None:
        self.token = token
        self.bot: Json = {
            "id": int(token.partition(":")[0]),
            "is_bot": True,
            "first_name": "Claw",
            "username": username,
        }
        self.log: list[FakeBotCall] = []
        self.topics: dict[int, set[int]] = {}
        self.messages: dict[int, dict[int, Json]] = {}
        self.files: dict[str, bytes] = {}
        self.drafts: dict[int, list[tuple[int, str]]] = {}
        self.calls_per_second, self.pause_seconds, self.too_many = 0, 3, 0
        self._call_times: deque[float] = deque()
        self._updates = Updates()
        self._message_ids: defaultdict[int, Iterator[int]] = defaultdict(lambda: itertools.count(100))
        self._query_ids = itertools.count(1)
        self._faults: list[_FakeFault] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    async def __aenter__(self) -> "FakeTelegram":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, port: int = 0) -> None:
        """Listen on loopback; ``url`` is the address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._begin(self._updates.call_webhook())

    async def close(self) -> None:
        """Stop and cut every open connection."""
        if self._server:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- users

    def says(self, text: str = "", *, chat: int = CHAT, **fields: Any) -> Json:
        """Send a message from a user; ``fields`` are those of a message. Return the update for the bot."""
        return self.update(message=self.message(text, chat=chat, **fields))

    def message(self, text: str = "", *, chat: int = CHAT, **fields: Any) -> Json:
        """Store a user's message without an update to the bot."""
        forum = {"is_forum": True} if chat in self.topics else {}
        words = {"text": text} if text else {}
        return self._add(chat, {"from": _USER, "chat": _chat(chat) | forum, **words, **fields})

    def presses(self, message_id: int, data: str, *, chat: int = CHAT) -> Json:
        """Press a button below a message."""
        who = {"id": 111222333, "is_bot": False, "first_name": "Zhang"}
        query = {"id": f"query-{next(self._query_ids)}", "from": who, "chat_instance": "-377", "data": data}
        return self.update(callback_query=query | {"message": self.messages[chat][message_id]})

    def update(self, **kind: Any) -> Json:
        """Add any other update."""
        return self._updates.add(kind)

    # --- inspection and faults

    def shown(self, chat: int = CHAT) -> list[str]:
        """Return the visible texts of the bot's messages in a chat."""
        ours = [one for one in self.messages.get(chat, {}).values() if one["from"]["id"] == self.bot["id"]]
        return [one.get("text", one.get("caption", "")) for one in ours]

    def calls(self, method: str) -> list[Json]:
        """Return the parameters of each call of a method."""
        return [call.params for call in self.log if call.method == method]

    @property
    def pending(self) -> list[int]:
        """Ids of the unconfirmed updates."""
        return [update["update_id"] for update in self._updates.waiting]

    @property
    def webhook(self) -> Json:
        """The current webhook: its ``url`` and ``secret``; a test may set one."""
        return self._updates.webhook

    @webhook.setter
    def webhook(self, webhook: Json) -> None:
        self._updates.webhook = webhook

    def fail(self, method: str, refusal: FakeRefusal, times: int = 1) -> None:
        """Refuse the next calls of a method."""
        self._faults.append(_FakeFault(method, refusal, times))

    def drop(self, method: str, times: int = 1, *, after: bool = False) -> None:
        """Cut the connection at the next calls; ``after``: once they were carried out.

        :param method: of the Bot API; ``file`` = in the middle of a file.
        """
        self._faults.append(_FakeFault(method, None, times, "drop after" if after else "drop"))

    def hang(self, method: str, times: int = 1) -> asyncio.Event:
        """Leave the next calls unanswered until the event is set."""
        fault = _FakeFault(method, None, times, "hang")
        self._faults.append(fault)
        return fault.released

    # --- the service

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while asked := await read_request(reader):
                answered = await self._answer(asked, reader)
                if answered is None:
                    break
                cut = asked.path.startswith("/file/") and self._fault("file") is not None
                writer.write(answered[: len(answered) // 2] if cut else answered)
                await writer.drain()
                if cut:
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, asked: FakeHttpRequest, reader: asyncio.StreamReader) -> bytes | None:
        """Return the bytes of an answer; None = cut the connection."""
        kind, _, rest = asked.path.lstrip("/").partition("/")
        if kind == "file":
            return self._file(rest)
        token, method = kind.removeprefix("bot"), rest
        call = FakeBotCall(method, asked.params, asked.files, asked.headers)
        self.log.append(call)
        fault = self._fault(method)
        try:
            if fault and fault.kind == "hang":
                await fault.released.wait()
            if fault and fault.kind == "drop":
                return None
            if fault and fault.refusal:
                raise fault.refusal
            if token != self.token:
                raise FakeRefusal(401, "Unauthorized") if ":" in token else FakeRefusal(404, "Not Found")
            self._check_pace(asked.params)
            result = (
                await self._updates.poll(asked.params, reader)
                if method == "getUpdates"
                else self._execute(call)
            )
        except FakeRefusal as no:
            if no.is_page:
                return answer(no.status, no.description.encode(), "text/html")
            body = {"ok": False, "error_code": no.status, "description": no.description}
            body |= {"parameters": no.parameters} if no.parameters else {}
            return answer(no.status, json.dumps(body).encode())
        if fault and fault.kind == "drop after":
            return None
        return answer(200, json.dumps({"ok": True, "result": result}).encode())

    def _check_pace(self, params: Mapping[str, Any]) -> None:
        """Count a call to a chat; refuse it when the calls of this second are used up."""
        if not self.calls_per_second or "chat_id" not in params:
            return
        now = time.monotonic()
        while self._call_times and self._call_times[0] <= now - 1:
            self._call_times.popleft()
        if len(self._call_times) >= self.calls_per_second:
            self.too_many += 1
            raise too_fast(self.pause_seconds)
        self._call_times.append(now)

    def _fault(self, method: str) -> _FakeFault | None:
        for fault in self._faults:
            if fault.method == method and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    def _execute(self, call: FakeBotCall) -> Any:
        match call.method:
            case "getMe":
                return self.bot | {
                    "can_join_groups": True,
                    "can_read_all_group_messages": False,
                    "supports_inline_queries": False,
                }
            case "sendMessage":
                return self._post(call.params, *self._visible_text(call.params, "text", TEXT))
            case "sendMessageDraft":
                return self._draft(call.params)
            case "editMessageText":
                return self._edit(call.params)
            case "editMessageReplyMarkup":
                return self._edit_keyboard(call.params)
            case "deleteMessage":
                if self.messages.get(call.params["chat_id"], {}).pop(call.params["message_id"], None) is None:
                    raise FakeRefusal(400, "Bad Request: message to delete not found")
                return True
            case "sendPoll":
                options = [{"text": one["text"], "voter_count": 0} for one in call.params["options"]]
                return self._post(
                    call.params, {"poll": {"question": call.params["question"], "options": options}}
                )
            case "getFile":
                return self._get_file(call.params["file_id"])
            case "setWebhook":
                return self._updates.set_webhook(call.params)
            case "deleteWebhook":
                return self._updates.set_webhook({**call.params, "url": ""})
            case "getWebhookInfo":
                said = {
                    name: self.webhook[name] for name in ("url", "last_error_message") if name in self.webhook
                }
                return {"has_custom_certificate": False, "pending_update_count": len(self.pending), **said}
            case "sendChatAction" | "setMessageReaction" | "setMyCommands" | "answerCallbackQuery":
                return True
        if call.method.startswith("send") and call.files:
            return self._post_file(call)
        raise FakeRefusal(404, "Not Found: method not found")

    # --- messages

    def _visible_text(self, params: Mapping[str, Any], name: str, most: int) -> tuple[Json, ...]:
        """Return the text or caption as shown, with its entities."""
        text, entities = str(params.get(name, "")).strip(), []
        if params.get("parse_mode") == "HTML":
            try:
                parsed = parse(str(params.get(name, "")))
            except CannotParse as why:
                raise FakeRefusal(400, f"Bad Request: can't parse entities: {why}") from None
            text, entities = parsed.text, parsed.entities
        if utf16_units(text) > most:
            raise FakeRefusal(
                400, f"Bad Request: {'message is' if name == 'text' else 'message caption is'} too long"
            )
        if not text and name == "text":
            raise FakeRefusal(400, "Bad Request: message text is empty")
        marks = {("entities" if name == "text" else "caption_entities"): entities} if entities else {}
        return ({name: text, **marks} if text else {},)

    def _add(self, chat: int, content: Json) -> Json:
        """Add a message, with the next id of its chat: a supergroup or channel has a sequence of its own, all other chats
        of the account share one (https://core.telegram.org/api/updates#message-related-event-sequences)."""
        id = next(self._message_ids[chat if chat <= _FIRST_SUPERGROUP else 0])
        made = self.messages.setdefault(chat, {})[id] = {"message_id": id, "date": 1781534000, **content}
        return made

    def _post(self, params: Mapping[str, Any], content: Json) -> Json:
        chat, thread = params["chat_id"], params.get("message_thread_id")
        if thread is not None and (thread == 1 or thread not in self.topics.get(chat, ())):
            raise FakeRefusal(400, "Bad Request: message thread not found")
        quoted = self._quoted(params, chat)
        if markup := params.get("reply_markup"):
            _check_keyboard(markup)
        made: Json = {"from": self.bot, "chat": _chat(chat), **content}
        made |= {"message_thread_id": thread, "is_topic_message": True} if thread else {}
        made |= {"reply_to_message": quoted} if quoted else {}
        made |= {"reply_markup": markup} if markup else {}
        return self._add(chat, made)

    def _draft(self, params: Mapping[str, Any]) -> bool:
        """Store a draft in a direct chat; an empty text shows only that something is being written."""
        if not isinstance(params["chat_id"], int) or params["chat_id"] < 0 or not params.get("draft_id"):
            raise FakeRefusal(400, "Bad Request: a draft has a number, and is shown in a private chat")
        (words,) = self._visible_text(params, "text", TEXT) if params.get("text") else ({"text": ""},)
        self.drafts.setdefault(params["chat_id"], []).append((params["draft_id"], words["text"]))
        return True

    def _quoted(self, params: Mapping[str, Any], chat: int) -> Json | None:
        wanted = params.get("reply_parameters") or {}
        if not wanted:
            return None
        found = self.messages.get(chat, {}).get(wanted["message_id"])
        if found is None and not wanted.get("allow_sending_without_reply"):
            raise FakeRefusal(400, "Bad Request: message to be replied not found")
        return {name: value for name, value in found.items() if name != "reply_to_message"} if found else None

    def _own(self, params: Mapping[str, Any]) -> Json:
        """Return the message that an edit names, if it is the bot's."""
        current = self.messages.get(params["chat_id"], {}).get(params["message_id"])
        if current is None:
            raise FakeRefusal(400, "Bad Request: message to edit not found")
        if current["from"]["id"] != self.bot["id"]:
            raise FakeRefusal(400, "Bad Request: message can't be edited")
        return current

    def _edit_keyboard(self, params: Mapping[str, Any]) -> Json:
        current, markup = self._own(params), params.get("reply_markup")
        if current.get("reply_markup") == markup:
            raise FakeRefusal(400, _NOT_MODIFIED)
        current.pop("reply_markup", None)
        current |= {"reply_markup": markup} if markup else {}
        return current

    def _edit(self, params: Mapping[str, Any]) -> Json:
        current = self._own(params)
        (content,) = self._visible_text(params, "text", TEXT)
        markup = params.get("reply_markup")
        if markup:
            _check_keyboard(markup)
        old = [current.get(name) for name in ("text", "entities", "reply_markup")]
        if old == [content.get("text"), content.get("entities"), markup]:
            raise FakeRefusal(400, _NOT_MODIFIED)
        for name in ("entities", "reply_markup"):
            current.pop(name, None)
        current.update(content, **({"reply_markup": markup} if markup else {}))
        return current

    def _post_file(self, call: FakeBotCall) -> Json:
        name = next((name for name in _FILES if name in call.files), "")
        if not name:
            raise FakeRefusal(400, "Bad Request: there is no file in the request")
        filename, mime, data = call.files[name]
        if len(data) > UPLOAD_BYTES:
            raise FakeRefusal(413, "Request Entity Too Large")
        id = self.keep(data)
        file: Json = {"file_id": id, "file_unique_id": f"u{id}", "file_size": len(data)}
        sizes = {"width": 1, "height": 1} if name in ("photo", "video", "animation") else {}
        file |= sizes | ({} if name == "photo" else {"duration": 1, "file_name": filename, "mime_type": mime})
        (words,) = self._visible_text(call.params, "caption", CAPTION)
        return self._post(call.params, {name: [file] if name == "photo" else file, **words})

    # --- files

    def keep(self, data: bytes) -> str:
        """Store a file; return its ``file_id``."""
        id = f"file{len(self.files) + 1}"
        self.files[id] = data
        return id

    def _get_file(self, id: str) -> Json:
        if id not in self.files:
            raise FakeRefusal(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        if len(self.files[id]) > DOWNLOAD_BYTES:
            raise FakeRefusal(400, "Bad Request: file is too big")
        return {
            "file_id": id,
            "file_unique_id": f"u{id}",
            "file_size": len(self.files[id]),
            "file_path": f"files/{id}.bin",
        }

    def _file(self, rest: str) -> bytes:
        token, _, path = rest.partition("/")
        id = path.removeprefix("files/").removesuffix(".bin")
        if token != f"bot{self.token}" or id not in self.files:
            return answer(404, b'{"ok":false,"error_code":404,"description":"Not Found"}')
        return answer(200, self.files[id], "application/octet-stream")


def _chat(id: int) -> Json:
    if id > 0:
        return {"id": id, "type": "private", "first_name": "Zhang"}
    return {"id": id, "type": "supergroup", "title": "Project"}


def _check_keyboard(markup: Json) -> None:
    for row in markup.get("inline_keyboard", []):
        for button in row:
            if not 1 <= len(str(button.get("callback_data", "x")).encode()) <= 64:
                raise FakeRefusal(400, "Bad Request: BUTTON_DATA_INVALID")
