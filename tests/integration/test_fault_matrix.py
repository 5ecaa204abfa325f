"""The fault matrix: the faults of a plugin × their time × the contributions. Each cell is run, or says why it cannot be.

Each cell starts a gateway with the faulty plugin, two channels and a sound tool; a message comes in on both, the faulty
part is provoked, and claw stops. ``faulty.py`` is that gateway.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from integration import faulty
from integration.faulty import KINDS, Lived, Plan, live
from third_party import Machine, installed

STAGES = {"find": "", "import": "TOP", "register": "HOOK", "run": "RUN", "stop": "CLOSE"}
"""Moment → the point of the plugin's code that is reached then."""
LIMIT_SECONDS = 0.1
TESTS = Path(faulty.__file__).parents[1]
QUARANTINED, REPORTED, UNAFFECTED, DIES = "quarantined", "reported", "unaffected", "dies"


@dataclass(frozen=True)
class Cell:
    """A fault, its place, and its expected effect.

    :param ends: the plugin is QUARANTINED; its fault is REPORTED; it is UNAFFECTED; or the process DIES.
    :param cause: words of the cause.
    :param code: put at the point of the stage.
    :param put: put at other points (``faulty.Plan``).
    :param at: the stage that is blamed; empty = the one of the cell.
    """

    ends: str
    cause: str = ""
    code: str = ""
    at: str = ""
    put: dict[str, str] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    timeouts: dict[str, float] = field(default_factory=dict)


def late(code: str) -> dict[str, Any]:
    """Cells in which ``code`` takes longer than it may: by stage, and by kind at run."""
    limits = {"import": "import", "register": "hook", "stop": "close"}
    plain, waits = code.replace("await asyncio", "time"), code
    back = f"did not come back within {LIMIT_SECONDS} s"
    cells: dict[str, Any] = {
        stage: Cell(
            QUARANTINED if stage != "stop" else REPORTED,
            back,
            plain,
            timeouts={f"{limit}_seconds": LIMIT_SECONDS},
        )
        for stage, limit in limits.items()
    }
    awaited = replace(cells["stop"], code=waits)
    cells["stop"] = {
        "channel": awaited,
        "provider": awaited,
        "tool": awaited,
        "reviewer": awaited,
        "else": cells["stop"],
    }
    worker = {
        kind: Cell(
            REPORTED,
            f"did not answer within {LIMIT_SECONDS} s",
            plain,
            timeouts={f"{limit}_seconds": LIMIT_SECONDS},
        )
        for kind, limit in {
            "section": "section",
            "reviewer": "review",
            "filter": "filter",
            "observer": "observe",
        }.items()
    }
    brief = {"tools": [{"name": "odd", "timeoutSeconds": LIMIT_SECONDS}]}
    cells["run"] = {
        "channel": Cell(REPORTED, back, put={"SEND": waits}, timeouts={"send_seconds": LIMIT_SECONDS}),
        "provider": Cell(
            REPORTED,
            f"said nothing for {LIMIT_SECONDS} s",
            waits,
            timeouts={"silence_seconds": LIMIT_SECONDS},
        ),
        "tool": Cell(REPORTED, f"longer than {LIMIT_SECONDS} s", waits, manifest=brief),
        **worker,
    }
    return cells


def at_once(code: str, cause: str) -> dict[str, Any]:
    """Cells in which ``code`` fails at once: the same everywhere but in a channel, which is tried again and then set
    aside."""
    aside, reported = Cell(QUARANTINED, cause, code), Cell(REPORTED, cause, code)
    result = Cell(REPORTED, "bad luck (plugin bad)", code)
    again = Cell(QUARANTINED, f"channel odd failed 5 times: {cause}", code)
    return {
        "import": aside,
        "register": aside,
        "run": {"channel": again, "tool": result, "else": reported},
        "stop": reported,
    }


UNRUN = "a plugin is found by its metadata and manifest: none of its code runs"
UNASKED = "hooks alone bring parts, and they are asked at register"
THREAD = "threading.Thread(target=time.sleep, args=(0.5,), daemon=True).start()"
TASK = "asyncio.ensure_future(linger())"
NOISE = "print('noise')"
DEATH = Cell(DIES, code="os._exit(7)")
SCHEMA = {"configSchema": {"type": "object", "properties": {"number": {"type": "integer"}}}}
WRONG = {"plugins.entries.bad.config": {"number": "many"}}
OPEN = {"dmPolicy": "open", "allowFrom": ["*"]}
LATER = "the file is read when the plugin registers; what it finds wrong later, it raises"
OWN_SECTION = "its section is not under plugins.entries: it is held against the model that it registers with"
NOT_CALLABLE = "'int' object is not callable"
HEAR_42 = "nobody reads what an observer answers"

