"""Pictures that people send: the model of that turn looks at them, and the past keeps only that they were sent."""

import base64
from dataclasses import replace

import pytest
from claw.contracts.errors import ProviderError
from claw.contracts.messages import Address, Attachment, Inbound, Sender
from claw.contracts.transcript import Image, Text
from claw.security.workspace_fs import Root, workspace_files
from claw.testing import FakeProvider, FakeTool, calls, says
from claw_gateway.pictures import MAX_PICTURES, PICTURE_BYTES, pictures_of
from integration.channels.on_telegram import Telegram
from integration.channels.platforms import served, until

pytestmark = pytest.mark.xdist_group("telegram")

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
REFUSED = ProviderError("image input is not supported", reason="bad_request")


@pytest.fixture
async def stage():
    async with Telegram() as made:
        yield made


def pictures(request):
    return [part for message in request.messages for part in message.content if isinstance(part, Image)]


def words(message):
    return "".join(part.text for part in message.content if isinstance(part, Text))


async def answered(stage, count):
    await until(lambda: len(stage.seen(stage.direct(stage.ann))) >= count and not stage.being_written())


async def test_a_picture_from_a_chat_is_shown_to_the_model_in_its_turn_and_not_again(stage, tmp_path):
    look = FakeTool("look")
    model = FakeProvider(calls("look"), says("a cat"), says("as I said"))
    async with served(stage, model, tmp_path, tools=[look]) as harness:
        await stage.says("what is it?", stage.ann, file=("cat.png", PNG))
        await answered(stage, 1)
        await stage.says("sure?", stage.ann)
        await answered(stage, 2)
        first, second, later = (asked.request for asked in model.requests)

        assert pictures(first) == pictures(second) == [Image(base64.b64encode(PNG).decode(), "image/png")]
        assert "[attached" in words(first.messages[-1]) and "what is it?" in words(first.messages[-1])
        assert pictures(later) == []
        assert any("cat.png" in words(message) for message in later.messages)
        (past,) = harness.workspace.parent.rglob("sessions/**/*.jsonl")
        assert base64.b64encode(PNG) not in past.read_bytes()


async def test_a_model_that_cannot_look_is_asked_without_the_picture_and_the_turn_goes_on(stage, tmp_path):
    model = FakeProvider(REFUSED, says("I cannot see it"))
    async with served(stage, model, tmp_path):
        await stage.says("what is it?", stage.ann, file=("cat.png", PNG))
        await answered(stage, 1)
        refused, blind = (asked.request for asked in model.requests)

        assert len(pictures(refused)) == 1
        assert pictures(blind) == []
        assert "cat.png" in words(blind.messages[-1])


async def test_a_file_that_is_no_picture_is_only_named(stage, tmp_path):
    model = FakeProvider(says("not a picture"))
    async with served(stage, model, tmp_path):
        await stage.says("what is it?", stage.ann, file=("cat.png", b"#!/bin/sh"))
        await answered(stage, 1)
        assert pictures(model.requests[0].request) == []


# --- which files are shown


def sent(*files):
    return Inbound(Address("feishu", "c"), "hi", Sender("u"), "m", attachments=files)


@pytest.fixture
def fence(tmp_path):
    return workspace_files([Root(tmp_path, write=True)], tmp_path, tmp_path / "home")


def kept(fence, name, data, **about):
    fence.write(name, data)
    return replace(Attachment("image", name, path=name), **about)


@pytest.mark.parametrize(
    ("head", "mime"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff\xe0", "image/jpeg"), (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)  # fmt: skip
def test_the_first_bytes_say_what_a_picture_is_whatever_its_name(fence, head, mime):
    file = kept(fence, "x.dat", head, kind="file", mime="image/heic")
    assert [one.mime for one in pictures_of(sent(file), lambda: fence)] == [mime]


def test_a_picture_that_is_too_large_lost_or_one_too_many_is_left_to_its_line(fence):
    large = kept(fence, "large", PNG + b"x" * PICTURE_BYTES)
    lost, gone = Attachment("image", "lost", lost=True), Attachment("image", "gone", path="gone.png")
    many = [kept(fence, f"{at}", PNG + bytes([at])) for at in range(MAX_PICTURES + 1)]
    shown = pictures_of(sent(large, lost, gone, *many), lambda: fence)
    assert [base64.b64decode(one.data)[-1] for one in shown] == list(range(MAX_PICTURES))


def test_all_pictures_of_a_message_have_space_in_one_request(fence):
    files = [kept(fence, f"{at}", PNG.ljust(PICTURE_BYTES, b"x")) for at in range(5)]
    assert len(pictures_of(sent(*files), lambda: fence)) == 3


def test_a_message_without_pictures_asks_for_no_fence():
    def never():
        raise AssertionError("nothing is to be looked at")

    assert pictures_of(sent(), never) == ()
    assert pictures_of(sent(Attachment("audio", "a.ogg", "audio/ogg", path="a.ogg")), never) == ()
