"""Calls out of a model's words: whatever the pieces, the same calls, and nothing of a call among the words."""

import json
import re
import time
from typing import Any

import pytest
from claw_prompted_tools.formats import CALL_MARKS, ParsedCall, UnreadableCall
from claw_prompted_tools.parser import _MARKS, Part, ToolCallParser, parse_answer
from claw_provider_sdk.json_repair import parse_lenient_json
from hypothesis import assume, example, given, strategies as st

SCHEMAS: dict[str, dict[str, Any]] = {
    "read": {"properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}},
    "ls": {"properties": {}},
}


def parts_of(text: str, *sizes: int, whole: bool = True) -> list[Part]:
    """Return the parts that the parser makes of a text in pieces of these sizes, repeated."""
    ear, parts, at, turn = ToolCallParser(SCHEMAS), list[Part](), 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        parts += ear.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    joined: list[Part] = []
    for part in [*parts, *ear.end(whole)]:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def calls(text: str, whole: bool = True) -> list[tuple[str, dict[str, Any]]]:
    return [
        (part.name, part.arguments)
        for part in parse_answer(text, SCHEMAS, whole)
        if isinstance(part, ParsedCall)
    ]


def words(text: str, whole: bool = True) -> str:
    return "".join(part for part in parse_answer(text, SCHEMAS, whole) if isinstance(part, str))


READ = ("read", {"path": "a.md"})
WRITTEN = {
    "the form we ask for": '<tool_call>{"name": "read", "arguments": {"path": "a.md"}}</tool_call>',
    "on lines of its own": '<tool_call>\n{"name": "read", "arguments": {"path": "a.md"}}\n</tool_call>',
    "in a code fence": '<tool_call>\n```json\n{"name": "read", "arguments": {"path": "a.md"}}\n```\n</tool_call>',
    "arguments as a text": '<tool_call>{"name": "read", "arguments": "{\\"path\\": \\"a.md\\"}"}</tool_call>',
    "called parameters": '<tool_call>{"name": "read", "parameters": {"path": "a.md"}}</tool_call>',
    "as on OpenAI's wire": '<tool_call>{"type": "function", "function": {"name": "read", "arguments": '
    '"{\\"path\\":\\"a.md\\"}"}}</tool_call>',
    "no closing tag": '<tool_call>{"name": "read", "arguments": {"path": "a.md"}}',
    "a bracket is missing": '<tool_call>{"name": "read", "arguments": {"path": "a.md"}</tool_call>',
    "a comma too many": '<tool_call>{"name": "read", "arguments": {"path": "a.md",},}</tool_call>',
    "in Python": "<tool_call>{'name': 'read', 'arguments': {'path': 'a.md'}}</tool_call>",
    "Mistral, a list": '[TOOL_CALLS] [{"name": "read", "arguments": {"path": "a.md"}}]',
    "Mistral, the name before": '[TOOL_CALLS]read[ARGS]{"path": "a.md"}',
    "Llama": '<|python_tag|>{"name": "read", "parameters": {"path": "a.md"}}',
    "Llama, the name in the tag": '<function=read>{"path": "a.md"}</function>',
    "Llama, nothing around it": '{"name": "read", "parameters": {"path": "a.md"}}',
    "nothing but a fence around it": '```json\n{"name": "read", "arguments": {"path": "a.md"}}\n```',
    "Qwen-Coder": "<tool_call>\n<function=read>\n<parameter=path>\na.md\n</parameter>\n</function>\n</tool_call>",
    "GLM": "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.md</arg_value>\n</tool_call>",
    "Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
    '{"path": "a.md"}<|tool_call_end|><|tool_calls_section_end|>',
    "DeepSeek": "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function"
    '<\uff5ctool\u2581sep\uff5c>read\n```json\n{"path": "a.md"}\n```<\uff5ctool\u2581call\u2581end\uff5c>'
    "<\uff5ctool\u2581calls\u2581end\uff5c>",
    "invoke": '<function_calls>\n<invoke name="read">\n<parameter name="path">a.md</parameter>\n</invoke>\n'
    "</function_calls>",
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_a_call_is_parsed_however_a_model_writes_it(text: str, size: int) -> None:
    parts = parts_of(text, size)

    assert [(one.name, one.arguments) for one in parts if isinstance(one, ParsedCall)] == [READ]
    assert [one for one in parts if not isinstance(one, ParsedCall)] == []


@pytest.mark.parametrize("form", [text for name, text in WRITTEN.items() if "nothing" not in name])
def test_words_before_and_behind_a_call_stay_words(form: str) -> None:
    assume_open = form == WRITTEN["no closing tag"]
    text = f"I look.\n\n{form}" + ("" if assume_open else "\n\nThat was it.")

    assert calls(text) == [READ]
    assert words(text) == "I look." + ("" if assume_open else "\n\nThat was it.")


def test_several_calls_come_in_their_order() -> None:
    one, two = WRITTEN["the form we ask for"], '<tool_call>{"name": "ls", "arguments": {}}</tool_call>'

    assert calls(f"{one}\n{two}{one}") == [READ, ("ls", {}), READ]


def test_a_closing_tag_within_a_string_closes_nothing() -> None:
    text = '<tool_call>{"name": "read", "arguments": {"path": "a</tool_call>{\\"b"}}</tool_call>!'

    assert calls(text) == [("read", {"path": 'a</tool_call>{"b'})]
    assert words(text) == "!"


def test_what_is_in_tags_is_read_as_the_tool_wants_it() -> None:
    pairs = "<parameter=path>12</parameter><parameter=lines>12</parameter>"
    text = f"<tool_call><function=read>{pairs}</function></tool_call>"

    assert calls(text) == [("read", {"path": "12", "lines": 12})]


def test_a_result_that_the_model_makes_up_is_ignored_with_all_that_follows_it() -> None:
    text = WRITTEN["the form we ask for"] + '\n<tool_result name="read">42</tool_result>\nIt says 42.'

    assert calls(text) == [READ]
    assert words(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "2 < 3, <b>bold</b> and [a link](x)",
        '{"answer": 3}',
        '{"name": "Anna", "age": 3}',
        '[{"id": 1}, {"id": 2}]',
        "```python\nprint({})\n```",
        "The mark <tool_call> begins a call, </tool_call> ends it.",
        "`<tool_call>` and `<tool_result>` are marks",
        "ends in a beginning: <tool_ca",
        "  leading and trailing blanks \n",
        "[TOOL_CALLS] is Mistral's",
        "{",
    ],
)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_words_that_are_no_call_are_said_unchanged(text: str, size: int) -> None:
    assert parts_of(text, size) == [text]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('<tool_call>read(path="a.md")</tool_call>', "not a JSON object"),
        ('<tool_call>{"name": "read", "arguments": [1]}</tool_call>', "arguments are not an object"),
        ('<tool_call>{"arguments": {}}</tool_call>', "names no tool"),
        ('<tool_call>{"name": "read", "arguments": {"path": "a', "breaks off"),
        ('<tool_call>{"name": "read" "arguments": {}}</tool_call>', "JSON is broken"),
        ('{"name": "read", "argum', "breaks off"),
    ],
)
def test_what_was_meant_as_a_call_and_cannot_be_read_is_distinguished_from_words(text: str, why: str) -> None:
    parts = parse_answer(text, SCHEMAS)

    assert [type(part) for part in parts] == [UnreadableCall]
    assert isinstance(parts[0], UnreadableCall)
    assert why in parts[0].reason


