"""Patterns of secrets: the shapes of well-known keys, and the names before a secret value. Pure.

``secret_shapes.json`` has the tokens: the prefixes that their issuers document, mostly for secret scanning.
``secret_values.txt`` has the forms of a value behind a name, in a URL, a header or a command line.
"""

import base64
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from claw.security.patterns import patterns_of

MASK = "***"

_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_LONG_WORD = re.compile(r"[A-Za-z0-9_+/=~%$|:.-]{16,}")
_CHANGE = re.compile(r"\d[A-Za-z]|[A-Za-z]\d")
_WORD_START = re.compile(r"(?<![A-Za-z0-9])(?=([A-Za-z0-9]..))")
_VALUE_GROUPS = ("quoted", "word", "below", "block", "secret")


def _pattern(name: str) -> str:
    return patterns_of("secret_values.txt")[name]


def _is_message_about_key(text: str, start: int, end: int) -> bool:
    """Return true for ``providers.x.apiKey: the variable ...``: a config key with a sentence about it, as in our errors.
    The value of such a key is known from the config, so it is masked wherever it occurs.
    """
    key, said = text[max(0, start - 80) : start], text[end : end + 60]
    return any(
        re.match(_pattern(sentence), said) and re.search(_pattern(before), key)
        for before, sentence in (("our_key", "sentence"), ("dotted_key", "long_sentence"))
    )


def _mask_header(found: re.Match[str]) -> str:
    if _is_message_about_key(found.string, *found.span("name")):
        return found[0]
    return f"{found[1]}{found['scheme'] or ''}{MASK}"


def mask_patterns(text: str) -> str:
    """Mask the parts of ``text`` that look like secrets; one pass."""
    values = patterns_of("secret_values.txt")
    if "PRIVATE KEY" in text:
        text = re.sub(values["key_block"], MASK, text)
    text = _mask_tokens(text)
    if "://" in text:
        text = re.sub(values["in_url"], _mask_url, text)
    lower = text.lower()
    if "authorization" in lower or "cookie" in lower:
        text = re.sub(values["header"], _mask_header, text)
    for name, pattern in values.items():
        if name.startswith("if ") and any(word in lower for word in name[3:].split("|")):
            text = re.sub(pattern, _mask_match, text)
    return _mask_named(text)


@lru_cache(maxsize=1)
def _shapes() -> dict[str, Any]:
    """Return ``secret_shapes.json``, with the prefixed tokens by the first characters of their heads.

    A token is a literal part and the pattern; ``re`` compiles and caches a pattern when a text first needs it.
    """
    shapes = json.loads(Path(__file__).with_name("secret_shapes.json").read_text(encoding="utf-8"))
    shapes["headed"] = {}
    for heads, rest in shapes["prefixed"].values():
        for head in heads:  # the look-behind comes after the head, so that ``re`` can search for a literal
            pattern = rf"{re.escape(head)}(?<![A-Za-z0-9]{re.escape(head)}){rest}"
            shapes["headed"].setdefault(head[:3], []).append((head, pattern))
    return {**shapes, "issuers": set(shapes["issuers"].split())}


def _mask_tokens(text: str) -> str:
    """Mask tokens of known shapes. Only long words are looked at; ordinary text has few."""
    if not (words := " ".join(_LONG_WORD.findall(text))):
        return text
    shapes = _shapes()
    starts = shapes["headed"].keys() & set(_WORD_START.findall(words))
    found = [shape for start in starts for shape in shapes["headed"][start]]
    for part, pattern in (*found, *shapes["other"].values()):
        if part in words:
            text = re.sub(pattern, MASK, text)
    if len(_CHANGE.findall(words)) > 2 and _names_issuer(text):
        text = re.sub(shapes["assigned"], _mask_issued, text)
    return text


def _names_issuer(text: str) -> bool:
    return not _shapes()["issuers"].isdisjoint(re.findall(r"[a-z\d]{3,}", text.lower()))


def _mask_issued(found: re.Match[str]) -> str:
    """Mask a random value whose name has the name of an issuer of keys and is not one of a public value."""
    name, value = found["name"], found["value"]
    is_public = re.search(_shapes()["public name"], name)
    secret = len(_CHANGE.findall(value)) > 2 and _names_issuer(name) and not is_public
    return found[0].replace(value, MASK) if secret else found[0]


def _mask_named(text: str) -> str:
    """Mask values after the name of a secret: ``token=…``, ``"apiKey": "…"``, ``--password …``, a YAML block."""
    pieces, done, values = [], 0, patterns_of("secret_values.txt")
    for name in re.finditer(values["name"], text.translate(_LOWER)):
        if name.start() < done:  # it is part of a value that is masked already
            continue
        end = name.end()
        found = re.compile(values["block"]).match(text, end) or re.compile(values["value"]).match(text, end)
        if found is None and re.search(
            values["option_before"], text[max(0, name.start() - 45) : name.start()]
        ):
            found = re.compile(values["option"]).match(text, end)
        value = _value_group(found) if found else None
        if found and value and not _is_message_about_key(text, name.start(), end):
            pieces += [text[done : found.start(value)], MASK]
            done = found.end(value)
    return "".join([*pieces, text[done:]])


def _value_group(found: re.Match[str]) -> str | None:
    """Return the name of the group that holds the value; None when it is only a reference where one may be."""
    groups = found.groupdict()
    name = next(name for name in _VALUE_GROUPS if groups.get(name))
    return None if name != "secret" and is_secret_reference(groups[name]) else name


def _mask_match(found: re.Match[str]) -> str:
    if (value := _value_group(found)) is None:
        return found[0]
    return found.string[found.start() : found.start(value)] + MASK


def is_secret_name(name: object) -> bool:
    """Return true if a key of this name holds a secret: ``apiKey``, ``bot_token``; not ``maxTokens``."""
    return isinstance(name, str) and re.search(_pattern("key_of_secret"), name.translate(_LOWER)) is not None


def is_secret_reference(value: str | Mapping[Any, Any]) -> bool:
    """Return true if the value only refers to a secret, or says that there is none."""
    if isinstance(value, str):
        return re.fullmatch(_pattern("reference"), value) is not None
    return any(key in value for key in ("env", "file", "exec", "source"))


def secret_encodings(secret: str) -> set[str]:
    """Return the encodings of a secret that a text may contain: plain, percent-encoded, JSON-escaped, base64."""
    written = {secret, quote(secret, safe=""), quote(secret), json.dumps(secret)[1:-1]}
    written |= {json.dumps(secret, ensure_ascii=False)[1:-1]}
    if len(secret) >= 8:  # base64 of a shorter one has too few characters that depend on it alone
        for before in range(3):
            piece = _in_base64(secret.encode("utf-8", "surrogatepass"), before)
            written |= {piece, piece.replace("+", "-").replace("/", "_")}
    return {text for text in written if len(text) >= min(len(secret), 8)}


def _in_base64(secret: bytes, before: int) -> str:
    """Return the characters of a base64 text that depend on the secret alone, with ``before`` bytes (mod 3) before it."""
    coded = base64.b64encode(b"\0" * before + secret).decode().rstrip("=")
    uncertain_end = 1 if (before + len(secret)) % 3 else 0
    return coded[(0, 2, 3)[before] : len(coded) - uncertain_end]


def _mask_url(found: re.Match[str]) -> str:
    user, password = found["user"], found["password"]
    if password and len(password) > 1:
        return f"://{user}:{MASK}@"
    return f"://{MASK}@" if len(user) >= 20 else found[0]
