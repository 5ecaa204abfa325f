"""The judge of the platform rig finds each kind of fault in invented histories, and none in a good one."""

import ast
import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from rigs import platform_rig
from rigs.platform_rig.aiogram_judge import judge_files, write_records
from rigs.platform_rig.facts import Asked, Attempt, Call, Effect, History, Visible
from rigs.platform_rig.faults import Fault, Faults, Rates
from rigs.platform_rig.feishu_cards import Cards, Refused as FeishuRefused
from rigs.platform_rig.feishu_messages import ChatMessage, Messages
from rigs.platform_rig.feishu_push import ENCRYPT_KEY, VERIFICATION_TOKEN, sealed
from rigs.platform_rig.feishu_service import FeishuService
from rigs.platform_rig.feishu_types import (
    wrong_in_event,
    wrong_in_push,
    wrong_in_request as wrong_in_feishu_request,
)
from rigs.platform_rig.gateway_process import GatewayProcess, where_it_is
from rigs.platform_rig.judge import LIMITS, judge
from rigs.platform_rig.labels import answer_parts, file_name
from rigs.platform_rig.model_service import called, pending
from rigs.platform_rig.pace import DiscordPace, FeishuPace, TelegramPace
from rigs.platform_rig.report import document, exit_code, table
from rigs.platform_rig.seeds import read_lines, run_seeds, seeds_of, total
from rigs.platform_rig.settling import Patience, until_settled
from rigs.platform_rig.storm import Plan
from rigs.platform_rig.telegram_methods import Refused
from rigs.platform_rig.telegram_service import SECOND_TOKEN, TelegramService
from rigs.platform_rig.telegram_types import ParseError, visible_text, wrong_in_request, wrong_in_update
from rigs.platform_rig.world import Setting, until

SORRY = "Something went wrong here, and I could not answer."


def answer(question: str, run: int, kind: str = "plain", parts: slice = slice(None)) -> str:
    """Return an answer, or some parts of it."""
    return "".join(answer_parts(question, run, kind)[parts]).strip()


def shown(position: int, text: str, chat: str = "1") -> Visible:
    return Visible("telegram", chat, position, text)


ASKED = (
    Asked("t1.1", "telegram", "1", "plain", 1),
    Asked("t1.2", "telegram", "1", "once", 3),
    Asked("t1.3", "telegram", "1", "long", 5),
)
GOOD = History(
    ASKED,
    (
        shown(2, answer("t1.1", 1)),
        shown(4, answer("t1.2", 2)),
        shown(6, answer("t1.3", 3, "long", slice(0, 2))),
        shown(7, answer("t1.3", 3, "long", slice(2, None))),
    ),
    (Call("h1.1", "u1", "plain", (Attempt(0, "cut", False), Attempt(200, answer("h1.1", 4), True))),),
    (Effect("once", "t1.2"), Effect("undeclared", "t1.9")),
    asked_of_model=("t1.1", "t1.2", "t1.3"),
)


def broken(history: History) -> dict[str, int]:
    return judge(history).broken


def without(position: int, *instead: Visible) -> History:
    """The good history with other messages in place of one."""
    return replace(GOOD, visible=(*(one for one in GOOD.visible if one.position != position), *instead))


def test_a_good_history_breaks_no_limit():
    verdict = judge(GOOD)
    assert verdict.broken == {}
    assert verdict.counts["answered"] == 3
    assert verdict.counts["http_answered"] == 1
    assert exit_code(verdict) == 0


def test_a_question_without_answer_and_without_notice_is_lost():
    assert broken(without(4)) == {"lost": 1}
    assert exit_code(judge(without(4))) == 1


def test_a_question_that_is_answered_only_when_somebody_writes_again_was_lost():
    assert broken(replace(GOOD, abandoned=["t1.2"])) == {"lost": 1}
    assert judge(without(4)).lost == {"t1.2"}


def test_half_an_answer_is_a_lost_one_unless_a_notice_follows():
    half = shown(4, answer("t1.2", 2, parts=slice(0, 2)))
    assert broken(without(4, half)) == {"lost": 1}
    told = judge(without(4, half, shown(8, SORRY)))
    assert (told.broken, told.counts["told"], told.counts["half_told"]) == ({}, 1, 1)


def test_an_answer_without_its_end_is_no_whole_answer():
    assert broken(without(2, shown(2, answer("t1.1", 1, parts=slice(0, 3))))) == {"lost": 1}


