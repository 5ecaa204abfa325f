"""Discord's wire fixtures: dispatches through the reader, answers and gateway frames through a channel that lives with
the fake."""

import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from claw import DeliveryError
from claw_discord.channel import DiscordChannel
from claw_discord.client import quota_wait
from claw_discord.fake import FakeDiscord, ForcedAnswer
from claw_discord.inbound import READ, DiscordBot, to_inbound
from plugins.discord.living import RecordingInbox, channel_of, here, listening, says, until

KINDS = {"action": "button", "reaction": "reaction", "edit": "edit"}
HEARTBEAT, IDENTIFY, RESUME = 1, 2, 6


async def understood(path: Path) -> None:
    """Hold one file against the plugin.

    :raises AssertionError: it is read otherwise than it expects, or nobody knows what it is.
    """
    fixture = json.loads(path.read_text())
    if "http_status" in fixture:
        await an_answer(fixture)
    elif "rows" in fixture:
        for row in fixture["rows"]:
            await a_close(row)
    elif fixture["frame"].get("t") in READ:
        a_dispatch(fixture)
    elif fixture["frame"].get("op") == 0:
        a_state(fixture)
    else:
        await a_frame(fixture)


@asynccontextmanager
async def living(service: FakeDiscord) -> AsyncIterator[tuple[DiscordChannel, RecordingInbox]]:
    # A note that a thread is still writing when the channel ends is written to its end.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        async with service:
            channel, harness = channel_of(service, Path(home)), RecordingInbox()
            async with listening(channel, harness, up=False):
                yield channel, harness


# --- dispatches


def a_dispatch(fixture: dict[str, Any]) -> None:
    expected, me = fixture["expect"], fixture["config"]["bot_id"]
    inbound = to_inbound(fixture["frame"], DiscordBot(me), reactions="all", session="s")
    if expected.get("kind") in ("ignored", "lifecycle"):
        assert inbound is None
        return
    assert inbound is not None
    if expected.get("kind") == "ignored_by_default":
        assert inbound.sender.is_bot
        return
    assert inbound.kind == KINDS.get(expected.get("kind"), expected.get("kind", "message"))
    fields = {
        "text": inbound.text,
        "mentioned_bot": inbound.mentions_us,
        "chat_type": inbound.chat_type,
        "reply_to": inbound.reply_to,
        "thread_id": inbound.address.thread,
        "data": inbound.text,
        "emoji": inbound.text,
        "actor": inbound.sender.id,
    }
    assert {key: fields[key] for key in expected if key in fields} == {
        key: value for key, value in expected.items() if key in fields
    }
    files = [{"kind": one.kind, "key": one.key, "name": one.name} for one in inbound.attachments]
    wanted = expected.get("attachments", [])
    assert [{key: file[key] for key in want} for file, want in zip(files, wanted, strict=True)] == wanted
    assert inbound.event_id and inbound.sent_at is not None


def a_state(fixture: dict[str, Any]) -> None:
    """READY and GUILD_CREATE: what they say is known afterwards."""
    frame, expected = fixture["frame"], fixture["expect"]
    channel = channel_of(FakeDiscord(), Path("/nowhere"))
    channel._connection.frame(json.dumps(frame))
    inbox = channel._inbox
    if frame["t"] == "READY":
        assert channel.state.state == "up" and channel.state.detail == ""
        assert inbox._session == expected["session_id"] and inbox._me == frame["d"]["user"]["id"]
    else:
        for one in frame["d"].get("channels", ()):
            place = inbox._places.get(one["id"])
            assert place is not None and (place.name, place.guild_name) == (one["name"], frame["d"]["name"])


# --- the gateway


async def a_frame(fixture: dict[str, Any]) -> None:
    frame = fixture["frame"]
    interval = frame["d"]["heartbeat_interval"] if frame["op"] == 10 else 400
    service = FakeDiscord(heartbeat_ms=interval)
    async with living(service) as (_, harness):
        gateway = service.gateway
        await gateway.until(lambda: gateway.connected)
        if frame["op"] == 10:
            assert [one["op"] for one in gateway.received[:2]] == [HEARTBEAT, IDENTIFY]
        elif frame["op"] == IDENTIFY:
            [ours] = [one for one in gateway.received if one["op"] == IDENTIFY]
            assert ours["d"].keys() >= frame["d"].keys()
            assert ours["d"]["intents"] == frame["d"]["intents"] == sum(fixture["expect"]["intents"].values())
        else:
            await a_turn_of_the_gateway(service, harness, frame)


