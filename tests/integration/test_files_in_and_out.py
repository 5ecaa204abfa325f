"""Files that come with a message and go with an answer, as large as the channel takes; and what answers ask of claw."""

import pytest
from claw.contracts.channel import ChannelLimits
from claw.contracts.messages import Address, Attachment, Button, Outbound
from claw.security.path_walk import Root
from claw.security.workspace_fs import workspace_files
from claw.testing import FakeChannel, FakeProvider, Harness, says
from claw_gateway.attachments import copy_attachments
from claw_gateway.replies import split_reply
from integration.served import serve

SMALL = ChannelLimits(quiet_seconds=0.0, media_in_bytes=1000, media_out_bytes=1000)


class Bringing(FakeChannel):
    """A channel whose messages come with files of so many pieces of 100 bytes."""

    def __init__(self, pieces: int = 1) -> None:
        super().__init__(limits=SMALL)
        self.pieces, self.fetched = pieces, 0

    async def fetch(self, inbound, attachment):
        for _ in range(self.pieces):
            self.fetched += 1
            yield b"x" * 100


def words_of(model):
    return str(model.requests[0].request.messages[-1].content)


async def answered_with_file(tmp_path, pieces, **about):
    """A message with a file: what was fetched of it, what lies in the workspace then, what the model reads."""
    channel, model = Bringing(pieces), FakeProvider(says("thanks"))
    harness = Harness(model, channels=[channel], home=tmp_path)
    async with serve(harness):
        file = Attachment("file", **{"name": "a.txt", "key": "k"} | about)
        channel.says("look", "user-1", message_id="m1", attachments=(file,))
        await channel.until_shown()
        there = [path.read_bytes() for path in (harness.workspace / "incoming").glob("*")]
        return channel.fetched, there, words_of(model), harness


async def test_a_file_is_put_into_the_workspace_and_the_model_reads_where(tmp_path):
    fetched, there, words, _ = await answered_with_file(tmp_path, 10)
    assert (fetched, there) == (10, [b"x" * 1000]), "as much as the channel may bring"
    assert "[attached file: a.txt, at incoming/m1-1-a.txt]" in words


async def test_a_file_that_says_itself_that_it_is_too_large_is_not_fetched(tmp_path):
    fetched, there, words, harness = await answered_with_file(tmp_path, 1, size_bytes=1001)
    assert (fetched, there) == (0, [])
    assert "it could not be fetched" in words
    assert any("it is larger than" in line for line in harness.log_lines)


async def test_a_file_that_goes_on_is_left_at_the_limit(tmp_path):
    fetched, there, words, _ = await answered_with_file(tmp_path, 10_000, size_bytes=5)
    assert fetched <= 11 and there == []
    assert "it could not be fetched" in words


@pytest.mark.parametrize(
    "name", ["../../evil.sh", "/etc/passwd", "..", "a\\..\\b.txt", ".bashrc", "con\x00.txt", "é" * 300]
)
async def test_whatever_a_sender_calls_a_file_it_lies_in_our_folder(tmp_path, name):
    _, there, words, harness = await answered_with_file(tmp_path, 1, name=name)
    assert there == [b"x" * 100]
    [path] = (harness.workspace / "incoming").iterdir()
    assert path.name.startswith("m1-1-") and not path.name.endswith((".", " "))
    assert f"at incoming/{path.name}]" in words


async def answered(tmp_path, answer, **files):
    channel = FakeChannel(limits=SMALL)
    harness = Harness(FakeProvider(says(answer)), channels=[channel], home=tmp_path)
    harness.workspace.mkdir(exist_ok=True)
    for name, size in files.items():
        (harness.workspace / f"{name}.ogg").write_bytes(b"x" * size)
    async with serve(harness):
        channel.says("well?", "user-1", message_id="q1")
        await channel.until_shown()
    return channel.sent  # a gateway that stops lets out what is on its way


async def test_a_file_goes_out_up_to_what_the_channel_takes(tmp_path):
    words, file = await answered(tmp_path, "here\nMEDIA:./right.ogg", right=1000)
    assert (words.text, file.text) == ("here", "")
    [sent] = file.attachments
    assert (sent.name, sent.kind, sent.size_bytes) == ("right.ogg", "audio", 1000)


async def test_a_file_that_is_a_byte_too_large_stays_and_that_is_said(tmp_path):
    [words] = await answered(tmp_path, "here\nMEDIA:./large.ogg", large=1001)
    assert words.text.startswith("here\n./large.ogg cannot be sent: it is larger than")
    assert words.attachments == ()


async def test_an_answer_says_which_sound_is_a_voice_note_and_what_it_quotes(tmp_path):
    sent = await answered(tmp_path, "[[audio_as_voice]][[reply_to: m9]] here\nMEDIA:./a.ogg", a=5)
    assert [(one.text, one.voice, one.reply_to) for one in sent] == [("here", False, "m9"), ("", True, None)]


@pytest.mark.parametrize(("answer", "quoted"), [("[[reply_to_current]] here", "q1"), ("here", None)])
async def test_between_two_nothing_is_quoted_unless_the_answer_asks(tmp_path, answer, quoted):
    [one] = await answered(tmp_path, answer)
    assert (one.text, one.reply_to) == ("here", quoted)


async def test_an_address_stays_a_link_and_nothing_is_fetched_because_an_answer_says_so(tmp_path):
    [one] = await answered(tmp_path, "here\nMEDIA:https://files.example/a.png")
    assert (one.text, one.attachments) == ("here\nhttps://files.example/a.png", ())


@pytest.mark.parametrize("label", ["turn-1", "../../up", "/root", "a/b", ""])
async def test_a_copy_that_is_pending_lies_in_its_folder_whatever_the_call_was_named(tmp_path, label):
    work, folder = tmp_path / "work", tmp_path / "outgoing"
    work.mkdir()
    (work / "a.txt").write_bytes(b"x")
    fence = workspace_files([Root(work, write=True)], work, tmp_path / "home", ())

    [sent], refused = await copy_attachments(["a.txt", "../outside"], fence, folder, label, 10)

    assert list(folder.iterdir()) == [folder / sent.path.rpartition("/")[2]]
    assert len(refused) == 1 and "../outside" in refused[0]


async def test_a_file_that_is_named_ten_thousand_times_is_copied_not_once(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"x")
    fence = workspace_files([Root(tmp_path, write=True)], tmp_path, tmp_path / "home", ())

    sent, refused = await copy_attachments(["a.txt"] * 10_000, fence, tmp_path / "outgoing", "turn-1", 10)

    assert (sent, refused) == ((), ("a message takes at most 20 files",))
    assert not (tmp_path / "outgoing").exists()


def test_of_an_answer_in_several_messages_the_first_quotes_and_the_last_of_its_words_has_the_buttons():
    file, press = Attachment("file", "a.txt", path="a.txt"), (Button("yes", "y"),)
    whole = Outbound("key", Address("fake", "c"), "word " * 30, "q1", (file,), press, voice=True)

    *words, last, sent = split_reply(whole, FakeChannel(limits=ChannelLimits(text_chars=60)))

    assert len(words) == 2 and [one.key for one in (*words, last, sent)] == ["key", "key:1", "key:2", "key:3"]
    assert [one.reply_to for one in (*words, last, sent)] == ["q1", None, None, None]
    assert [one.buttons for one in (*words, last, sent)] == [(), (), press, ()]
    assert [one.attachments for one in (*words, last, sent)] == [(), (), (), (file,)]
    assert [one.voice for one in (*words, last, sent)] == [False, False, False, True]