def test_a_notice_before_the_question_tells_nobody():
    assert broken(without(4, shown(0, SORRY))) == {"lost": 1}


def test_a_notice_in_another_chat_tells_nobody():
    assert broken(without(4, shown(8, SORRY, chat="2"))) == {"lost": 1}


def test_each_turn_needs_its_own_notice_and_a_shared_turn_needs_one():
    both = replace(GOOD, visible=(shown(8, SORRY), *GOOD.visible[2:]))
    assert broken(both) == {"lost": 1}
    assert broken(replace(both, visible=(*both.visible, shown(9, SORRY)))) == {}
    assert broken(replace(both, queue="collect")) == {}


def test_a_notice_that_is_joined_to_half_an_answer_is_a_notice():
    joined = shown(6, f"{answer('t1.2', 2, parts=slice(0, 1))}\n{SORRY}")
    assert judge(without(4, joined)).counts["told"] == 1


def test_an_ellipsis_is_no_notice():
    assert broken(without(4, shown(8, "…"))) == {"lost": 1}


@pytest.mark.parametrize("run", [1, 9], ids=["the same run", "another run"])
def test_two_whole_answers_are_a_double(run):
    assert broken(without(0, shown(3, answer("t1.1", run)))) == {"doubled": 1}


def test_part_of_an_answer_beside_the_whole_one_is_half_left():
    for part in (
        answer("t1.1", 1, parts=slice(0, 1)),
        answer("t1.1", 9, parts=slice(1, 3)),
        "ans-t1.1-r1-1o",
    ):
        assert broken(without(0, shown(1, part))) == {"half_left": 1}, part
    assert broken(without(0, shown(1, "ans-t1"))) == {"half_left": 1}


def test_a_half_that_a_notice_ended_before_the_whole_answer_is_no_half_left():
    asked = (replace(ASKED[0], position=0), *ASKED[1:])
    half = shown(1, f"{answer('t1.1', 9, parts=slice(0, 1))}\n{SORRY}")
    assert broken(replace(without(0, half), asked=asked)) == {}
    assert judge(replace(without(0, half), asked=asked)).counts["half_explained"] == 1


def test_an_answer_that_begins_before_the_answer_to_an_earlier_question_is_out_of_order():
    swapped = without(4, shown(9, answer("t1.2", 2)))
    assert broken(swapped) == {"out_of_order": 1}


def test_answers_in_one_message_are_ordered_by_their_place_in_it():
    both = [answer("t1.1", 1), answer("t1.2", 1)]
    first = replace(GOOD, visible=(shown(4, "\n".join(both)), *GOOD.visible[2:]))
    assert broken(first) == {}
    swapped = replace(GOOD, visible=(shown(4, "\n".join(reversed(both))), *GOOD.visible[2:]))
    assert broken(swapped) == {"out_of_order": 1}


def test_a_file_of_an_answer_is_there_once_or_a_notice_says_that_it_may_be_missing():
    asked = (replace(ASKED[0], kind="file"), *ASKED[1:])
    one, two = shown(2, answer("t1.1", 1)), shown(3, file_name("t1.1"))
    rest = GOOD.visible[1:]
    assert broken(replace(GOOD, asked=asked, visible=(one, two, *rest))) == {}
    assert broken(replace(GOOD, asked=asked, visible=(one, *rest))) == {"file_lost": 1}
    assert broken(replace(GOOD, asked=asked, visible=(one, two, two, *rest))) == {"file_doubled": 1}
    told = judge(replace(GOOD, asked=asked, visible=(one, shown(3, SORRY), *rest)))
    assert (told.broken, told.counts["file_told"]) == ({}, 1)
    refused = f"{file_name('t1.1')} cannot be sent: {file_name('t1.1')} does not exist here"
    told = judge(replace(GOOD, asked=asked, visible=(one, shown(3, refused), *rest)))
    assert (told.broken, told.counts["file_told"]) == ({}, 1)
    captioned = shown(3, f"here it is {file_name('t1.1')}")
    assert broken(replace(GOOD, asked=asked, visible=(one, captioned, two, *rest))) == {"file_doubled": 1}


def test_an_answer_in_another_chat_is_astray():
    assert broken(without(4, shown(4, answer("t1.2", 2), chat="2"))) == {"astray": 1, "lost": 1}


