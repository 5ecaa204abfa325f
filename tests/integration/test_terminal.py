"""``claw chat`` as people see it, on a terminal and in a pipe: every word once, no secret, and why a call failed."""

import asyncio
import json
import os
import pty
import re
import select
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from claw.testing import FakeChannel, FakeProvider, Harness, calls, says
from claw_testing.services import OpenAIService, ServiceConnection, ServiceReply

KEY = "sk-live-4242-Xyz-987654"
ANEW = "(The answer was interrupted. It starts again:)"


@asynccontextmanager
async def chatting(tmp_path: Path, *replies: ServiceReply) -> AsyncIterator[Any]:
    """A home whose two models are this service; what ``claw chat ARGUMENTS`` prints there."""
    left = list(replies)
    async with OpenAIService(lambda request: left.pop(0)) as service:
        home, folder = tmp_path / "claw-home", tmp_path / "folder"
        home.mkdir()
        folder.mkdir()
        tree = {
            "providers": {"openai": {"baseUrl": service.url, "apiKey": KEY}},
            "agents": {"defaults": {"model": {"primary": "openai/m", "fallbacks": ["openai/spare"]}}},
        }
        (home / "config.json").write_text(json.dumps(tree))
        environ = {"CLAW_HOME": str(home), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        environ |= {"TERM": "dumb", "NO_COLOR": "1"}

        async def on(terminal: bool, *arguments: str) -> str:
            ours, theirs = pty.openpty() if terminal else os.pipe()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "claw", "chat", *arguments, cwd=folder, env=environ,
                stdin=asyncio.subprocess.DEVNULL, stdout=theirs,
                stderr=theirs if terminal else asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            os.close(theirs)
            shown = await asyncio.to_thread(_read, ours)
            await process.wait()
            return shown

        yield on


def _read(fd: int) -> str:
    seen = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:  # how a terminal tells that nobody writes there any more
            piece = b""
        if not piece:
            os.close(fd)
            return seen.decode().replace("\r\n", "\n")
        seen += piece


async def _half(line: ServiceConnection) -> None:
    await line.send_head()
    await line.send(*line.events[: len(line.events) // 2])


def broken() -> ServiceReply:
    return ServiceReply(text="It is nine o'clock in the morning, and", piece_bytes=0, play=_half)


async def test_on_a_terminal_an_answer_that_broke_off_is_marked_before_another_one_begins(
    tmp_path: Path,
) -> None:
    async with chatting(tmp_path, broken(), ServiceReply(text="It is ten.")) as on:
        shown = await on(True, "what time is it?")

    half, _, whole = shown.partition(f"\n{ANEW}\n")
    assert half.startswith("It is")
    assert "Switched to openai/spare" in half
    assert whole == "It is ten.\n"


async def test_in_a_pipe_only_the_whole_answer_is_printed(tmp_path: Path) -> None:
    async with chatting(tmp_path, broken(), ServiceReply(text="It is ten.")) as on:
        assert await on(False, "what time is it?") == "It is ten.\n"


async def test_words_that_are_on_the_terminal_are_not_printed_again_when_nothing_follows_them(
    tmp_path: Path,
) -> None:
    answered = ServiceReply(text="Your train is at nine.", calls=[("ls", {"path": "."})])
    async with chatting(tmp_path, answered, ServiceReply()) as on:
        shown = await on(True, "when is my train?")

    assert shown.count("Your train is at nine.") == 1


async def test_in_a_pipe_those_words_are_the_answer(tmp_path: Path) -> None:
    answered = ServiceReply(text="Your train is at nine.", calls=[("ls", {"path": "."})])
    async with chatting(tmp_path, answered, ServiceReply()) as on:
        assert await on(False, "when is my train?") == "Your train is at nine.\n"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("arguments", [("tell me",), ("tell me", "--json")], ids=["words", "json"])
async def test_a_key_of_the_settings_is_never_printed_however_its_pieces_come(
    tmp_path: Path, terminal: bool, arguments: tuple[str, ...]
) -> None:
    said = ServiceReply(
        text=f"Your key is {KEY}, and mine looks like sk-none.", thinking=f"{KEY}?", piece_bytes=5
    )
    async with chatting(tmp_path, said) as on:
        shown = await on(terminal, *arguments)

    assert KEY not in shown
    assert KEY[:12] not in shown
    if "--json" not in arguments:
        assert shown == "Your key is ***, and mine looks like sk-none.\n"
    [session] = (tmp_path / "claw-home").glob("agents/*/sessions/*.jsonl")
    assert KEY not in session.read_text()


async def test_lines_that_are_pasted_together_are_one_message_also_in_the_next_conversation(
    tmp_path: Path,
) -> None:
    pytest.importorskip("readline")
    asked: list[str] = []

    def answer(request: Any) -> ServiceReply:
        asked.append(repr(request.body["messages"][-1]["content"]))
        return ServiceReply(text=f"answer {len(asked)}.")

    async with OpenAIService(answer) as service:
        home = tmp_path / "claw-home"
        home.mkdir()
        tree = {
            "providers": {"openai": {"baseUrl": service.url, "apiKey": KEY}},
            "agents": {"defaults": {"model": "openai/m"}},
        }
        (home / "config.json").write_text(json.dumps(tree))
        environ = {
            "CLAW_HOME": str(home),
            "HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        }
        await asyncio.to_thread(_typed, environ, b"\x1b[200~one\ntwo\n  three\x1b[201~\r", b"answer 1.")
        await asyncio.to_thread(
            _typed, environ, b"\x1b[A\r", b"answer 2."
        )  # the line above, from the history

    assert len(asked) == 2, asked
    assert all(r"one\ntwo\n  three" in text for text in asked)


def _typed(environ: dict[str, str], keys: bytes, answer: bytes) -> None:
    """Type into ``claw chat`` on a terminal, wait for the answer, and leave."""
    child, fd = pty.fork()
    if child == 0:
        os.execve(sys.executable, [sys.executable, "-m", "claw", "chat"], environ)
    seen = b""

    def until(part: bytes) -> None:
        nonlocal seen
        while part not in seen:
            assert select.select([fd], [], [], 20)[0], seen
            seen += os.read(fd, 65536)
        seen = seen.partition(part)[2]

    try:
        until("› ".encode())
        os.write(fd, keys)
        until(answer)
        until(b"\x1b[?2004h" + "› ".encode())
        os.write(fd, b"\x04")
        while select.select([fd], [], [], 20)[0] and os.read(fd, 65536):
            pass
    except OSError:  # nobody writes to the terminal any more
        pass
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(fd)


async def test_a_key_in_the_arguments_of_a_call_is_not_printed_beside_it(tmp_path: Path) -> None:
    call = ServiceReply(calls=[("ls", {"path": KEY})])
    async with chatting(tmp_path, call, ServiceReply(text="No.")) as on:
        shown = await on(True, "look")

    assert "· ls" in shown
    assert KEY not in shown


async def test_the_line_of_a_call_that_could_not_be_made_says_why(tmp_path: Path) -> None:
    async with chatting(tmp_path, ServiceReply(calls=[("read", {})]), ServiceReply(text="No.")) as on:
        shown = await on(True, "read it")

    assert re.search(r"! read: Invalid arguments for read: \S.*path.* is missing", shown)


# --- in chats


async def in_pieces(channel: FakeChannel, text: str, home: Path) -> list[str]:
    """All that a chat ever showed of an answer, with that key in the settings."""
    config = {
        "providers": {"fake": {"apiKey": KEY}}, "channels": {"fake": {"allowFrom": ["user-1"]}},
        "owners": ["fake:user-1"],
    }  # fmt: skip
    harness = Harness(FakeProvider(says(text)), channels=[channel], config=config, home=home)
    async with harness, harness.serving():
        channel.says("tell me")
        await channel.until_shown()
        await asyncio.sleep(0.05)
    return [*channel.stream_states, *channel.shown]


@pytest.mark.parametrize("streaming", [True, False])
async def test_no_chat_sees_a_key_of_the_settings_at_any_moment(tmp_path: Path, streaming: bool) -> None:
    states = await in_pieces(FakeChannel(streaming=streaming), f"It is {KEY[:10]} or {KEY}!", tmp_path)

    assert states[-1] == f"It is {KEY[:10]} or ***!"
    assert not any(KEY in state for state in states)


async def test_the_message_tool_sends_no_key_either(tmp_path: Path) -> None:
    import claw_tools_std

    channel = FakeChannel()
    config = {"providers": {"fake": {"apiKey": KEY}}, "channels": {"fake": {"allowFrom": ["user-1"]}}}
    model = FakeProvider(calls("message", message=f"It is {KEY}."), says("NO_REPLY"))
    harness = Harness(
        model, channels=[channel], config=config, home=tmp_path, plugins={"tools-std": claw_tools_std}
    )
    async with harness, harness.serving():
        channel.says("tell me")
        assert await channel.until_shown() == ["It is ***."]
