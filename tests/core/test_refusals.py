"""Omitted parts of a history stay out, in memory and in the file; refusals of several models are distinguished."""

import pytest
from claw.contracts.errors import ProviderError
from claw.contracts.extensions import ModelOptions
from claw.contracts.provider import ModelRef, Request, SystemPrompt
from claw.contracts.transcript import Assistant, Text, ToolCall, ToolResultMessage, User
from claw.storage.history import SessionHistory
from claw.storage.records import SUMMARY, CompactionRecord, MessageRecord, Omission
from claw.testing import FakeProvider, says
from claw_context.recovery import last_good_index
from claw_models.failover import all_failed, with_fallback
from claw_provider_sdk.errors import provider_error


def user(text: str) -> User:
    return User((Text(text),))


def call(id: str) -> Assistant:
    return Assistant((ToolCall(id, "look", {}),))


def result(id: str) -> ToolResultMessage:
    return ToolResultMessage(id, "look", (Text("seen"),))


# --- what each model is to be done about


def test_models_that_failed_for_different_reasons_each_get_their_own_advice():
    message = str(
        all_failed([
            ("a/m", provider_error("a/m", status=401, text="bad key")),
            ("b/m", provider_error("b/m", status=404, kind="not_found_error", text="no such model")),
        ])
    )  # fmt: skip

    first, second = message.split("; b/m: ")
    assert "a/m: the service rejected the key" in first and "providers.a.apiKey" in first
    assert "check its name, and providers.b.baseUrl" in second and "apiKey" not in second


def test_advice_that_holds_for_all_appears_once_at_the_end():
    error = all_failed([(name, provider_error(name, status=529)) for name in ("a/m", "b/m")])

    assert str(error).count(error.fix) == 1 and str(error).endswith(error.fix)


def test_a_model_that_failed_alone_is_reported_as_it_is():
    alone = provider_error("a/m", status=401)
    assert all_failed([("a/m", alone)]) is alone


def test_braces_in_what_a_service_said_do_no_harm():
    fixes = [ProviderError("no", fix="set {what}", what="{x}") for _ in range(2)]
    assert str(all_failed([("a/m", fixes[0]), ("b/m", fixes[1])])).endswith("set {x}")


# --- repaired once


async def asked(service: FakeProvider, *messages) -> list[tuple]:
    async def quiet(text: str) -> None: ...

    request = Request(model="", system=SystemPrompt("", ""), messages=())
    ask = with_fallback(
        [ModelRef("fake", "m")], {"fake": service}, request, options=ModelOptions(notice=quiet)
    )
    async for _ in ask(messages, "auto"):
        pass
    return [one.request.messages for one in service.requests]


async def test_a_refused_request_whose_calls_lack_results_is_repaired_once_and_asked_again():
    broken = (user("look"), call("1"), user("well?"))

    first, second = await asked(
        FakeProvider(provider_error("fake/m", status=400, text="tool_use"), says("ok")), *broken
    )

    assert first == broken
    assert [type(message) for message in second] == [User, Assistant, ToolResultMessage, User]


async def test_a_request_that_needs_no_mending_is_not_asked_again():
    service = FakeProvider(provider_error("fake/m", status=400, text="tool_use"))

    with pytest.raises(ProviderError, match="tool_use"):
        await asked(service, user("look"), call("1"), result("1"))
    assert len(service.requests) == 1


async def test_a_request_that_is_refused_after_the_repair_too_is_not_asked_a_third_time():
    service = FakeProvider(*[provider_error("fake/m", status=400, text="tool_use")] * 2)

    with pytest.raises(ProviderError, match="tool_use"):
        await asked(service, user("look"), call("1"), user("well?"))


# --- the last good point


PAST = (user("a"), says("A"), user("b"), call("1"), result("1"), says("B"), user("c"), says("C"), user("d"))


@pytest.mark.parametrize(
    ("messages", "at", "why", "kept"),
    [
        (PAST, 8, "tool_use 1 has no result", 2),
        (PAST, 8, "no name", 2),
        (PAST, 8, "tool_use 11 is another", 2),
        ((user("a"), says("A"), user("b"), user("c")), 3, "", 2),
        ((user("a"), user("b")), 1, "", 0),
        ((*PAST, call("7"), result("7"), call("8"), result("8")), 8, "", 11),
        ((*PAST, call("7"), result("7"), call("8"), result("8")), 8, "ids: 7", 9),
    ],
)
def test_the_last_good_point_is_before_what_was_refused(messages, at, why, kept):
    assert last_good_index(messages, at, why) == kept


# --- in the file


def past(*records) -> SessionHistory:
    numbered = []
    for place, record in enumerate(records):
        one = record if isinstance(record, CompactionRecord | Omission) else MessageRecord(message=record)
        fields = {name: getattr(one, name) for name in one.__struct_fields__}
        numbered.append(
            type(one)(**(fields | {"id": str(place), "parent_id": str(place - 1) if place else None}))
        )
    whole, grown = SessionHistory(numbered), SessionHistory(numbered[:1])
    for one in numbered[1:]:
        grown.add(one)
    assert grown.unpaired_messages == whole.unpaired_messages and grown.messages == whole.messages
    return whole


def words(past: SessionHistory) -> list[str]:
    return [message.content[0].text for message in past.messages]


def test_what_was_left_out_is_not_shown_and_what_came_before_and_after_is():
    assert words(past(user("a"), says("A"), user("b"), Omission(last_kept_entry_id="1"), user("c"))) == [
        "a",
        "A",
        "c",
    ]


def test_nothing_stays_when_nothing_was_good():
    assert words(past(user("a"), user("b"), Omission(), user("c"))) == ["c"]


def test_a_summary_stays_whatever_is_left_out_and_what_it_stands_for_does_not_come_back():
    summed = CompactionRecord(summary="sum", first_kept_entry_id="2")
    turns = (user("a"), says("A"), user("b"), says("B"), summed, user("c"))

    assert words(past(*turns, Omission(), user("d"))) == [SUMMARY + "sum", "d"]
    assert words(past(*turns, Omission(last_kept_entry_id="0"), user("d"))) == [SUMMARY + "sum", "d"]
    assert words(past(*turns, Omission(last_kept_entry_id="2"), user("d"))) == [SUMMARY + "sum", "b", "d"]
    assert words(past(*turns, Omission(last_kept_entry_id="4"), user("d"))) == [
        SUMMARY + "sum",
        "b",
        "B",
        "d",
    ]


def test_a_compaction_after_it_does_not_bring_back_what_was_left_out():
    again = CompactionRecord(summary="sum", first_kept_entry_id="1")
    turns = past(
        user("a"), says("A"), user("b"), Omission(last_kept_entry_id="1"), user("c"), again, user("d")
    )

    assert words(turns) == [SUMMARY + "sum", "A", "c", "d"]
