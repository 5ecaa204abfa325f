"""Turns that ran when the gateway died: one that ends the process is given up, the others are answered."""

import json
import signal
from pathlib import Path

import pytest
from claw.testing import FakeChannel, FakeProvider, Harness, says
from claw_gateway.journal import Journal
from integration.gateways import Home, Running, home, until  # noqa: F401
from integration.served import serve
from integration.test_crash_recovery import leave_a_turn
from third_party import installed

PLUGIN = """
import asyncio, ctypes, os
from pathlib import Path
from claw import Address, Assistant, ChannelConfig, ChannelLimits, ChannelState, Credential, Finished, Inbound
from claw import Receipt, Sender, Text, TextDelta, hookimpl

ROOT = Path(os.environ["HOME"]) / "post"

class Post:
    name, account, capabilities, limits = "post", "default", frozenset(), ChannelLimits()
    state = ChannelState("up")

    async def run(self, inbox):
        while True:
            for path in sorted(ROOT.glob("in-*")):
                chat = path.read_text()
                where = Address("post", chat)
                if await inbox.submit(Inbound(where, chat, Sender(chat), message_id=path.name)):
                    path.unlink()
            await asyncio.sleep(0.02)

    async def send(self, outbound):
        with open(ROOT / f"out-{outbound.address.chat}", "a") as file:
            file.write(outbound.text + "\\n")
        return Receipt(("1",))

class Model:
    name = "dying"

    def credentials(self):
        return (Credential("none", ""),)

    def context_tokens(self, model):
        return 100_000

    async def stream(self, request):
        said = request.messages[-1].content[0].text
        if "os-exit" in said:
            await until_others_run()
            os._exit(3)
        if "segfault" in said:
            await until_others_run()
            ctypes.string_at(0)
        (ROOT / f"running-{said.split()[-1]}").touch()
        while (ROOT / "hold").exists():
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        yield TextDelta("answered")
        yield Finished(Assistant((Text("answered"),)))

async def until_others_run():
    for _ in range(100):
        if len([*ROOT.glob("running-*")]) > 1:
            return
        await asyncio.sleep(0.02)

@hookimpl
def register_channels(config):
    if config.channel("post", ChannelConfig):
        yield Post()

@hookimpl
def register_providers(config):
    return [Model()]
"""
MANIFEST = {
    "kinds": ["channel", "provider"],
    "channels": ["post"],
    "providers": [{"name": "dying", "defaultModel": "m"}],
}


@pytest.fixture
def post(home) -> Home:  # noqa: F811
    """A home whose model ends the process when a message says so."""
    home.path = [installed(home.root / "site", "post", PLUGIN, MANIFEST)]
    (home.root / "post").mkdir()
    settings = {"channels": {"post": {"dmPolicy": "open", "allowFrom": ["*"]}}}
    home.configured(json.dumps({"agents": {"defaults": {"model": "dying/m"}}, **settings}), "config.json")
    return home


def ask(post: Home, *chats: str) -> None:
    for chat in chats:
        part = post.root / "post" / f"part-{chat}"
        part.write_text(chat)
        part.rename(post.root / "post" / f"in-{chat}")


def answer(post: Home, chat: str) -> str:
    out = post.root / "post" / f"out-{chat}"
    return out.read_text() if out.exists() else ""


def killed_at_work(post: Home, times: int) -> None:
    """Kill the gateway while the turn of chat ``a`` runs."""
    for _ in range(times):
        mark = post.root / "post" / "running-a"
        mark.unlink(missing_ok=True)
        with Running(post, "--no-safe") as running:
            until(mark.exists)
            running.end(signal.SIGKILL)


@pytest.mark.parametrize("guilty", ["os-exit", "segfault"])
def test_the_turn_that_ends_the_process_is_given_up_and_those_beside_it_are_answered(post, guilty):
    ask(post, "a", "b", guilty)
    deaths = 0
    for _ in range(6):
        with Running(post, "--no-safe") as running:
            until(lambda: answer(post, guilty) or running.process.poll() is not None)
            deaths += running.process.poll() is not None
            if answer(post, guilty):
                break
    assert deaths == 3
    assert [answer(post, chat) for chat in "ab"] == ["answered\n"] * 2
    assert "claw crashed 3 times" in answer(post, guilty)
    [line] = {one["text"] for one in post.log() if "ended by itself" in one["text"]}
    assert "os._exit" in line or "Segmentation fault" in line


def test_kills_from_outside_cost_nobody_the_answer(post):
    hold = post.root / "post" / "hold"
    hold.touch()
    ask(post, "a")
    killed_at_work(post, 4)
    hold.unlink()
    with Running(post, "--no-safe"):
        until(lambda: answer(post, "a"))
    assert answer(post, "a") == "answered\n"


async def ended(tmp_path: Path, cause: str | None, times: int, **how: bool) -> tuple[str, FakeProvider]:
    """The reply to a turn during which the process ended so often in this way."""
    await leave_a_turn(tmp_path, "tell me")
    harness = Harness(FakeProvider(), channels=[FakeChannel()], home=tmp_path)
    journal: Journal = harness.app.runtime.turn_log
    for _ in range(times - 1):
        journal.count_end(cause)
        journal.began("turn-1", "agent:default:fake:direct:user-1", [1], again=True)
    await harness.close()
    channel, model = FakeChannel(), FakeProvider(says("here you are"))
    async with serve(Harness(model, channels=[channel], home=tmp_path), last_end=cause, **how):
        [said] = await channel.until_shown()
    return said, model


@pytest.mark.parametrize(
    ("cause", "times", "words"),
    [
        ("os._exit", 2, "here you are"),
        ("os._exit", 3, "claw crashed 3 times"),
        ("", 9, "here you are"),
        ("", 10, "ended from outside 10 times"),
        (None, 30, "here you are"),
    ],
    ids=["two crashes", "three crashes", "nine kills", "ten kills", "stops"],
)
async def test_a_turn_is_given_up_after_three_crashes_or_ten_kills_and_no_stop_counts(
    tmp_path, cause, times, words
):
    said, model = await ended(tmp_path, cause, times)

    assert words in said
    assert bool(model.requests) == (words == "here you are")


@pytest.mark.parametrize(("times", "words"), [(3, "here you are"), (4, "claw crashed 4 times")])
async def test_safe_mode_tries_a_turn_once_more_as_a_plugin_beside_it_may_have_crashed(
    tmp_path, times, words
):
    said, _ = await ended(tmp_path, "os._exit", times, safe=True)

    assert words in said


def test_a_plugin_that_crashes_in_c_code_is_not_loaded_by_the_third_gateway(home):  # noqa: F811
    code = "import ctypes\nctypes.string_at(0)\n"
    home.path = [
        installed(home.root / "site", "broken", code, {"kinds": ["channel"], "channels": ["broken"]})
    ]
    home.configured(json.dumps({"channels": {"broken": {}}}), "config.json")
    for _ in range(2):
        with Running(home, "--no-safe") as running:
            assert running.process.poll() == -signal.SIGSEGV

    with Running(home, "--no-safe") as running:
        assert running.process.poll() is None
        until(lambda: home.said("claw crashed 2 times while loading it"))
