"""The suite for sandboxes, one turn with the provider, and one message through the channel."""

import asyncio

import claw_plugin_acme_echo
from claw.testing import FakeProvider, Harness
from claw_plugin_acme_echo import Bubblewrap
from pytest_claw import SandboxSuite

PLUGINS = {"acme-echo": claw_plugin_acme_echo}


class TestBubblewrap(SandboxSuite):
    def make(self, folder):
        return Bubblewrap()


def test_the_provider_repeats_what_it_is_told():
    async def turn():
        config = {"agents": {"defaults": {"model": "echo/echo"}}}
        async with Harness(FakeProvider(), config=config, plugins=PLUGINS) as harness:
            return await harness.send("hello")

    assert "hello" in asyncio.run(turn()).text


def test_a_file_is_answered_with_a_file(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "ann.txt").write_text("hello")
    section = {"path": str(folder), "dmPolicy": "open", "allowFrom": ["*"]}
    config = {"agents": {"defaults": {"model": "echo/echo"}}, "channels": {"folder": section}}

    async def served():
        async with Harness(FakeProvider(), config=config, plugins=PLUGINS) as harness, harness.serving():
            async with asyncio.timeout(20):
                while not (folder / "ann.reply").exists():  # noqa: ASYNC110 - a file sends no event
                    await asyncio.sleep(0.05)

    asyncio.run(served())
    assert "hello" in (folder / "ann.reply").read_text()
    assert (folder / "ann.read").exists()
