"""Questions to the model, and its answers, which depend on the request alone.

A question is ``ask-NUMBER-KIND``. An answer has a label for each of its parts, ``mNUMBERpPARTxPARTS``, by which the
checker finds every part of every answer in the chats.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from claw_testing.services import ReceivedRequest, ServiceReply

KINDS = ("plain", "long", "jot", "hush")
"""A short answer; one of several messages; a tool whose effect may happen once; silence."""
ASKED = re.compile(r"ask-(\d+)-(\w+)")
LABEL = re.compile(r"\bm(\d+)p(\d+)x(\d+)\b")
SILENCE = "NO_REPLY"
_PARTS, _PART_CHARS, _SHORT_CHARS, _FEW = 3, 1500, 200, 3


def question(number: int, kind: str) -> str:
    """The words of a person."""
    return f"ask-{number}-{kind}"


def answer(request: ReceivedRequest) -> ServiceReply:
    """Return the next answer in this conversation (Chat Completions)."""
    asked: dict[int, str] = {}
    settled: set[int] = set()
    jotted: set[int] = set()
    for message in request.body["messages"]:
        text = _text(message)
        if message["role"] == "user":
            asked |= {int(number): kind for number, kind in ASKED.findall(text)}
        elif message["role"] == "assistant":
            settled |= {int(number) for number, _, _ in LABEL.findall(text)}
            jotted |= {
                json.loads(call["function"]["arguments"])["number"] for call in message.get("tool_calls", ())
            }
    left = {number: kind for number, kind in asked.items() if number not in settled and kind != "hush"}
    if to_jot := [number for number, kind in left.items() if kind == "jot" and number not in jotted]:
        return ServiceReply(calls=[("jot", {"number": number}) for number in to_jot])
    if not left:
        return ServiceReply(SILENCE)
    chars = _PART_CHARS if len(left) <= _FEW else _SHORT_CHARS  # one card of Feishu's holds it, or two
    text = "\n\n".join(_answered(number, kind, chars) for number, kind in left.items())
    if "long" in left.values():  # slowly, so that people see it grow
        return ServiceReply(text, delay_seconds=0.3, pause_seconds=0.1)
    return ServiceReply(text)


def _answered(number: int, kind: str, chars: int) -> str:
    if kind != "long":
        return f"m{number}p1x1 is what I have to say about that, and it is not much."
    filler = "All of this was asked for, word by word. "
    parts = (f"m{number}p{part}x{_PARTS} {filler * (chars // len(filler))}" for part in range(1, _PARTS + 1))
    return "\n\n".join(part.strip() for part in parts)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