@pytest.mark.parametrize("tool", ["once", "undeclared"])
def test_an_effect_that_ran_twice_is_repeated(tool):
    assert broken(replace(GOOD, effects=(*GOOD.effects, *GOOD.effects))) == {
        "repeated_once": 1,
        "repeated_undeclared": 1,
    }
    twice = [Effect("idempotent", "t1.2")] * 2
    assert broken(replace(GOOD, effects=twice)) == {}
    assert broken(replace(GOOD, effects=[Effect(tool, "t1.2")] * 3)) == {f"repeated_{tool}": 1}


def call(*attempts: Attempt, probe: bool = False) -> History:
    return replace(GOOD, calls=(Call("h1.1", "u1", "plain", attempts, probe=probe),))


@pytest.mark.parametrize(
    "content",
    ["", SORRY, answer("h1.2", 4), answer("h1.1", 4, parts=slice(0, 3))],
    ids=["empty", "an apology", "somebody else's answer", "half an answer"],
)
def test_a_200_with_another_content_than_the_whole_own_answer_is_wrong(content):
    assert broken(call(Attempt(200, content, True))) == {"http_wrong": 1, "http_unanswered": 1}


def test_a_call_that_is_never_answered_is_counted():
    refused, cut = Attempt(503, "stopping", False), Attempt(200, answer("h1.1", 4), False)
    assert broken(call(refused, cut)) == {"http_unanswered": 1}
    assert broken(call()) == {"http_unanswered": 1}


def test_an_answer_of_a_call_may_contain_that_of_another_one_and_an_error_tells_the_caller():
    both = judge(call(Attempt(200, f"{answer('h1.2', 4)} {answer('h1.1', 4)}", True)))
    assert (both.broken, both.counts["http_answered_together"]) == ({}, 1)
    told = judge(call(Attempt(500, SORRY, False)))
    assert (told.broken, told.counts["http_told"]) == ({}, 1)


def test_a_probe_without_answer_means_that_the_provider_is_gone():
    probe = replace(without(4, shown(8, SORRY)), asked=(ASKED[0], replace(ASKED[1], probe=True), ASKED[2]))
    assert broken(probe) == {"provider_gone": 1}
    never = replace(probe, asked=(ASKED[0], replace(ASKED[1], probe=True, taken=False), ASKED[2]))
    assert broken(never) == {"channel_gone": 1}
    assert broken(call(probe=True)) == {"http_unanswered": 1, "provider_gone": 1}


def test_a_notice_for_messages_of_one_turn_does_not_stand_for_a_probe():
    asked = tuple(Asked(f"t1.{at}", "telegram", "1", "plain", 2 * at, probe=at == 2) for at in range(3))
    steered = History(
        asked, (shown(3, SORRY),), queue="steer", asked_of_model={one.question for one in asked}
    )
    assert broken(steered) == {"lost": 1, "provider_gone": 1}
    assert judge(steered).counts["told"] == 2


def test_notices_without_a_question_to_the_model_break_a_limit_when_they_are_more_than_a_few():
    asked = tuple(Asked(f"t1.{at}", "telegram", "1", "plain", 2 * at) for at in range(4))
    sorry = tuple(shown(2 * at + 1, SORRY) for at in range(4))
    some = History(asked, sorry, asked_of_model={"t1.0", "t1.1", "t1.2"})
    assert (broken(some), judge(some).counts["told_unasked"]) == ({}, 1)
    assert broken(replace(some, asked_of_model={"t1.0"})) == {"told_unasked": 3}


def test_incidents_and_illformed_requests_break_limits():
    incidents = Counter(crashed=1, did_not_stop=2, tools_missing=3)
    assert broken(replace(GOOD, incidents=incidents, illformed=["x"])) == {"illformed": 1, **incidents}


@pytest.mark.skipif(sys.platform != "linux", reason="proc(5) knows whether a process has ended")
async def test_a_process_that_ended_while_the_loop_of_the_rig_was_late_has_ended():
    process = await asyncio.create_subprocess_exec("sleep", "0.5")
    life = GatewayProcess(process.pid, process.wait())
    asyncio.get_running_loop().call_later(0.02, time.sleep, 2.0)  # the judge of another storm
    assert await life.wait(0.2)
    assert life.code == 0
    runs = await asyncio.create_subprocess_exec("sleep", "30")
    other = GatewayProcess(runs.pid, runs.wait())
    assert not await other.wait(0.05)
    assert f"{runs.pid} S" in where_it_is(runs.pid)
    other.kill()
    assert await other.wait(20)


