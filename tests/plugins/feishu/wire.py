"""Reads the fixtures of Feishu: what the real service puts on the wire, through the plugin's own functions."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from claw import ConfigError, DeliveryError, Inbound
from claw.storage.database import Database
from claw_channel_sdk import WebRequest
from claw_feishu import frames
from claw_feishu.crypto import Undecipherable, decrypt, encrypt
from claw_feishu.fake import FakeAnswer, FakeFeishu
from claw_feishu.frames import Frame
from claw_feishu.inbound import FeishuBot, event_id, to_inbound
from claw_feishu.longconn import acknowledged, configured, paced
from claw_feishu.media import download
from claw_feishu.settings import FeishuSettings, check
from claw_feishu.tenant import SCOPE_MISSING, FeishuError
from claw_feishu.webhook import WebhookCredentials, route
from claw_gateway.journal import Journal
from plugins.feishu.places import QUICK, FakeInbox, channel, listening, outbound, shown

KINDS = {"action": "button", "message_or_ignored": "message"}


async def understood(path: Path) -> None:
    fixture, name = json.loads(path.read_text(encoding="utf-8")), path.stem
    if name == "aes_vectors":
        vectors(fixture)
    elif name.startswith("webhook_"):
        await a_request(fixture)
    elif name.startswith("event_"):
        await an_event(name, fixture)
    elif name.startswith("api_"):
        await an_answer(name, fixture)
    elif name == "card_stream_sequence":
        await a_stream(fixture)
    elif name == "redelivery_sequence":
        repeats(fixture)
    elif name == "ws_endpoint":
        await endpoints(fixture)
    elif name == "ws_frames":
        await on_the_socket(fixture)
    else:
        pytest.fail("nobody reads this file")


def bot_of(config: dict[str, Any]) -> FeishuBot:
    return FeishuBot(
        config.get("bot_open_id", "ou_5ad573a6411d72b8305fda3a9c15c70e"), config.get("app_id", "")
    )


def vectors(fixture: dict[str, Any]) -> None:
    for row in fixture["rows"]:
        assert decrypt(row["encrypt_key"], row["encrypt"]) == row["plaintext"]
        vector = base64.b64decode(row["encrypt"])[:16]
        assert encrypt(row["encrypt_key"], row["plaintext"], vector) == row["encrypt"]
    for row in fixture["bad_rows"]:
        with pytest.raises(Undecipherable):
            decrypt(row["encrypt_key"], row["encrypt"])


async def a_request(fixture: dict[str, Any]) -> None:
    """One call of the webhook, as it comes over the wire."""
    config, request, expected = fixture["config"], fixture["request"], fixture["expect"]
    bot, events = bot_of(config), []

    async def receive(event: dict[str, Any]) -> dict[str, Any]:
        assert event == fixture["plaintext"]
        events.append(to_inbound(event, bot))
        return {}

    headers = {name.lower(): value for name, value in request["headers"].items()}
    body = request["body"].encode()
    head = {**headers, "content-length": str(len(body))}
    now = float(headers.get("x-lark-request-timestamp", 0))
    lock = WebhookCredentials(config.get("encrypt_key", ""), config["verification_token"])
    there = route("/webhook/feishu", lambda: lock, receive, lambda: now)
    answer = there.admit(WebRequest(request["method"], there.path, headers=head))
    answer = answer or await there.answer(WebRequest(request["method"], there.path, headers=head, body=body))

    assert answer.status == expected["http_status"]
    assert len(events) == expected["events"]
    if "response_json" in expected:
        assert json.loads(answer.body) == expected["response_json"]
    if "text" in expected:
        assert [inbound.text for inbound in events if inbound] == [expected["text"]]
    if "encrypt_key" not in config:
        section = FeishuSettings(appId="cli", appSecret="s", mode="webhook", verificationToken="v")
        with pytest.raises(ConfigError, match="encryptKey"):
            check("default", section)


async def an_event(name: str, fixture: dict[str, Any]) -> None:
    config, expected = fixture["config"], fixture["expect"]
    inbound = to_inbound(fixture["payload"], bot_of(config))
    if expected.get("kind") == "ignored":
        assert inbound is None
        await acknowledged_all_the_same(fixture["payload"])
        return
    assert inbound is not None
    assert inbound.kind == KINDS.get(expected.get("kind"), expected.get("kind", "message"))
    fields = {
        "text": inbound.text,
        "mentioned_bot": inbound.mentions_us,
        "chat_type": inbound.chat_type,
        "thread_id": inbound.address.thread,
        "reply_to": inbound.reply_to,
        "emoji": inbound.text,
        "message_id": inbound.message_id,
        "actor": inbound.sender.id,
        "dedupe_key": inbound.event_id,
        "mentioned_all": "@all" in inbound.text,
    }
    known = {key: value for key, value in expected.items() if key in fields}
    assert {key: fields[key] for key in known} == known
    if "value" in expected:
        assert json.loads(inbound.text) == expected["value"]
    wanted = [(one["kind"], one["key"], one.get("name", "")) for one in expected.get("attachments", ())]
    assert [(one.kind, one.key, one.name) for one in inbound.attachments] == wanted
    if "fetch" in expected:
        await fetched(inbound, expected["fetch"])
    if name == "event_group_reply_in_topic":
        await answered_in_topic(inbound)


async def acknowledged_all_the_same(payload: dict[str, Any]) -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        pushed = await feishu.push(payload)
        await feishu.until(lambda: pushed.acked)
        assert inbox.received == []


async def fetched(inbound: Inbound, wanted: str) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.fail("/resources/", FakeAnswer(body=b"bytes", content_type="image/png"))
        pieces = [piece async for piece in download(us.tenant, inbound, inbound.attachments[0])]
        call = feishu.calls("/resources/")[0]
        assert b"".join(pieces) == b"bytes"
        assert f"{call.path}?type={call.query['type']}".endswith(wanted.lstrip("GET …"))


async def answered_in_topic(inbound: Inbound) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await feishu.says("继续", chat=inbound.address.chat, message_id=inbound.message_id, thread="omt_1")
        await us.send(outbound(inbound, "好"))
        (call,) = feishu.calls(f"POST /open-apis/im/v1/messages/{inbound.message_id}/reply")
        assert call.body["reply_in_thread"] is True


async def an_answer(name: str, fixture: dict[str, Any]) -> None:
    """One answer of the service to one request of ours."""
    expected, where = fixture["expect"], f"{fixture['request']['method']} {fixture['request']['path']}"
    async with FakeFeishu() as feishu, channel(feishu) as us:
        said = outbound(None, "hi")
        if name == "api_bot_info":
            feishu.fail(where, fixture)
            assert await us.who_we_are() == expected["bot_open_id"]
        elif name == "api_tenant_token_ok":
            feishu.fail(where, fixture)
            assert await us.tenant.token() == fixture["body"]["tenant_access_token"]
            assert us.tenant.seconds_left == pytest.approx(expected["cache_until_s"], abs=1)
        elif name == "api_reply_target_recalled":
            feishu.fail(where, fixture)
            await us.send(outbound(None, "hi", reply_to="om_x"))
            assert [(one.chat_id, one.reply_to) for one in feishu.ours] == [(said.address.chat, "")]
        elif name == "api_card_create_failed":
            feishu.fail(where, fixture)
            await us.send(outbound(None, "```\ncode\n```"))
            assert shown(feishu) == ["```\ncode\n```"]
            assert feishu.ours[0].msg_type == "post"
        elif name == "api_token_invalid":
            feishu.fail(where, fixture)
            await us.send(said)
            assert shown(feishu) == ["hi"]
            assert len(feishu.calls("tenant_access_token")) == len(feishu.calls(where)) == 2
        elif "message_id" in expected:
            feishu.fail(where, fixture)
            assert (await us.send(said)).message_ids == (expected["message_id"],)
        else:
            feishu.fail(where, fixture)
            await refused(us, said, fixture, expected)


async def refused(us: Any, said: Any, fixture: dict[str, Any], expected: dict[str, Any]) -> None:
    with pytest.raises(DeliveryError) as caught:
        await us.send(said)
    fault = caught.value
    assert isinstance(fault, FeishuError)
    assert fault.code == fixture["body"]["code"]
    assert fault.permanent is not expected.get("retryable", True)
    match expected["error_class"]:
        case "rate_limit":
            assert fault.retry_after_seconds == expected.get("retry_after_s", 1.0)
        case "auth":
            assert fault.is_credentials
        case "permission":
            assert (fault.code, fault.scopes) == (SCOPE_MISSING, ("im:message:send_as_bot",))
        case "target_gone":
            assert "Add the bot to the chat" in str(fault)
        case other:
            pytest.fail(f"nobody knows the class {other}")


async def a_stream(fixture: dict[str, Any]) -> None:
    """The very calls of the fixture, made by a writer that shows the same texts."""
    calls = fixture["calls"]
    texts = [call["body"]["content"] for call in calls if call["path"].endswith("/content")]
    asked = calls[1]["path"].split("/")[-2]
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await feishu.says("帮我", message_id=asked)
        for call in calls:
            feishu.fail(f"{call['method']} {call['path']}", FakeAnswer(body=call["response"]))
        await us.tenant.token()
        before = len(feishu.log)
        writer = us.stream(outbound(None, reply_to=asked, answers=asked))
        await writer.show(texts[0])
        receipt = await writer.finish(outbound(None, texts[-1], reply_to=asked, answers=asked))
        made = feishu.log[before:]
    assert receipt.message_ids == ("om_card1",)
    assert [(call.method, call.path) for call in made] == [(call["method"], call["path"]) for call in calls]
    for ours, theirs in zip(made, calls, strict=True):
        own = {
            key: unwrapped(value)
            for key, value in ours.body.items()
            if key not in ("uuid", "reply_in_thread")
        }
        assert own == {key: unwrapped(value) for key, value in theirs["body"].items() if key != "uuid"}
        assert len(ours.body.get("uuid", "")) <= 50


def unwrapped(value: Any) -> Any:
    """Decode the fields that are JSON texts."""
    if isinstance(value, dict) and "__json__" in value:
        return value["__json__"]
    if isinstance(value, str) and value.startswith("{"):
        return json.loads(value)
    return value


def repeats(fixture: dict[str, Any]) -> None:
    """The events carry what the journal needs to know a repeat, also after a restart."""
    import tempfile

    handled = []
    with tempfile.TemporaryDirectory() as folder:
        for event in fixture["deliveries"]:
            database = Database(Path(folder) / "state.db")
            inbound = to_inbound(event, bot_of(fixture["config"]))
            assert inbound is not None
            assert inbound.event_id == event_id(event)
            if Journal(database).accept(inbound):
                handled.append(inbound.message_id)
            database.close()  # a restart after each of them
    assert handled == fixture["expect"]["handled_message_ids"]


async def endpoints(fixture: dict[str, Any]) -> None:
    config = fixture["response_ok"]["data"]["ClientConfig"]
    assert configured(QUICK, config).ping_seconds == config["PingInterval"]
    for row in fixture["responses_error"]:
        async with FakeFeishu() as feishu:
            feishu.fail(f"POST {fixture['request']['path']}", FakeAnswer(body=row["body"]), times=2)
            async with listening(feishu, up=False) as (us, _):
                await feishu.until(lambda us=us: us.state.last_error)
                wanted = "failed" if row["expect"].startswith("fatal") else "waiting"
                assert us.state.state == wanted
                await feishu.until(lambda us=us: us.state.state == "up")
            asked = feishu.calls(fixture["request"]["path"])[0]
            assert asked.headers["locale"] == fixture["request"]["headers"]["locale"]
            assert asked.body.keys() == fixture["request"]["body"].keys()
    async with FakeFeishu() as feishu:
        feishu.fail("GET /ws/v2", FakeAnswer(400, headers=fixture["handshake_error_headers"]))
        feishu.most_connections = 0
        async with listening(feishu, up=False) as (us, _):
            await feishu.until(lambda: us.state.state == "failed")
            assert "too many connections" in us.state.detail


async def on_the_socket(fixture: dict[str, Any]) -> None:
    raw = [base64.b64decode(row["base64"]) for row in fixture["frames"]]
    read = [frames.decode(data) for data in raw]
    assert [frames.encode(frame) for frame in read] == raw  # byte for byte
    for row, frame in zip(fixture["frames"], read, strict=True):
        agrees(frame, row["decoded"])
    assert frames.encode(Frame(frames.CONTROL, read[0].service, (("type", "ping"),))) == raw[0]
    pong = next(
        row["decoded"]["payload_json"] for row in fixture["frames"] if "payload_json" in row["decoded"]
    )
    assert paced(QUICK, read[1]).ping_seconds == pong["PingInterval"]
    reply = acknowledged(read[2], {}, 12)
    assert json.loads(reply.payload) == fixture["frames"][2]["reply"]["payload_json"]
    assert reply.header("biz_rt") == "12"
    assert (reply.seq_id, reply.log_id, reply.service) == (read[2].seq_id, read[2].log_id, read[2].service)
    await heard_from(raw[2:])


def agrees(frame: Frame, decoded: dict[str, Any]) -> None:
    fields = {"method": frame.method, "SeqID": frame.seq_id, "LogID": frame.log_id, "service": frame.service}
    fields |= {"sum": int(frame.header("sum", "0")), "seq": int(frame.header("seq", "0"))}
    assert {key: fields[key] for key in fields.keys() & decoded.keys()} == {
        key: decoded[key] for key in fields.keys() & decoded.keys()
    }
    for key, value in decoded.get("headers", {}).items():
        assert frame.header(key) == value
    if "event_id" in decoded:
        assert event_id(json.loads(frame.payload)) == decoded["event_id"]


async def heard_from(raw: list[bytes]) -> None:
    """The bytes themselves, sent over a socket: two events, the second of them in three parts out of order."""
    async with FakeFeishu() as feishu, listening(feishu, FakeInbox()) as (_, inbox):
        for data in raw:
            await feishu.send_raw(data)
        await feishu.until(lambda: len(inbox.received) == len(feishu.answers) == 2)
        await asyncio.sleep(0.05)
        assert {received.event_id for received in inbox.received} == {"3f2c7a90bd5e4f6fa1c2d3e4f5a60701"}
        replies = [frames.decode(data) for data in feishu.answers]
        assert [json.loads(reply.payload)["code"] for reply in replies] == [200, 200]
        assert replies[1].header("seq") == "1"  # the headers of the part that came last
