"""Commands of an agent whose ``sandbox.mode`` is on: exec of tools-std in the bubblewrap of this plugin."""

from pathlib import Path
from typing import Any

import pytest
from claw.testing import FakeProvider, Harness, calls, says
from plugins.sandbox.test_bubblewrap import needs_bwrap

pytestmark = pytest.mark.usefixtures(needs_bwrap.__name__)


def harness(home: Path, **sandbox: Any) -> Harness:
    model = FakeProvider(calls("exec", command="echo mine > note; cat ../config.yaml; ls .."), says("done"))
    config = {
        "agents": {"defaults": {"sandbox": sandbox}},
        "tools": {"exec": {"mode": "full"}},
    }
    return Harness(model, home=home, config=config, installed=True)


async def result_of(harness: Harness) -> str:
    async with harness:
        await harness.send("go")
        model = harness.app.registry.providers["fake"].value
        return str(model.requests[-1].tool_results[-1].text)


async def test_a_command_runs_in_it_and_writes_in_the_workspace_alone(tmp_path: Path) -> None:
    result = await result_of(harness(tmp_path, mode="all"))
    assert "No such file" in result
    assert [line for line in result.splitlines() if not line.startswith(("cat:", "["))] == [
        "workspace-default"
    ]
    assert (tmp_path / "workspace-default" / "note").read_text() == "mine\n"


async def test_without_a_mode_it_is_not_loaded(tmp_path: Path) -> None:
    async with harness(tmp_path) as whole:
        assert whole.app.registry.sandboxes == {}
