"""The vendor's real SDK passes against our fake, so that fake and plugin cannot share one misreading of the protocol."""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from claw_feishu import frames
from claw_feishu.fake import FakeFeishu, events
from claw_feishu.frames import Frame
from claw_feishu.outbound import card_json

pytestmark = pytest.mark.xdist_group("lark")  # one worker pays for the import


class Peer:
    """The SDK's process."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("lark_peer.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, do: str, **fields: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        print(json.dumps({"do": do, **fields}), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer
        return answer["ok"]

    async def call(
        self, feishu: FakeFeishu, api: str, resource: str, method: str, kind: str, **fields: Any
    ) -> Any:
        """One API call; ``fields`` with a dict as ``request_body``."""
        if "request_body" in fields:
            fields["request_body"] = {"class": f"{kind}Body", "fields": fields["request_body"]}
        request = {"class": kind, "fields": fields}
        own = {"domain": feishu.url, "app_id": feishu.app_id, "secret": feishu.app_secret}
        fields = {"api": api, "resource": resource, "method": method, "request": request, **own}
        return await asyncio.to_thread(self.ask, "call", **fields)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def sdk() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.end()


_apps = count(1)


def fake(**given: Any) -> FakeFeishu:
    """An app of its own: the SDK keeps one token for each app id in its process."""
    return FakeFeishu(app_id=f"cli_{next(_apps)}", **given)


def message(feishu: FakeFeishu, text: str = "你好") -> dict[str, Any]:
    said = events.message("om_1", "oc_1", "ou_1", "text", {"text": text}, at=feishu.now())
    return feishu.event("im.message.receive_v1", said)


@pytest.mark.parametrize("key", ["fXkey-9w2Lq0TzR4", ""])
async def test_the_dispatcher_takes_the_webhooks_that_the_fake_makes(sdk: Peer, key: str) -> None:
    feishu = FakeFeishu(encrypt_key=key)
    headers, body = events.request(message(feishu), key, at=feishu.now())
    result = sdk.ask(
        "dispatch", headers=headers, body=body.decode(), key=key, token=feishu.verification_token
    )
    assert result["status"] == 200
    assert result["received"][0]["event"]["message"]["content"] == '{"text": "你好"}'


async def test_the_dispatcher_refuses_what_was_signed_with_another_key(sdk: Peer) -> None:
    feishu = FakeFeishu()
    headers, body = events.request(message(feishu), "another", at=feishu.now())
    token = feishu.verification_token
    result = sdk.ask("dispatch", headers=headers, body=body.decode(), key=feishu.encrypt_key, token=token)
    assert (result["status"], result["received"]) == (500, [])


async def test_the_dispatcher_answers_the_address_check_and_the_button(sdk: Peer) -> None:
    feishu = FakeFeishu()
    token, key = feishu.verification_token, feishu.encrypt_key
    check = {"challenge": "abc", "token": token, "type": "url_verification"}
    headers, body = events.request(check, key, at=feishu.now())
    result = sdk.ask("dispatch", headers=headers, body=body.decode(), key=key, token=token)
    assert json.loads(result["body"]) == {"challenge": "abc"}

    pressed = feishu.event("card.action.trigger", events.button("om_1", "oc_1", "ou_1", {"claw": "yes"}))
    headers, body = events.request(pressed, key, at=feishu.now())
    result = sdk.ask("dispatch", headers=headers, body=body.decode(), key=key, token=token)
    assert result["received"][0]["event"]["action"]["value"] == {"claw": "yes"}
    assert "toast" in json.loads(result["body"])


async def test_the_dispatcher_knows_the_reaction(sdk: Peer) -> None:
    feishu = FakeFeishu()
    said = feishu.event("im.message.reaction.created_v1", events.reaction("om_1", "ou_1", "OK", at=1.0))
    headers, body = events.request(said, feishu.encrypt_key, at=feishu.now())
    result = sdk.ask(
        "dispatch",
        headers=headers,
        body=body.decode(),
        key=feishu.encrypt_key,
        token=feishu.verification_token,
    )
    assert result["received"][0]["event"]["reaction_type"]["emoji_type"] == "OK"


@pytest.mark.parametrize(
    "frame",
    [
        Frame(frames.CONTROL, 33554678, (("type", "ping"),)),
        Frame(
            frames.DATA,
            -1,
            (("type", "event"), ("sum", "1")),
            b"\x00\xff" * 200,
            2**64 - 1,
            7,
            "gzip",
            "json",
        ),
        Frame(frames.DATA, 2**31 - 1, (("名", "值"), ("", "")), b"", 0, 0, "", "", "2026"),
    ],
)
async def test_the_sdk_reads_our_frames(sdk: Peer, frame: Frame) -> None:
    data = frames.encode(frame)
    theirs = sdk.ask("frame", data=base64.b64encode(data).decode())
    assert (theirs["method"], theirs["SeqID"], theirs["LogID"]) == (frame.method, frame.seq_id, frame.log_id)
    assert theirs["service"] == frame.service
    assert [tuple(pair) for pair in theirs["headers"]] == list(frame.headers)
    assert base64.b64decode(theirs["payload"]) == frame.payload
    again = frames.decode(base64.b64decode(theirs["again"]))
    assert again == frame


async def test_the_socket_client_connects_receives_whole_events_and_acknowledges_them(sdk: Peer) -> None:
    async with fake(ack_seconds=5) as feishu:
        own = {"domain": feishu.url, "app_id": feishu.app_id, "secret": feishu.app_secret}
        await asyncio.to_thread(sdk.ask, "listen", **own)
        await feishu.until(lambda: feishu.connections and feishu.pings, 10)
        feishu.split = 3
        said = await feishu.push(message(feishu, "in three parts"))
        button = await feishu.push(
            feishu.event("card.action.trigger", events.button("om_1", "oc_1", "ou_1", {"claw": "yes"}))
        )
        await feishu.until(lambda: said.acked and button.acked, 10)
        received = await asyncio.to_thread(sdk.ask, "received")
    types = [event["header"]["event_type"] for event in received]
    assert sorted(types) == ["card.action.trigger", "im.message.receive_v1"]
    assert json.loads(base64.b64decode(button.answer))["toast"]["content"] == "ok"


async def test_messages_go_out_are_answered_edited_and_taken_back(sdk: Peer) -> None:
    async with fake() as feishu:
        text = {"msg_type": "text", "content": '{"text": "hi"}', "uuid": "u1"}
        create = ("im.v1", "message", "create", "CreateMessageRequest")
        for _ in range(2):  # the uuid makes the second harmless
            made = await sdk.call(
                feishu, *create, receive_id_type="chat_id", request_body={"receive_id": "oc_1", **text}
            )
        assert made["code"] == 0
        id = made["data"]["message_id"]
        assert [one.message_id for one in feishu.ours] == [id]

        body = {"msg_type": "text", "content": '{"text": "re"}', "reply_in_thread": True, "uuid": "u2"}
        reply = ("im.v1", "message", "reply", "ReplyMessageRequest")
        replied = await sdk.call(feishu, *reply, message_id=id, request_body=body)
        assert replied["data"]["thread_id"].startswith("omt_")
        assert feishu.ours[1].reply_to == id

        update = ("im.v1", "message", "update", "UpdateMessageRequest")
        changed = {"msg_type": "text", "content": '{"text": "ho"}'}
        assert (await sdk.call(feishu, *update, message_id=id, request_body=changed))["code"] == 0
        got = await sdk.call(feishu, "im.v1", "message", "get", "GetMessageRequest", message_id=id)
        assert json.loads(got["data"]["items"][0]["body"]["content"]) == {"text": "ho"}
        assert (await sdk.call(feishu, "im.v1", "message", "delete", "DeleteMessageRequest", message_id=id))[
            "code"
        ] == 0
        assert feishu.messages[id].deleted

        late = await sdk.call(feishu, *reply, message_id=id, request_body={**body, "uuid": "u3"})
        assert late["code"] == 230011


async def test_a_card_in_a_message_gives_way_to_another(sdk: Peer) -> None:
    async with fake() as feishu:
        card = {"msg_type": "interactive", "content": json.dumps(card_json("one")), "receive_id": "oc_1"}
        create = ("im.v1", "message", "create", "CreateMessageRequest")
        id = (await sdk.call(feishu, *create, receive_id_type="chat_id", request_body=card))["data"][
            "message_id"
        ]
        patch = ("im.v1", "message", "patch", "PatchMessageRequest")
        result = await sdk.call(
            feishu, *patch, message_id=id, request_body={"content": json.dumps(card_json("two"))}
        )
        assert result["code"] == 0 and feishu.text_of(id) == "two"


async def test_reactions_and_names(sdk: Peer) -> None:
    async with fake() as feishu:
        await feishu.says("hi", message_id="om_r", chat="oc_9")
        feishu.people["ou_9"], feishu.chats["oc_9"] = "王五", {"name": "群", "chat_mode": "group"}
        emoji = {"class": "Emoji", "fields": {"emoji_type": "OK"}}
        put = ("im.v1", "message_reaction", "create", "CreateMessageReactionRequest")
        made = await sdk.call(feishu, *put, message_id="om_r", request_body={"reaction_type": emoji})
        id = made["data"]["reaction_id"]
        listed = await sdk.call(
            feishu, "im.v1", "message_reaction", "list", "ListMessageReactionRequest", message_id="om_r"
        )
        assert [item["reaction_id"] for item in listed["data"]["items"]] == [id]
        off = ("im.v1", "message_reaction", "delete", "DeleteMessageReactionRequest")
        assert (await sdk.call(feishu, *off, message_id="om_r", reaction_id=id))["code"] == 0
        assert feishu.reactions == {}

        person = await sdk.call(
            feishu, "contact.v3", "user", "get", "GetUserRequest", user_id="ou_9", user_id_type="open_id"
        )
        assert person["data"]["user"]["name"] == "王五"
        chat = await sdk.call(feishu, "im.v1", "chat", "get", "GetChatRequest", chat_id="oc_9")
        assert (chat["data"]["name"], chat["data"]["chat_mode"]) == ("群", "group")


async def test_what_the_app_was_granted_is_listed(sdk: Peer) -> None:
    async with fake() as feishu:
        feishu.missing_scopes.add("im:resource")
        result = await sdk.call(feishu, "application.v6", "scope", "list", "ListScopeRequest")
        granted = {one["scope_name"]: one["grant_status"] for one in result["data"]["scopes"]}
        assert (granted["im:message.group_msg"], granted["im:resource"]) == (1, 2)


async def test_files_go_up_and_come_down(sdk: Peer) -> None:
    data = {"bytes": base64.b64encode(b"\x89PNG....").decode()}
    async with fake() as feishu:
        image = {"image_type": "message", "image": data}
        up = await sdk.call(feishu, "im.v1", "image", "create", "CreateImageRequest", request_body=image)
        key = up["data"]["image_key"]
        assert feishu.files[key] == b"\x89PNG...."
        paper = {"file_type": "pdf", "file_name": "a.pdf", "file": data}
        file = await sdk.call(feishu, "im.v1", "file", "create", "CreateFileRequest", request_body=paper)
        assert file["data"]["file_key"] in feishu.files

        await feishu.says(msg_type="image", content={"image_key": key}, message_id="om_i")
        get = ("im.v1", "message_resource", "get", "GetMessageResourceRequest")
        down = await sdk.call(feishu, *get, message_id="om_i", file_key=key, type="image")
        assert base64.b64decode(down["data"]) == b"\x89PNG...."


async def test_a_card_grows_and_is_closed(sdk: Peer) -> None:
    async with fake() as feishu:
        new = {"type": "card_json", "data": json.dumps(card_json("", streaming=True))}
        made = await sdk.call(feishu, "cardkit.v1", "card", "create", "CreateCardRequest", request_body=new)
        id = made["data"]["card_id"]
        write = ("cardkit.v1", "card_element", "content", "ContentCardElementRequest")
        for sequence, text in ((1, "已"), (2, "已经"), (2, "again")):
            body = {"content": text, "sequence": sequence, "uuid": f"u{sequence}{text}"}
            last = await sdk.call(feishu, *write, card_id=id, element_id="answer", request_body=body)
        assert last["code"] == 300317
        again = {"content": "again", "sequence": 3, "uuid": "u2已经"}
        repeated = await sdk.call(feishu, *write, card_id=id, element_id="answer", request_body=again)
        assert repeated["code"] == 0  # by its uuid a repeat of what was carried out
        off = {"settings": '{"config": {"streaming_mode": false}}', "sequence": 3, "uuid": "u3"}
        closed = await sdk.call(
            feishu, "cardkit.v1", "card", "settings", "SettingsCardRequest", card_id=id, request_body=off
        )
        assert closed["code"] == 0
        assert (feishu.cards[id].history, feishu.cards[id].streaming) == (["已", "已经"], False)

        card = {"class": "Card", "fields": {"type": "card_json", "data": json.dumps(card_json("end"))}}
        whole = {"card": card, "sequence": 4, "uuid": "u4"}
        update = ("cardkit.v1", "card", "update", "UpdateCardRequest")
        assert (await sdk.call(feishu, *update, card_id=id, request_body=whole))["code"] == 0
        assert feishu.cards[id].text == "end"


async def test_a_stale_token_comes_back_to_the_caller_of_the_sdk_and_not_to_ours(sdk: Peer) -> None:
    async with fake() as feishu:
        get = ("im.v1", "chat", "get", "GetChatRequest")
        assert (await sdk.call(feishu, *get, chat_id="oc_1"))["code"] == 0
        feishu.expire_token()
        assert (await sdk.call(feishu, *get, chat_id="oc_1"))["code"] == 99991663
