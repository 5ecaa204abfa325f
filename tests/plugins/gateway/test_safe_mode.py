"""Safe mode keeps its guards: without a plugin that judges calls, nothing with effects runs, and the chat is told."""

from pathlib import Path

import pytest
from claw import ClawError
from claw.app import load_setup
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from claw_gateway.process.last_end import open_end_note
from claw_gateway.process.logs import LogHandler, RotatingLogFile, install_handler
from claw_gateway.process.run import Gateway, RunOptions
from claw_gateway.process.safe_mode import SafeModeReviewer, guards_left_out, safe_mode
from third_party import installed, plugin_code


def left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, config: str, **manifest: object
) -> tuple[str, ...]:
    """Return the guards that safe mode leaves out, with one plugin of others, ``odd``."""
    site = installed(folder / "site", "odd", plugin_code("odd_one"), manifest)
    monkeypatch.syspath_prepend(site)
    home = folder / "place"
    home.mkdir()
    (home / "config.yaml").write_text(config)
    return guards_left_out(safe_mode(load_setup({"CLAW_HOME": str(home), "HOME": str(home)})))


@pytest.mark.parametrize(
    ("config", "manifest", "expected"),
    [
        ("locale: en\n", {"kinds": ["tool"]}, ()),
        ("locale: en\n", {"kinds": ["tool", "reviewer"]}, ("odd",)),
        ("locale: en\n", {"kinds": ["filter"]}, ("odd",)),
        ("plugins: {entries: {odd: {required: true}}}\n", {"kinds": ["tool"]}, ("odd",)),
        ("plugins: {entries: {odd: {enabled: false}}}\n", {"kinds": ["reviewer"]}, ()),
    ],
)
def test_a_reviewer_a_filter_and_a_required_plugin_are_guards(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
    manifest: dict[str, object],
    expected: tuple[str, ...],
) -> None:
    assert left_out(tmp_path, monkeypatch, config, **manifest) == expected


async def asked_of(reviewer: SafeModeReviewer, home: Path) -> tuple[str, list[object], list[object]]:
    """Return the answer to a turn that reads and then writes, and the calls of the two tools that ran."""
    looks, writes = FakeTool("looks", effects="none"), FakeTool("writes", effects="once")
    model = FakeProvider(calls("looks"), calls("writes"), says("done"))
    async with Harness(model, tools=[looks, writes], plugins={"safe-mode": reviewer}, home=home) as harness:
        try:
            reply = await harness.send("go on")
            told = reply.text if reply else ""
        except ClawError as failed:  # what a channel tells the chat
            told = str(failed)
    return told, looks.calls, writes.calls


async def test_without_a_guard_nothing_with_effects_runs_and_the_chat_is_told(tmp_path: Path) -> None:
    reviewer = SafeModeReviewer()
    reviewer.missing = ("guardplug",)

    told, looked, written = await asked_of(reviewer, tmp_path / "home")

    assert (len(looked), written) == (1, [])
    assert "guardplug" in told
    assert "claw gateway restart" in told


async def test_where_no_guard_is_left_out_tools_run(tmp_path: Path) -> None:
    told, looked, written = await asked_of(SafeModeReviewer(), tmp_path / "home")

    assert (told, len(looked), len(written)) == ("done", 1, 1)


def test_a_gateway_in_safe_mode_has_this_reviewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = installed(tmp_path / "site", "odd", plugin_code("odd_one"), {"kinds": ["reviewer"]})
    monkeypatch.syspath_prepend(site)
    home = tmp_path / "place"
    (home / "logs").mkdir(parents=True)
    environ = {"CLAW_HOME": str(home), "HOME": str(home)}
    sink = LogHandler(RotatingLogFile(home / "logs" / "claw.jsonl"))
    with install_handler(sink) as log, open_end_note(home) as note:
        gateway = Gateway(environ, home, sink, log, 0.0, RunOptions(note, safe=True))
        gateway._first_setup(())

    assert gateway._plugins is not None
    [reviewer] = gateway._plugins.values()
    assert (type(reviewer), reviewer.missing) == (SafeModeReviewer, ("odd",))
