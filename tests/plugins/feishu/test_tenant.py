"""Access to the API: the lifetime of a token, and the reports on refusals to claw and the operator."""

import asyncio
from pathlib import Path

import pytest
from claw import Address, Attachment, DeliveryError, HttpClients, Outbound
from claw_feishu.fake import FakeAnswer, FakeFeishu, refusal
from claw_feishu.tenant import FeishuError, Tenant
from claw_http_sdk import pooled
from plugins.feishu.places import channel, listening, outbound, shown


@pytest.mark.parametrize(("expires", "kept"), [(7200, 6900), (900, 600), (600, 300), (400, 200), (10, 5)])
async def test_a_token_is_renewed_five_minutes_before_its_end_and_a_short_one_at_its_half(
    expires: int, kept: int
) -> None:
    given = FakeAnswer(body={"code": 0, "tenant_access_token": "t-1", "expire": expires})
    async with FakeFeishu() as feishu, channel(feishu) as us:
        clock = [1000.0]
        tenant = Tenant(us.tenant._http, feishu.app_id, lambda: feishu.app_secret, lambda: clock[0])
        feishu.fail("tenant_access_token", given, times=2)
        for seconds, asked in ((0, 1), (kept - 1, 1), (kept + 1, 2)):
            clock[0] = 1000.0 + seconds
            await tenant.token()
            assert len(feishu.calls("tenant_access_token")) == asked


async def test_a_platform_that_cannot_be_reached_is_reported_with_why() -> None:
    network = HttpClients()
    tenant = Tenant(
        lambda: pooled(network.client)("http://127.0.0.1:9"), "cli_1", lambda: "secret", lambda: 0.0
    )
    with pytest.raises(FeishuError, match=r"cannot be reached .*Connect call failed"):
        await tenant.token()
    await network.aclose()


@pytest.mark.parametrize("code", [99991663, 99991664, 99991668])
async def test_each_word_for_a_stale_token_renews_it(code: int) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.fail("im/v1/messages", refusal(code, "Invalid access token for authorization."))
        await us.send(outbound(None, "hi"))
        assert shown(feishu) == ["hi"]
        assert len(feishu.calls("tenant_access_token")) == 2


async def test_many_who_find_the_token_stale_renew_it_once() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.send(outbound(None, "first"))
        feishu.expire_token()
        await asyncio.gather(*(us.send(outbound(None, f"{n}", key=f"n{n}")) for n in range(10)))
        assert len(shown(feishu)) == 11
        assert len(feishu.calls("tenant_access_token")) == 2
        us.tenant.forget("the one before")  # as a request says that was under way for long
        await us.send(outbound(None, "last", key="last"))
        assert len(feishu.calls("tenant_access_token")) == 2


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (FakeAnswer(429, b"slow down", {"Retry-After": "4"}, content_type="text/plain"), 4.0),
        (refusal(99991400, "limit", 429, {"x-ogw-ratelimit-reset": "soon"}), 1.0),
        (refusal(99991400, "limit", 429), 1.0),
    ],
)
async def test_a_limit_in_other_words_is_a_limit_all_the_same(answer: FakeAnswer, seconds: float) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.fail("POST /open-apis/im/v1/messages", answer)
        with pytest.raises(DeliveryError) as caught:
            await us.send(outbound(None, "hi"))
        assert (caught.value.retry_after_seconds, caught.value.permanent) == (seconds, False)


async def test_a_service_that_fails_may_be_asked_again_and_its_log_id_is_reported() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        down = FakeAnswer(502, b"bad gateway", {"X-Tt-Logid": "2026LOG"}, content_type="text/html")
        feishu.fail("POST /open-apis/im/v1/messages", down)
        with pytest.raises(FeishuError, match=r"HTTP 502.*2026LOG") as caught:
            await us.send(outbound(None, "hi"))
        assert not caught.value.permanent
        feishu.fail("POST /open-apis/im/v1/messages", FakeAnswer(404, b"no page", content_type="text/plain"))
        with pytest.raises(FeishuError, match="HTTP 404") as caught:
            await us.send(outbound(None, "hi"))
        assert caught.value.permanent
        page = FakeAnswer(
            404, b"<html><title>404 Not Found</title></html>", content_type="text/html; charset=utf-8"
        )
        feishu.fail("POST /open-apis/im/v1/messages", page)
        with pytest.raises(FeishuError, match="HTTP 404") as caught:
            await us.send(outbound(None, "hi"))
        assert not caught.value.permanent


async def test_an_answer_outside_of_topics_makes_none() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        await feishu.says("hi", group=True, mention=True)
        await feishu.until(lambda: inbox.received)
        await us.send(outbound(inbox.received[0], "hello"))
        (answer,) = feishu.ours
        assert (answer.reply_to, answer.thread_id) == (inbox.received[0].message_id, "")


async def test_in_a_topic_the_message_that_is_answered_is_known_without_a_question() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await feishu.says("?", group=True, thread="omt_9", message_id="om_q")
        await us.send(Outbound("k", Address("feishu", "oc_g", thread="omt_9"), "hi", answers="om_q"))
        assert [(one.reply_to, one.thread_id) for one in feishu.ours] == [("om_q", "omt_9")]
        assert feishu.calls("GET /open-apis/im/v1/messages") == []


async def test_an_answer_whose_message_is_recalled_between_two_tries_appears_once() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        await feishu.says("oops")
        await feishu.until(lambda: inbox.received)
        feishu.cut("/reply", 5)  # it arrived, and we did not hear so
        with pytest.raises(DeliveryError):
            await us.send(outbound(inbox.received[0], "hi"))
        feishu.messages[inbox.received[0].message_id].deleted = True
        await us.send(outbound(inbox.received[0], "hi"))
        assert shown(feishu) == ["hi"]


async def test_what_claw_itself_says_is_shown_letter_for_letter() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.send(outbound(None, "**/*.md `x`\n\n```\nno card\n```", plain=True))
        assert feishu.ours[0].msg_type == "text"


async def test_two_files_of_one_message_are_two_messages_and_an_empty_one_is_refused(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "none.txt").touch()
    files = tuple(Attachment("file", path=str(tmp_path / name)) for name in ("a.txt", "b.txt"))
    async with FakeFeishu() as feishu, channel(feishu) as us:
        assert len((await us.send(outbound(None, "", attachments=files))).message_ids) == 2
        assert len(feishu.ours) == 2
        with pytest.raises(DeliveryError, match="0 bytes") as caught:
            await us.send(
                outbound(None, "", attachments=(Attachment("file", path=str(tmp_path / "none.txt")),))
            )
        assert caught.value.permanent


async def test_a_typing_mark_whose_message_is_gone_is_no_trouble() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        (id,) = (await us.send(outbound(None, "hi"))).message_ids
        await us.typing(outbound().address, id)
        feishu.reactions.clear()
        await us.settled(outbound().address, id)


async def test_only_our_own_reaction_is_taken_off() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        (id,) = (await us.send(outbound(None, "hi"))).message_ids
        feishu.reactions["re_theirs"] = (id, "THUMBSUP", "ou_1")
        await us.react(outbound().address, id, "👍", remove=True)
        assert list(feishu.reactions) == ["re_theirs"]