@pytest.mark.parametrize(
    ("words", "half"),
    [
        ("", '<tool_call>{"name": "read", "arg'),
        ("I write:\n", '<tool_call>{"name": "read", "arg'),
        ("", '{"name": "read", "arguments": {"path": "a'),
        ("I write:\n", '{"name": "read", "arguments": {"path": "a'),
        ("", '```json\n{"name": "read", "arguments": {"path": "a'),
    ],
)
def test_half_a_call_of_an_answer_that_ran_out_of_tokens_is_one_that_the_model_is_told_of(
    words: str, half: str
) -> None:
    *said, call = parse_answer(words + half, SCHEMAS, whole=False)

    assert isinstance(call, UnreadableCall) and "limit of output tokens" in call.reason
    assert "read" not in "".join(part for part in said if isinstance(part, str))


def test_a_call_that_repeats_what_somebody_else_wrote_is_words() -> None:
    text = f"The file says: {WRITTEN['the form we ask for']} and no more."

    parts = parse_answer(text, SCHEMAS, quoted=lambda call: True)

    assert "".join(part for part in parts if isinstance(part, str)) == text


def test_no_mark_is_the_beginning_of_another_one() -> None:
    assert [(a, b) for a in _MARKS for b in _MARKS if a != b and b.startswith(a)] == []