async def a_turn_of_the_gateway(service: FakeDiscord, harness: RecordingInbox, frame: dict[str, Any]) -> None:
    """Reconnect, invalid session, and the resume that follows the one and not the other."""
    gateway, op = service.gateway, frame["op"]
    fresh = op == 9 and frame["d"] is False
    before = gateway.session.id if gateway.session else ""
    if fresh:
        gateway.forget()
    await gateway.op(7 if op == RESUME else op, frame["d"] if op == 9 else None)
    wanted = IDENTIFY if fresh else RESUME
    await gateway.until(lambda: gateway.count(wanted) == (2 if fresh else 1))
    if not fresh:
        [resume] = [one for one in gateway.received if one["op"] == RESUME]
        assert resume["d"].keys() == {"token", "session_id", "seq"} and resume["d"]["session_id"] == before
        assert gateway.count(IDENTIFY) == 1
    await gateway.until(lambda: gateway.connected)
    await service.says("still here")
    await harness.until(1)


async def a_close(row: dict[str, Any]) -> None:
    service, code = FakeDiscord(), row["code"]
    async with living(service) as (channel, harness):
        gateway = service.gateway
        await gateway.until(lambda: gateway.connected)
        if row.get("resume") is False:
            gateway.forget()
        if code == 4014:
            gateway.granted = 0
        await service.drop(None if code == 1006 else code)
        if "fatal" in row and code != 4014:
            await until(lambda: channel.state.state == "failed")
            assert gateway.count(IDENTIFY) == 1 and channel.state.detail, code
            return
        await gateway.until(lambda: gateway.connected)
        assert gateway.count(IDENTIFY) == (1 if row.get("resume") else 2), code
        await service.says(f"<@{FakeDiscord.ME}> still here")
        await harness.until(1)


# --- REST


async def an_answer(fixture: dict[str, Any]) -> None:
    asked, expected = fixture["request"], fixture["expect"]
    answer = ForcedAnswer(fixture["http_status"], fixture["body"], fixture["headers"])
    path = asked["path"].removeprefix("/api/v10")
    service = FakeDiscord()
    service.fail(f"{asked['method']} {path}", answer)
    if path == "/gateway/bot":
        limit = fixture["body"]["session_start_limit"]
        assert quota_wait(fixture["body"]) == 0
        assert quota_wait({"session_start_limit": limit | {"remaining": 0}}) == limit["reset_after"] / 1000
        return
    async with living(service) as (channel, _):
        if path == "/users/@me":
            await until(lambda: channel.state.state == "failed")
            assert expected["error_class"] == "auth" and service.gateway.count(IDENTIFY) == 0
        else:
            await until(lambda: channel.state.state == "up")
            await a_send(channel, service, fixture)


async def a_send(channel: DiscordChannel, service: FakeDiscord, fixture: dict[str, Any]) -> None:
    asked, expected = fixture["request"], fixture["expect"]
    chat = asked["path"].split("/")[-2]
    wanted = asked.get("body", {})
    quoted = wanted.get("message_reference", {}).get("message_id")
    outbound = says(wanted.get("content", "hi"), address=here(chat), reply_to=quoted)
    began = time.monotonic()
    if expected.get("error_class") == "rate_limit":
        await channel.send(outbound)
        assert time.monotonic() - began >= expected["retry_after_s"]
        return
    if "message_id" in expected:
        assert (await channel.send(outbound)).message_ids == (expected["message_id"],)
        [posted] = service.asked("POST", f"/{chat}/messages")
        assert posted.body == wanted | {"nonce": posted.body["nonce"]}
        assert len(posted.body["nonce"]) <= 25
        return
    with pytest.raises(DeliveryError) as refused:
        await channel.send(outbound)
    assert refused.value.permanent is not expected.get("retryable", False)
    assert refused.value.retry_after_seconds is None
    if expected.get("action") == "split and resend":
        assert all(len(piece) <= 2000 for piece in channel.split("word " * 1000))
    assert len(service.asked("POST", f"/{chat}/messages")) == 1
