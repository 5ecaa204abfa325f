"""The provider ``offline``: plain requests, by rule, in English and Chinese."""

from typing import Any

import pytest
from claw.contracts.provider import Finished, Request, SystemPrompt, TextDelta, ToolSpec
from claw.contracts.transcript import Assistant, Message, Text, ToolResultMessage, User
from claw_offline.intents import intents_in, to_arguments
from claw_offline.provider import OfflineProvider
from claw_offline.reply import offline_answer
from hypothesis import given, strategies as st


def spec(name: str, *properties: str, required: tuple[str, ...] = ()) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {key: {"type": "string"} for key in properties},
        "required": required,
    }
    return ToolSpec(name, name, schema)


LS = spec("ls", "path")
READ = spec("read", "file_path", "offset", "limit", required=("file_path",))
WRITE = spec("write", "file_path", "content", required=("file_path", "content"))
EXEC = spec("exec", "command", required=("command",))
STATUS = spec("session_status")
TOOLS = (LS, READ, WRITE, EXEC, STATUS, spec("grep", "pattern", "path"), spec("find", "pattern"))


def ask(
    text: str, tools: tuple[ToolSpec, ...] = TOOLS, choice: str = "auto", past: tuple[Message, ...] = ()
) -> Request:
    return Request("rules", SystemPrompt("system"), (*past, User((Text(text),))), tools, choice)


def with_results(request: Request, answer: Assistant, *texts: str, is_error: bool = False) -> Request:
    """The next request of the same turn: every call of ``answer`` with its result."""
    results = tuple(
        ToolResultMessage(call.id, call.name, (Text(text),), is_error=is_error)
        for call, text in zip(answer.tool_calls, texts, strict=True)
    )
    return Request(
        request.model,
        request.system,
        (*request.messages, answer, *results),
        request.tools,
        request.tool_choice,
    )


def named(answer: Assistant) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in answer.tool_calls]


async def test_the_first_question_of_the_manual_lists_and_reads_at_once_and_then_reports_both():
    request = ask("what files are here, and what does README.md say first?")

    calls = offline_answer(request)
    answer = offline_answer(with_results(request, calls, "README.md\nsrc/", "# claw\n\nA plugin host."))

    assert named(calls) == [("ls", {}), ("read", {"file_path": "README.md"})]
    assert calls.stop_reason == "tool_use"
    assert "README.md\nsrc/" in answer.text
    assert "README.md says first: “# claw”" in answer.text
    assert answer.stop_reason == "stop"


def test_a_chinese_question_gets_a_chinese_answer():
    request = ask("这里有哪些文件?README.md 的第一行是什么?")

    calls = offline_answer(request)
    answer = offline_answer(with_results(request, calls, "README.md", "# claw"))

    assert named(calls) == [("ls", {}), ("read", {"file_path": "README.md"})]
    assert "这里的文件" in answer.text and "开头写的是：“# claw”" in answer.text


def test_the_first_answer_says_that_no_model_speaks_and_the_next_ones_do_not():
    first = offline_answer(ask("hello"))
    second = offline_answer(ask("hello again", past=(User((Text("hello"),)), first)))

    assert "no model and no key" in first.text
    assert "no model" not in second.text
    assert "I can list files" in second.text


def test_it_says_what_the_tools_of_the_request_can_do_and_nothing_else():
    past = (User((Text("hello"),)), offline_answer(ask("hello")))
    some, none = (
        offline_answer(ask("hello", (LS, READ), past=past)),
        offline_answer(ask("hello", (), past=past)),
    )
    in_chinese = offline_answer(ask("你好", (LS, READ, EXEC), past=past))

    assert some.text.startswith("I can list files and read a file.")
    assert "I have none of the tools" in none.text
    assert in_chinese.text.startswith("我能做这些：列出文件、读文件、运行命令。")


@pytest.mark.parametrize(
    ("text", "tool", "wanted"),
    [
        ("列出我的文件", "ls", {}),
        ("list the files in src", "ls", {"path": "src"}),
        ("src 目录里有什么", "ls", {"path": "src"}),
        ("summarize docs/guide.md", "read", {"path": "docs/guide.md"}),
        ("读一下 README.md", "read", {"path": "README.md"}),
        ("run `ls -la`", "exec", {"command": "ls -la"}),
        ("run ls -la and tell me what you see", "exec", {"command": "ls -la"}),
        ("运行 python list_files.py", "exec", {"command": "python list_files.py"}),
        ("what time is it?", "session_status", {}),
        ("现在几点了", "session_status", {}),
        ("fetch https://example.org/a.html.", "web_fetch", {"url": "https://example.org/a.html"}),
        ("search the web for claw", "web_search", {"query": "claw"}),
        ("write hello world to file notes.txt", "write", {"path": "notes.txt", "content": "hello world\n"}),
        ("把 你好 写入 hello.txt", "write", {"path": "hello.txt", "content": "你好\n"}),
        ("创建文件 a.md,内容是 你好", "write", {"path": "a.md", "content": "你好\n"}),
        ("find all python files", "find", {"pattern": "*.py"}),
        ("查找 *.py", "find", {"pattern": "*.py"}),
        ("where is main.py?", "find", {"pattern": "main.py"}),
        ("search for TODO in src", "grep", {"pattern": "TODO", "path": "src"}),
        ("哪些文件包含 TODO?", "grep", {"pattern": "TODO"}),
    ],
)
def test_a_plain_request_is_one_call(text: str, tool: str, wanted: dict[str, str]):
    assert [(intent.tool, dict(intent.arguments)) for intent in intents_in(text)] == [(tool, wanted)]


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "你好",
        "delete README.md",
        "please run the tests",
        "write a haiku to x.txt",
        "帮我写一个 Python 脚本",
    ],
)
def test_what_the_rules_cannot_do_is_not_guessed(text: str):
    assert intents_in(text) == ()
    assert offline_answer(ask(text)).tool_calls == ()


