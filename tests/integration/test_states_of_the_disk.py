"""States of the disk and of ``state.db`` × the surfaces: each that needs it names the cause and the fix."""

import os
from collections.abc import Callable, Mapping

import pytest
from integration.confinement import can_mount
from integration.disks import (
    closed_home,
    damaged_pages,
    full_disk,
    full_disk_at_the_first_start,
    home_of_another,
    locked_by_another_program,
    read_only_folder,
    read_only_mount,
    state_of_another,
    used_up_quota,
    written_by_another_program,
)
from integration.surfaces import (
    DOCTOR,
    LISTED,
    START,
    STATUS,
    STATUS_OF_CHANNELS,
    TURNS,
    USAGE,
    VALIDATE,
    Cell,
    Forked,
    World,
    cell,
    machine_in,
    may,
    server,  # noqa: F401 - a fixture
    wrong_cells,
)

INFO, EXPLAIN, CHAT = "plugins info openai", "tools explain read", "chat again"
GATEWAY, SESSIONS, SET = "gateway status", "sessions list", "config set locale en"
SURFACES = {
    LISTED,
    INFO,
    STATUS,
    DOCTOR,
    EXPLAIN,
    VALIDATE,
    START,
    STATUS_OF_CHANNELS,
    TURNS,
    USAGE,
    CHAT,
    GATEWAY,
    SET,
}
OFFLINE = {"agents": {"defaults": {"model": "offline/rules"}}}

mounts = pytest.mark.skipif(not can_mount(), reason="this kernel lets no process mount")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")


def cells(why: str, **other: Cell) -> dict[str, Cell]:
    """The cells of a state in which nothing can be written and everything can be read."""
    names = {"turns": TURNS, "usage": USAGE, "explain": EXPLAIN, "info": INFO, "start": START, "set": SET,
             "listed": LISTED, "chat": CHAT, "status": STATUS, "channels": STATUS_OF_CHANNELS,
             "gateway": GATEWAY, "validate": VALIDATE, "doctor": DOCTOR, "sessions": SESSIONS}  # fmt: skip
    usual = {
        LISTED: may("^openai ", code=0),
        INFO: may("^state: idle", code=0),
        STATUS: may(f"^warning: .*{why}", "^gateway: not running", code=0),
        DOCTOR: cell(f"^problem: .*{why}", "^1 problem found", code=1),
        EXPLAIN: may("^read: available", code=0),
        VALIDATE: may("is valid$", code=0),
        START: Cell((why,), ("is ready", "no message"), 1),
        GATEWAY: cell("^gateway: not running", why, code=1),
        STATUS_OF_CHANNELS: cell("^gateway: not running", why, code=1),
        TURNS: may("delivered", why, code=0),
        USAGE: may("1 call", why, code=0),
        SESSIONS: may("agent:default:main", why, code=0),
        CHAT: cell(why, code=1),
        SET: cell(why, code=1),
    }
    return usual | {names[name]: one for name, one in other.items()}


def failing(why: str, **other: Cell) -> dict[str, Cell]:
    """The cells of a state in which ``state.db`` cannot be used, and everything else can."""
    reads = {name: may(why, code=0) for name in ("listed", "info", "status", "explain", "validate")}
    runs = {name: cell("^gateway: not running", why, code=1) for name in ("gateway", "channels")}
    fail = Cell((f"^claw: .*{why}",), ("no message",), 1)
    fails = dict.fromkeys(("start", "turns", "usage", "sessions", "chat"), fail)
    return cells(why, **reads | runs | fails | {"set": may("locale", code=0)} | other)


FULL, READ_ONLY = (
    "machine/claw: the disk is almost full: 0.0 MB free. ?.?free some space",
    "machine/claw: it is read-only",
)
NOT_WRITABLE = (
    "(it is not writable for you|cannot write: (Read-only file system|Permission denied)|it is read-only)"
)
REFUSED = cell(f"machine/claw.*: {NOT_WRITABLE}", code=1)
QUOTA = (
    r"(cannot write: File too large|state.db: the state cannot be used: disk I/O error).{1,3}Free some space"
)
CLOSED = "the home .*/machine/claw cannot be read .Permission denied.. Set CLAW_HOME to a folder of yours"
OPENED = r"state.db: the state cannot be used: unable to open database file.{1,3}Correct the permissions of this file"
LOCKED = (
    "state.db: the state cannot be used: database is locked.{1,3}Wait until the program that locks it is done"
)
TORN = r"state.db: .*database disk image is malformed.{1,3}[Mm]ove (it|the file) elsewhere"


