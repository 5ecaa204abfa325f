"""Reads the fixtures of Telegram: what the real service puts on the wire, through the plugin's own functions."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import claw_telegram
import httpx2
import pytest
from claw import Address, Attachment, HttpClients, Inbound, Outbound, Sender
from claw.testing import plugin_config
from claw_channel_sdk import WebRequest
from claw_telegram.api import BotApi, TelegramError
from claw_telegram.inbound import TelegramBot, bot_of, to_inbound
from claw_telegram.poller import Poller, PollTimings, poll_failure
from plugins.telegram.bench import TOKEN, RecordingInbox, channels, running, soon

KINDS = {"action": "button"}
SENT = {"ok": True, "result": {"message_id": 31, "date": 0, "chat": {"id": 1, "type": "private"}}}


async def understood(path: Path) -> None:
    fixture = json.loads(path.read_text())
    if path.stem.startswith("update_"):
        an_update(fixture)
    elif path.stem.startswith("api_"):
        await an_answer(path.stem, fixture)
    elif path.stem == "getupdates_sequence":
        await a_sequence(fixture)
    elif path.stem == "webhook_request":
        await webhook_calls(fixture)
    else:
        pytest.fail("nobody reads this file")


def an_update(fixture: dict[str, Any]) -> None:
    config, expected = fixture["config"], fixture["expect"]
    inbound = to_inbound(fixture["update"], TelegramBot(config["bot_id"], config["bot_username"]))
    assert inbound is not None
    assert inbound.kind == KINDS.get(expected.get("kind"), expected.get("kind", "message"))
    fields = {
        "text": inbound.text,
        "data": inbound.text,
        "mentioned_bot": inbound.mentions_us,
        "chat_type": inbound.chat_type,
        "chat_id": inbound.address.chat,
        "message_id": inbound.message_id,
        "thread_id": inbound.address.thread,
        "reply_to": inbound.reply_to,
        "actor": inbound.sender.id,
        "from": inbound.address.chat,
        "to": inbound.text,
        "command": command_of(inbound)[0],
        "args": command_of(inbound)[1],
    }
    assert {name: fields[name] for name in expected if name in fields} == {
        name: expected[name] for name in expected if name in fields
    }
    assert len(inbound.attachments) == len(expected.get("attachments", ()))
    for attachment, wanted in zip(inbound.attachments, expected.get("attachments", ()), strict=True):
        assert (attachment.kind, attachment.key) == (wanted["kind"], wanted["key"])
        assert attachment.name == wanted.get("name", "")


def command_of(inbound: Inbound) -> tuple[str | None, str]:
    """A command is one only when it is ours."""
    name, _, args = inbound.text.partition(" ")
    return (name[1:], args) if inbound.mentions_us and name.startswith("/") else (None, "")


class Wire(httpx2.AsyncBaseTransport):
    """Answers one request after the other with what it was given; the last one stays."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers, self.requests = list(answers), list[httpx2.Request]()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        self.requests.append(request)
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return httpx2.Response(status, json=body)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]


async def an_answer(name: str, fixture: dict[str, Any]) -> None:
    expected, first = fixture["expect"], (fixture["http_status"], fixture["body"])
    wire = Wire(first, (200, SENT))
    (channel,) = channels({}, HttpClients(transport=wire))
    place = Address("telegram", "111222333", thread="42")
    match name:
        case "api_getme":
            me = bot_of(fixture["body"]["result"])
            assert (me.username, me.hears_all) == ("claw_bot", not expected["privacy_mode_on"])
        case "api_getfile":
            photo = Inbound(place, "", Sender("1"))
            async for _ in channel.fetch(photo, Attachment("image", key="AgACfx_x")):
                pass
            assert wire.requests[1].url.path == expected["download"].replace("<token>", TOKEN)
        case "api_send_ok":
            receipt = await channel.send(Outbound("k", place, "好的"))
            assert receipt.message_ids == (expected["message_id"],)
        case "api_400_not_modified":
            await channel.edit(place, "31", "same")
            assert len(wire.requests) == 1
        case "api_400_parse" | "api_400_reply_gone" | "api_400_thread_not_found":
            gone = expected["action"].removeprefix("resend without ")
            await channel.send(Outbound("k", place, "**a** <think>", reply_to="7"))
            assert gone in wire.bodies[0] and gone not in wire.bodies[1]
            assert set(wire.bodies[0]) - set(wire.bodies[1]) == {gone}
        case "api_400_too_long":
            receipt = await channel.send(Outbound("k", place, "words " * 500))
            assert len(receipt.message_ids) == len(wire.requests) - 1 == 2
        case _:
            await a_refusal(fixture, wire)


