"""Tables on a narrow terminal: a long last column is below its row, where it can be read."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import pytest
from claw.cli.output import last_column_below
from third_party import Machine

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def seen(machine: Machine, columns: int, *words: str) -> list[str]:
    """Return the output of a command on a terminal with this many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    arguments = machine.command(*words)
    arguments["env"] = {**arguments["env"], "TERM": "xterm"}
    with subprocess.Popen(**arguments, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL) as running:
        os.close(theirs)
        raw = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            raw += piece
        running.wait(10)
    os.close(ours)
    return [line.rstrip() for line in _COLOUR.sub("", raw.decode()).splitlines()]


@pytest.mark.parametrize(
    ("widths", "screen", "below"),
    [
        ([7, 7, 5, 10, 10, 22], 60, True),  # the address would be broken
        ([7, 7, 5, 10, 10, 22], 80, False),
        ([7, 7, 5, 10, 10, 400], 80, False),  # a strip of 31 columns can be read
        ([7, 7, 5, 12, 10, 400], 80, True),
        ([7, 7, 5, 10, 10, 4], 54, False),
        ([76, 7, 400], 60, False),  # the others do not fit either
        ([4, 400], 20, False),
    ],
)
def test_the_last_column_is_below_when_it_would_be_a_strip(widths, screen, below):
    assert last_column_below(widths, screen) is below


def test_what_is_wrong_with_a_channel_can_be_read_on_sixty_columns(tmp_path):
    machine = Machine(tmp_path)
    machine.configured("channels: {nosuchchannel: {accounts: {a-long-account: {}}}}")

    narrow, wide = (seen(machine, columns, "channels", "list") for columns in (60, 120))

    assert max(map(len, narrow)) <= 60
    assert "  no installed plugin provides it. install the package that" in narrow
    assert any("a-long-account" in line and "absent" in line for line in narrow)
    assert any("a-long-account" in line and "install the package that" in line for line in wide)
