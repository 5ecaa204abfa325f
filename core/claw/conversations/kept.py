"""Which conversations a home holds: those that go on, and those that were set aside. Nothing is changed by looking."""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path

import msgspec

from claw.arguments import nearest
from claw.errors import ClawError, UsageError
from claw.past import Past
from claw.record import Header, MessageRecord, Reading, read
from claw.session import Sessions
from claw.store import holder
from claw.survey import state_of
from claw.transcript import Assistant, User, estimate_tokens
from claw.usage import Ledger

CURRENT, LEFT = "current", "left over"
_FILE = re.compile(
    r"(?P<id>.+)\.jsonl(?:\.(?P<state>reset|deleted|bad|bak)\.(?P<at>\d{8}T\d{6}\.\d{3})Z(?:-\d+)?(?:\.gz)?)?"
)
_HEADER_BYTES = 1 << 16


@dataclass(frozen=True)
class Kept:
    """The file of a conversation.

    :param key: session key; empty when neither the file nor the index names one.
    :param state: current; reset, deleted, bad or bak of a file set aside; "left over" of one that its key left behind.
    :param at: when it was last written, or set aside; seconds since 1970.
    """

    key: str
    agent: str
    id: str
    path: Path
    state: str
    size_bytes: int
    at: float

    @property
    def name(self) -> str:
        """What names it in a command: its key as long as it is current, then its file."""
        return self.key if self.state == CURRENT and self.key else self.path.name

    @property
    def stamp(self) -> str:
        """When it was set aside, as its file name has it: short, and hardly ever another's too. Empty when it goes on."""
        _, aside, at = self.path.name.removesuffix(".gz").rpartition(f".{self.state}.")
        return at if aside else ""

    @property
    def pid(self) -> int | None:
        """The process that holds it; None when nobody does."""
        return (
            holder(self.path.with_name(self.path.name + ".lock")) if self.state in (CURRENT, LEFT) else None
        )


@dataclass(frozen=True)
class Figures:
    """What a conversation comes to.

    :param messages: words of people and answers; calls and results are not counted.
    :param tokens: what a model would be sent of it, estimated; ``spent`` is what services said they charged.
    :param heard_at: when a person last wrote, ISO 8601; empty when nobody has.
    """

    messages: int
    tokens: int
    spent: Ledger
    heard_at: str


def conversations(home: Path, agent: str = "") -> tuple[Kept, ...]:
    """All files of conversations, those first that were written last.

    :param agent: of this one only.
    """
    current = index(home)
    found = [
        kept
        for path in home.glob(f"agents/{agent or '*'}/sessions/*.jsonl*")
        if (kept := _look(path, current)) is not None
    ]
    found.sort(key=lambda kept: (kept.at, kept.path.name), reverse=True)
    return tuple(_settled(found, set(current)))


def index(home: Path) -> dict[str, str]:
    """Session key → id of its session, as ``state.db`` has it; empty when there is none."""
    with state_of(home) as database:
        if database is None:
            return {}
        Sessions(home, database)
        return dict(database.read("SELECT key, id FROM sessions"))


def named(found: Sequence[Kept], name: str) -> Kept:
    """The conversation that ``name`` means: a session key, its end (``main``), or a file's name, id or time.

    :raises UsageError: there is none, or several; the nearest key is named.
    """
    exact = [kept for kept in found if name in (kept.name, kept.path.name)]
    tails = [kept for kept in found if kept.state == CURRENT and _ends(kept, name)]
    files = [kept for kept in found if name and name in (kept.id, kept.stamp)]
    for fitting in (exact, tails, files):
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            keys = ", ".join(kept.name for kept in fitting[:5])
            raise UsageError(
                "{name} may be several conversations: {keys}",
                fix="Write the whole name",
                name=name,
                keys=keys,
            )
    raise _unknown(found, name)


def _unknown(found: Sequence[Kept], name: str) -> UsageError:
    if not found:
        return UsageError("there is no conversation {name}: nothing was said here yet", name=name)
    if aside := next((kept for kept in found if kept.key == name or _ends(kept, name)), None):
        return UsageError(
            "the conversation {name} was set aside",
            fix="claw sessions show {file} shows it",
            name=aside.key,
            file=aside.stamp or aside.path.name,
        )
    keys = [kept.key for kept in found if kept.state == CURRENT and kept.key]
    if not keys:
        return UsageError(
            "there is no conversation {name}", fix="claw sessions list --aside shows old ones", name=name
        )
    return UsageError(
        "there is no conversation {name}",
        fix="did you mean {near}? claw sessions list shows them all",
        name=name,
        near=nearest(name, keys),
    )


def _ends(kept: Kept, name: str) -> bool:
    return kept.key.endswith(f":{name.lower()}")


def content(kept: Kept) -> bytes:
    """The bytes of its file, unpacked.

    :raises ClawError: it cannot be read.
    """
    try:
        with opened(kept.path) as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as refused:
        why = getattr(refused, "strerror", None) or str(refused)
        raise ClawError("cannot be read: {why}", where=str(kept.path), why=why) from refused


def opened(path: Path) -> "BufferedReader | gzip.GzipFile":
    """A file of a conversation, to be read; a compressed one reads as if it were not."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def reading_of(kept: Kept, data: bytes) -> Reading:
    """What a file says; also one that has lost its first line, as long as any other can be read."""
    reading = read(data)
    if reading.reason != "invalid session header":
        return reading
    again = read(data, Header(id=kept.id, key=kept.key))
    return msgspec.structs.replace(again, reason=reading.reason)


def figures(reading: Reading) -> Figures:
    """Count what was said."""
    past = Past.of(list(reading.entries))
    heard, messages = "", 0
    for entry in reading.entries:
        if not isinstance(entry, MessageRecord):
            continue
        message = entry.message
        if isinstance(message, User) and not message.kind:
            heard, messages = entry.timestamp, messages + 1
        elif isinstance(message, Assistant) and message.text.strip():
            messages += 1
    return Figures(messages, sum(map(estimate_tokens, past.sendable())), past.usage, heard)


def _look(path: Path, current: Mapping[str, str]) -> Kept | None:
    name = _FILE.fullmatch(path.name)
    try:
        if name is None or not path.is_file():
            return None
        stat = path.stat()
        with opened(path) as file:
            header = read(file.readline(_HEADER_BYTES)).header
    except (OSError, EOFError, zlib.error):
        header = None
        if name is None or not path.exists():
            return None
        stat = path.stat()
    key = header.key if header else next((key for key, id in current.items() if id == name["id"]), "")
    at = _moment(name["at"]) if name["at"] else stat.st_mtime
    return Kept(key, path.parent.parent.name, name["id"], path, _state(name, key, current), stat.st_size, at)


def _state(name: re.Match[str], key: str, current: Mapping[str, str]) -> str:
    if name["state"]:
        return name["state"]
    return CURRENT if current.get(key, name["id"]) == name["id"] else LEFT


def _settled(found: Iterable[Kept], indexed: set[str]) -> Iterator[Kept]:
    """Where the index says nothing, the newest file of a key is its current one, as ``Sessions`` has it."""
    seen: set[str] = set()
    for kept in found:
        if kept.state == CURRENT and kept.key and kept.key not in indexed:
            if kept.key in seen:
                yield Kept(kept.key, kept.agent, kept.id, kept.path, LEFT, kept.size_bytes, kept.at)
                continue
            seen.add(kept.key)
        yield kept


def _moment(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC).timestamp()
