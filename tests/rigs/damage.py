"""Random damage to the bytes of a file: by disks, power cuts, copying, editors."""

import json
import random
from collections.abc import Callable

PAGE = 4096


def flip(data: bytearray, dice: random.Random) -> None:
    """Some bytes are others."""
    for _ in range(dice.choice([1, 1, 1, 2, 8])):
        data[dice.randrange(len(data))] = dice.randrange(256)


def flip_bit(data: bytearray, dice: random.Random) -> None:
    """One bit is the other one."""
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def delete(data: bytearray, dice: random.Random) -> None:
    """A piece is gone."""
    start = dice.randrange(len(data))
    del data[start : start + dice.choice([1, 1, 7, 100, 3000])]


def insert(data: bytearray, dice: random.Random) -> None:
    """A piece came in."""
    junk = [
        dice.randbytes(dice.randint(1, 40)), b"\n", b"\r\n", b'"', b"}", b"{", b"\\", b"\xef\xbb\xbf", b"\xed\xa0\x80",
        b"\\ud800", b"\xc3", b"\x00", b"[" * 5000, b'{"a":' * 5000, b"9" * 5000, b"1e999", b"NaN", b"null\n", b"{}\n",
        b'{"type":"session","id":"other"}\n', b'{"type":"message"}\n', b"\xe2\x80\xa8",
    ]  # fmt: skip
    place = dice.randrange(len(data) + 1)
    data[place:place] = dice.choice(junk)


def zero(data: bytearray, dice: random.Random) -> None:
    """A block was never written, as a file system may leave it after a power cut."""
    size = dice.choice([16, 512, PAGE])
    start = dice.randrange(len(data)) // size * size
    end = min(len(data), start + size)
    data[start:end] = bytes(end - start)


def grow(data: bytearray, dice: random.Random) -> None:
    """The size was written, the data not: zeros at the end."""
    data += bytes(dice.choice([1, 100, PAGE]))


def tear(data: bytearray, dice: random.Random) -> None:
    """The end was not written."""
    del data[dice.randrange(len(data)) :]


def behead(data: bytearray, dice: random.Random) -> None:
    """The beginning is gone, as after a rotation by size."""
    del data[: dice.randrange(len(data)) + 1]


def overwrite(data: bytearray, dice: random.Random) -> None:
    """Move a piece of the file to the place of another."""
    size = dice.choice([10, 500, PAGE])
    start, other = dice.randrange(len(data)), dice.randrange(len(data))
    piece = data[other : other + size]
    data[start : start + len(piece)] = piece


def lines(data: bytearray, dice: random.Random) -> None:
    """Whole lines changed places, came twice, went, or were joined."""
    all_ = data.splitlines(keepends=True)
    one, other = dice.randrange(len(all_)), dice.randrange(len(all_))
    match dice.choice(["swap", "double", "go", "join", "shuffle", "crlf", "append again"]):
        case "swap":
            all_[one], all_[other] = all_[other], all_[one]
        case "double":
            all_.insert(other, all_[one])
        case "go":
            del all_[one]
        case "join":
            all_[one] = all_[one].rstrip(b"\n")
        case "shuffle":
            dice.shuffle(all_)
        case "crlf":
            all_ = [line.replace(b"\n", b"\r\n") for line in all_]
        case "append again":
            all_ += all_[one:]
    data[:] = b"".join(all_)


def foreign(data: bytearray, dice: random.Random) -> None:
    """A line of another program's, or of a later version's."""
    record = {
        "type": dice.choice(["label", "message", "compaction", "session", 7]),
        "id": dice.choice(["x", "", None]),
    }
    record |= dice.choice(
        [
            {},
            {"parentId": 3},
            {"message": {"role": "user"}},
            {"message": {"role": "user", "content": "short"}},
        ]
    )
    place = data.find(b"\n", dice.randrange(len(data))) + 1
    data[place:place] = json.dumps(record).encode() + b"\n"


def huge(data: bytearray, dice: random.Random) -> None:
    """A line that is much too long, without an end of its own."""
    place = data.find(b"\n", dice.randrange(len(data))) + 1
    data[place:place] = dice.choice([b"x", b"\x00", b'{"', b"[[", b"\xff"]) * (1 << dice.choice([16, 18, 20]))


def encoding(data: bytearray, dice: random.Random) -> None:
    """Saved by an editor that writes another encoding."""
    text = data.decode("utf-8", "replace")
    data[:] = text.encode(dice.choice(["utf-16", "utf-8-sig", "gb18030", "latin-1"]), "replace")


_OFTEN: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip, flip_bit, delete, insert, zero, grow, tear, behead, overwrite, lines, foreign
)  # fmt: skip
_SELDOM = (huge, encoding)


def damaged(data: bytes, dice: random.Random) -> tuple[bytes, str]:
    """The file after one to three damages, and their names."""
    changed, names = bytearray(data), []
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        if not changed:
            break
        harm = dice.choice(_OFTEN if dice.random() < 0.98 else _SELDOM)
        harm(changed, dice)
        names.append(harm.__name__)
    return bytes(changed), " ".join(names)
