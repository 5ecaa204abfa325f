"""Fake CardKit cards: sequences, repeats, whole texts, ten calls a second."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from claw_feishu.fake.server import FakeAnswer, FakeCall

CARD_CALLS = 10


@dataclass
class CardState:
    """A card of CardKit.

    :ivar history: every text shown.
    :ivar jumps: number of texts that did not begin with the one before, so that the display restarted.
    :ivar finished: number of times streaming was switched off.
    """

    data: dict[str, Any]
    streaming: bool
    sequence: int = 0
    history: list[str] = field(default_factory=list)
    jumps: int = 0
    finished: int = 0
    calls: list[float] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of its Markdown elements."""
        return "\n".join(
            part["content"] for part in self.data["body"]["elements"] if part["tag"] == "markdown"
        )


def ok(data: Any = None, **more: Any) -> FakeAnswer:
    """Build a success answer."""
    return FakeAnswer(
        body={"code": 0, "msg": "success", **({"data": data} if data is not None else {}), **more}
    )


def refusal(code: int, msg: str, status: int = 400, headers: dict[str, str] | None = None) -> FakeAnswer:
    """Build a refusal, with a log id as in a real one."""
    body = {"code": code, "msg": msg, "error": {"log_id": "20260101fake"}}
    return FakeAnswer(status, body, headers or {})


class Cards:
    """The cards of one app.

    :ivar states: by card id; a card that was sent inline, by its message id.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.states: dict[str, CardState] = {}
        self._done: set[tuple[str, str]] = set()

    def make(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        """Create a card that is in no chat."""
        if call.body.get("type") != "card_json" or not isinstance(call.body.get("data"), str):
            return refusal(200610, "body is nil or type is illegal")
        id = str(7355439197428236000 + len(self.states))
        self.keep(id, json.loads(call.body["data"]))
        return ok({"card_id": id})

    def keep(self, id: str, data: dict[str, Any]) -> None:
        """Store a card that was sent inline."""
        self.states[id] = CardState(data, bool(data.get("config", {}).get("streaming_mode")))

    def _change(self, call: FakeCall, id: str) -> CardState | FakeAnswer:
        card, sequence = self.states.get(id), call.body.get("sequence")
        if card is None:
            return refusal(200740, "card is not exist")
        uuid = str(call.body.get("uuid") or "")
        if (id, uuid) in self._done:
            return ok({})  # a repeat: already carried out
        if not isinstance(sequence, int) or sequence <= card.sequence:
            return refusal(300317, "sequence number compare failed")
        card.calls = [at for at in card.calls if at > self._now() - 1] + [self._now()]
        if len(card.calls) > CARD_CALLS:
            return refusal(
                99991400,
                "request trigger frequency limit",
                429,
                {"x-ogw-ratelimit-limit": "10", "x-ogw-ratelimit-reset": "1"},
            )
        card.sequence = sequence
        if uuid:
            self._done.add((id, uuid))
        return card

    def write(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        """Set the whole text of one element."""
        card = self._change(call, found[1])
        if isinstance(card, FakeAnswer):
            return card
        if not card.streaming:
            return refusal(300309, "streaming mode is closed")
        text = str(call.body["content"])
        for part in card.data["body"]["elements"]:
            if part.get("element_id") == found[2]:
                card.jumps += not text.startswith(part["content"])
                part["content"] = text
                card.history.append(text)
                return ok({})
        return refusal(300313, "element is not exist")

    def set(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        """Set streaming mode."""
        card = self._change(call, found[1])
        if isinstance(card, FakeAnswer):
            return card
        streaming = json.loads(call.body["settings"])["config"].get("streaming_mode")
        card.finished += card.streaming and streaming is False
        card.streaming = bool(streaming)
        return ok({})

    def replace(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        """Replace the whole card."""
        card = self._change(call, found[1])
        if isinstance(card, FakeAnswer):
            return card
        card.data = json.loads(call.body["card"]["data"])
        streaming = bool(card.data.get("config", {}).get("streaming_mode"))
        card.finished += card.streaming and not streaming
        card.streaming = streaming
        card.history.append(card.text)
        return ok({})


def tables(content: str) -> int:
    """Return the number of Markdown tables in a card."""
    return len(re.findall(r"\|\s*:?-{3,}:?\s*\|?(?:\\n|$|\")", content))
