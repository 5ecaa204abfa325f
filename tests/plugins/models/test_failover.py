"""fallback: which model and key to try next, and a stream that does."""

import asyncio

import pytest
from claw.agent.models import candidates
from claw.agent.providers import GuardedProvider
from claw.config.models import ModelsSettings
from claw.contracts.errors import ProviderError
from claw.contracts.events import Retrying
from claw.contracts.extensions import ModelOptions
from claw.contracts.provider import Credential, Finished, ModelRef, Request, SystemPrompt, TextDelta
from claw.security.redaction import Redactor
from claw.storage.clock import Clock
from claw.testing import FakeProvider, says
from claw_models.credentials import ordered_keys
from claw_models.failover import KeySelection, with_fallback
from claw_models.key_pool import KeyPool

BASE = Request("", SystemPrompt("be good"), ())
BUSY = ProviderError("too many requests", reason="rate_limit", retryable=True, status=429)


async def answer(models, providers, notices=None, selection=None, emit=None, session="", variables=None):
    async def note(text):
        (notices if notices is not None else []).append(text)

    options = ModelOptions(session_key=session, notice=note, emit=emit, key_variables=variables or {})
    isolated = {p.name: GuardedProvider(p, ModelsSettings(), Redactor([]), print) for p in providers}
    ask = with_fallback(models, isolated, BASE, selection, options)
    return [event async for event in ask((), "auto")]


def refs(*names):
    return [ModelRef(*name.split("/")) for name in names]


def test_candidates_are_the_primary_and_its_fallbacks_each_once():
    assert candidates("", "a/m", ["b/n", " ", "a/m", "k"]) == tuple(refs("a/m", "b/n", "a/k"))


def test_a_requested_model_comes_first_and_the_primary_last():
    assert candidates("fast", "a/m", ["b/n"], {"fast": "c/quick"}) == tuple(refs("c/quick", "b/n", "a/m"))


def test_an_override_list_replaces_fallbacks_and_primary_and_an_empty_one_leaves_none():
    assert candidates("c/q", "a/m", ["b/n"], {}, ["d/o"]) == tuple(refs("c/q", "d/o"))
    assert candidates("c/q", "a/m", ["b/n"], {}, []) == tuple(refs("c/q"))


def test_a_list_of_keys_is_taken_as_it_is_and_no_key_is_shown():
    keys = [Credential("main", "1"), Credential("spare", "2"), Credential("old", "3")]

    assert [key.name for key in ordered_keys(keys, ["spare", "nobody", "spare"])] == ["spare"]
    assert [key.name for key in ordered_keys(keys, ["nobody"])] == ["main", "spare", "old"]
    assert "2" not in repr(ordered_keys(keys))


async def test_the_first_model_that_answers_answers_and_signs_with_its_full_name():
    events = await answer(refs("a/m"), [FakeProvider(says("hi"), name="a")])

    assert isinstance(events[-1], Finished)
    assert events[-1].message.model == "a/m"


async def test_the_next_model_takes_over_with_one_notice():
    first, second = FakeProvider(BUSY, name="a"), FakeProvider(says("hi"), name="b")
    notices: list[str] = []

    events = await answer(refs("a/m", "b/n"), [first, second], notices)

    assert events[-1].message.text == "hi"
    assert notices == ["a/m failed: too many requests. Switched to b/n."]


async def test_the_next_key_of_the_same_model_is_tried_first():
    keys = [Credential("one", "1"), Credential("two", "2")]
    model = FakeProvider(BUSY, says("hi"), name="a", keys=keys)

    await answer(refs("a/m"), [model])

    assert [recorded.request.credential.name for recorded in model.requests] == ["one", "two"]


async def test_an_overflow_is_not_another_model_s_affair():
    overflow = ProviderError("too long", reason="context_overflow")
    second = FakeProvider(says("hi"), name="b")

    with pytest.raises(ProviderError, match="too long"):
        await answer(refs("a/m", "b/n"), [FakeProvider(overflow, name="a"), second])
    assert second.requests == []


class Breaking(FakeProvider):
    """Breaks off after half an answer."""

    reason = "network"

    async def stream(self, request):
        self.requests.append(request)
        yield TextDelta("It is ")
        raise ProviderError("cut", reason=self.reason)


async def test_an_answer_that_broke_off_is_followed_by_another_one_which_says_so():
    events = await answer(refs("a/m", "b/n"), [Breaking(name="a"), FakeProvider(says("Fine!"), name="b")])

    shown = [getattr(event, "text", type(event).__name__) for event in events[:-1]]
    assert shown == ["It is ", "AnswerBroken", "Fi", "ne!"]
    assert events[-1].message.text == "Fine!"


