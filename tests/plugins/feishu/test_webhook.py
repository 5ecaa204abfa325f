"""The webhook's lock: who does not know the key gets nothing, and costs little."""

import base64
import json
from typing import Any

import pytest
from claw_channel_sdk import WebRequest
from claw_feishu.crypto import Undecipherable, decrypt, encrypt, same, signature
from claw_feishu.fake import FakeFeishu, events
from claw_feishu.webhook import WebhookCredentials, WebhookRefused, route
from hypothesis import given, strategies as st
from plugins.feishu.places import FakeInbox, listening

KEY, TOKEN, NOW = "an-encrypt-key", "a-token", 1_788_000_000.0
LOCK = WebhookCredentials(KEY, TOKEN)


def event(token: str = TOKEN) -> dict[str, Any]:
    return {"schema": "2.0", "header": {"event_id": "e", "event_type": "x", "token": token}, "event": {}}


def signed(
    what: dict[str, Any] | None = None, key: str = KEY, at: float = NOW
) -> tuple[dict[str, str], bytes]:
    headers, body = events.request(what or event(), key, at=at)
    return {name.lower(): value for name, value in headers.items()}, body


def read(
    headers: dict[str, str], body: bytes, lock: WebhookCredentials = LOCK, now: float = NOW
) -> dict[str, Any]:
    return lock.read("POST", headers, body, now)


def test_what_the_platform_sends_is_read() -> None:
    assert read(*signed()) == event()


@pytest.mark.parametrize("key", ["", " ", "\t"])
@pytest.mark.parametrize("token", ["", " ", TOKEN])
def test_a_lock_without_a_key_opens_for_nobody(key: str, token: str) -> None:
    for sender in (key, "another"):
        with pytest.raises(WebhookRefused) as refused:
            read(*signed(event(token), sender or "x"), WebhookCredentials(key, token))
        assert refused.value.status == 403


@given(st.sampled_from(["encrypt_key", "token"]), st.sampled_from(["", " ", "wrong"]))
def test_one_wrong_secret_is_enough_to_refuse(part: str, value: str) -> None:
    lock = WebhookCredentials(**{"encrypt_key": KEY, "token": TOKEN, part: value})
    with pytest.raises(WebhookRefused):
        read(*signed(), lock)


@given(st.data())
def test_a_changed_byte_is_noticed(data: st.DataObject) -> None:
    headers, body = signed()
    at = data.draw(st.integers(0, len(body) - 1))
    changed = bytes([*body[:at], body[at] ^ data.draw(st.integers(1, 255)), *body[at + 1 :]])
    with pytest.raises(WebhookRefused) as refused:
        read(headers, changed)
    assert refused.value.status == 401


@given(st.binary(max_size=200))
def test_a_signed_body_of_any_kind_is_an_event_or_refused(body: bytes) -> None:
    headers, _ = signed()
    headers["x-lark-signature"] = signature(
        headers["x-lark-request-timestamp"], headers["x-lark-request-nonce"], KEY, body
    )
    with pytest.raises(WebhookRefused) as refused:
        read(headers, body)
    assert refused.value.status == 400


@pytest.mark.parametrize("seconds", [-301, 301, 86400])
def test_a_request_from_another_time_is_refused(seconds: float) -> None:
    with pytest.raises(WebhookRefused):
        read(*signed(at=NOW + seconds))
    assert read(*signed(at=NOW + seconds), now=NOW + seconds)


@pytest.mark.parametrize("stamp", ["", "x", "-1", "1e9", "１７８８", "9" * 400, " 1788000000"])
def test_a_time_that_is_none_is_refused_before_the_body(stamp: str) -> None:
    headers, _ = signed()
    headers["x-lark-request-timestamp"] = stamp
    with pytest.raises(WebhookRefused) as refused:
        LOCK.admit("POST", headers, NOW)
    assert refused.value.status == 401


def test_an_unsigned_address_check_is_answered_when_it_was_encrypted_and_an_unsigned_event_is_not() -> None:
    check = {"challenge": "c", "token": TOKEN, "type": "url_verification"}
    for what, taken in ((check, True), (event(), False), ({**check, "token": "x"}, False)):
        _, body = signed(what)
        headers = {"content-length": str(len(body))}
        if taken:
            assert read(headers, body) == check
        else:
            with pytest.raises(WebhookRefused):
                read(headers, body)
    with pytest.raises(WebhookRefused):
        read({"content-length": "100"}, json.dumps(check).encode())
    with pytest.raises(WebhookRefused, match="not signed"):
        LOCK.admit("POST", {"content-length": "5000"}, NOW)
    with pytest.raises(
        WebhookRefused, match="not signed"
    ):  # the length of a body that comes in chunks may be a lie
        read({"content-length": "100"}, signed({**check, "challenge": "c" * 5000})[1])
    with pytest.raises(WebhookRefused):
        LOCK.admit("POST", {}, NOW)


@pytest.mark.parametrize(
    "sealed",
    ["x", "", base64.b64encode(bytes(48)).decode(), encrypt(KEY, "no JSON"), encrypt(KEY, "[]"), encrypt(KEY, "{}"),
     encrypt(KEY, json.dumps({"type": "url_verification", "token": "wrong"})), encrypt(KEY, json.dumps(event())),
     encrypt(KEY, '{"type": "url_verification", "token": "\\ud800"}'), None, 7],
    ids=["letters", "nothing", "no cipher", "no JSON", "a list", "no words", "a wrong token", "an event", "half a letter",
         "None", "a number"],  # a cipher text is another one each time, and all processes of a run must call it the same
)  # fmt: skip
def test_who_has_no_key_learns_nothing_of_what_is_encrypted(sealed: Any) -> None:
    for outer in ({"encrypt": sealed}, {"encrypt": sealed, "token": "\ud800"}):
        body = json.dumps(outer).encode()
        with pytest.raises(WebhookRefused) as refused:
            read({"content-length": str(len(body))}, body)
        assert (refused.value.status, refused.value.why) == (401, "the request is not signed")