STATES: dict[str, tuple[Callable[[Forked], None], Mapping[str, Cell]]] = {
    "the disk is full": (
        full_disk,
        cells(FULL, set=cell("cannot write: No space left on device. Free some space", code=1),
              start=Cell(("gateway.out: cannot write: No space left on device",), ("no message",), 1)),
    ),
    "the disk is full at the first start": (
        full_disk_at_the_first_start,
        cells(FULL, set=cell("cannot write: No space left on device. Free some space", code=1),
              start=Cell(("gateway.out: cannot write: No space left on device",), ("no message",), 1),
              turns=may("no turn is recorded", code=0), usage=may("no model call is recorded", code=0),
              sessions=may("there are no conversations yet", code=0)),
    ),
    "the file system is read-only": (
        read_only_mount, cells(READ_ONLY, start=REFUSED, chat=REFUSED, set=REFUSED)
    ),
    "the home is read-only": (
        read_only_folder, cells(READ_ONLY, start=REFUSED, chat=REFUSED, set=REFUSED)
    ),
    "the quota is used up": (
        used_up_quota,
        failing(QUOTA, set=cell(QUOTA, code=1), start=cell("gateway.out: cannot write: File too large", code=1),
                doctor=cell(f"^problem: .*machine/claw: {QUOTA}", f"^problem: .*{QUOTA}", code=1)),
    ),
    "the home is closed and belongs to another user": (
        closed_home, {surface: cell(CLOSED, code=3) for surface in cells("")}
        | {DOCTOR: cell(f"problem: .*{CLOSED.partition(' Set')[0]}", code=1)},
    ),
    "the home belongs to another user": (
        home_of_another,
        failing(OPENED, doctor=cell(f"^problem: .*{OPENED}", f"^problem: .*{READ_ONLY}", code=1),
                validate=Cell(("auth-profiles.json: the keys cannot be read",), ("ClawError", "Errno")),
                status=Cell(("auth-profiles.json: the keys cannot be read",), ("ClawError", "Errno")),
                **dict.fromkeys(("start", "chat", "set"), REFUSED),
                **dict.fromkeys(("turns", "usage", "sessions"), cell(READ_ONLY, OPENED, code=1))),
    ),
    "state.db belongs to another user": (state_of_another, failing(OPENED)),
    "state.db is locked by another program": (locked_by_another_program, failing(LOCKED)),
    "another program writes to state.db": (
        written_by_another_program,
        failing(LOCKED,
                **dict.fromkeys(("listed", "info", "explain", "validate", "sessions", "status"), may(code=0)),
                **dict.fromkeys(("gateway", "channels"), cell("^gateway: not running", code=1)),
                turns=may("delivered", code=0), usage=may("1 call", code=0)),
    ),
    "pages of state.db are damaged": (
        damaged_pages,
        failing(TORN,
                **dict.fromkeys(("listed", "info", "explain", "validate", "sessions", "status"), may(code=0)),
                gateway=cell("^gateway: not running", TORN, code=1),
                channels=cell("^gateway: not running", code=1)),
    ),
}  # fmt: skip
MARKS = {full_disk: mounts, full_disk_at_the_first_start: mounts, read_only_mount: mounts,
         closed_home: as_root, home_of_another: as_root, state_of_another: as_root}  # fmt: skip


@pytest.mark.parametrize(
    "state", [pytest.param(name, marks=MARKS.get(one[0], ()), id=name) for name, one in STATES.items()]
)
def test_every_surface_names_the_state_of_the_disk_and_its_fix(state, tmp_path, server):  # noqa: F811
    prepare, wanted = STATES[state]
    never = ("internal error", "Traceback", r"\[Errno", "ClawError")
    if "damaged" not in state:
        never = (*never, "is damaged")
    strict = {name: Cell(one.says, (*one.lies, *never), one.code) for name, one in wanted.items()}
    assert strict.keys() >= SURFACES
    world = World(strict, config=OFFLINE, before=(), prepare=prepare)

    assert wrong_cells(world, machine_in(world, tmp_path, server)) == []
