"""The cards of CardKit (open.feishu.cn, "streaming cards"): sequences, repeats, streaming mode."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ELEMENT = re.compile(r"[A-Za-z]\w{0,19}")
_MOST_CHARS, CARD_BYTES = 100_000, 30 << 10


class Refused(Exception):
    """A response with a code.

    :ivar status: of HTTP.
    """

    def __init__(
        self, code: int, said: str, status: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(said)
        self.code, self.status, self.headers = code, status, dict(headers or {})

    def document(self) -> dict[str, Any]:
        """Return the body of the response."""
        return {"code": self.code, "msg": str(self), "error": {"log_id": "20260615rig"}}


def too_many(seconds: int) -> Refused:
    """Return the refusal of the frequency control."""
    headers = {"x-ogw-ratelimit-limit": "50", "x-ogw-ratelimit-reset": str(seconds)}
    return Refused(99991400, "request trigger frequency limit", 429, headers)


@dataclass
class Card:
    """A card.

    :ivar message: id of the message that shows it; empty = it is in no chat.
    """

    id: str
    document: dict[str, Any]
    message: str = ""
    sequence: int = 0

    @property
    def is_streaming(self) -> bool:
        """True while a chat list says that it is being generated."""
        return bool(self.document.get("config", {}).get("streaming_mode"))

    @property
    def elements(self) -> list[dict[str, Any]]:
        """The elements of its body."""
        return list(self.document.get("body", {}).get("elements", []))

    @property
    def text(self) -> str:
        """The text that it shows."""
        return "\n".join(str(one.get("content", "")) for one in self.elements if one["tag"] == "markdown")


class Cards:
    """All cards of an app.

    :ivar illformed: what is wrong in cards, though the platform may take them.
    """

    def __init__(self) -> None:
        self.cards: dict[str, Card] = {}
        self.illformed: list[str] = []
        self._done: set[tuple[str, str]] = set()

    def add(self, text: str) -> Card:
        """Add a card; ``text`` is its JSON."""
        document = self._read(text)
        card = Card(str(7355439197428236000 + len(self.cards)), document)
        self.cards[card.id] = card
        return card

    def of_message(self, message: str) -> Card:
        """Return the card that a message shows."""
        for card in self.cards.values():
            if card.message == message:
                return card
        raise Refused(200740, "card is not exist")

    def change(self, id: str, body: Mapping[str, Any]) -> Card | None:
        """Count a change of a card; return the card, or None for a repeat."""
        card = self.cards.get(id)
        if card is None:
            raise Refused(200740, "card is not exist")
        name = str(body.get("uuid") or "")
        if name and (id, name) in self._done:
            return None
        if "sequence" not in body:
            self.illformed.append("a change of a card has no sequence")
        if int(body.get("sequence") or 0) <= card.sequence:
            raise Refused(300317, "sequence number compare failed")
        card.sequence = int(body["sequence"])
        self._done.add((id, name))
        return card

    def write(self, id: str, element: str, body: Mapping[str, Any]) -> None:
        """Set the text of an element."""
        if id in self.cards and not self.cards[id].is_streaming:
            raise Refused(300309, "streaming mode is closed")
        if not 1 <= len(str(body.get("content", ""))) <= _MOST_CHARS:
            self.illformed.append("the text of an element has 1 to 100000 characters")
        card = self.change(id, body)
        if card is None:
            return
        for one in card.elements:
            if one.get("element_id") == element:
                one["content"] = str(body["content"])
                return
        raise Refused(300313, "element is not exist")

    def set(self, id: str, body: Mapping[str, Any]) -> None:
        """Change the settings of a card."""
        card = self.change(id, body)
        if card is not None:
            card.document.setdefault("config", {}).update(json.loads(str(body["settings"])).get("config", {}))

    def replace(self, id: str, body: Mapping[str, Any]) -> None:
        """Replace a card."""
        card = self.change(id, body)
        if card is not None:
            card.document = self._read(str(body["card"]["data"]))

    def _read(self, text: str) -> dict[str, Any]:
        if len(text.encode()) > CARD_BYTES:
            raise Refused(230025, "The length of the message content reaches its limit.")
        try:
            document = json.loads(text)
        except ValueError:
            raise Refused(200610, "body is nil or type is illegal") from None
        if document.get("schema") != "2.0":
            self.illformed.append("a card of CardKit has schema 2.0")
        if document.get("config", {}).get("update_multi") is False:
            self.illformed.append("a card of CardKit is shared: update_multi")
        names = [one["element_id"] for one in document["body"]["elements"] if "element_id" in one]
        if len(set(names)) < len(names) or not all(map(_ELEMENT.fullmatch, names)):
            self.illformed.append(f"the ids of elements {names} are no names")
        return dict(document)