def test_a_body_that_is_too_large_is_refused_by_its_length() -> None:
    headers, _ = signed()
    for length in (str((1 << 20) + 1), "-1", "x", "1" * 30):
        with pytest.raises(WebhookRefused) as refused:
            LOCK.admit("POST", {**headers, "content-length": length}, NOW)
        assert refused.value.status == 413


@pytest.mark.parametrize("method", ["GET", "PUT", "post", "DELETE"])
def test_only_post_carries_events(method: str) -> None:
    with pytest.raises(WebhookRefused) as refused:
        LOCK.admit(method, signed()[0], NOW)
    assert refused.value.status == 405


@given(st.text(max_size=8), st.text(max_size=8))
def test_secrets_are_equal_when_they_are_and_an_empty_one_never_is(one: str, other: str) -> None:
    assert same(one, other) == (one == other and one != "")


@given(st.text(max_size=60) | st.binary(max_size=80).map(lambda raw: base64.b64encode(raw).decode()))
def test_what_was_not_encrypted_with_our_key_is_distinguished(text: str) -> None:
    with pytest.raises(Undecipherable):
        decrypt(KEY, text)


def test_what_is_no_base64_is_refused_and_not_picked_over() -> None:
    sealed = encrypt(KEY, "{}")
    assert decrypt(KEY, sealed) == "{}"
    for spoilt in (f"!{sealed}", f"{sealed[:20]}\n{sealed[20:]}", f"{sealed}="):
        with pytest.raises(Undecipherable):
            decrypt(KEY, spoilt)


async def test_a_changed_key_holds_from_the_next_request_on() -> None:
    locks = [LOCK, WebhookCredentials("another-key", TOKEN)]

    async def receive(event: dict[str, Any]) -> dict[str, Any]:
        return {}

    there = route("/x", lambda: locks[0], receive, lambda: NOW)
    headers, body = signed()
    ask = WebRequest("POST", "/x", headers=headers, body=body)
    assert (await there.answer(ask)).status == 200
    locks.pop(0)
    assert (await there.answer(ask)).status == 401


async def test_the_platform_calls_again_after_15_seconds_5_minutes_an_hour_and_6() -> None:
    async with FakeFeishu() as feishu, listening(feishu, FakeInbox(takes=False), mode="webhook"):
        said = await feishu.says("anybody?")
        times = []
        for seconds in (14, 2, 285, 3300, 18000, 90000):
            await feishu.advance(seconds)
            times.append(said.times)
        assert times == [1, 2, 3, 4, 5, 5]
        assert not said.acked


def test_a_body_may_have_a_megabyte_and_ten_seconds() -> None:
    async def receive(event: dict[str, Any]) -> dict[str, Any]:
        return {}

    there = route("/x", lambda: LOCK, receive, lambda: NOW)
    assert (there.body_bytes, there.body_seconds) == (1 << 20, 10.0)


@pytest.mark.parametrize(
    ("theirs", "ours", "fix"),
    [
        ({}, {"encryptKey": "another-key"}, "compare encryptKey"),
        ({}, {"verificationToken": "another-token"}, "compare verificationToken"),
        ({"key": ""}, {}, "set the Encrypt Key in the developer console"),
        ({"ahead": 400}, {}, "check the clock of this machine"),
        ({"ahead": -400}, {}, "check the clock of this machine"),
    ],
)
async def test_why_nothing_comes_is_reported_once_until_something_comes(
    theirs: dict[str, Any], ours: dict[str, Any], fix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeFeishu() as feishu, listening(feishu, mode="webhook", **ours) as (us, inbox):
        assert feishu.webhook
        said = events.message("om_1", "oc_1", "ou_1", "text", {"text": "hi"}, at=feishu.now())
        sent = feishu.event("im.message.receive_v1", said)
        at = feishu.now() + theirs.get("ahead", 0)
        for _ in range(3):
            status, _ = await feishu.webhook(
                *events.request(sent, theirs.get("key", feishu.encrypt_key), at=at)
            )
            assert status >= 400
        assert inbox.received == [] and us.state.state == "up" and fix in us.state.last_error
        assert caplog.text.count(fix) == 1
        key, token = ours.get("encryptKey", feishu.encrypt_key), ours.get("verificationToken")
        sent["header"]["token"] = token or feishu.verification_token
        assert (await feishu.webhook(*events.request(sent, key, at=feishu.now())))[0] == 200
        assert us.state.last_error == "" and len(inbox.received) == 1
        assert us.state.last_frame_at == pytest.approx(feishu.now(), abs=5)


@pytest.mark.parametrize(
    ("headers", "body"),
    [({}, b"{}"), ({}, b"x"), ({"X-Lark-Signature": "a"}, b"{}")],
    ids=["empty", "no JSON", "half signed"],
)
async def test_what_anybody_may_post_is_no_news_for_the_operator(
    headers: dict[str, str], body: bytes
) -> None:
    async with FakeFeishu() as feishu, listening(feishu, mode="webhook") as (us, _):
        assert feishu.webhook
        assert (await feishu.webhook(headers, body))[0] >= 400
        assert us.state.last_error == ""


async def test_the_address_is_checked_by_the_console() -> None:
    async with FakeFeishu() as feishu, listening(feishu, mode="webhook"):
        assert await feishu.check_address()