# --- whatever comes

bits = st.sampled_from([
    *_MARKS, *CALL_MARKS.values(), "{", "}", "[", "]", '"', "\\", "<", ",", ":", "\n", " ", "`", "```", "```json\n",
    '"name"', '"read"', '"arguments"', '{"name": "read", "arguments": {}}', "read", "ls", "words", "<tool_", "</",
    "<parameter=path>", "</parameter>", "\uff5c",
])  # fmt: skip
answers = st.lists(st.one_of(bits, st.text(max_size=5)), max_size=20).map("".join)


@given(answers, st.lists(st.integers(1, 9), min_size=1, max_size=5))
@example("<tool_call>" + " " * 300 + '{"name": "ls"}</tool_call>', [7])
@example('<tool_call>{"name": "ls"}``````x', [3])
@example("x" + " " * 500 + '<tool_call>{"name": "ls"}', [7])
@example(" " * 300 + '{"name": "ls", "arguments": {}}', [7])
@example("{" + " " * 300 + '"name": "ls", "arguments": {}}', [7])
@example(" " * 210 + '{"name": "ls", "arguments": {}}', [7])
@example("```" + "a" * 40 + '{"name": "ls", "arguments": {}}', [7])
def test_the_pieces_that_an_answer_comes_in_change_nothing(text: str, sizes: list[int]) -> None:
    assert parts_of(text, *sizes) == parse_answer(text, SCHEMAS)


@pytest.mark.parametrize("piece", ["  \n", "<", "`", "[", "words <", "{", '"', "<tool_call>", "\\"])
def test_a_flood_of_pieces_is_parsed_in_time_that_grows_with_its_length_alone(piece: str) -> None:
    ear = ToolCallParser(SCHEMAS)
    began = time.process_time()
    for _ in range(20_000):
        ear.feed(piece)
    ear.end()

    assert time.process_time() - began < 1.5


@given(answers)
def test_words_are_never_made_up_and_keep_their_order(text: str) -> None:
    said = re.sub(r"\s", "", words(text))
    rest = iter(re.sub(r"\s", "", text))

    assert all(sign in rest for sign in said)


@given(st.text(max_size=200))
def test_a_text_without_marks_is_said_as_it_is(text: str) -> None:
    assume(not any(sign in text for sign in "<[{`"))

    assert "".join(part for part in parts_of(text, 3) if isinstance(part, str)) == text


arguments = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.recursive(
        st.one_of(st.text(max_size=20), st.integers(), st.booleans(), st.none()), st.lists, max_leaves=4
    ),
    max_size=4,
)


@given(arguments, st.text(alphabet="ab .\n", max_size=20), st.integers(1, 11))
def test_any_sound_call_is_received_whole_and_never_shown(
    given_: dict[str, Any], before: str, size: int
) -> None:
    written = json.dumps({"name": "read", "arguments": given_}, ensure_ascii=False)
    parts = parts_of(f"{before}<tool_call>{written}</tool_call>", size)

    assert [(one.name, one.arguments) for one in parts if isinstance(one, ParsedCall)] == [("read", given_)]
    assert "".join(one for one in parts if isinstance(one, str)).strip() == before.strip()


