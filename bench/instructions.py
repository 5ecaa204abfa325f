"""Count the instructions of whole claw processes under valgrind: figures that do not depend on how busy the machine is.

    python bench/instructions.py [COMMAND ...]

One line per command, in millions of instructions in user space (6 million take about a millisecond). ``start`` is a
gateway with Telegram and http, from its start until it is ready and stopped; every other command runs twice in a
new home, and the second run is counted. Needs valgrind.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from gateway import People, running
from turns import Model, make_home

CLAW = str(Path(sys.executable).with_name("claw"))
COMMANDS = (
    "--version",
    "--help",
    "plugins list",
    "tools list",
    "config validate",
    "gateway status",
    "chat hello",
    "start",
)


def counting(file: Path) -> list[str]:
    """Return the command that runs claw and writes its count to ``file``."""
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={file}"]
    return [*valgrind, sys.executable, CLAW]


def count(command: str, model: Model, people: People) -> float:
    """Return millions of instructions of one command."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "count"
        if command == "start":
            with running(counting(file), {"telegram": people.channels["telegram"]}, model.url) as gateway:
                gateway.ready()
        else:
            environ = {**make_home(Path(folder) / "home", model.url), "PYTHONHASHSEED": "0"}
            words = command.split()
            subprocess.run([sys.executable, CLAW, *words], env=environ, capture_output=True, check=False)
            subprocess.run([*counting(file), *words], env=environ, capture_output=True, check=False)
        [total] = re.findall(r"^summary: (\d+)", file.read_text(), re.MULTILINE)
    return int(total) / 1e6


def main() -> None:
    """Count the commands that are given, or all of :data:`COMMANDS`."""
    model, people = Model(), People()
    try:
        for command in sys.argv[1:] or COMMANDS:
            print(f"{command:16} {count(command, model, people):8.0f}", flush=True)
    finally:
        people.stop()
        model.stop()


if __name__ == "__main__":
    main()