async def a_refusal(fixture: dict[str, Any], wire: Wire) -> None:
    expected = fixture["expect"]
    network = HttpClients(transport=wire)
    with pytest.raises(TelegramError) as refused:
        await BotApi(network.client("https://api.telegram.org"), TOKEN, "https://api.telegram.org").call(
            fixture["method"]
        )
    why = refused.value
    found = poll_failure(why, 1, PollTimings())
    assert TOKEN not in str(why)
    match expected:
        case {"error_class": "auth"}:
            assert (why.permanent, found.kind) == (True, "token")
        case {"error_class": "target_gone"}:
            assert why.permanent
        case {"error_class": "rate_limit", "retry_after_s": seconds}:
            assert (why.permanent, why.retry_after_seconds, found.seconds) == (False, seconds, seconds)
        case {"action": action} if action.startswith("back off"):
            assert (why.permanent, found.kind) == (False, "conflict") and found.seconds > 0
        case {"action": action} if action.startswith("deleteWebhook(drop_pending_updates=false)"):
            assert found.kind == "webhook"
        case _:
            pytest.fail(f"nobody knows this expectation: {expected}")


async def a_sequence(fixture: dict[str, Any]) -> None:
    """Successive polls: the offset goes on only after everything was taken."""
    calls: Sequence[Any] = fixture["calls"]
    wire = Wire(
        *((200, {"ok": True, "result": call["result"]}) for call in calls),
        (409, {"ok": False, "error_code": 401}),
    )

    def stop(*_: object) -> None:
        raise asyncio.CancelledError

    network, inbox = HttpClients(transport=wire), RecordingInbox()
    poller = Poller(
        lambda: BotApi(
            network.client("https://api.telegram.org", apart=True), TOKEN, "https://api.telegram.org"
        ),
        TelegramBot(6543210987, "claw_bot"),
        submit=lambda inbound, update: inbox.submit(inbound),
        on_poll=lambda held: None,
        on_failure=stop,
        pace=PollTimings(poll=0),
    )
    with pytest.raises(asyncio.CancelledError):
        await poller.run()
    assert inbox.texts == fixture["expect"]["handled"]
    offsets = [body.get("offset") for body in wire.bodies][: len(calls)]
    assert offsets == [call["expect_params"]["offset"] for call in calls]


async def webhook_calls(fixture: dict[str, Any]) -> None:
    secret = fixture["config"]["secret_token"]
    tree = {"channels": {"telegram": {"botToken": TOKEN, "mode": "webhook", "webhookSecret": secret}}}
    me = {"ok": True, "result": {"id": 6543210987, "is_bot": True, "username": "claw_bot"}}
    config = plugin_config(tree, "telegram", network=HttpClients(transport=Wire((200, me))))
    (channel,), (route,) = (
        list(claw_telegram.register_channels(config)),
        list(claw_telegram.register_routes(config)),
    )
    inbox, body = RecordingInbox(), json.dumps(fixture["body"]).encode()
    async with running(channel, inbox):  # type: ignore[arg-type]
        await soon(lambda: channel.state.state == "up")  # type: ignore[attr-defined]
        for call in fixture["requests"]:
            inbox.received.clear()
            headers = {name.lower(): value for name, value in call["headers"].items()}
            request = WebRequest("POST", route.path, headers=headers)
            answer = route.admit(request) or await route.answer(
                WebRequest("POST", route.path, headers=headers, body=body)
            )
            assert (answer.status, len(inbox.received)) == (call["expect_status"], call["events"])
