"""The pip command: it can be run, whatever a plugin has put on claw's own path."""

import os
import subprocess
import sys
import venv
from pathlib import Path

SCRIPT = """
import os, subprocess, sys
del os.environ["PYTHONPATH"]  # the process that runs pip has the packages of its own Python only
sys.path.insert(0, sys.argv[1])
from claw_tool_sdk import pip_command
sys.exit(subprocess.run([*pip_command(), "--version"], stdout=subprocess.DEVNULL).returncode)
"""


def test_a_pip_that_a_plugin_provided_is_not_taken_for_the_one_of_this_python(tmp_path: Path) -> None:
    """A layer of plugins is on the path of claw, and not on that of the process that runs pip."""
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False)
    layer = tmp_path / "layer"
    (layer / "pip").mkdir(parents=True)
    (layer / "pip/__init__.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [bare / "bin/python", "-c", SCRIPT, layer], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