def test_the_rig_imports_nothing_of_claw_and_none_of_its_fakes():
    for path in Path(platform_rig.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.split(".")[0].startswith("claw")], path.name


def test_the_report_names_what_is_broken():
    verdict = judge(without(4))
    assert document(verdict, {"seed": 1})["broken"] == {"lost": 1}
    assert "t1.2 (once) has no answer" in table(verdict, {"seed": 1})
    assert set(verdict.broken) <= set(LIMITS)


def test_the_model_answers_a_question_again_that_is_asked_again_after_its_answer():
    asked = {"role": "user", "content": "ask-t1.1-once"}
    call = {"function": {"name": "note_once", "arguments": '{"question": "t1.1"}'}}
    called_it = {"role": "assistant", "content": None, "tool_calls": [call]}
    done = {"role": "assistant", "content": answer("t1.1", 1)}
    assert pending([asked, called_it, done]) == {}
    assert pending([asked, called_it, done, asked]) == {"t1.1": "once"}
    assert called([asked, called_it]) == {"t1.1"}
    assert called([asked, called_it, done, asked]) == set()
    half = {"role": "assistant", "content": answer("t1.1", 1, parts=slice(0, 2))}
    assert pending([asked, half]) == {"t1.1": "once"}
    other = {"role": "user", "content": [{"type": "text", "text": "ask-t1.2-plain"}]}
    assert pending([asked, other]) == {"t1.1": "once", "t1.2": "plain"}
    assert pending([asked, called_it, other], only_newest=True) == {"t1.1": "once", "t1.2": "plain"}
    assert pending([asked, half, other], only_newest=True) == {"t1.2": "plain"}


def test_telegram_allows_30_calls_a_second_and_20_messages_a_minute_in_a_group():
    now = 0.0
    pace = TelegramPace(lambda: now)
    assert [pace.retry_after(chat, is_new_message=True) for chat in range(1, 32)] == [0] * 30 + [1]
    now = 10.0
    refused = 0
    for _ in range(25):
        refused += bool(pace.retry_after(-1, is_new_message=True))
        now += 1.1
    assert refused == 5
    assert pace.retry_after(-1, is_new_message=False) == 0


def test_discord_tells_the_limit_of_a_route_in_the_headers():
    pace = DiscordPace(lambda: 0.0)
    answers = [pace.ask("POST 1") for _ in range(6)]
    assert [headers["X-RateLimit-Remaining"] for _, _, headers in answers] == ["4", "3", "2", "1", "0", "0"]
    assert [wait for wait, _, _ in answers] == [0.0] * 5 + [5.0]


def test_ordered_faults_come_first_and_healing_ends_all():
    faults = Faults(random.Random(1), send=Rates(cut_before=1.0))
    faults.order("sendMessage", Fault.NONE, Fault.E401)
    assert [faults.next("sendMessage") for _ in range(3)] == [Fault.NONE, Fault.E401, Fault.CUT_BEFORE]
    faults.heal()
    assert faults.next("sendMessage") is Fault.NONE


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("sendMessages", {"chat_id": 1, "text": "x"}),
        ("sendMessage", {"chat_id": 1}),
        ("sendMessage", {"chat_id": 1, "text": "x", "reply_too": 3}),
        ("sendMessage", {"chat_id": 1, "text": "x", "parse_mode": "html5"}),
        ("sendMessage", {"chat_id": 1, "text": "x", "reply_parameters": {"message_id": 1, "quiet": True}}),
        ("sendMessage", {"chat_id": 1, "text": "x", "entities": [{"type": "bold", "offset": 0}]}),
    ],
)
def test_a_request_that_the_bot_api_does_not_know_is_illformed(method, fields):
    assert wrong_in_request(method, fields)


def test_a_request_of_the_bot_api_is_wellformed():
    fields = {"chat_id": 1, "text": "x", "parse_mode": "HTML", "reply_parameters": {"message_id": 1}}
    assert wrong_in_request("sendMessage", fields) == []
    assert wrong_in_request("getUpdates", {"offset": 1, "timeout": 5, "allowed_updates": ["message"]}) == []


def test_an_update_with_an_unknown_field_is_illformed():
    message = {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "private", "name": "x"}, "text": "x"}
    assert wrong_in_update({"update_id": 1, "message": message})