def test_what_a_channel_puts_round_the_words_is_not_read_as_words():
    assert [intent.tool for intent in intents_in("[message_id: om_list.files]\n张三: 列出文件")] == ["ls"]


def test_a_call_that_changes_something_goes_alone_and_the_look_comes_after_it():
    request = ask("write 'hi' to x.txt and then read x.txt")

    first = offline_answer(request)
    request = with_results(request, first, "wrote 3 bytes to x.txt")
    second = offline_answer(request)
    answer = offline_answer(with_results(request, second, "hi"))

    assert [call.name for call in first.tool_calls] == ["write"]
    assert [call.name for call in second.tool_calls] == ["read"]
    assert answer.tool_calls == () and "hi" in answer.text


def test_a_tool_that_is_not_offered_is_named_with_the_command_that_explains_why():
    answer = offline_answer(ask("what does README.md say?", tools=(LS,)))

    assert answer.tool_calls == ()
    assert "I may not use `read` here; `claw tools explain read` tells why." in answer.text


def test_a_failed_call_is_reported_and_not_tried_again():
    request = ask("read nothing.txt")

    answer = offline_answer(
        with_results(request, offline_answer(request), "nothing.txt: no such file", is_error=True)
    )

    assert answer.tool_calls == ()
    assert "`read` did not work: nothing.txt: no such file" in answer.text


def test_tool_choice_none_means_no_call_and_says_so():
    answer = offline_answer(ask("list files", choice="none"))

    assert answer.tool_calls == ()
    assert "without tools" in answer.text


def test_tool_choice_required_calls_something_even_for_small_talk():
    assert named(offline_answer(ask("hello", choice="required"))) == [("session_status", {})]


def test_a_named_tool_choice_calls_that_tool_with_what_the_words_give():
    assert named(offline_answer(ask("list files and read a.txt", choice="read"))) == [
        ("read", {"file_path": "a.txt"})
    ]
    assert named(offline_answer(ask("hello", choice="exec"))) == [("exec", {"command": "hello"})]


def test_a_tool_with_other_argument_names_is_called_by_its_own():
    intent = intents_in("read a.txt")[0]

    assert to_arguments(intent, spec("read", "path")) == {"path": "a.txt"}


async def test_the_text_comes_in_pieces_and_ends_with_the_whole_answer():
    events = [event async for event in OfflineProvider().stream(ask("hello"))]

    pieces = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(pieces) > 1
    assert isinstance(events[-1], Finished)
    assert "".join(pieces) == events[-1].message.text
    assert events[-1].message.usage.output == -(-len(events[-1].message.text) // 4)


def test_it_needs_no_key_and_says_so_with_one_empty_credential():
    assert [key.secret for key in OfflineProvider().credentials()] == [""]


def test_calls_of_one_conversation_never_share_an_id():
    request = ask("list files")
    first = offline_answer(request)
    past = with_results(request, first, "a").messages
    second = offline_answer(ask("list files", past=past))

    assert not {call.id for call in first.tool_calls} & {call.id for call in second.tool_calls}


@given(st.text(max_size=200), st.sampled_from(["auto", "none", "required", "read"]))
def test_any_words_get_the_same_answer_twice_and_the_turn_ends(text: str, choice: str):
    request = ask(text, choice=choice)

    for _ in range(12):
        answer = offline_answer(request)
        assert answer == offline_answer(request)
        if not answer.tool_calls:
            break
        request = with_results(request, answer, *("fine" for _ in answer.tool_calls))
    assert answer.text


@given(
    st.lists(
        st.sampled_from(["run", "`", "find", "*.py", "写入", "/", "a.", "search for", "\n", "in", "把"]),
        max_size=60,
    )
)
def test_hostile_words_are_read_quickly(words: list[str]):
    intents_in(" ".join(words))


def test_a_long_message_is_no_plain_request():
    assert intents_in("read a.txt " * 1000) == ()
