"""JSON repair: reads the JSON of weak models where its meaning is certain (pure)."""

import ast
import json
import re
from typing import Any, Never

_MAX_CHARS = 2_000_000
_LITERALS = {"True": "true", "False": "false", "None": "null"}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]|\b(?:True|False|None)\b', re.DOTALL)
_CLOSES = {"{": "}", "[": "]"}


def parse_lenient_json(text: str) -> Any:
    """Parse ``text`` as JSON, with repairs.

    Repaired: line ends inside a string, commas before a closing bracket, brackets missing at the very end, Python's
    spelling (single quotes, True, None). An unterminated string is not repaired: the rest of it is unknown.

    :raises ValueError: it is not JSON even after repair; the message is a short reason.
    """
    if len(text) > _MAX_CHARS:
        raise ValueError("it is too long")
    try:
        return _parse_json(text)
    except (ValueError, RecursionError) as why:
        first = str(why) or "it is nested too deeply"
    for read, written in ((_parse_json, _repaired(text)), (_parse_python, text)):
        try:
            return read(written)
        except (ValueError, RecursionError):
            continue
    raise ValueError(first)


def _parse_json(text: str) -> Any:
    return json.loads(text, strict=False, parse_constant=_reject_constant)


def _reject_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def _parse_python(text: str) -> Any:
    if len(text) > _MAX_CHARS // 20:  # Python's parser needs a hundred times the memory
        raise ValueError("it is too long")
    try:
        value = ast.literal_eval(text.strip())
        json.dumps(value, allow_nan=False)
    except (SyntaxError, TypeError, MemoryError) as why:
        raise ValueError(str(why)) from None
    return value


def _repaired(text: str) -> str:
    """Outside of strings: drop commas before a bracket, replace Python's literals, add missing closing brackets."""
    pieces, open_brackets, at, comma = [], [], 0, -1
    for token in _TOKEN.finditer(text):
        between, word = text[at : token.start()], token[0]
        pieces.append(between)
        at = token.end()
        if word in "}]" and comma >= 0 and not between.strip():
            pieces[comma] = ""
        if word in _CLOSES:
            open_brackets.append(_CLOSES[word])
        elif open_brackets and word == open_brackets[-1]:
            open_brackets.pop()
        comma = len(pieces) if word == "," else -1
        pieces.append(_LITERALS.get(word, word))
    rest = text[at:]
    if '"' in rest:  # an unterminated string
        return text
    if comma >= 0 and not rest.strip():
        pieces[comma] = ""
    return "".join([*pieces, rest, *reversed(open_brackets)])