@given(arguments)
def test_sound_json_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert parse_lenient_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2', {"a": [1, 2]}),
        ('{"a": True, "b": None}', {"a": True, "b": None}),
        ("{'a': 'it''s'}", {"a": "its"}),
        ('{"a": "line\nend"}', {"a": "line\nend"}),
        ('{"a": ",}"}', {"a": ",}"}),
    ],
)
def test_json_is_repaired_where_there_is_no_doubt(text: str, value: object) -> None:
    assert parse_lenient_json(text) == value


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": "half', "[" * 100_000, '{"a": NaN}', "{1: object()}", "{" * 3000]
)
def test_json_that_leaves_a_doubt_is_refused(text: str) -> None:
    if text == "{":
        assert parse_lenient_json(text) == {}  # an object that says nothing
        return
    with pytest.raises(ValueError):
        parse_lenient_json(text)


# --- an object behind the words, with nothing around it

STRICT: dict[str, dict[str, Any]] = {
    "read": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "ls": {"type": "object", "properties": {}},
}
CALL = '{"name": "read", "arguments": {"path": "a.md"}}'


def behind(text: str, *sizes: int, alone: bool = True, whole: bool = True) -> list[Part]:
    """Return the parts that are parsed with these tools, in pieces of these sizes, repeated."""
    ear, parts, at, turn = ToolCallParser(STRICT), list[Part](), 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        parts += ear.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    parts += ear.end(whole, alone)
    shown = "".join(part for part in parts if isinstance(part, str))
    return [*([shown] if shown else []), *(part for part in parts if not isinstance(part, str))]


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize(
    "text",
    [
        f"I will read it. {CALL}",
        f"I will read it.\n\n{CALL}\n",
        f"I will read it.{CALL}",
        "I will read it.\n" + '{"arguments": {"path": "a.md"}, "name": "read"}',
        "I will read it.\n"
        + '{"type": "function", "function": {"name": "read", "arguments": {"path": "a.md"}}}',
        "I will read it.\n" + json.dumps(json.loads(CALL), indent=4),
        "I will read it.\n" + CALL[:-1],  # a bracket is missing at the very end
    ],
)
def test_a_bare_call_at_the_end_of_the_words_is_a_call_and_is_not_shown(text: str, size: int) -> None:
    said, call = behind(text, size)

    assert said == "I will read it."
    assert isinstance(call, ParsedCall)
    assert (call.name, call.arguments) == READ


def test_several_bare_calls_at_the_end_come_in_their_order() -> None:
    said, *spoken = behind(f'Both.\n{CALL}\n{{"name": "ls", "arguments": {{}}}}', 5)

    assert said == "Both."
    assert [call.name for call in spoken if isinstance(call, ParsedCall)] == ["read", "ls"]


def test_behind_a_code_block_that_has_ended_a_bare_call_is_one() -> None:
    said, *spoken = behind(f"```sh\nls {{}}\n```\nNow I read it.\n{CALL}", 3)

    assert said == "```sh\nls {}\n```\nNow I read it."
    assert len(spoken) == 1


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize(
    "text",
    [
        f"You call it so: {CALL} and then you wait.",  # words follow
        f"For example:\n```json\n{CALL}\n```",  # in a fence
        f"For example:\n```json\n{CALL}",  # in a fence that never ends
        f"~~~\nx\n~~~\n~~~\n{CALL}\n~~~",
        f"It said: `{CALL}`",
        f'It said: "{CALL}"',
        f"> {CALL}",  # a quotation
        f"I said:\n> Look:\n> {CALL}",
        'Anna: {"name": "Anna", "arguments": {"path": "a.md"}}',  # no tool is called so
        'Look: {"name": "read", "arguments": {"file": "a.md"}}',  # the tool would not take it
        'Look: {"name": "read", "arguments": ["a.md"]}',
        'Look: {"name": "read"}',
        'Look: {"name": "read", "argum',  # who can tell what it would have been
        f"Look: [{CALL}]",
        'The settings: {"type": "read", "id": 3}',
        'A set {"name": "reading", "age": {"name": "x"}} of things',
        "{{{ and }}} are brackets, {\n\n and { too",
        f"{CALL[:-1]} is never closed, and words go on",
    ],
)
def test_what_only_looks_like_a_bare_call_stays_words_to_the_byte(text: str, size: int) -> None:
    if text.startswith(CALL[:-1]):
        text = f"Well: {text}"
    assert behind(text, size) == [text]


