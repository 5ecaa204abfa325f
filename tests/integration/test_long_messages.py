"""Messages of megabytes: the person reads the limit, no model is called, and neither disk nor memory grows with them."""

import sys

import pytest
from claw.contracts.messages import Attachment, MessageContext, QuotedMessage
from claw.security.untrusted_text import WORDS_CHARS
from claw.storage.database import Database
from claw.testing import FakeChannel, FakeProvider, Harness, says
from integration.served import serve
from third_party import Machine

MEGABYTE = 1_000_000


def written(tmp_path) -> int:
    """Bytes of the bodies that the journal keeps."""
    database = Database(tmp_path / "state.db")
    rows = database.read("SELECT coalesce(sum(length(body)), 0) FROM inbox")
    database.close()
    return int(rows[0][0])


@pytest.mark.parametrize("chars", [WORDS_CHARS + 1, MEGABYTE, 20 * MEGABYTE])
@pytest.mark.parametrize("begin", ["", "/new "])
async def test_a_long_message_in_a_chat_is_refused_with_the_limit_and_no_model_is_asked(
    tmp_path, chars, begin
):
    channel, model = FakeChannel(), FakeProvider(says("here I am"))
    harness = Harness(model, channels=[channel], home=tmp_path)
    async with serve(harness):
        channel.says(begin + "a" * chars, "user-1", message_id="m1")
        [refusal] = await channel.until_shown(1)
        assert "100,000 characters" in refusal and "as a file" in refusal
        assert model.requests == []
        channel.says("still there?", "user-1", message_id="m2")
        await channel.until_shown(2)
    assert channel.shown[-1] == "here I am"
    assert written(tmp_path) < 3 * WORDS_CHARS


async def test_a_message_at_the_limit_reaches_the_model_whole(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("read"))
    async with serve(Harness(model, channels=[channel], home=tmp_path)):
        channel.says("b" * WORDS_CHARS, "user-1", message_id="m1")
        await channel.until_shown(1)
    assert "b" * WORDS_CHARS in str(model.requests[0].request.messages[-1].content)


async def test_a_long_quoted_message_is_kept_in_part_only(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("read"))
    quoted = QuotedMessage("c" * MEGABYTE)
    around = MessageContext(quoted=quoted, thread_starter="d" * MEGABYTE)
    async with serve(Harness(model, channels=[channel], home=tmp_path)):
        channel.says("see above", "user-1", message_id="m1", around=around)
        await channel.until_shown(1)
    assert written(tmp_path) < 3 * WORDS_CHARS


class Bringing(FakeChannel):
    """A channel whose messages bring a text file of 20 MB."""

    async def fetch(self, inbound, attachment):
        for _ in range(20):
            yield b"x" * MEGABYTE


async def test_a_text_file_of_twenty_megabytes_is_kept_as_a_file_and_named_to_the_model(tmp_path):
    channel, model = Bringing(), FakeProvider(says("thanks"))
    harness = Harness(model, channels=[channel], home=tmp_path)
    async with serve(harness):
        channel.says("look", "user-1", message_id="m1", attachments=(Attachment("file", "a.txt", key="k"),))
        await channel.until_shown()
    [path] = (harness.workspace / "incoming").iterdir()
    assert path.stat().st_size == 20 * MEGABYTE
    assert sum(len(str(one.content)) for one in model.requests[0].request.messages) < 10_000


@pytest.mark.parametrize("chars", [400_001, 20 * MEGABYTE])
def test_a_long_message_from_a_pipe_is_refused_with_the_limit(tmp_path, chars):
    said = Machine(tmp_path / "machine").claw("chat", stdin="a" * chars)

    assert said.code == 2
    assert "400,000 characters" in said.line and "file" in said.line


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/zero")
def test_a_pipe_without_end_is_refused_too(tmp_path):
    import subprocess

    with open("/dev/zero", "rb") as zeros:
        command = Machine(tmp_path / "machine").command("chat")
        done = subprocess.run(**command, stdin=zeros, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "400,000 characters" in done.stderr
