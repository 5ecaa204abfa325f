"""Sessions: what was said survives kill -9, damage and other processes; a warm turn costs next to nothing."""

import asyncio
import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from claw.contracts.errors import BusyError, ClawError
from claw.contracts.transcript import Assistant, Text, ToolCall, ToolResultMessage, Usage, User, sendable
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw.storage.files import Disk
from claw.storage.records import CompactionRecord, MessageRecord, encode_record
from claw_sessions.session_file import SessionHeader, parse_session
from claw_sessions.store import JsonlSessionStore, Session
from hypothesis import HealthCheck, given, settings, strategies as st

KEY = "agent:a:main"


def says(text: str) -> User:
    return User((Text(text),))


@pytest.fixture
def harness(tmp_path):
    """Makes as many ``JsonlSessionStore`` of one home as a test needs: each is like a process of its own."""
    made: list[JsonlSessionStore] = []

    def make(**given) -> JsonlSessionStore:
        made.append(JsonlSessionStore(tmp_path / "claw", Database(tmp_path / "claw" / "state.db"), **given))
        return made[-1]

    yield make
    for sessions in made:
        sessions.close()
        sessions.database.close()


def texts(session: Session) -> list[str]:
    return [
        block.text for message in session.messages for block in message.content if isinstance(block, Text)
    ]


# --- an ordinary life ---------------------------------------------------------------------------------------------


async def test_a_new_session_is_on_disk_at_once_for_our_eyes_only(harness):
    session = await harness(clock=Clock(now=lambda: 1_772_366_400.0)).open(KEY, "a", cwd="/w")

    [line] = session.path.read_bytes().splitlines()
    assert json.loads(line) == {
        "type": "session",
        "version": 3,
        "id": session.id,
        "timestamp": "2026-03-01T12:00:00.000Z",
        "cwd": "/w",
        "key": KEY,
    }
    assert session.path.name == f"{session.id}.jsonl"
    assert session.path.stat().st_mode & 0o777 == 0o600
    assert session.path.parent.stat().st_mode & 0o777 == 0o700
    assert session.messages == ()


async def test_what_was_appended_is_there_for_the_next_process(harness):
    first = harness()
    session = await first.open(KEY, "a")
    session.append(says("list my files"))
    session.append(
        Assistant((ToolCall("t1", "ls", {"path": "."}),), model="x/y", usage=Usage(input=7, output=2))
    )
    session.append(ToolResultMessage("t1", "ls", (Text("a.txt"),)))
    await session.flush()
    before = (session.id, session.messages, session.context_tokens)
    first.close()

    again = await harness().open(KEY, "a")

    assert (again.id, again.messages, again.context_tokens) == before
    assert again.notices == ()


async def test_each_record_names_the_one_before_it(harness):
    session = await harness().open(KEY, "a")
    names = [session.append(says(text)) for text in "abc"]

    assert [(entry.id, entry.parent_id) for entry in session.entries] == [
        (names[0], None),
        (names[1], names[0]),
        (names[2], names[1]),
    ]
    assert all(len(name) == 8 for name in names)


async def test_every_key_has_a_session_of_its_own(harness):
    sessions = harness()
    one, other = await sessions.open(KEY, "a"), await sessions.open("agent:a:other", "a")
    one.append(says("for one"))

    assert other.messages == ()
    assert one.path != other.path


async def test_a_compaction_changes_what_is_shown_and_the_file_keeps_everything(harness):
    sessions = harness()
    session = await sessions.open(KEY, "a")
    _, kept = session.append(says("old")), session.append(says("kept"))
    session.append_entry(CompactionRecord(summary="they talked", first_kept_entry_id=kept))
    session.append(says("new"))

    assert texts(session) == ["Summary:\nthey talked", "kept", "new"]
    assert len(session.entries) == 4
    sessions.close()
    assert texts(await harness().open(KEY, "a")) == ["Summary:\nthey talked", "kept", "new"]


async def test_a_call_that_was_never_answered_is_answered_in_what_a_model_is_sent_and_not_in_the_file(
    harness,
):
    session = await harness().open(KEY, "a")
    session.append(says("go"))
    session.append(Assistant((ToolCall("t1", "exec", {}),)))

    assert isinstance(session.messages[-1], ToolResultMessage)
    assert len(session.entries) == 2