@pytest.mark.parametrize("text", ["<b>x", "x</b>", "<h1>x</h1>", "<b><i>x</b></i>"])
def test_html_that_telegram_cannot_parse_is_refused(text):
    with pytest.raises(ParseError):
        visible_text(text, "HTML")
    assert visible_text("<b>x</b> &lt;y&gt;", "HTML") == "x <y>"


class Refusing:
    """A world in which a service refuses a call every half a second, so many times, before an answer is there."""

    callers = None

    def __init__(self, refusals: int) -> None:
        self.model, self.refusals, self.made = SimpleNamespace(requests=1), refusals, 0

    def calls(self) -> int:
        self.made += self.made < self.refusals
        return self.made

    def history(self) -> History:
        is_answered = 0 < self.refusals <= self.made
        return History(ASKED[:1], GOOD.visible[:1] if is_answered else ())


@pytest.mark.parametrize(("refusals", "lost"), [(6, 0), (0, 1)])
async def test_a_life_is_over_when_it_does_nothing_and_not_while_its_calls_are_refused(refusals, lost):
    world: Any = Refusing(refusals)
    dead: Any = SimpleNamespace(pid=0, code=None)  # it uses no processor
    async with asyncio.timeout(20):
        await until_settled(world, dead, Patience(quiet_seconds=1.0))

    assert judge(world.history()).counts["lost"] == lost


def test_seeds_are_given_as_numbers_and_ranges():
    assert seeds_of("7") == [7]
    assert seeds_of("0-3,12") == [0, 1, 2, 3, 12]


def a_result(seed: int, history: History) -> dict[str, object]:
    return document(
        judge(history), {"seed": seed, "kills": 20, "moments": {"start": 20}, "injected": {"500": 3}}
    )


def test_the_sum_of_results_names_each_broken_limit_with_its_seeds(tmp_path):
    file = tmp_path / "results.jsonl"
    lines = [json.dumps(a_result(3, GOOD)), json.dumps(a_result(4, without(4)))]
    file.write_text("\n".join([*lines, lines[0][:40]]))  # the last line was cut by a kill of the rig
    found = total(read_lines([file]))
    assert (found["runs"], found["kills"], found["counts"]["asked"]) == (2, 40, 6)
    assert (found["moments"], found["injected"]) == ({"start": 40}, {"500": 6})
    assert list(found["broken"]) == ["lost"] and found["broken"]["lost"][0].startswith("seed 4: ")


async def test_seeds_that_a_file_has_are_not_run_again(tmp_path):
    file = tmp_path / "results.jsonl"
    file.write_text("\n".join(json.dumps(a_result(seed, GOOD)) for seed in (0, 1)))
    assert await run_seeds([0, 1], Setting(python="no-such-python"), Plan(kills=20), file) == []


async def test_a_webhook_is_called_until_it_takes_an_update_in_the_order_of_its_chat():
    service = TelegramService(Faults(random.Random(1)), name="webhook", token=SECOND_TOKEN)
    taken: list[tuple[int, str]] = []
    refusals = [503, 500]

    async def take(request: web.Request) -> web.Response:
        assert request.headers["X-Telegram-Bot-Api-Secret-Token"] == "secret"
        update = await request.json()
        if refusals:
            return web.Response(status=refusals.pop())
        taken.append((update["update_id"], update["message"]["text"]))
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with service:
        service.add_chat(101)
        service.push.port = runner.addresses[0][1]
        service.push.set({"url": "https://claw.example/hook", "secret_token": "secret"})
        for number in range(3):
            await service.say("101", f"w101.{number}", f"text {number}")
        assert await until(lambda: len(service.confirmed) == 3, 10)
    await runner.cleanup()
    assert [text for _, text in taken] == ["text 0", "text 1", "text 2"] and not service.illformed


async def test_a_message_in_a_topic_is_in_its_chat_and_needs_a_topic_that_exists():
    service = TelegramService(Faults(random.Random(1)))
    service.add_chat(-1002, topics=(7,))
    sent = service.messages.call("sendMessage", {"chat_id": -1002, "text": "x", "message_thread_id": 7})
    assert sent["message_thread_id"] == 7 and service.visible()[0].chat == "-1002/7"
    with pytest.raises(Refused, match="message thread not found"):
        service.messages.call("sendMessage", {"chat_id": -1002, "text": "x", "message_thread_id": 9})
    service.messages.call("sendMessage", {"chat_id": -1002, "text": "x"})
    assert service.visible()[1].chat == "-1002"


