"""The manifest says what the code says; the whole stays small, since every request of every turn carries it."""

import json
import subprocess
import sys
from pathlib import Path

import claw_tools_std
from claw.host.manifest import parse_manifest

MANIFEST = Path(claw_tools_std.__file__).parent / "claw-plugin.json"
MOST_BYTES = 3800


def declared(tool):
    """The line of a tool, and in it those of its forms for runs without another tool."""
    line = {
        "name": tool.name,
        "description": tool.description,
        "optional": tool.optional,
        "ownerOnly": tool.owner_only,
    }
    line |= {"effects": tool.effects, "parallel": tool.parallel}
    line |= {"results": tool.results} if tool.results != "foreign" else {}
    line |= {"leavesRunning": tool.leaves_running} if tool.leaves_running != ("background",) else {}
    line |= {"readsFiles": True} if tool.reads_files else {}
    line |= {"parameters": tool.parameters}
    forms = {name: declared(form) for name, form in tool.without.items()}
    return line | ({"without": forms} if forms else {})


def written(tools) -> str:
    """The manifest as it should be, from the code: to renew it, write this into the file."""
    lines = ["    " + json.dumps(declared(tool), ensure_ascii=False) for tool in tools]
    settings, keys = "claw_tools_std.settings:ExecSettings", ["tools.exec", "agents.tools.exec"]
    owned = {"configKeys": keys, "configModels": dict.fromkeys(keys, settings)}
    head = {
        "id": "tools-std",
        "name": "Standard tools",
        "description": "File, shell and message tools for claw agents.",
        "api": ">=1,<2",
        **owned,
        "kinds": ["tool"],
        "capabilities": {"paths": ["the agent's fence"], "subprocess": True},
    }
    rest = json.dumps(
        {"configSchema": {"type": "object", "properties": {}, "additionalProperties": False}}, indent=2
    )[1:]
    return json.dumps(head, indent=2)[:-2] + ',\n  "tools": [\n' + ",\n".join(lines) + "\n  ]," + rest + "\n"


def test_the_manifest_is_what_the_code_would_write(bench):
    expected = written(bench.tools.values())
    assert MANIFEST.read_text(encoding="utf-8") == expected
    manifest = parse_manifest(expected, "tools-std")
    assert [line.name for line in manifest.tools] == list(bench.tools)
    assert [dict(line.parameters) for line in manifest.tools] == [
        dict(t.parameters) for t in bench.tools.values()
    ]
    assert [(line.parallel, line.effects) for line in manifest.tools] == [
        (t.parallel, t.effects) for t in bench.tools.values()
    ]


def test_the_tools_that_ship_are_these(bench):
    assert list(bench.tools) == [
        "read", "write", "edit", "apply_patch", "ls", "grep", "find", "exec", "process", "message", "session_status",
    ]  # fmt: skip


def test_all_of_it_takes_few_bytes_of_every_request(bench):
    specs = [
        {"name": t.name, "description": t.description, "parameters": t.parameters}
        for t in bench.tools.values()
    ]
    assert len(json.dumps(specs, ensure_ascii=False, separators=(",", ":")).encode()) <= MOST_BYTES
    for tool in bench.tools.values():
        assert 20 <= len(tool.description) <= 200


def test_what_a_crash_may_repeat_and_what_runs_alone_is_declared(bench):
    effects = {name: tool.effects for name, tool in bench.tools.items()}
    once = {"edit", "apply_patch", "exec", "process", "message"}
    assert effects == {name: "once" if name in once else "none" for name in effects} | {"write": "idempotent"}
    alone = {name for name, tool in bench.tools.items() if not tool.parallel}
    assert alone == {"write", "edit", "apply_patch", "exec", "message"}


def test_importing_the_plugin_imports_nothing_heavy():
    code = "import sys, claw_tools_std; print({'pydantic', 'regex', 'asyncio', 'jsonschema'} & sys.modules.keys())"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
    )
