"""Unicode: half a surrogate pair, as services and models send them, can neither be written down nor sent on."""

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_encode = msgspec.json.Encoder(enc_hook=repr).encode


def sound(text: str) -> str:
    """The text with the halves of a pair joined, and U+FFFD in the place of one that is alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def written(value: T) -> tuple[T, bytes]:
    """A dataclass or struct as it can be written, and its JSON. Objects that JSON does not know go by their ``repr``."""
    try:
        return value, _encode(value)
    except UnicodeEncodeError:
        mended: T = msgspec.convert(tree(msgspec.to_builtins(value, enc_hook=repr)), type(value))
        return mended, _encode(mended)


def tree(value: Any) -> Any:
    """The same JSON with every text sound."""
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, dict):
        return {tree(key): tree(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [tree(entry) for entry in value]
    return value