MATRIX: dict[str, dict[str, Any]] = {
    "raises": {"find": UNRUN, **at_once("raise RuntimeError('bad luck')", "RuntimeError: bad luck")},
    "hangs": {"find": UNRUN, **late("await asyncio.sleep(2)")},
    "SystemExit": {"find": UNRUN, **at_once("raise SystemExit('bad luck')", "SystemExit: bad luck")},
    "os._exit": {"find": UNRUN, "import": DEATH, "register": DEATH, "run": DEATH, "stop": DEATH},
    "wrong type": {
        "find": Cell(QUARANTINED, "its manifest is invalid", manifest={"tools": 42}),
        "import": Cell(QUARANTINED, "puts Odd in the place", "class Odd: pass\nsys.modules[__name__] = Odd()"),
        "register": {
            **dict.fromkeys(
                ("channel", "provider", "tool", "section"), Cell(QUARANTINED, "['odd']", put={"NAME": "['odd']"})
            ),
            "else": Cell(QUARANTINED, "answered with int", "return [42]"),
        },
        "run": {
            "channel": Cell(QUARANTINED, "failed 5 times: AttributeError: 'int'", "await inbox.submit(42)"),
            "provider": Cell(REPORTED, "holds 42, which is no model event", "yield 42"),
            "tool": Cell(REPORTED, "returned int", "return 42"),
            "section": Cell(REPORTED, "answered with int, not text", "return 42"),
            "reviewer": Cell(REPORTED, "AttributeError: 'int'", "return 42"),
            "filter": Cell(REPORTED, "Inbound or None, not int", "return 42"),
            "observer": HEAR_42,
        },
        "stop": {
            "tool": Cell(REPORTED, NOT_CALLABLE, put={"HOOK": "global ended; ended = 42"}),
            "section": Cell(REPORTED, NOT_CALLABLE, put={"HOOK": "global close; close = 42"}),
            "else": Cell(REPORTED, NOT_CALLABLE, put={"HOOK": "Odd.close = 42"}),
        },
    },
    "bad config": {
        "find": {
            "channel": OWN_SECTION,
            "provider": OWN_SECTION,
            "else": Cell(QUARANTINED, "plugins.entries.bad.config.number", at="config", manifest=SCHEMA, config=WRONG),
        },
        "import": "the file is handed over with the first hook",
        "register": {
            "channel": Cell(
                QUARANTINED, "channels.odd.number", at="config", config={"channels.odd": {**OPEN, "number": "many"}}
            ),
            "provider": Cell(
                QUARANTINED, "providers.odd.number", at="config", config={"providers.odd": {"number": "many"}}
            ),
            "else": Cell(QUARANTINED, "plugins.entries.bad.config.number", at="config", config=WRONG),
        },
        "run": LATER,
        "stop": LATER,
    },
    "slow": {"find": UNRUN, **late("await asyncio.sleep(0.25)")},
    "undeclared tool": {
        "find": UNRUN,
        "import": UNASKED,
        "register": {
            "tool": Cell(REPORTED, "provides the tool undeclared, which its manifest", put={"EXTRA": "[undeclared]"}),
            "else": Cell(
                REPORTED,
                "provides the tool undeclared, which its manifest does not",
                put={"END": "@hookimpl\ndef register_tools(config):\n    return [undeclared]"},
            ),
        },
        "run": UNASKED,
        "stop": UNASKED,
    },
    "prints to stdout": {
        "find": UNRUN,
        **{stage: Cell(UNAFFECTED, code=NOISE) for stage in ("import", "register", "run", "stop")},
    },
    "leaves a task behind": {
        "find": UNRUN,
        "import": Cell(UNAFFECTED, code=f"import threading, time; {THREAD}"),  # no loop runs there: a thread it is
        "register": Cell(UNAFFECTED, code=THREAD),
        "run": Cell(UNAFFECTED, code=TASK),
        "stop": {
            **dict.fromkeys(("section", "filter", "observer"), Cell(UNAFFECTED, code=THREAD)),
            "else": Cell(UNAFFECTED, code=TASK),
        },
    },
}  # fmt: skip


def cells() -> Iterator[tuple[str, str, str, Cell | str]]:
    """Every cell: fault, stage, kind, and the cell or the reason why it cannot be."""
    for fault, stages in MATRIX.items():
        for stage in STAGES:
            for kind in KINDS:
                cell = stages[stage]
                if isinstance(cell, dict):
                    cell = cell[kind] if kind in cell else cell["else"]
                yield fault, stage, kind, cell


