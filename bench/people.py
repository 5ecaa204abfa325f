"""Simulated people and their platforms, in a process of their own: their CPU is not claw's.

The addresses of the platforms are the first line on stdout. Each line on stdin is a task, answered by one
line of JSON
with its result. Times are of the clock that all processes share; ``mock.py`` reports the time of the model.
"""

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from claw_discord.fake import FakeDiscord
from claw_feishu.fake import FakeFeishu
from claw_telegram.fake import FakeBotCall, FakeTelegram

PATIENCE_SECONDS = 60
_numbers = itertools.count(1)


class Telegram(FakeTelegram):
    """A Telegram whose people wait for their answers: a session is one chat with one person."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[int, tuple[str, asyncio.Future[None]]] = {}
        self.answered: dict[int, list[str]] = {}

    async def ask(self, session: int, text: str) -> None:
        """Write, and wait until the whole answer is in the chat."""
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[session] = answer_to(text), answered
        self.write(session, text)
        await asyncio.wait_for(answered, PATIENCE_SECONDS)

    def write(self, session: int, text: str) -> None:
        """Write, and do not wait."""
        self.answered.pop(session, None)
        person = {"id": session, "is_bot": False, "first_name": f"P{session}"}
        self.says(text, chat=session, **{"from": person})

    def forget(self) -> None:
        """Drop updates that no gateway has confirmed, so that the next gateway does not get them."""
        self._updates.waiting.clear()

    def _execute(self, call: FakeBotCall) -> Any:
        done = super()._execute(call)
        if call.method in ("sendMessage", "editMessageText"):
            chat, text = int(call.params["chat_id"]), str(call.params["text"])
            self.answered.setdefault(chat, []).append(text)
            wanted, answered = self._waiting.get(chat, ("", None))
            if answered and text.endswith(wanted) and not answered.done():
                answered.set_result(None)
        return done


class Callers:
    """Programs that call the gateway's OpenAI-compatible API: a session is a user on its own keep-alive
    connection.
    """

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._lines: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def ask(self, session: int, text: str) -> None:
        """Call, and wait for the whole answer."""
        if session not in self._lines:
            self._lines[session] = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._lines[session]
        body = json.dumps(
            {"model": "claw", "user": f"u{session}", "messages": [{"role": "user", "content": text}]}
        ).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Authorization: Bearer {self._token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        told = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
        length = next(line for line in told.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        answer = json.loads(await reader.readexactly(int(length.split(b":")[1])))
        assert answer["choices"][0]["message"]["content"].endswith(answer_to(text)), answer


def words(think: int) -> str:
    """Return a message of a person; the model reads its script from it."""
    return f"[[bench rounds=0 think={think}]] go on, {next(_numbers)}"


def answer_to(text: str) -> str:
    """Return the end of the model's answer to ``words``."""
    return f"all of it: {text.rpartition(' ')[2]}"


async def load(
    ask: Callable[..., Any], sessions: int, think: int, seconds: float, turns: int
) -> dict[str, float]:
    """Run sessions in parallel, each of which sends its next message after its answer.

    :param turns: maximum per session, since a long history has a cost of its own.
    """
    until, took = time.monotonic() + seconds, []

    async def talk(session: int) -> None:
        for _ in range(turns):
            if (began := time.monotonic()) >= until:
                break
            await ask(session, words(think))
            took.append(time.monotonic() - began)

    began = time.monotonic()
    await asyncio.gather(*(talk(1000 * sessions + think + number) for number in range(1, sessions + 1)))
    middle = sorted(took)[len(took) // 2]
    return {
        "turns": len(took),
        "seconds": time.monotonic() - began,
        "median_ms": 1000 * middle,
        "p95_ms": 1000 * sorted(took)[int(len(took) * 0.95)],
    }


async def flood(telegram: Telegram, messages: int, chats: int) -> dict[str, Any]:
    """Send all messages at once over so many chats; wait until every chat has an answer and nothing is
    pending.
    """
    telegram.answered.clear()
    began = time.monotonic()
    for number in range(messages):
        telegram.write(900_000 + number % chats, words(0))
    while telegram.pending:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.05)
    taken_in = time.monotonic() - began
    count = -1
    while len(telegram.answered) < chats or count != sum(map(len, telegram.answered.values())):
        count = sum(map(len, telegram.answered.values()))
        await asyncio.sleep(1.5)
    return {"taken_in_seconds": taken_in, "chats_answered": len(telegram.answered), "answers": count}


async def main() -> None:
    """Serve the platforms, and run the tasks one by one."""
    async with contextlib.AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(Telegram())
        feishu = await stack.enter_async_context(FakeFeishu())
        discord = await stack.enter_async_context(FakeDiscord(heartbeat_ms=41_250))
        places = {
            "telegram": {"botToken": telegram.token, "apiBase": telegram.url},
            "feishu": {"appId": feishu.app_id, "appSecret": feishu.app_secret, "domain": feishu.url},
            "discord": {
                "token": discord.token,
                "apiBase": discord.api_base,
                "gatewayUrl": discord.gateway_url,
            },
        }
        print(json.dumps(places), flush=True)
        callers: dict[int, Callers] = {}
        while line := await asyncio.to_thread(sys.stdin.readline):
            task = json.loads(line)
            if task["do"] == "write":
                telegram.write(task["session"], words(0))
                told: Any = {"at": time.monotonic()}
            elif task["do"] == "answered":
                while task["session"] not in telegram.answered:  # noqa: ASYNC110 - a millisecond is fine enough
                    await asyncio.sleep(0.001)
                told = {"at": time.monotonic()}
            elif task["do"] == "forget":
                told = telegram.forget()
            elif task["do"] == "flood":
                told = await flood(telegram, task["messages"], task["chats"])
            else:
                port = task.get("port", 0)
                ask = callers.setdefault(port, Callers(port, task["token"])).ask if port else telegram.ask
                told = await load(ask, task["sessions"], task["think"], task["seconds"], task["turns"])
            print(json.dumps(told), flush=True)


asyncio.run(main())