def test_beside_calls_in_the_models_own_way_an_object_is_words() -> None:
    text = f"I will read it. {CALL}"

    assert behind(text, 4, alone=False) == [text]


def test_an_answer_that_ran_out_of_tokens_calls_nothing_at_its_end() -> None:
    text = f"I will read it. {CALL}"

    assert behind(text, 4, whole=False) == [text]


def test_an_object_is_held_back_only_while_it_can_become_a_call() -> None:
    ear = ToolCallParser(STRICT)

    assert "".join(map(str, ear.feed('So: {"name": "re'))) == "So:"
    assert "".join(map(str, ear.feed("ader"))) == ' {"name": "reader'  # no tool begins so
    assert "".join(map(str, ear.feed('. And {"a'))) == ". And"
    assert "".join(map(str, ear.feed('ge": 3}.'))) == ' {"age": 3}.'


def test_an_object_that_never_ends_is_not_held_for_ever() -> None:
    ear, shown = ToolCallParser(STRICT), 0
    ear.feed("Well: ")
    for _ in range(60_000):
        shown += sum(len(part) for part in ear.feed('{"name": "read", ') if isinstance(part, str))

    assert shown > 60_000 * 17 - 200


json_bits = st.sampled_from([
    CALL, '{"name": "ls", "arguments": {}}', '{"name": "read", ', '"arguments": {"path": "x"}}', "{", "}", "\n", " ",
    "```", "```json\n", "`", ">", '"', "words", '{"type": "function", "function": ', '{"na', 'me": "ls"', "<tool_call>",
    "</tool_call>", ":", "\\", " " * 21, "\n" * 201,
])  # fmt: skip
json_answers = st.lists(json_bits, max_size=12).map("".join)


@example(f"Well {CALL}<tool_call>", [1], False)
@given(json_answers, st.lists(st.integers(1, 9), min_size=1, max_size=4), st.booleans())
def test_the_pieces_change_nothing_for_objects_behind_words_either(
    text: str, sizes: list[int], alone: bool
) -> None:
    assert behind(text, *sizes, alone=alone) == behind(text, 10_000, alone=alone)


@given(st.text(max_size=20), arguments, st.text(max_size=10), st.integers(1, 11))
def test_text_that_names_no_tool_is_said_as_it_is_whatever_brackets_it_holds(
    before: str, given_: dict[str, Any], after: str, size: int
) -> None:
    text = f"x{before}{json.dumps({'name': 'Anna', **given_})}{after}"
    assume(not any(mark in text for mark in _MARKS))

    assert behind(text, size) == [text]


@pytest.mark.parametrize(
    "piece", ['{"name": "ls", ', '{"name": "ls", "arguments": {}} ', "{ ", 'x {"type": {}} ']
)
def test_a_flood_of_objects_is_parsed_in_time_that_grows_with_its_length_alone(piece: str) -> None:
    ear = ToolCallParser(STRICT)
    began = time.process_time()
    for _ in range(10_000):
        ear.feed(piece)
    ear.end()
    parse_answer(piece * 10_000, STRICT)

    assert time.process_time() - began < 4


@pytest.mark.parametrize(
    ("text", "is_call"),
    [
        (f"> <tool_call>{CALL}</tool_call>", True),
        (f"So: `<tool_call>{CALL}</tool_call>`", True),
        (f"So:\n```\n<tool_call>{CALL}</tool_call>\n```", True),
        (f"```json\n{CALL}\n```\nThat reads it.", True),
        (f"{CALL}\nThat reads it.", True),
        (f"`{CALL}`", False),
        (f"> {CALL}", False),
        (f"So:\n```json\n{CALL}\n```", False),
        (f"So:\n{CALL}", True),
    ],
)
def test_what_the_manual_says_of_where_a_call_is_placed_is_so(text: str, is_call: bool) -> None:
    assert bool(calls(text)) is is_call