def run_cells(*endings: str) -> Any:
    """The cells that end so, as parameters."""
    return pytest.mark.parametrize(
        ("stage", "kind", "cell"),
        [
            pytest.param(stage, kind, cell, id=f"{fault}-{stage}-{kind}".replace(" ", "_"))
            for fault, stage, kind, cell in cells()
            if isinstance(cell, Cell) and cell.ends in endings
        ],
    )


def plan_of(root: Path, stage: str, kind: str, cell: Cell) -> Plan:
    """The start that the cell is about."""
    put = {STAGES[stage]: cell.code, **cell.put} if cell.code else dict(cell.put)
    if stage == "import" and cell.code:
        put["TOP"] = f"import asyncio, os, sys, threading, time\n{cell.code}"
    return Plan(
        str(root),
        kind,
        put,
        cell.manifest,
        cell.config,
        cell.timeouts,
        awaited=cell.cause if stage == "run" else "",
    )


def everybody_else_works(lived: Lived, denied: bool = False) -> bool:
    """Both channels got their answer, made with the sound tool; with ``denied``, a notice that it was refused."""
    wanted = "told: the call was refused" if denied else "told: all is well"
    return wanted in lived.alpha and wanted in lived.beta


def test_each_cell_is_run_or_says_why_it_cannot_be() -> None:
    counted = Counter(cell.ends if isinstance(cell, Cell) else "cannot be" for *_, cell in cells())

    assert counted == {QUARANTINED: 92, REPORTED: 73, UNAFFECTED: 56, DIES: 28, "cannot be": 101}
    assert counted.total() == len(MATRIX) * len(STAGES) * len(KINDS) == 10 * 5 * 7
    assert all(len(cell.split()) > 4 for *_, cell in cells() if isinstance(cell, str))


@run_cells(QUARANTINED)
def test_it_is_quarantined_with_stage_cause_and_fix_and_the_others_work(stage, kind, cell, tmp_path):
    plan = plan_of(tmp_path, stage, kind, cell)

    lived = live(plan)

    assert (lived.state, lived.stage) == ("quarantined", cell.at or stage)
    assert cell.cause in lived.why
    assert lived.fix
    assert any(
        "bad" in line and cell.cause in line and lived.fix in line and (cell.at or stage) in line
        for line in lived.complaints
    )
    assert everybody_else_works(lived)
    if kind == "tool" and stage in ("import", "register"):  # its code is asked for by the first call
        assert "plugin bad" in lived.provoked
        assert cell.cause in lived.provoked

    if stage != "run":
        required = live(replace(plan, required=True))
        assert required.exit_code == 4
        assert "plugin bad" in required.stopped_by
        assert cell.cause in required.stopped_by


@run_cells(REPORTED)
def test_it_is_reported_with_cause_and_fix_and_everybody_else_works(stage, kind, cell, tmp_path):
    lived = live(plan_of(tmp_path, stage, kind, cell))

    assert lived.state == "loaded"
    assert "undeclared" not in lived.tools
    reported = [line for line in [*lived.complaints, lived.provoked] if cell.cause in line]
    assert reported
    if stage != "run":
        assert all("plugin bad" in line and ". " in line for line in reported)
    elif kind in ("section", "reviewer", "filter", "observer"):
        fix = "update it, or disable it: claw config set plugins.entries.bad.enabled false"
        assert any("plugin bad (run)" in line and line.endswith(fix) for line in reported)
    else:
        blamed = {"channel": "channel odd", "provider": "provider odd", "tool": "plugin bad"}[kind]
        assert blamed in reported[0] or reported[0].startswith("told: odd took longer")
    assert everybody_else_works(lived, denied=kind == "reviewer" and stage == "run")


@run_cells(UNAFFECTED)
def test_it_does_no_harm(stage, kind, cell, tmp_path, capsys):
    lived = live(plan_of(tmp_path, stage, kind, cell))

    assert (lived.state, lived.complaints) == ("loaded", [])
    assert everybody_else_works(lived)
    assert capsys.readouterr().out == ""
    if cell.code == TASK:
        assert list(tmp_path.glob("site/*/ended")), "its task was not ended with claw"


def starts_of(root: Path, stage: str, kind: str, cell: Cell) -> list[Plan]:
    """Until somebody lives: the breaker needs two deaths; what dies later, the operator disables."""
    plan = plan_of(root, stage, kind, cell)
    if stage in ("import", "register"):
        return [plan, plan, plan, replace(plan, required=True)]
    return [plan, replace(plan, enabled=False)]


