"""The messages for a model: each call with its result, no empty parts; their size and cost."""

from collections import Counter

import msgspec
import pytest
from claw.contracts.transcript import (
    Assistant,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    User,
    estimate_tokens,
    limit_turns,
    pair,
    sendable,
)
from claw.storage.records import (
    CompactionRecord,
    MessageRecord,
    encode_record,
)
from claw_provider_sdk import usage_of
from claw_sessions.records import CustomMessage, build_context
from claw_sessions.session_file import parse_session
from claw_sessions.usage import SessionUsage
from hypothesis import given, strategies as st


def asks(*ids: str, text: str = "", stop: str = "tool_use", name: str = "read") -> Assistant:
    words = (Text(text),) if text else ()
    return Assistant((*words, *(ToolCall(call, name, {}) for call in ids)), stop_reason=stop)


def answers(call: str, text: str = "done", name: str = "read") -> ToolResultMessage:
    return ToolResultMessage(call, name, (Text(text),))


def says(text: str) -> User:
    return User((Text(text),))


# Few ids and short lists, so that doubled calls, orphans and late results are common.
_ids = st.sampled_from(["", "a", "b", "c"])
_names = st.sampled_from(["read", "exec", "not a name", ""])
_calls = st.builds(ToolCall, _ids, _names, st.sampled_from([{}, {"path": "x"}]))
_texts = st.builds(Text, st.sampled_from(["", "  ", "hello"]))
_messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(User, st.tuples(_texts)),
    st.builds(
        Assistant,
        st.lists(st.one_of(_calls, _texts, st.just(Thinking("hm"))), max_size=4).map(tuple),
        stop_reason=st.sampled_from(["stop", "tool_use", "error", "aborted"]),
    ),
    st.builds(ToolResultMessage, _ids, st.sampled_from(["read", ""]), st.tuples(_texts)),
)
_histories = st.lists(_messages, max_size=12)


def assert_every_call_is_answered_right_behind_it(messages: tuple[Message, ...]) -> None:
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert waiting, "a result that nobody asked for"
            assert message.call_id == waiting.pop(0)
        else:
            assert not waiting, "a call without a result"
            waiting = [call.id for call in message.tool_calls] if isinstance(message, Assistant) else []
    assert not waiting


@given(_histories)
def test_whatever_the_history_every_call_has_its_result_and_every_result_its_call(history):
    assert_every_call_is_answered_right_behind_it(pair(history).messages)
    assert_every_call_is_answered_right_behind_it(sendable(history))


@given(_histories)
def test_pairing_twice_changes_nothing_more(history):
    once = pair(history).messages

    assert pair(once).messages == once
    assert pair(once).synthetic_added == 0
    assert sendable(sendable(history)) == sendable(history)


@given(_histories)
def test_pairing_loses_no_word_of_a_person_and_keeps_their_order(history):
    spoken = [message for message in history if isinstance(message, User)]

    assert [message for message in pair(history).messages if isinstance(message, User)] == spoken


@given(_histories)
def test_pairing_invents_only_what_it_counts(history):
    paired = pair(history)
    given_results = Counter((m.call_id, m.content) for m in history if isinstance(m, ToolResultMessage))
    found = Counter((m.call_id, m.content) for m in paired.messages if isinstance(m, ToolResultMessage))

    assert (found - given_results).total() <= paired.synthetic_added


def test_a_well_formed_history_is_sent_as_it_is():
    history = (says("hi"), asks("a", "b"), answers("a"), answers("b"), Assistant((Text("ok"),)))

    assert sendable(history) == history


def test_a_lost_result_says_that_nothing_is_known_of_the_effect():
    [_, _, lost] = pair([says("hi"), asks("a", name="exec")]).messages

    assert isinstance(lost, ToolResultMessage)
    assert (lost.call_id, lost.tool_name, lost.is_error) == ("a", "exec", True)
    assert "unknown" in lost.text


def test_one_id_called_twice_gets_each_result_at_its_nearest_earlier_call():
    history = [asks("a"), answers("a", "first"), asks("a"), answers("a", "second"), answers("a", "third")]

    assert [m.text for m in pair(history).messages if isinstance(m, ToolResultMessage)] == ["first", "second"]


def test_an_aborted_answer_keeps_its_words_and_its_answered_calls_and_loses_the_others():
    aborted = asks("a", "b", text="let me look", stop="aborted")

    assert sendable([says("hi"), aborted, answers("b")]) == (
        says("hi"),
        asks("b", text="let me look", stop="aborted"),
        answers("b"),
    )


def test_an_aborted_answer_that_said_nothing_is_not_sent():
    thought = Assistant((Thinking("hm"), ToolCall("a", "read", {})), stop_reason="aborted")

    assert sendable([says("hi"), thought, says("again")]) == (says("hi"), says("again"))


def test_blank_text_is_not_sent_and_a_result_without_text_still_is():
    blank = ToolResultMessage("a", "read", (Text(""),))

    assert sendable([says("  "), asks("a", text=" "), blank]) == (
        asks("a"),
        ToolResultMessage("a", "read", ()),
    )


