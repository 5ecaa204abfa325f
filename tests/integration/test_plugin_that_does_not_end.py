"""A command ends although a plugin left a thread, or a handler of the process's end, that does not."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from third_party import Machine, installed, plugin_code

LEFT = {
    "thread": (
        "import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=False).start(); return 'said'",
        "what a plugin does at the end of claw takes too long",
    ),
    "thread of its own code": (
        "import threading; threading.Thread(target=linger, daemon=False).start(); return 'said'",
        "a thread of stranger_stays does not end",
    ),
    "handler": (
        "import atexit, time; atexit.register(time.sleep, 600); return 'said'",
        "what a plugin does at the end of claw takes too long",
    ),
}
LINGER = "\nimport time\ndef linger():\n    time.sleep(600)\n"


def machine_with(body: str, folder: Path) -> Machine:
    site = installed(folder / "site", "stays", plugin_code("stays_do", body) + LINGER)
    machine = Machine(folder / "machine", [site])
    machine.configured("{}", "config.json")
    return machine


@pytest.mark.parametrize("left", LEFT)
def test_the_command_ends_with_its_result_and_says_who_does_not(tmp_path: Path, left: str) -> None:
    body, said = LEFT[left]
    began = time.monotonic()
    called = machine_with(body, tmp_path).claw("tools", "call", "stays_do")

    assert (called.code, called.out.strip()) == (0, "said")
    assert said in called.err
    assert "Traceback" not in called.err
    assert time.monotonic() - began < 60


def test_who_does_not_wait_sees_no_traceback(tmp_path: Path) -> None:
    machine = machine_with(LEFT["thread of its own code"][0], tmp_path)
    process = subprocess.Popen(
        **machine.command("tools", "call", "stays_do"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "said\n"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert process.returncode in (0, 130) and "Traceback" not in err
