"""The long connection: what keeps it alive, what ends it, and what it does with what is broken, late or too much."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from claw_feishu import frames
from claw_feishu.directory import KEPT, AnswerCache
from claw_feishu.fake import SERVICE, FakeAnswer, FakeFeishu
from claw_feishu.frames import Frame
from claw_feishu.longconn import (
    AT_ONCE,
    PARTS,
    ConnectionEvents,
    Fatal,
    LongConnection,
    LongConnectionTimings,
    configured,
)
from plugins.feishu.places import QUICK, FakeInbox, channel, listening


def part(
    id: str, at: int, of: int, payload: bytes = b"", kind: str = "event", method: int = frames.DATA
) -> bytes:
    headers = (("type", kind), ("message_id", id), ("sum", str(of)), ("seq", str(at)))
    return frames.encode(Frame(method, SERVICE, headers, payload))


def event(feishu: FakeFeishu, id: str) -> bytes:
    said = {"sender": {"sender_id": {"open_id": "ou_1"}}, "message": {
        "message_id": id, "chat_id": "oc_1", "chat_type": "p2p", "message_type": "text", "content": '{"text": "hi"}',
    }}  # fmt: skip
    return json.dumps(feishu.event("im.message.receive_v1", said)).encode()


def test_the_longest_pause_is_that_of_the_service_unless_ours_is_shorter() -> None:
    ours = LongConnectionTimings(most_seconds=60)
    assert configured(ours, {"ReconnectInterval": 30}).most_seconds == 30
    assert configured(ours, {"ReconnectInterval": 600}).most_seconds == 60
    for strange in ({"ReconnectInterval": 0, "PingInterval": -1}, {"PingInterval": "soon"}, None, []):
        assert configured(ours, strange) == ours


async def test_what_was_asked_of_the_directory_is_kept_within_bounds() -> None:
    kept: AnswerCache[str] = AnswerCache()
    for number in range(KEPT + 1):
        kept.put(str(number), "x")
    assert kept.get("0") is None and kept.get("1") == kept.get(str(KEPT)) == "x"


async def test_pings_go_out_at_the_pace_of_the_service_and_of_its_newest_pong() -> None:
    async with FakeFeishu(ping_seconds=0.05) as feishu, listening(feishu) as (us, _):
        await feishu.until(lambda: feishu.pings >= 4)
        assert us.state.last_frame_at
        feishu.ping_seconds = 60
        await asyncio.sleep(0.2)
        before = feishu.pings
        await asyncio.sleep(0.3)
        assert feishu.pings == before, "the pong said so"
        assert feishu.connections == 1


async def test_a_quiet_connection_whose_pings_are_answered_is_left_alone() -> None:
    pace = replace(QUICK, silence_seconds=0.8)
    async with FakeFeishu(ping_seconds=0.2) as feishu, listening(feishu, pace=pace) as (us, _):
        await asyncio.sleep(1.6)
        assert (feishu.connections, us.state.state) == (1, "up")


async def test_a_dead_connection_is_noticed_within_two_pings_and_the_patience() -> None:
    pace = replace(QUICK, silence_seconds=0.1)
    async with FakeFeishu(ping_seconds=0.1) as feishu, listening(feishu, pace=pace) as (us, _):
        feishu.mute = True
        began = asyncio.get_running_loop().time()
        await feishu.until(lambda: feishu.connections > 1, 10)
        assert asyncio.get_running_loop().time() - began < 5
        assert us.state.last_error == "the connection was lost" and us.state.reconnects >= 1


@pytest.mark.parametrize("where", ["ws/endpoint", "GET /ws/v2"])
async def test_a_service_that_does_not_answer_does_not_make_us_deaf(where: str) -> None:
    async with FakeFeishu() as feishu:
        feishu.hang(where)
        async with listening(feishu, up=False, pace=replace(QUICK, connect_seconds=0.1)) as (us, _):
            await feishu.until(lambda: us.state.state == "up")
            assert us.state.last_error


async def test_tries_come_more_slowly_while_nothing_answers_and_only_a_lost_connection_counts_as_one() -> (
    None
):
    pace = replace(QUICK, pause_seconds=0.05, most_seconds=10.0)
    async with FakeFeishu() as feishu:
        feishu.fail("ws/endpoint", FakeAnswer(500, {"msg": "down"}), times=100)
        async with listening(feishu, up=False, pace=pace) as (us, _):
            await asyncio.sleep(0.8)
            assert 2 <= len(feishu.calls("ws/endpoint")) <= 6
            assert us.state.reconnects == 0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (FakeAnswer(502, "<html>Bad Gateway</html>"), "HTTP 502"),
        (FakeAnswer(200, "<html>Log in to this hotel</html>"), "HTTP 200"),
        (FakeAnswer(503, {"code": 0}), "HTTP 503"),
    ],
)
async def test_an_outage_is_reported_once_in_the_log_as_it_is_and_so_is_its_end(
    answer: FakeAnswer, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "claw_feishu")
    async with FakeFeishu() as feishu, listening(feishu) as (us, _):
        feishu.fail("ws/endpoint", answer, times=3)
        feishu.drop()
        await feishu.until(lambda: said in us.state.detail)
        await feishu.until(lambda: us.state.state == "up")
    lost, again = [line for line in caplog.messages if line.startswith("feishu: ")]
    assert "lost" in lost and again == "feishu: receiving messages again"


async def test_after_a_connection_that_held_the_next_try_comes_soon() -> None:
    pace = replace(QUICK, pause_seconds=0.02, most_seconds=60.0)
    async with FakeFeishu() as feishu, listening(feishu, pace=pace):
        for number in range(1, 12):
            await feishu.until(lambda number=number: feishu.connections == number, 10)
            feishu.drop()


async def test_a_handshake_that_is_forbidden_is_something_for_a_person() -> None:
    async with FakeFeishu() as feishu:
        forbidden = FakeAnswer(400, headers={"handshake-status": "403", "handshake-msg": "app is banned"})
        feishu.fail("GET /ws/v2", forbidden, times=1)
        async with listening(feishu, up=False, pace=replace(QUICK, rest_seconds=0.2)) as (us, _):
            await feishu.until(lambda: us.state.state == "failed")
            assert "app is banned" in us.state.detail and "developer console" in us.state.detail


@pytest.mark.parametrize(
    "body",
    [{"code": 0}, {"code": 0, "data": [1]}, {"code": 0, "data": {"URL": 5}}, {"code": 0, "data": {"URL": "ws://["}},
     {"code": 0, "data": {"URL": "", "ClientConfig": "x"}}, {"code": "0"}, {}, []],
)  # fmt: skip
async def test_whatever_the_endpoint_says_the_next_try_comes(body: Any) -> None:
    async with FakeFeishu() as feishu:
        feishu.fail("ws/endpoint", FakeAnswer(body=body))
        async with listening(feishu, up=False) as (us, _):
            await feishu.until(lambda: us.state.state in ("failed", "waiting") and us.state.detail)
            await feishu.until(lambda: us.state.state == "up")


@pytest.mark.parametrize("url", ["ws://127.0.0.1:9/ws", "http://x/", ""])
async def test_only_beside_a_platform_on_this_machine_is_an_open_connection_made(url: str) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.fail("ws/endpoint", FakeAnswer(body={"code": 0, "data": {"URL": url}}))
        with pytest.raises(Fatal, match="no safe address"):
            await LongConnection(us.tenant, us.receive, ConnectionEvents(), QUICK).endpoint(
                "https://open.feishu.cn"
            )


async def test_proxies_of_the_environment_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "socks_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with FakeFeishu() as feishu, listening(feishu, up=False) as (us, _):
        await feishu.until(lambda: us.state.state == "up")


async def test_what_cannot_be_read_is_acknowledged_and_what_is_no_frame_is_passed_over() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        await feishu.send_raw(b"\xff\xff")
        await feishu.send_raw(part("m1", 0, 1, b"no JSON"))
        await feishu.send_raw(part("m2", 0, 1, event(feishu, "om_1")))
        await feishu.until(lambda: len(feishu.answers) == 2)
        answers = [frames.decode(data) for data in feishu.answers]
        assert [json.loads(answer.payload) for answer in answers] == [{"code": 200}] * 2
        assert all(answer.header("biz_rt").isdigit() for answer in answers)
        assert len(inbox.received) == feishu.connections == 1


async def test_a_frame_that_is_far_too_large_ends_the_connection_and_not_us() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, _):
        await feishu.send_raw(part("m1", 0, 1, b"x" * (5 << 20)))
        await feishu.until(lambda: feishu.connections == 2 and us.state.state == "up")


async def test_parts_of_one_connection_are_not_joined_with_those_of_the_next() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        whole = event(feishu, "om_1")
        await feishu.send_raw(part("m1", 0, 2, whole[:50]))
        await asyncio.sleep(0.05)
        feishu.drop()
        await feishu.until(lambda: feishu.connections == 2 and us.state.state == "up")
        await feishu.send_raw(part("m1", 1, 2, whole[50:]))
        await feishu.send_raw(part("m2", 0, 1, event(feishu, "om_2")))
        await feishu.until(lambda: inbox.received)
        assert [received.message_id for received in inbox.received] == ["om_2"]


async def test_parts_whose_rest_never_comes_do_not_pile_up() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        whole = event(feishu, "om_1")
        await feishu.send_raw(part("old", 0, 2, whole[:50]))
        for number in range(PARTS):
            await feishu.send_raw(part(f"m{number}", 0, 2, b"half"))
        await feishu.send_raw(part("old", 1, 2, whole[50:]))
        await feishu.send_raw(part("last", 0, 1, event(feishu, "om_2")))
        await feishu.until(lambda: inbox.received)
        assert [received.message_id for received in inbox.received] == ["om_2"], "the oldest was given up"


async def test_the_same_event_may_come_in_parts_again() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        whole = event(feishu, "om_1")
        for _ in range(2):
            await feishu.send_raw(part("m1", 0, 2, whole[:50]))
            await feishu.send_raw(part("m1", 1, 2, whole[50:]))
        await feishu.until(lambda: len(inbox.received) == 2)
        assert len(feishu.answers) == 2


class Busy(FakeInbox):
    """A gateway that takes its time.

    :ivar most: how many it was asked to take at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.now, self.most = asyncio.Event(), 0, 0

    async def submit(self, inbound: Any) -> bool:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.gate.wait()
        self.now -= 1
        return await super().submit(inbound)