async def test_people_edit_and_delete_messages_and_a_bot_hears_of_the_edit():
    service = TelegramService(Faults(random.Random(1)))
    service.add_chat(101)
    id = await service.say("101", "t101.1", "ask-t101.1-plain")
    await service.change("101", id, ", please")
    assert [set(update) - {"update_id"} for update in service.updates.values()] == [
        {"message"},
        {"edited_message"},
    ]
    service.remove("101", id)
    with pytest.raises(Refused, match="message to be replied not found"):
        service.messages.call(
            "sendMessage", {"chat_id": 101, "text": "x", "reply_parameters": {"message_id": id}}
        )


def test_an_edit_without_a_keyboard_takes_the_keyboard_away():
    service = TelegramService(Faults(random.Random(1)))
    service.add_chat(101)
    keyboard = {"inline_keyboard": [[{"text": "a", "callback_data": "a"}]]}
    service.messages.call("sendMessage", {"chat_id": 101, "text": "x", "reply_markup": keyboard})
    edited = service.messages.call("editMessageText", {"chat_id": 101, "message_id": 1, "text": "x"})
    assert "reply_markup" not in edited


def test_records_that_aiogram_could_not_read_are_named(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no module aiogram >&2; exit 1\n")
    python.chmod(0o755)
    write_records(tmp_path / "records", [("sendMessage", {"chat_id": 1})])
    with pytest.raises(RuntimeError, match="no module aiogram"):
        judge_files(python, [tmp_path / "records"])


_IM, _CARDS = "/open-apis/im/v1/messages", "/open-apis/cardkit/v1/cards"
_SEND = {"receive_id": "oc_1", "msg_type": "text", "content": "{}", "uuid": "a"}


@pytest.mark.parametrize(
    ("method", "path", "query", "body"),
    [
        ("POST", "/open-apis/im/v1/message", {}, {}),
        ("PATCH", _CARDS, {}, {}),
        ("POST", _IM, {"receive_id_kind": "chat_id"}, _SEND),
        ("POST", _IM, {"receive_id_type": "chat_id"}, {**_SEND, "reply_in_thread": True}),
        ("POST", f"{_IM}/om_1/reply", {}, {"msg_type": "text", "content": {"text": "x"}}),
        ("POST", f"{_IM}/om_1/reply", {}, {"msg_type": "text", "content": "{}", "reply_in_thread": "true"}),
        ("POST", f"{_IM}/om_1/reactions", {}, {"reaction_type": {"emoji": "OK"}}),
        ("PUT", f"{_CARDS}/7/elements/answer/content", {}, {"content": "x", "sequence": "1"}),
        ("PUT", f"{_CARDS}/7", {}, {"card": "{}", "sequence": 1}),
        ("PATCH", f"{_CARDS}/7/settings", {}, {"settings": {}, "sequence": 1}),
        ("GET", f"{_IM}/om_1", {}, {"message_id": "om_1"}),
    ],
)
def test_a_request_that_the_sdk_of_feishu_does_not_know_is_illformed(method, path, query, body):
    assert wrong_in_feishu_request(method, path, query, body)


def test_a_request_of_the_sdk_of_feishu_is_wellformed():
    assert wrong_in_feishu_request("POST", _IM, {"receive_id_type": "chat_id"}, _SEND) == []
    written = {"content": "x", "sequence": 1, "uuid": "a"}
    assert wrong_in_feishu_request("PUT", f"{_CARDS}/7/elements/answer/content", {}, written) == []
    file = {"file_type": "stream", "file_name": "a.txt", "file": b"x"}
    assert wrong_in_feishu_request("POST", "/open-apis/im/v1/files", {}, file) == []


async def test_events_of_feishu_are_those_of_its_sdk_and_their_signature_is_judged():
    service = FeishuService(Faults(random.Random(1)))
    async with service:
        for number, chat in enumerate(service.chats):
            await service.say(chat, f"f1.{number}", "text")
        await service.remove("301", 1)
        assert service.illformed == []
        waiting = [event for events in service.push.waiting.values() for event in events]
    assert len(waiting) == len(service.chats) + 1
    document = waiting[0].document
    headers, body = sealed(document)
    assert wrong_in_push(headers, body, ENCRYPT_KEY, VERIFICATION_TOKEN) == []
    assert wrong_in_push({**headers, "X-Lark-Signature": "0" * 64}, body, ENCRYPT_KEY, VERIFICATION_TOKEN)
    assert wrong_in_event({**document, "event": {"message": {"message_id": 1, "text": "x"}}})


async def test_an_event_of_feishu_is_pushed_until_it_is_taken_in_the_order_of_its_chat():
    service = FeishuService(Faults(random.Random(1)))
    bodies: list[bytes] = []
    refusals = [503, 500]

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        if refusals:
            return web.Response(status=refusals.pop())
        assert wrong_in_push(request.headers, body, ENCRYPT_KEY, VERIFICATION_TOKEN) == []
        bodies.append(body)
        return web.json_response({})

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with service:
        service.push.port, service.push.path = runner.addresses[0][1], "/hook"
        for number in range(3):
            await service.say("301", f"f301.{number}", f"text {number}")
        assert await until(lambda: len(service.confirmed) == 3, 15)
    await runner.cleanup()
    assert (len(bodies), service.push.posts, service.push.repeats) == (3, 3, 2)
    texts = [event.document["event"]["message"]["content"] for event in service.push.taken]
    assert [json.loads(text)["text"] for text in texts] == ["text 0", "text 1", "text 2"]


def card_json(**config: bool) -> str:
    element = {"tag": "markdown", "element_id": "answer", "content": ""}
    return json.dumps({"schema": "2.0", "config": config, "body": {"elements": [element]}})


def test_a_card_of_feishu_takes_growing_sequences_and_is_open_until_streaming_is_off():
    messages = Messages()
    card = messages.cards.add(card_json(streaming_mode=True))
    shown_card = {
        "msg_type": "interactive",
        "content": json.dumps({"type": "card", "data": {"card_id": card.id}}),
    }
    sent = messages.send({**shown_card, "uuid": "a"}, "oc_1")
    assert messages.send({**shown_card, "uuid": "a"}, "oc_1") is sent
    with pytest.raises(FeishuRefused, match="the card is sent"):
        messages.send({**shown_card, "uuid": "b"}, "oc_1")
    cards = messages.cards
    cards.write(card.id, "answer", {"content": "x", "sequence": 2, "uuid": "c"})
    cards.write(card.id, "answer", {"content": "y", "sequence": 2, "uuid": "c"})
    assert (messages.text(sent), messages.open_cards()) == ("x", 1)
    with pytest.raises(FeishuRefused, match="sequence"):
        cards.write(card.id, "answer", {"content": "z", "sequence": 2, "uuid": "d"})
    cards.set(card.id, {"settings": '{"config": {"streaming_mode": false}}', "sequence": 3})
    assert messages.open_cards() == 0 and cards.illformed == []
    with pytest.raises(FeishuRefused, match="streaming mode is closed"):
        cards.write(card.id, "answer", {"content": "z", "sequence": 4})


def test_an_empty_card_of_feishu_is_left_open_and_a_card_of_other_form_is_illformed():
    messages = Messages()
    messages.send({"msg_type": "interactive", "content": card_json()}, "oc_1")
    assert messages.open_cards() == 1
    assert broken(replace(GOOD, incidents=Counter(card_open=1))) == {"card_open": 1}
    cards = Cards()
    cards.add(card_json(update_multi=False))
    cards.add(card_json().replace("2.0", "1.0").replace("answer", "1st"))
    assert len(cards.illformed) == 3


def test_a_message_of_feishu_that_was_withdrawn_is_not_answered_and_not_shown():
    messages = Messages()
    asked = messages.add(ChatMessage(1, "oc_1", "text", {"text": "x"}, "ou_1", thread="omt_1"))
    body = {"msg_type": "text", "content": '{"text": "y"}'}
    assert messages.reply(asked.id, body).thread == "omt_1"
    asked.is_withdrawn = True
    with pytest.raises(FeishuRefused, match="withdrawn"):
        messages.reply(asked.id, body)
    (answered,) = messages.standing()
    messages.delete(answered.id)
    assert messages.standing() == []


def test_feishu_allows_5_messages_a_second_in_a_chat_and_10_calls_on_a_card():
    pace = FeishuPace(lambda: 0.0)
    assert [pace.message("oc_1") for _ in range(6)] == [0] * 5 + [1]
    assert [pace.card("7") for _ in range(11)] == [0] * 10 + [1]
    assert (pace.message("oc_2"), pace.call("GET /x"), pace.refused) == (0, 0, 2)
