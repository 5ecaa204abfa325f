"""Signals to a gateway: it ends in time whatever hangs, and a closed terminal does not reload it."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from claw_gateway.process import control, run, signals
from integration.gateways import home  # noqa: F401

HANGS = """
import os, signal, sys, threading, time
from claw_gateway.process.signals import SignalHandlers
SignalHandlers(stop_seconds=0.4).install()
threading.Thread(target=time.sleep, args=(30,)).start()  # a stranger's, and no daemon
print("ready", flush=True)
time.sleep(30)
sys.exit(9)
"""

BLOCKED = """
import ctypes, sys, threading
from claw_gateway.process.signals import SignalHandlers
SignalHandlers(stop_seconds=0.4).install()
libc, mutex = ctypes.CDLL(None), (ctypes.c_char * 64)()
libc.pthread_mutex_lock(mutex)
print("ready", flush=True)
libc.pthread_mutex_lock(mutex)  # for ever; no signal interrupts it
"""

THREADLESS = """
import sys, threading, time
from claw_gateway.process.signals import SignalHandlers
SignalHandlers(stop_seconds=0.4).install()
def start_new_thread(*given):
    raise RuntimeError("can't start new thread")
threading._start_new_thread = start_new_thread
print("ready", flush=True)
time.sleep(30)
sys.exit(9)
"""

KEEPS_PYTHON = """
import ctypes, os, signal, sys
from claw_gateway.process import signals
signals._ALARM_SECONDS = 0.1
signals.SignalHandlers(stop_seconds=0.4).install()
python, mutex = ctypes.PyDLL(None), (ctypes.c_char * 64)()
python.pthread_mutex_lock(mutex)
print("ready", flush=True)
signal.pause()
python.pthread_mutex_lock(mutex)  # for ever, and no other thread runs Python code meanwhile
"""

DROPPED = """
import os, signal, sys, time, weakref

class Finder:
    "Sends SIGTERM while a callback of a weak reference runs, as those of import locks do."
    def find_spec(self, name, path=None, target=None):
        if name == "claw_gateway.process.run" and self in sys.meta_path:
            sys.meta_path.remove(self)
            about = type("About", (), {})()
            kept = weakref.ref(about, ended)
            del about

def ended(ref):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.05)

sys.meta_path.insert(0, Finder())
"""

TERMINAL = """
import asyncio, os, sys
from claw_gateway.process.signals import SignalHandlers

async def main():
    told, stop, reload = SignalHandlers(stop_seconds=5.0), asyncio.Event(), asyncio.Event()
    told.install()
    told.connect(asyncio.get_running_loop(), stop, reload)
    os.write(int(sys.argv[1]), b"ready\\n")
    ways = {asyncio.ensure_future(stop.wait()): b"stop", asyncio.ensure_future(reload.wait()): b"reload"}
    done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    os.write(int(sys.argv[1]), ways[done.pop()])

asyncio.run(main())
"""


@pytest.mark.parametrize("word", ["TERM", "INT"])
def test_a_process_that_hangs_is_gone_in_time_with_code_0(word):
    with subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True) as hanging:
        assert hanging.stdout is not None and hanging.stdout.readline() == "ready\n"
        began = time.monotonic()
        subprocess.run(["kill", f"-{word}", str(hanging.pid)], check=True)
        assert hanging.wait(10) == 0
    assert time.monotonic() - began < 5


@pytest.mark.skipif(sys.platform != "linux", reason="a mutex of glibc")
@pytest.mark.parametrize(
    ("program", "code"),
    [(BLOCKED, 0), (THREADLESS, 0), (KEEPS_PYTHON, -signal.SIGALRM)],
    ids=["blocked", "threadless", "keeps_python"],
)
def test_it_ends_in_time_though_no_handler_can_run_and_no_thread_be_started(program, code):
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout.readline() == "ready\n"
            time.sleep(0.3)  # until it is in the library
            running.terminate()
            assert running.wait(10) == code
        finally:
            running.kill()
    assert time.monotonic() - began < 10


def test_a_signal_whose_exception_is_dropped_while_claw_is_imported_stops_the_gateway(home):  # noqa: F811
    (home.root / "site").mkdir()
    (home.root / "site" / "sitecustomize.py").write_text(DROPPED)
    home.path = [home.root / "site"]
    with subprocess.Popen(**home.command("gateway", "run"), stderr=subprocess.PIPE, text=True) as running:
        try:
            _, err = running.communicate(timeout=15)
        finally:
            running.kill()
    assert "Exception ignored" in err
    assert running.returncode == 143


def test_the_whole_of_a_stop_fits_into_the_fifteen_seconds_that_the_manual_names():
    manual = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
    assert f"within {signals.STOP_SECONDS:g} seconds" in manual
    total = run._SERVING_SECONDS + run._CLOSING_SECONDS + run._LEFT_SECONDS
    assert total < signals.STOP_SECONDS < control.STOP_SECONDS


@pytest.mark.parametrize("closed", [True, False])
def test_a_closed_terminal_stops_it_and_an_open_one_reads_the_config_again(closed):
    ours, theirs = pty.openpty()
    out, into = os.pipe()
    try:
        with subprocess.Popen(
            [sys.executable, "-c", TERMINAL, str(into)], stdin=theirs, pass_fds=[into], start_new_session=True
        ) as running:
            assert os.read(out, 100) == b"ready\n"
            if closed:
                os.close(ours)
                ours = -1
            subprocess.run(["kill", "-HUP", str(running.pid)], check=True)
            assert os.read(out, 100) == (b"stop" if closed else b"reload")
            assert running.wait(10) == 0
    finally:
        for fd in (ours, theirs, out, into):
            if fd >= 0:
                os.close(fd)
