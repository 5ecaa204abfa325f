"""``CLAW_DEBUG=1`` prints the traceback of a plugin's failure on stderr; without it claw prints the line alone."""

from pathlib import Path

import pytest
from third_party import Machine, installed, plugin_code

FAULTS = {
    "at import": ("raise RuntimeError('no luck')", "tools list"),
    "in a tool": (plugin_code("bad_do", "return 1 / 0"), "tools call bad_do"),
}
RAISED = {"at import": "RuntimeError: no luck", "in a tool": "ZeroDivisionError: division by zero"}


@pytest.mark.parametrize("where", FAULTS)
def test_the_traceback_of_a_failure_is_printed_on_request(where: str, tmp_path: Path) -> None:
    code, words = FAULTS[where]
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "bad", code)])

    usual, debugged = machine.claw(*words.split()), machine.claw(*words.split(), CLAW_DEBUG="1")

    assert "Traceback" not in usual.out + usual.err
    assert "Traceback (most recent call last)" in debugged.err and "Traceback" not in debugged.out
    assert 'stranger_bad/__init__.py", line ' in debugged.err
    assert RAISED[where] in debugged.err.splitlines()