_spoken = st.lists(
    st.one_of(
        st.sampled_from(["", "hello"]).map(says),
        st.lists(st.sampled_from("ab"), max_size=2).flatmap(
            lambda calls: st.sampled_from(["tool_use", "aborted"]).map(
                lambda stop: Assistant(tuple(ToolCall(call, "read", {}) for call in calls), stop_reason=stop)
            )
        ),
        st.sampled_from("ab").map(lambda call: ToolResultMessage(call, "read", ())),
    ),
    max_size=10,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(_spoken)
async def test_what_a_model_is_sent_is_the_same_said_piece_by_piece_and_read_at_once(harness, spoken):
    sessions = harness()
    session = await sessions.open(KEY, "a")
    for message in spoken:
        session.append(message)
        assert session.messages == sendable([entry.message for entry in session.entries])
    await session.reset()
    sessions.close()
    sessions.database.close()


async def test_a_reset_starts_over_and_keeps_the_old_file(harness):
    sessions = harness(clock=Clock(now=lambda: 1_772_366_400.0))
    session = await sessions.open(KEY, "a")
    session.append(says("old"))
    old_path, old_id = session.path, session.id

    await session.reset()
    session.append(says("new"))

    assert session.id != old_id
    assert texts(session) == ["new"]
    assert b"old" in old_path.with_name(f"{old_path.name}.reset.20260301T120000.000Z").read_bytes()
    assert not old_path.exists()
    sessions.close()
    assert texts(await harness().open(KEY, "a")) == ["new"]


# --- who may write ------------------------------------------------------------------------------------------------


async def test_a_session_that_another_process_holds_is_refused_in_one_line_naming_its_pid(harness):
    held = await harness().open(KEY, "a")
    others = harness()

    with pytest.raises(BusyError) as error:
        await others.open(KEY, "a")
    assert error.value.pid == os.getpid()
    assert f"{KEY}: process {os.getpid()} is using this session. " in str(error.value)
    assert "\n" not in str(error.value)

    held.release()
    assert (await others.open(KEY, "a")).messages == ()


async def test_in_one_process_a_session_is_shared_and_free_when_the_last_holder_lets_go(harness):
    sessions, others = harness(), harness()
    one, two = await asyncio.gather(sessions.open(KEY, "a"), sessions.open(KEY, "a"))
    assert one is two

    one.release()
    with pytest.raises(BusyError):
        await others.open(KEY, "a")
    two.release()
    two.release()
    assert await others.open(KEY, "a")


async def test_two_processes_may_take_turns(harness):
    gateway, chat = harness(), harness()
    for number, sessions in enumerate([gateway, chat, gateway, gateway, chat]):
        session = await sessions.open(KEY, "a")
        session.append(says(str(number)))
        session.release()

    assert texts(await gateway.open(KEY, "a")) == ["0", "1", "2", "3", "4"]


async def test_a_reset_by_another_process_is_noticed(harness):
    gateway, chat = harness(), harness()
    ours = await gateway.open(KEY, "a")
    ours.append(says("old"))
    ours.release()
    theirs = await chat.open(KEY, "a")
    await theirs.reset()
    theirs.append(says("new"))
    theirs.release()

    assert texts(await gateway.open(KEY, "a")) == ["new"]


async def test_a_file_that_was_removed_between_turns_starts_over(harness):
    sessions = harness()
    session = await sessions.open(KEY, "a")
    session.append(says("old"))
    session.release()
    session.path.unlink()

    session = await sessions.open(KEY, "a")
    session.append(says("new"))
    session.release()

    assert texts(await harness().open(KEY, "a")) == ["new"]


async def test_a_released_session_cannot_be_written(harness):
    session = await harness().open(KEY, "a")
    session.release()

    with pytest.raises(RuntimeError, match="released"):
        session.append(says("too late"))
    with pytest.raises(RuntimeError, match="released"):
        await session.reset()


async def test_no_session_id_leaves_the_folder(harness):
    sessions = harness()
    folder = sessions.path_of("a", "main").parent
    for name in ("../../etc/passwd", "..", ".", "", "/etc/passwd", "a\0b", "main.jsonl.lock", "x" * 500):
        path = sessions.path_of("a", name)
        assert path.parent == folder
        assert path.name.endswith(".jsonl")
        assert len(path.name) < 200
    assert sessions.path_of("../..", "main").parent.parent.parent == sessions.home / "agents"


# --- damage -------------------------------------------------------------------------------------------------------


def written(*texts_: str, key: str = KEY) -> bytes:
    """A sound session file."""
    lines = [encode_record(SessionHeader(id="s1", key=key))[1]]
    for number, text in enumerate(texts_):
        parent = f"{number - 1:08x}" if number else None
        lines.append(
            encode_record(MessageRecord(id=f"{number:08x}", parent_id=parent, message=says(text)))[1]
        )
    return b"".join(lines)


def place(sessions: JsonlSessionStore, data: bytes) -> Path:
    sessions.assign(KEY, "a", "s1")
    path = sessions.path_of("a", "s1")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


async def test_a_clean_file_is_never_rewritten(harness):
    sessions = harness()
    path = place(sessions, written("one", "two"))
    before = (path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns)

    session = await sessions.open(KEY, "a")

    assert (path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns) == before
    assert texts(session) == ["one", "two"]


async def test_a_last_line_without_its_end_is_whole_and_gets_it_before_the_next_append(harness):
    sessions = harness()
    path = place(sessions, written("one", "two").removesuffix(b"\n"))
    session = await sessions.open(KEY, "a")
    assert not path.read_bytes().endswith(b"\n")
    session.append(says("three"))
    sessions.close()

    assert texts(await harness().open(KEY, "a")) == ["one", "two", "three"]


async def test_damaged_lines_cost_only_themselves_and_are_kept_beside_the_file(harness):
    sessions = harness()
    damaged = written("one", "two", "three").replace(b'"two"', b'"tw\xff') + b'{"type":"mess'
    path = place(sessions, damaged)

    session = await sessions.open(KEY, "a")

    assert texts(session) == ["one", "three"]
    [backup] = path.parent.glob("s1.jsonl.bak.*")
    assert backup.read_bytes() == damaged
    assert session.notices == (
        f"2 damaged lines of this session were left out. Copy of the damaged file: {backup}",
    )
    session.release()
    assert (await sessions.open(KEY, "a")).notices == ()


@pytest.mark.parametrize("first", [b"", b'{"type":"sess', b"\x00" * 50], ids=["gone", "torn", "zeros"])
async def test_a_lost_first_line_costs_nothing_of_what_was_said(harness, first):
    sessions = harness()
    rest = written("one", "two").split(b"\n", 1)[1]
    path = place(sessions, first + b"\n" + rest)

    session = await sessions.open(KEY, "a")
    session.append(says("three"))

    assert texts(session) == ["one", "two", "three"]
    [backup] = path.parent.glob("s1.jsonl.bak.*")
    assert backup.read_bytes() == first + b"\n" + rest
    assert len(session.notices) == 1
    assert str(backup) in session.notices[0]
    sessions.close()
    again = await sessions.open(KEY, "a")
    assert (texts(again), again.notices) == (["one", "two", "three"], ())


@pytest.mark.parametrize(
    "foreign", [b"a letter\n", b'{"a": 1}\n{"type": "odd", "id": "x"}\n', b"\x89PNG\r\n\x1a\n"]
)
async def test_a_file_that_is_no_conversation_is_renamed_and_a_fresh_session_begins(harness, foreign):
    sessions = harness()
    path = place(sessions, foreign)

    session = await sessions.open(KEY, "a")
    session.append(says("again"))

    assert texts(session) == ["again"]
    [bad] = path.parent.glob("s1.jsonl.bad.*")
    assert bad.read_bytes() == foreign
    assert str(bad) in session.notices[0]


async def test_lines_that_were_moved_or_doubled_hide_none_of_the_others(harness):
    sessions = harness()
    written_ = await sessions.open("agent:a:other", "a")
    said = [f"word {number}" for number in range(12)]
    for text in said:
        written_.append(says(text))
    lines = written_.path.read_bytes().splitlines(keepends=True)
    lines[2], lines[9] = lines[9], lines[2]
    lines.append(lines[4].replace(b"word", b"WORD"))
    place(sessions, b"".join(lines))

    session = await sessions.open(KEY, "a")

    assert sorted(texts(session)) == sorted([*said, "WORD 3"])


@pytest.mark.parametrize("blank", [b"", b"\n\n", b"  \n"])
async def test_a_blank_file_becomes_a_session_without_ado(harness, blank):
    sessions = harness()
    path = place(sessions, blank)
    session = await sessions.open(KEY, "a")

    assert parse_session(path.read_bytes()).header is not None
    assert session.notices == ()


async def test_a_folder_in_the_place_of_the_file_is_an_error_for_people(harness):
    sessions = harness()
    place(sessions, b"").unlink()
    sessions.path_of("a", "s1").mkdir()

    with pytest.raises(ClawError, match="cannot open this session") as error:
        await sessions.open(KEY, "a")
    assert error.value.fix


async def test_a_link_in_the_place_of_the_file_is_not_followed(harness, tmp_path):
    sessions = harness()
    secret = tmp_path / "secret"
    secret.write_text("not a session")
    place(sessions, b"").unlink()
    sessions.path_of("a", "s1").symlink_to(secret)

    with pytest.raises(ClawError):
        await sessions.open(KEY, "a")
    assert secret.read_text() == "not a session"


async def test_a_lost_state_is_made_again_from_the_first_lines_of_the_files(harness):
    sessions = harness()
    for key in (KEY, "agent:a:other"):
        session = await sessions.open(key, "a")
        session.append(says(f"in {key}"))
    sessions.close()
    sessions.database.close()
    for file in sessions.home.glob("state.db*"):
        file.unlink()

    assert texts(await harness().open(KEY, "a")) == [f"in {KEY}"]


_TEXTS = ("one", "two", "three", "four")
_LINES = [line + b"\n" for line in written(*_TEXTS).split(b"\n")[:-1]]


@given(at=st.integers(len(_LINES[0]), sum(map(len, _LINES)) - 1), byte=st.integers(0, 255))
def test_a_damaged_byte_costs_at_most_the_lines_it_touches(at, byte):
    data = bytearray(b"".join(_LINES))
    data[at] = byte
    ends = [sum(map(len, _LINES[: n + 1])) - 1 for n in range(len(_LINES))]
    touched = {
        n for n, end in enumerate(ends) if (end - len(_LINES[n]) < at <= end) or (n and ends[n - 1] == at)
    }

    left = iter([(entry.id, getattr(entry, "message", None)) for entry in parse_session(bytes(data)).entries])

    for n in set(range(1, len(_LINES))) - touched:
        assert (f"{n - 1:08x}", says(_TEXTS[n - 1])) in left, "an untouched record, in its order"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(cut=st.integers(0, len(b"".join(_LINES))), junk=st.binary(max_size=12))
async def test_after_any_damage_what_is_loaded_and_what_is_appended_is_there_the_next_time(
    harness, cut, junk
):
    sessions = harness()
    whole = b"".join(_LINES)
    place(sessions, whole[:cut] + junk + whole[cut:])
    session = await sessions.open(KEY, "a")
    loaded = [entry.id for entry in session.entries]
    added = session.append(says("more"))
    sessions.close()

    again = await sessions.open(KEY, "a")
    assert [entry.id for entry in again.entries] == [*loaded, added]
    assert again.notices == ()
    sessions.close()
    sessions.database.close()


# --- the disk, and death ------------------------------------------------------------------------------------------


def refusing(after: int) -> Callable[[int, bytes], int]:
    calls = 0

    def write(fd: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == after + 1:
            return os.write(fd, data[: len(data) // 2])
        if calls > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(fd, data)

    return write


async def test_a_full_disk_is_an_error_for_people_and_the_file_stays_whole(harness):
    sessions = harness(disk=Disk(write=refusing(2)))
    session = await sessions.open(KEY, "a")
    session.append(says("fits"))

    with pytest.raises(ClawError, match="No space left"):
        session.append(says("does not"))

    assert texts(session) == ["fits"]
    assert parse_session(session.path.read_bytes()).bad_lines == ()
    sessions.close()
    assert texts(await harness().open(KEY, "a")) == ["fits"]


async def test_a_turn_is_synced_once_and_not_at_all_when_nothing_was_written(harness):
    synced = []
    sessions = harness(disk=Disk(sync=synced.append))
    session = await sessions.open(KEY, "a")
    for text in "abc":
        session.append(says(text))
    await session.flush()
    await session.flush()

    assert len(synced) == 1


async def test_a_sync_that_fails_is_an_error_and_is_tried_again(harness):
    answers = [OSError(errno.EIO, "Input/output error"), None]

    def sync(fd: int) -> None:
        if answer := answers.pop(0):
            raise answer

    session = await harness(disk=Disk(sync=sync)).open(KEY, "a")
    with pytest.raises(ClawError, match="Input/output error"):
        await session.flush()
    await session.flush()
    assert answers == []


_WRITER = """
import asyncio, sys
from pathlib import Path
from claw_sessions.store import JsonlSessionStore
from claw.storage.database import Database
from claw.contracts.transcript import Text, User

async def main():
    home = Path(sys.argv[1])
    session = await JsonlSessionStore(home, Database(home / "state.db")).open("agent:a:main", "a")
    number = 0
    while True:
        name = session.append(User((Text("x" * (number * 37 % 5000)),)))
        sys.stdout.write(name + "\\n")
        sys.stdout.flush()
        number += 1

asyncio.run(main())
"""


async def test_kill_9_in_the_middle_of_writing_loses_no_acknowledged_line(harness, full):
    acknowledged: list[str] = []
    sessions = harness()
    for round_ in range(50 if full else 3):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(sessions.home)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            acknowledged += [child.stdout.readline().strip() for _ in range(5 + round_ * 7 % 40)]
            child.send_signal(signal.SIGKILL)
            acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]

        session = await sessions.open(KEY, "a")
        on_disk = [entry.id for entry in session.entries]
        session.release()
        found = [name for name in on_disk if name in set(acknowledged)]
        assert found == acknowledged


# --- cost ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def few_descriptors():
    """Limit this process so that half of its descriptors are 20 more than it has; yield the limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 2 * (len(os.listdir("/proc/self/fd")) + 20)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_only_so_many_idle_sessions_keep_their_files_open(harness):
    sessions = harness(warm=3)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(10):
        session = await sessions.open(f"agent:a:s{number}", "a")
        session.append(says("hello"))
        session.release()

    assert len(os.listdir("/proc/self/fd")) <= before + 2 * 3 + 3  # two each, and those of state.db


async def test_idle_sessions_give_back_their_files_when_more_than_half_are_in_use(harness, few_descriptors):
    sessions = harness()
    most = 0
    for number in range(few_descriptors):  # two each: twice as many as there are
        session = await sessions.open(f"agent:a:s{number}", "a")
        session.append(says("hello"))
        session.release()
        most = max(most, len(os.listdir("/proc/self/fd")))

    assert few_descriptors // 2 <= most <= few_descriptors // 2 + 8


async def test_a_session_that_finds_no_free_descriptor_takes_those_of_idle_ones(harness, few_descriptors):
    sessions, taken = harness(), []
    for number in range(5):
        session = await sessions.open(f"agent:a:s{number}", "a")
        session.release()
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    try:
        session = await sessions.open("agent:a:late", "a")
        session.append(says("hello"))
    finally:
        for fd in taken:
            os.close(fd)

    assert texts(session) == ["hello"]


_WARM_TURN = """
import asyncio, os, sys
from pathlib import Path
from claw_gateway.journal import Journal
from claw.contracts.messages import Address, Inbound, Sender
from claw_sessions.store import JsonlSessionStore
from claw.storage.database import Database
from claw.contracts.transcript import Text, User

async def turn(sessions, journal, number):
    inbound = Inbound(Address("feishu", "oc"), "hi", Sender("ou"), event_id=f"e{number}", message_id=f"m{number}")
    assert journal.accept(inbound)
    session = await sessions.open("agent:a:main", "a")
    journal.began(f"t{number}", "agent:a:main")
    for text in ("question", "answer"):
        session.append(User((Text(text),)))
    session.messages
    await session.flush()
    journal.ended(f"t{number}", "done")
    session.release()

async def main():
    database = Database(Path(sys.argv[1]) / "state.db")
    sessions, journal = JsonlSessionStore(Path(sys.argv[1]), database), Journal(database)
    for number in range(3):
        await turn(sessions, journal, number)
    os.write(2, b"")  # the mark: what follows is one warm turn
    await turn(sessions, journal, 3)
    os.write(2, b"")

asyncio.run(main())
"""


def test_a_warm_turn_opens_no_file_and_makes_few_system_calls(tmp_path):
    traced = subprocess.run(
        [
            "strace",
            "-f",
            "-o",
            str(tmp_path / "trace"),
            sys.executable,
            "-c",
            _WARM_TURN,
            str(tmp_path / "claw"),
        ],
        capture_output=True,
        text=True,
    )
    assert traced.returncode == 0, traced.stderr
    lines = (tmp_path / "trace").read_text().splitlines()
    marks = [number for number, line in enumerate(lines) if 'write(2, ""' in line]
    calls = [line.split(maxsplit=1)[1] for line in lines[marks[0] + 1 : marks[1]] if "resumed" not in line]

    by_path = [call for call in calls if call.startswith(("open", "stat", "newfstatat", "access"))]
    assert [call for call in by_path if "AT_EMPTY_PATH" not in call] == []  # that one is fstat
    assert len(calls) < 60, "\n".join(calls)
