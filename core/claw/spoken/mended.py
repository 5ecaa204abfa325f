"""JSON as weak models write it, read as it was meant where there is no doubt (pure)."""

import ast
import json
import re
from typing import Any, Never

_MOST_CHARS = 2_000_000
_LITERALS = {"True": "true", "False": "false", "None": "null"}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]|\b(?:True|False|None)\b', re.DOTALL)
_CLOSES = {"{": "}", "[": "]"}


def read_json(text: str) -> Any:
    """The value that ``text`` writes.

    Mended are: line ends inside a string, commas before a closing bracket, brackets that are missing at the very end,
    Python's spelling (single quotes, True, None). A string that does not end is not: what it would have said is unknown.

    :raises ValueError: it is none, even so; with a short reason in words.
    """
    if len(text) > _MOST_CHARS:
        raise ValueError("it is too long")
    try:
        return _strict(text)
    except (ValueError, RecursionError) as why:
        first = str(why) or "it is nested too deeply"
    for read, written in ((_strict, _patched(text)), (_python, text)):
        try:
            return read(written)
        except (ValueError, RecursionError):
            continue
    raise ValueError(first)


def _strict(text: str) -> Any:
    return json.loads(text, strict=False, parse_constant=_no_number)


def _no_number(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def _python(text: str) -> Any:
    if len(text) > _MOST_CHARS // 20:  # its parser takes a hundred times the memory
        raise ValueError("it is too long")
    try:
        value = ast.literal_eval(text.strip())
        json.dumps(value, allow_nan=False)
    except (SyntaxError, TypeError, MemoryError) as why:
        raise ValueError(str(why)) from None
    return value


def _patched(text: str) -> str:
    """Outside of strings: no comma before a bracket, JSON's words for Python's, closing brackets at the end."""
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
    if '"' in rest:  # a string without an end
        return text
    if comma >= 0 and not rest.strip():
        pieces[comma] = ""
    return "".join([*pieces, rest, *reversed(open_brackets)])
