"""The parser of messages: everything is read as it was sent, or refused."""

import json

import pytest
from claw_http.agent_request import RequestRules
from claw_http.failures import BadRequest
from claw_http.messages import CHAT_PARTS, RESPONSE_PARTS, EarlierMessage, parse_messages
from claw_http.openai import read
from hypothesis import example, given, strategies as st

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
ROLES = st.sampled_from(["user", "assistant", "system", "developer"])


def as_parts(types):
    """A text as one part of a message of each role."""
    return lambda role, text: [{"type": types.answer if role == "assistant" else types.text, "text": text}]


def written(messages, form):
    return [{"role": role, "content": form(role, text)} for role, text in messages]


@given(st.lists(st.tuples(ROLES, TEXTS), max_size=6), TEXTS.filter(str.strip), st.booleans())
@pytest.mark.parametrize("types", [CHAT_PARTS, RESPONSE_PARTS])
def test_each_message_is_read_once_and_in_order(types, past, newest, in_parts):
    form = as_parts(types) if in_parts else (lambda role, text: text)
    said = parse_messages(written([*past, ("user", newest)], form), "messages", types, 10_000)

    instructions = [text for role, text in past if role in ("system", "developer") and text.strip()]
    history = [EarlierMessage(*one) for one in past if one[0] in ("user", "assistant") and one[1].strip()]
    assert (said.text, said.pictures) == (newest, ())
    assert said.earlier == tuple(history)
    assert said.instructions == "\n\n".join(instructions)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["role", "content", "type", "text", "image_url", "url", "tool_calls", "refusal"]), inner
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(st.fixed_dictionaries({"role": ROLES | st.just("tool"), "content": ANYTHING}), max_size=4))
def test_any_messages_are_read_or_refused_with_the_place(messages):
    body = json.dumps({"messages": messages}).encode()
    try:
        assert read(body, RequestRules(instructions="allow")).text
    except BadRequest as refused:
        assert refused.status == 400  # noqa: PT017
        assert (refused.param or "").startswith("messages")  # noqa: PT017


@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(1, 60))
@example(["\r"], 1)
def test_no_more_text_is_accepted_than_the_limit(texts, limit):
    messages = [{"role": "user", "content": text} for text in [*texts, "."]]
    chars = sum(map(len, texts)) + 1
    try:
        parse_messages(messages, "messages", CHAT_PARTS, limit)
        assert chars <= limit
    except BadRequest as refused:
        assert refused.status == 413 and chars > limit  # noqa: PT017
