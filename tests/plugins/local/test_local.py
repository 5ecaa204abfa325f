"""The local provider without its engine: what it sends, how it reads an answer, what it says when nothing is there."""

import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from claw import ProviderError, Request, SystemPrompt, Text, ToolSpec, Usage, User
from claw_local.engine import default_threads, model_file
from claw_local.provider import PROMPT_BYTES, EngineParser, Local, LocalSettings, body_of, usage_of
from claw_provider_sdk import STREAM_DONE
from hypothesis import given, strategies as st


def asked(*words: str, **more: Any) -> Request:
    messages = tuple(User((Text(text),)) for text in words)
    return Request("smollm2", SystemPrompt("A very long system prompt. " * 500), messages, **more)


def test_only_the_last_message_is_sent_with_one_line_of_instructions_and_no_tools() -> None:
    tool = ToolSpec("read", "Read a file.", {"type": "object"})

    body = body_of(asked("first", "second", tools=(tool,)), max_tokens=64)

    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"] == "second"
    assert len(body["messages"][0]["content"]) < 100
    assert "tools" not in body


@given(st.text())
def test_a_long_message_is_clipped_between_characters(text: str) -> None:
    sent = body_of(asked(text), max_tokens=64)["messages"][1]["content"]

    assert len(sent.encode()) <= PROMPT_BYTES
    assert text.endswith(sent)


def test_an_answer_is_never_longer_than_both_limits() -> None:
    assert body_of(asked("hi", max_tokens=10), max_tokens=64)["max_tokens"] == 10
    assert body_of(asked("hi", max_tokens=1000), max_tokens=64)["max_tokens"] == 64


def test_words_are_passed_on_as_they_come_and_figures_after_them_count() -> None:
    folding = EngineParser("local/smollm2")
    chunks = [
        {"choices": [{"delta": {"role": "assistant", "content": None}, "finish_reason": None}]},
        {"choices": [{"delta": {"content": "Hel"}, "finish_reason": None}]},
        {"choices": [{"delta": {"content": "lo"}, "finish_reason": None}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 33, "completion_tokens": 2, "total_tokens": 35,
                                  "prompt_tokens_details": {"cached_tokens": 32}}},
    ]  # fmt: skip
    texts = [event.text for chunk in chunks for event in folding.take("", chunk)]
    assert list(folding.take(STREAM_DONE, None)) == []

    message = folding.finish()
    assert (texts, message.text, message.stop_reason) == (["Hel", "lo"], "Hello", "stop")
    assert message.usage == Usage(input=1, output=2, cache_read=32, total=35)


def test_an_answer_without_its_end_is_an_error_and_not_an_answer() -> None:
    folding = EngineParser("local/smollm2")
    list(folding.take("", {"choices": [{"delta": {"content": "Hel"}}]}))
    with pytest.raises(ProviderError) as error:
        folding.finish()
    assert error.value.reason == "truncated"


def test_figures_that_are_missing_stay_unknown() -> None:
    assert usage_of({}) == Usage(cache_read=0)


def test_a_model_is_a_path_or_a_name_from_the_file(tmp_path: Path) -> None:
    gguf = tmp_path / "tiny.gguf"
    gguf.touch()

    assert model_file(str(gguf), {}) == gguf
    assert model_file("tiny", {"tiny": {"path": str(gguf)}}) == gguf


@pytest.mark.parametrize("name", ["qwen", "/somewhere/model.bin"])
def test_an_unknown_model_says_where_models_are_named(name: str) -> None:
    with pytest.raises(ProviderError) as error:
        model_file(name, {})
    assert name in str(error.value)
    assert "providers.local.models" in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match=r"gone\.gguf"):
        model_file(str(tmp_path / "gone.gguf"), {})


async def test_without_the_engine_the_error_names_the_command_that_provides_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)  # as good as not installed
    gguf = tmp_path / "tiny.gguf"
    gguf.touch()
    request = Request(str(gguf), SystemPrompt(""), (User((Text("hi"),)),))
    with pytest.raises(ProviderError, match="claw local setup"):
        async for _ in Local(LocalSettings(), lambda _: httpx2.AsyncClient()).stream(request):
            pass


def test_it_never_takes_all_cores() -> None:
    assert 1 <= default_threads() <= max(1, (os.cpu_count() or 1) // 2)
