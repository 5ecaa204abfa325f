"""Frames of the long connection: one protobuf (proto2) message each.

Fields, from the vendor's SDK (``pbbp2.proto``): 1 SeqID, 2 LogID, 3 service, 4 method (0 control, 1 data), 5 headers
{1 key, 2 value}, 6 payload_encoding, 7 payload_type, 8 payload, 9 LogIDNew. The first four are required.
"""

from collections.abc import Iterator
from dataclasses import dataclass

CONTROL, DATA = 0, 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class BadFrame(Exception):
    """The bytes are not a frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; ``headers`` keep their order."""

    method: int
    service: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    payload: bytes = b""
    seq_id: int = 0
    log_id: int = 0
    payload_encoding: str = ""
    payload_type: str = ""
    log_id_new: str = ""

    def header(self, key: str, default: str = "") -> str:
        """Return the first header of that name."""
        return next((value for name, value in self.headers if name == key), default)


def encode(frame: Frame) -> bytes:
    """Encode a frame, fields in order."""
    out = [
        _number(1, frame.seq_id),
        _number(2, frame.log_id),
        _number(3, frame.service),
        _number(4, frame.method),
    ]
    out += [_text(5, _text(1, key.encode()) + _text(2, value.encode())) for key, value in frame.headers]
    for number, value in ((6, frame.payload_encoding), (7, frame.payload_type)):
        out += [_text(number, value.encode())] if value else []
    out += [_text(8, frame.payload)] if frame.payload else []
    out += [_text(9, frame.log_id_new.encode())] if frame.log_id_new else []
    return b"".join(out)


def decode(data: bytes) -> Frame:
    """Decode a frame; unknown fields are skipped.

    :raises BadFrame: cut short, or not protobuf.
    """
    numbers: dict[int, int] = {}
    texts: dict[int, bytes] = {}
    headers: list[tuple[str, str]] = []
    try:
        for number, value in _fields(data):
            if isinstance(value, int):
                numbers[number] = value
            elif number == 5:
                pair = dict(_fields(value))
                headers.append((_word(pair.get(1, b"")), _word(pair.get(2, b""))))
            else:
                texts[number] = value
        return Frame(
            method=numbers[4],
            service=_signed(numbers[3]),
            headers=tuple(headers),
            payload=texts.get(8, b""),
            seq_id=numbers[1],
            log_id=numbers[2],
            payload_encoding=_word(texts.get(6, b"")),
            payload_type=_word(texts.get(7, b"")),
            log_id_new=_word(texts.get(9, b"")),
        )
    except (KeyError, IndexError, UnicodeDecodeError) as why:
        raise BadFrame("a required field is missing, or a text is no text") from why


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise BadFrame("a field of an unknown kind")
        if at + size > len(data):
            raise BadFrame("cut short")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise BadFrame("cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise BadFrame("a number without an end")


def _signed(value: int) -> int:
    """Convert to int32; protobuf encodes a negative one in 64 bits."""
    value &= (1 << 32) - 1
    return value - (1 << 32) if value >= 1 << 31 else value


def _number(number: int, value: int) -> bytes:
    return _packed(number << 3 | _VARINT) + _packed(value)


def _text(number: int, value: bytes) -> bytes:
    return _packed(number << 3 | _BYTES) + _packed(len(value)) + value


def _packed(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _word(value: int | bytes) -> str:
    if isinstance(value, int):
        raise BadFrame("a number in the place of a text")
    return value.decode()
