"""The file of a session: a header, then one record on each line, parsed so that a bad line costs only itself. Pure.

Only a line feed ends a line.
"""

from collections.abc import Sequence

import msgspec
from claw.runtime import Record, encode_record

from claw_sessions.records import UnknownRecord, decode_line

_BOM = b"\xef\xbb\xbf"


class SessionHeader(msgspec.Struct, frozen=True, tag="session", tag_field="type", rename="camel"):
    """The first line of a session file.

    :param key: the session key it was opened under, so that a lost index can be rebuilt.
    """

    id: str
    version: int = 3
    timestamp: str = ""
    cwd: str = ""
    key: str = ""


class ParsedSession(msgspec.Struct, frozen=True):
    """The content of a session file.

    :param header: None when there is no valid one; then ``reason`` says so and nothing else counts.
    :param entries: in file order, exact repetitions once, each one's parent the one before it.
    :param bad_lines: numbers (from 1) of the lines that are no record: torn, foreign, not JSON, not an
        object.
    :param reason: ``empty session file`` or ``invalid session header``, else empty.
    """

    header: SessionHeader | None
    entries: tuple[Record, ...] = ()
    bad_lines: tuple[int, ...] = ()
    reason: str = ""


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines of a file without line ends and without a leading byte-order mark; the last may be
    empty.
    """
    return data.removeprefix(_BOM).split(b"\n")


def parse_session(data: bytes, lost: SessionHeader | None = None) -> ParsedSession:
    """Read a session file. A bad line costs only itself, and every record follows the one before it.

    claw never goes back to an earlier record: a record that seems to was moved, doubled or damaged, or its
    parent is gone. So every readable record is on the path.

    :param lost: header for a file that has lost its first line; every line is then read as a record.
    """
    header, first = lost, lost is None
    entries: list[Record] = []
    bad: list[int] = []
    seen: dict[str, bytes] = {}
    for number, line in enumerate(lines_of(data), 1):
        bare = line.strip()
        if not bare:
            continue
        record = decode_line(bare)
        if record is None:
            bad.append(number)
        elif first:
            first = False
            header = _header_of(record)
        elif _header_of(record) or (isinstance(record, UnknownRecord) and not record.id):
            continue
        elif not record.id:
            bad.append(number)
        elif seen.get(record.id) != bare:
            before = entries[-1].id if entries else None
            if record.parent_id != before:
                record = msgspec.structs.replace(record, parent_id=before)
            seen[record.id] = bare
            entries.append(record)
    if header is None:
        return ParsedSession(
            None, (), tuple(bad), "empty session file" if first else "invalid session header"
        )
    return ParsedSession(header, tuple(entries), tuple(bad))


def _header_of(record: Record) -> SessionHeader | None:
    if not isinstance(record, UnknownRecord) or not record.id:
        return None
    try:
        return msgspec.convert(record.raw, SessionHeader)
    except msgspec.ValidationError:
        return None


def without_bad_lines(data: bytes, bad_lines: Sequence[int], lost: SessionHeader | None = None) -> bytes:
    """Return the file without its bad and blank lines, each line with its line end.

    :param lost: a header to put in front.
    """
    bad = set(bad_lines)
    lines = [line.rstrip(b"\r") for number, line in enumerate(lines_of(data), 1) if number not in bad]
    head = encode_record(lost)[1] if lost else b""
    return head + b"".join(line + b"\n" for line in lines if line.strip())