async def test_an_answer_that_begins_with_the_same_words_is_simply_gone_on_with():
    events = await answer(refs("a/m", "b/n"), [Breaking(name="a"), FakeProvider(says("It is so."), name="b")])

    assert "".join(event.text for event in events[:-1]) == "It is so."
    assert events[-1].message.text == "It is so."


async def test_half_an_answer_is_never_asked_for_again_of_the_same_model():
    alone = Breaking(name="a")
    with pytest.raises(ProviderError, match="cut"):
        await answer(refs("a/m"), [alone], selection=KeySelection(wait_seconds=60))
    assert len(alone.requests) == 1


async def test_of_a_model_that_breaks_off_in_every_turn_one_notice_is_shown_until_it_gave_a_whole_answer():
    fallback = FakeProvider(*(says("Fine!") for _ in range(3)), name="b")
    selection, notices = KeySelection(KeyPool()), []

    for _ in range(2):
        await answer(refs("a/m", "b/n"), [Breaking(name="a"), fallback], notices, selection, session="s")
    assert len(notices) == 1

    await answer(
        refs("a/m", "b/n"),
        [FakeProvider(says("I am back."), name="a"), fallback],
        notices,
        selection,
        session="s",
    )
    await answer(refs("a/m", "b/n"), [Breaking(name="a"), fallback], notices, selection, session="s")
    assert len(notices) == 2


async def test_first_words_do_not_make_a_key_well_and_a_whole_answer_does():
    now = [1000.0]
    keys, key = KeyPool(None, Clock(lambda: now[0], lambda: now[0])), Credential("fake", "")
    broken = Breaking(name="a")
    broken.reason = "server"

    for _ in range(3):
        with pytest.raises(ProviderError, match="cut"):
            await answer(refs("a/m"), [broken], selection=KeySelection(keys))
        now[0] += 3601
    assert keys.state_of("a", key)["m"].failures == 3

    await answer(refs("a/m"), [FakeProvider(says("yes"), name="a")], selection=KeySelection(keys))
    assert keys.is_healthy("a", key, "m")


async def test_what_is_asked_again_is_asked_after_a_pause_that_differs_each_time():
    pauses: list[float] = []

    async def note(event):
        if isinstance(event, Retrying):
            pauses.append(event.seconds)

    broken = ProviderError("internal error", reason="server")
    turns = [
        asyncio.ensure_future(
            answer(
                refs("a/m"),
                [FakeProvider(broken, name="a")],
                selection=KeySelection(wait_seconds=60),
                emit=note,
            )
        )
        for _ in range(20)
    ]
    while len(pauses) < 20:
        await asyncio.sleep(0)
    for turn in turns:
        turn.cancel()
    await asyncio.gather(*turns, return_exceptions=True)

    assert all(0.5 <= pause <= 1.5 for pause in pauses)
    assert len(set(pauses)) > 1, "turns that failed together would fail together again"


async def test_when_all_fail_one_error_lists_every_attempt():
    with pytest.raises(ProviderError) as failed:
        await answer(refs("a/m", "b/n"), [FakeProvider(BUSY, name="a"), FakeProvider(BUSY, name="b")])

    assert "a/m" in str(failed.value)
    assert "b/n" in str(failed.value)
    assert failed.value.retryable


async def test_a_model_of_nobody_and_a_provider_without_key_say_what_to_do():
    with pytest.raises(ProviderError, match="there is no provider nobody"):
        await answer(refs("nobody/m"), [])
    with pytest.raises(
        ProviderError, match=r"a has no API key\. add one with claw auth add a, or set providers\.a\.apiKey"
    ):
        await answer(refs("a/m"), [FakeProvider(name="a", keys=[])])
    named = {"a": ("A_KEY", "A_API_KEY")}
    with pytest.raises(ProviderError, match="add one with claw auth add a, or set A_KEY / A_API_KEY, or set"):
        await answer(refs("a/m"), [FakeProvider(name="a", keys=[])], variables=named)


async def test_a_provider_that_raises_something_of_its_own_is_named_and_the_next_one_is_asked():
    first = FakeProvider(KeyError("choices"), name="a")

    events = await answer(refs("a/m", "b/n"), [first, FakeProvider(says("hi"), name="b")], notices := [])

    assert events[-1].message.text == "hi"
    assert "provider a failed" in notices[0]
    assert "choices" in notices[0]