async def test_a_flood_is_taken_a_part_at_a_time() -> None:
    async with FakeFeishu(ack_seconds=30) as feishu, listening(feishu, inbox := Busy(), resolveNames=False):
        for number in range(AT_ONCE + 20):
            await feishu.says("x", chat=f"oc_{number}")
        await feishu.until(lambda: inbox.most == AT_ONCE)
        await asyncio.sleep(0.05)
        assert inbox.most == AT_ONCE
        inbox.gate.set()
        await feishu.until(lambda: len(feishu.acked) == AT_ONCE + 20)


async def test_a_directory_that_hangs_delays_one_message_and_no_acknowledgement_of_those_behind_it() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        feishu.hang("contact/v3/users", times=100)
        began = asyncio.get_running_loop().time()
        for number in range(5):
            await feishu.says(str(number))
        await feishu.until(lambda: len(feishu.acked) == 5)
        assert asyncio.get_running_loop().time() - began < 2.5, "the service waits three seconds"
        assert [received.text for received in inbox.received] == list("01234")
        assert len(feishu.calls("contact/v3/users")) == 1


async def test_a_name_that_comes_late_turns_no_two_messages_of_a_chat_round_and_holds_no_other_chat_up() -> (
    None
):
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        feishu.hang("contact/v3/users/ou_slow")
        await feishu.says("first", "ou_slow", chat="oc_1")
        await feishu.says("second", "ou_quick", chat="oc_1")
        await feishu.says("elsewhere", "ou_quick", chat="oc_2")
        await feishu.until(lambda: len(inbox.received) == 3)
        assert [received.text for received in inbox.received] == ["elsewhere", "first", "second"]


async def test_a_reaction_in_a_place_that_nobody_names_in_time_is_acknowledged_in_time() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        feishu.hang("GET /open-apis", times=100)
        began = asyncio.get_running_loop().time()
        pushed = await feishu.reacts("om_unknown", "OK")
        await feishu.until(lambda: pushed.acked)
        assert asyncio.get_running_loop().time() - began < 2.5
        assert inbox.received == []