def test_a_picture_alone_is_something_said():
    picture = User((Text(""), Image("AAAA")))

    assert sendable([picture]) == (User((Image("AAAA"),)),)


def test_details_of_a_result_weigh_nothing():
    assert estimate_tokens(ToolResultMessage("a", "read", (Text("abcd"),), details={"long": "x" * 9999})) == 1


def test_what_no_person_said_is_no_turn_of_its_own():
    notice = User((Text("the heartbeat"),), kind="heartbeat")
    history = (says("one"), notice, says("two"), notice)

    assert limit_turns(history, 1) == (says("two"), notice)
    assert limit_turns(history, 2) == history
    assert limit_turns(history, None) == history


@pytest.mark.parametrize("limit", [1, 2, 3])
@given(history=_histories)
def test_limiting_turns_keeps_an_end_of_the_history(limit, history):
    kept = limit_turns(history, limit)

    assert kept == tuple(history[len(history) - len(kept) :])
    assert sum(isinstance(message, User) for message in kept) <= limit or len(kept) == len(history)


def test_the_same_figures_under_any_spelling():
    assert usage_of({"input_tokens": 3, "cache_read_input_tokens": 9}) == Usage(input=3, cache_read=9)
    assert usage_of({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 9}}) == Usage(
        input=3, cache_read=9
    )


@pytest.mark.parametrize("nonsense", ["12", None, True, float("nan"), float("inf"), [], {}])
def test_what_is_no_number_is_no_figure(nonsense):
    assert usage_of({"input_tokens": nonsense}) is None
    assert usage_of({"input_tokens": nonsense, "promptTokens": 5}) == Usage(input=5)


def test_how_full_the_context_is_comes_from_the_newest_call_and_not_from_the_sums():
    ledger = (
        SessionUsage()
        .plus(Usage(input=10, output=5, cache_read=40_000))
        .plus(Usage(input=12, output=50, cache_read=40_500))
    )

    assert (ledger.cache_read, ledger.context_tokens) == (80_500, 40_512)


@given(_histories)
def test_what_is_written_is_read_again(history):
    records = [MessageRecord(id=f"{n:08x}", parent_id=f"{n - 1:08x}" if n else None, message=message)
               for n, message in enumerate(history)]  # fmt: skip
    lines = [b'{"type":"session","id":"s"}\n', *(encode_record(record)[1] for record in records)]

    assert list(parse_session(b"".join(lines)).entries) == records


def test_text_that_is_not_unicode_is_written_as_what_can_be_read_again():
    kept, line = encode_record(
        MessageRecord(id="1", message=says("half \ud83d a pair, \ud83d\ude00 a whole one"))
    )

    assert isinstance(kept.message, User)
    assert kept.message.content == (Text("half \ufffd a pair, 😀 a whole one"),)
    assert msgspec.json.decode(line)["message"]["content"][0]["text"] == "half \ufffd a pair, 😀 a whole one"


def test_details_may_hold_any_object():
    class Strange:
        def __repr__(self) -> str:
            return "<strange>"

    _, line = encode_record(
        MessageRecord(
            id="1", message=ToolResultMessage("a", "read", (), details={"it": Strange(), "n": 2**70})
        )
    )

    [entry] = parse_session(b'{"type":"session","id":"s"}\n' + line).entries
    assert isinstance(entry, MessageRecord)
    assert isinstance(entry.message, ToolResultMessage)
    assert entry.message.details == {"it": "<strange>", "n": 2**70}


def test_a_record_whose_parent_is_gone_hangs_on_the_one_before_it():
    lines = [
        MessageRecord(id=f"{n}", parent_id=f"{n - 1}" if n else None, message=says(str(n))) for n in range(4)
    ]
    data = b'{"type":"session","id":"s"}\n' + b"".join(
        encode_record(line)[1] for line in lines if line.id != "2"
    )

    shown = build_context(parse_session(data).entries).messages

    assert shown == (says("0"), says("1"), says("3"))


def test_a_record_that_names_itself_or_a_later_one_as_parent_makes_no_circle():
    circle = [
        MessageRecord(id=a, parent_id=b, message=says(a)) for a, b in [("1", "1"), ("2", "3"), ("3", "2")]
    ]

    assert list(build_context(circle).messages) == [says("2"), says("3")]


def test_a_second_compaction_takes_the_place_of_the_first():
    entries = [
        MessageRecord(id="1", parent_id=None, message=says("1")),
        CompactionRecord(id="2", parent_id="1", summary="first", first_kept_entry_id="1"),
        CustomMessage(id="3", parent_id="2", content=(Text("noted"),), custom_type="note"),
        CompactionRecord(id="4", parent_id="3", summary="second", first_kept_entry_id="1"),
    ]

    assert build_context(entries).messages == (
        Assistant((Text("Summary:\nsecond"),)),
        says("1"),
        User((Text("noted"),), kind="note"),
    )
