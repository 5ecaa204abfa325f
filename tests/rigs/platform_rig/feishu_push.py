"""Events of the Open API, pushed as signed and encrypted webhooks (open.feishu.cn, "receive events" and "encrypt key").

An event that is not answered with 200 within three seconds is pushed again, on the platform after 15 s, 5 min, 1 h and
6 h. A life of the rig is shorter than that, so its pauses are; and it does not give up. The platform promises no order
behind a failed push: the rig pushes the messages of a chat one after another, so that their order can be judged.
"""

import asyncio
import base64
import hashlib
import json
import os
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from rigs.platform_rig.faults import Fault, Faults
from rigs.platform_rig.feishu_types import wrong_in_event, wrong_in_push

ENCRYPT_KEY = "rigFk-8c20e1d7a9b4"
VERIFICATION_TOKEN = "rigVt0c9YpZ1aB7mFx2QeLsd"
_MOST_SECONDS = 3.0
_PAUSES = (0.5, 1.0, 2.0, 4.0)
_OTHER_ID = 0.2
"""Share of repeats that have another event id; users report them for reconnects. The message id stays."""
_TWICE_SECONDS = 10.0


@dataclass
class Event:
    """An event that waits.

    :ivar question: of the message; empty = it is another event.
    """

    document: dict[str, Any]
    question: str = ""


def sealed(document: dict[str, Any]) -> tuple[dict[str, str], bytes]:
    """Return headers and body of a push: AES-256-CBC with the digest of the key, and the signature over the body."""
    vector, padder = os.urandom(16), PKCS7(128).padder()
    text = padder.update(json.dumps(document, ensure_ascii=False).encode()) + padder.finalize()
    cipher = Cipher(
        algorithms.AES(hashlib.sha256(ENCRYPT_KEY.encode()).digest()), modes.CBC(vector)
    ).encryptor()
    encrypted = base64.b64encode(vector + cipher.update(text) + cipher.finalize()).decode()
    body = json.dumps({"encrypt": encrypted}).encode()
    stamp, nonce = str(int(time.time())), uuid.uuid4().hex[:10]
    signature = hashlib.sha256(f"{stamp}{nonce}{ENCRYPT_KEY}".encode() + body).hexdigest()
    headers = {
        "Content-Type": "application/json; charset=utf-8", "User-Agent": "Lark/1.0",
        "X-Lark-Request-Timestamp": stamp, "X-Lark-Request-Nonce": nonce, "X-Lark-Signature": signature,
    }  # fmt: skip
    return headers, body


class FeishuPush:
    """The events of one app.

    :param confirm: is called with the question of each message that was taken.
    :ivar port: of this machine, where the path is served; 0 = nothing is pushed yet.
    :ivar twice: share of messages that are pushed once more, with another event id, after they were taken.
    :ivar waiting: by chat, the events that are not taken yet; ``taken``: all that were.
    :ivar posts: pushes that were answered with 200; ``repeats``: pushes of an event that was pushed before.
    """

    def __init__(self, app: str, tenant: str, faults: Faults, confirm: Callable[[str], None]) -> None:
        self._app, self._tenant, self._faults, self._confirm = app, tenant, faults, confirm
        self.port, self.path, self.twice, self.posts, self.repeats = 0, "", 0.0, 0, 0
        self.illformed: list[str] = []
        self.waiting: dict[str, deque[Event]] = defaultdict(deque)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._later: set[asyncio.Task[None]] = set()
        self.taken: list[Event] = []

    def tell(self, kind: str, chat: str, event: dict[str, Any], question: str = "") -> None:
        """Push an event, behind those of its chat that wait."""
        header = {
            "event_id": uuid.uuid4().hex, "token": VERIFICATION_TOKEN, "create_time": str(int(time.time() * 1000)),
            "event_type": kind, "tenant_key": self._tenant, "app_id": self._app,
        }  # fmt: skip
        document = {"schema": "2.0", "header": header, "event": event}
        self.illformed += wrong_in_event(document) + wrong_in_push(
            *sealed(document), ENCRYPT_KEY, VERIFICATION_TOKEN
        )
        self.waiting[chat].append(Event(document, question))
        if chat not in self._tasks or self._tasks[chat].done():
            self._tasks[chat] = asyncio.create_task(self._push_chat(chat))

    async def again(self, event: Event, *, other_id: bool) -> int:
        """Push an event that was taken; return the status of the response, 0 = none."""
        self.repeats += 1
        return await self._push(_with_other_id(event) if other_id else event)

    async def end(self) -> None:
        """Push no more."""
        tasks = [*self._tasks.values(), *self._later]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _push_chat(self, chat: str) -> None:
        dice, waiting = self._faults.dice, self.waiting[chat]
        while waiting:
            event, tries = waiting[0], 0
            while not await self._delivered(event):
                await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries, self.repeats = tries + 1, self.repeats + 1
                if dice.random() < _OTHER_ID:
                    event = _with_other_id(event)
            self.posts += 1
            self._confirm(event.question)
            self.taken.append(event)
            waiting.popleft()
            if dice.random() < self.twice:
                task = asyncio.create_task(self._push_later(event, dice.uniform(0, _TWICE_SECONDS)))
                self._later.add(task)
                task.add_done_callback(self._later.discard)

    async def _push_later(self, event: Event, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.again(event, other_id=True)

    async def _delivered(self, event: Event) -> bool:
        """Push an event; return true if it was taken, and the service has heard that."""
        fault = self._faults.next("webhook", is_news=True)
        if fault is Fault.CUT_BEFORE:
            return False
        return await self._push(event) == 200 and fault is Fault.NONE

    async def _push(self, event: Event) -> int:
        if not self.port:
            return 0
        headers, body = sealed(event.document)
        try:
            async with httpx.AsyncClient(verify=False, timeout=_MOST_SECONDS) as client:
                address = f"http://127.0.0.1:{self.port}{self.path}"
                return (await client.post(address, content=body, headers=headers)).status_code
        except httpx.HTTPError:
            return 0


def _with_other_id(event: Event) -> Event:
    document = {**event.document, "header": {**event.document["header"], "event_id": uuid.uuid4().hex}}
    return Event(document, event.question)
