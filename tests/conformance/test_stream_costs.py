"""What a streamed call costs is not far from what a bare client pays: a wide gate, the figures are in ``bench``."""

import json
import subprocess
import sys

from core.source import ROOT


def test_a_streamed_call_costs_little_more_than_a_bare_client() -> None:
    """The budget is twice; a busy machine in a short run may double that, an object per event costs far more."""
    command = [sys.executable, str(ROOT / "bench/streams.py"), "--words", "300", "--calls", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    times = {wire: figures["times"] for wire, figures in json.loads(done.stdout).items()}
    assert len(times) == 5
    assert {wire: figure for wire, figure in times.items() if figure > 10} == {}