@pytest.fixture(scope="module", autouse=True)
def deaths(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[subprocess.Popen[str], Path, list[Any]]]:
    """The starts of all deadly cells, under way in processes of their own beside the other tests."""
    deadly = [one for *one, cell in cells() if isinstance(cell, Cell) and cell.ends == DIES]
    starts = [
        starts_of(tmp_path_factory.mktemp(f"{stage}{kind}"), stage, kind, MATRIX[fault][stage])
        for fault, stage, kind in deadly
    ]
    folder = tmp_path_factory.mktemp("deaths")
    (folder / "plans.json").write_text(json.dumps([[asdict(plan) for plan in plans] for plans in starts]))
    words = [
        sys.executable,
        "-m",
        "integration.faulty",
        str(folder / "plans.json"),
        str(folder / "seen.json"),
    ]
    with subprocess.Popen(words, cwd=TESTS, stderr=subprocess.PIPE, text=True) as process:
        yield process, folder / "seen.json", deadly
        process.kill()


@pytest.fixture(scope="module")
def endings(deaths) -> dict[tuple[str, str], list[tuple[int, Lived]]]:
    """Stage and kind → how each start ended, and what was seen there."""
    process, seen, deadly = deaths
    _, reported = process.communicate(timeout=60)
    assert process.returncode == 0, reported
    return {
        (stage, kind): [(code, Lived(**lived)) for code, lived in one]
        for (_, stage, kind), one in zip(deadly, json.loads(seen.read_text()), strict=True)
    }


@run_cells(DIES)
def test_a_process_that_it_ends_comes_back_without_it(stage, kind, cell, endings):
    codes = [code for code, _ in endings[stage, kind]]
    lives = [lived for code, lived in endings[stage, kind] if code == 0]

    if stage in ("import", "register"):  # the breaker of crash loops has found it
        assert codes == [7, 7, 0, 0]
        assert (lives[0].state, lives[0].stage) == ("quarantined", "import")
        assert "claw crashed 2 times while loading it" in lives[0].why
        assert "claw-plugin-bad" in lives[0].fix
        assert lives[1].exit_code == 4
    else:
        assert codes == [7, 0]
        assert lives[0].state == "disabled"
    assert everybody_else_works(lives[0])


NOISY = """
import os, subprocess
from claw import hookimpl, tool
print("noise")

@tool
def shout() -> str:
    "Shout."
    print("noise", flush=True)
    os.write(1, b"noise")
    subprocess.run(["echo", "noise"], check=True)
    return "heard"

class Odd:
    name = "odd"
    def credentials(self):
        return (Credential("odd", ""),)
    def context_tokens(self, model):
        return 100_000
    async def stream(self, request):
        print("noise", flush=True)
        last = request.messages[-1]
        yield Finished(
            Assistant((Text("it answers"),))
            if isinstance(last, ToolResultMessage)
            else Assistant((ToolCall("1", "shout", {}),), stop_reason="tool_use")
        )

from claw import Assistant, Credential, Finished, Text
from claw.contracts.transcript import ToolCall, ToolResultMessage

@hookimpl
def register_tools(config):
    return [shout]

@hookimpl
def register_providers(config):
    print("noise")
    return [Odd()]
"""


def test_what_plugins_print_does_not_come_between_claw_and_the_person(tmp_path):
    machine = Machine(tmp_path, path=[installed(tmp_path / "site", "noisy", NOISY)])

    said = machine.claw("chat", "hello", "--model", "odd/m1")
    assert (said.code, said.out) == (0, "it answers\n"), said.err

    events = machine.claw("chat", "hello", "--model", "odd/m1", "--json")
    assert [json.loads(line)["event"] for line in events.out.splitlines()][-1] == "TurnEnded"

    lines = machine.claw("tools", "call", "shout")
    assert (lines.code, lines.out) == (0, "heard\n"), lines.err


@pytest.mark.parametrize("manifest", [None, {"kinds": ["tool"], "tools": [{"name": "bad_tool"}]}])
@pytest.mark.parametrize("words", ["config get locale", "status", "plugins list", "chat hello"])
def test_a_plugin_whose_import_fails_changes_no_exit_code_of_an_unrelated_command(tmp_path, words, manifest):
    sound = Machine(tmp_path / "sound")
    broken = Machine(
        tmp_path / "broken", path=[installed(tmp_path / "site", "bad", "raise SystemExit(9)", manifest)]
    )
    for machine in (sound, broken):
        machine.configured("locale: en\n")

    assert broken.claw(*words.split()).code == sound.claw(*words.split()).code == 0
