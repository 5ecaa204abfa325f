"""claw as an MCP server, asked by the client of the SDK and by claw itself: chosen tools, by the rules of a turn."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from claw import Tool, UsageError
from claw_mcp.serve import chosen_tools
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@asynccontextmanager
async def client(home: Path, *words: str, **config: Any) -> AsyncIterator[ClientSession]:
    """Start ``claw mcp serve`` as another program does."""
    (home / "config.json").write_text(json.dumps(config))
    (home / "config.json").chmod(0o600)
    work = home.parent / "work"
    work.mkdir(exist_ok=True)
    environ = {**os.environ, "CLAW_HOME": str(home)}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "claw", "mcp", "serve", *words], env=environ, cwd=work
    )
    async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
        assert (await session.initialize()).server_info.name == "claw"
        yield session


UNASKED = {"exec": {"mode": "full"}}
"""Commands run without an approval, which nobody can give to a client."""


def said(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


async def test_a_client_sees_the_chosen_tools_alone_and_their_results(home: Path) -> None:
    async with client(home, "read", "exec", "memory_*", tools=UNASKED) as session:
        listed = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert listed.keys() == {"read", "exec", "memory_get", "memory_search"}
        assert listed["exec"].input_schema["required"] == ["command"] and listed["exec"].description

        (home.parent / "work" / "note.txt").write_text("the anvil is heavy")
        (home.parent / "work" / "dot.png").write_bytes(DOT)
        assert "anvil" in said(await session.call_tool("read", {"file_path": "note.txt"}))
        picture = await session.call_tool("read", {"file_path": "dot.png"})
        assert [block.mime_type for block in picture.content if block.type == "image"] == ["image/png"]
        for number in range(2):
            assert said(await session.call_tool("exec", {"command": f"echo {number}"})).strip() == str(number)


async def test_what_is_wrong_with_a_call_is_its_result_and_the_server_goes_on(home: Path) -> None:
    async with client(home, "read") as session:
        for name, arguments, problem in (
            ("write", {"file_path": "x", "content": "y"}, "there is no tool write"),
            ("read", {"paht": "x"}, "unknown argument"),
            ("read", {"file_path": "/etc/shadow"}, "/etc/shadow"),
        ):
            refused = await session.call_tool(name, arguments)
            assert refused.is_error and problem in said(refused)
        assert [tool.name for tool in (await session.list_tools()).tools] == ["read"]


async def test_a_call_that_needs_an_approval_is_refused_as_nobody_can_be_asked(home: Path) -> None:
    async with client(home, "exec", approvals={"tools": ["exec"]}) as session:
        refused = await session.call_tool("exec", {"command": "touch done"})
        assert refused.is_error
    assert not (home.parent / "work" / "done").exists()


@pytest.mark.parametrize("words", [("nothing",), ("nothing_*",), ("exec",)])
def test_a_word_that_chooses_no_tool_is_an_error_before_anything_is_served(
    home: Path, words: tuple[str, ...]
) -> None:
    (home / "config.json").write_text(json.dumps({"tools": {"deny": ["exec"]}}))
    command = [sys.executable, "-m", "claw", "mcp", "serve", *words]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no tool of this run is called {words[0]}" in done.stderr
    assert f"claw tools explain {words[0]}" in done.stderr


def test_claw_itself_can_be_its_client(home: Path) -> None:
    inner = {"command": sys.executable, "args": ["-m", "claw", "mcp", "serve", "exec"]}
    inner |= {"env": {"CLAW_HOME": str(home.parent / "inner")}}
    (home.parent / "inner").mkdir()
    (home.parent / "inner" / "config.json").write_text(json.dumps({"tools": UNASKED}))
    (home / "config.json").write_text(json.dumps({"mcpServers": {"inner": inner}}))
    for words in (
        ["mcp", "refresh"],
        ["tools", "call", "inner__exec", "--args", '{"command": "echo from inside"}'],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "claw", *words], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
    assert "from inside" in done.stdout


def test_a_pattern_chooses_no_tool_for_owners_alone_and_a_name_does() -> None:
    async def run() -> str:
        return ""

    tools = {
        name: Tool(name, "For a test.", {"type": "object"}, run, owner_only=name == "note_owner")
        for name in ("note_read", "note_owner", "other")
    }
    assert list(chosen_tools(tools, ["note_*"])) == ["note_read"]
    assert list(chosen_tools(tools, ["note_*", "note_owner"])) == ["note_read", "note_owner"]
    assert list(chosen_tools(tools, ["*"])) == ["note_read", "other"]
    with pytest.raises(UsageError, match="no tool of this run is called note_o"):
        chosen_tools(tools, ["note_o*"])
