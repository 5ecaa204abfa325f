"""The agent loop, written out: ask, run the requested tools, return their results, until the model answers in
words.

    python loop.py openai "What is the weather in Beijing?"
    python loop.py anthropic "What is the weather in Beijing?" --tool-choice get_weather
    python loop.py openai "What is the weather in Beijing?" --base-url http://127.0.0.1:11434/v1 --model qwen3

Each message of the conversation is printed as it goes over the wire; the key is read from the environment.
Facts from
https://platform.openai.com/docs/guides/function-calling and https://docs.claude.com, "Tool use".
"""

import argparse
import asyncio
import json
import os
from collections.abc import Iterable
from typing import Any

import httpx2
from weather import get_weather

INSTRUCTIONS = "You tell people about the weather."
Row = dict[str, Any]
Call = tuple[str, str, Row]
"""Id, name of the tool, arguments."""


class OpenAI:
    """Chat Completions: a call's arguments are JSON in a text, each result is a message of role tool."""

    url, path, model, key = "https://api.openai.com/v1", "/chat/completions", "gpt-4.1", "OPENAI_API_KEY"

    def headers(self, key: str) -> Row:
        return {"authorization": f"Bearer {key}"}

    def body(self, messages: list[Row], choice: str) -> Row:
        function = {
            "name": get_weather.name,
            "description": get_weather.description,
            "parameters": get_weather.parameters,
        }
        named = {"type": "function", "function": {"name": choice}}
        return {
            "messages": [{"role": "system", "content": INSTRUCTIONS}, *messages],
            "tools": [{"type": "function", "function": function}],
            "tool_choice": choice if choice in ("auto", "none", "required") else named,
        }

    def said(self, answer: Row) -> Row:
        return dict(answer["choices"][0]["message"])

    def calls(self, said: Row) -> list[Call]:
        asked = [(call["id"], call["function"]) for call in said.get("tool_calls") or ()]
        return [(id, function["name"], json.loads(function["arguments"])) for id, function in asked]

    def text(self, said: Row) -> str:
        return said["content"] or ""

    def results(self, done: Iterable[tuple[str, str]]) -> list[Row]:
        return [{"role": "tool", "tool_call_id": id, "content": result} for id, result in done]


class Anthropic:
    """Messages: calls and results are blocks, and all results of one answer stand in one message of the
    user.
    """

    url, path, model, key = (
        "https://api.anthropic.com",
        "/v1/messages",
        "claude-sonnet-4-5",
        "ANTHROPIC_API_KEY",
    )

    def headers(self, key: str) -> Row:
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def body(self, messages: list[Row], choice: str) -> Row:
        spec = {
            "name": get_weather.name,
            "description": get_weather.description,
            "input_schema": get_weather.parameters,
        }
        words = {"auto": "auto", "none": "none", "required": "any"}
        how = {"type": words[choice]} if choice in words else {"type": "tool", "name": choice}
        return {
            "system": INSTRUCTIONS,
            "messages": messages,
            "max_tokens": 1024,
            "tools": [spec],
            "tool_choice": how,
        }

    def said(self, answer: Row) -> Row:
        return {"role": "assistant", "content": answer["content"]}

    def calls(self, said: Row) -> list[Call]:
        return [
            (one["id"], one["name"], one["input"]) for one in said["content"] if one["type"] == "tool_use"
        ]

    def text(self, said: Row) -> str:
        return "".join(one["text"] for one in said["content"] if one["type"] == "text")

    def results(self, done: Iterable[tuple[str, str]]) -> list[Row]:
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": result} for id, result in done]
        return [{"role": "user", "content": blocks}]


def run(name: str, arguments: Row) -> str:
    """Run a tool; return its result as text for the model, or the error of an invalid call."""
    if name != get_weather.name:
        return f"Tool {name} not found"
    try:
        return json.dumps(asyncio.run(get_weather.run(arguments, None)), ensure_ascii=False)
    except Exception as why:  # noqa: BLE001 - whatever a tool does, the model hears of it
        return f"Error: {why}"


def converse(wire: OpenAI | Anthropic, question: str, choice: str, client: httpx2.Client, model: str) -> str:
    """Run one turn of a person. The tool choice holds for the model's first call only; else it could never
    answer in words.
    """
    messages: list[Row] = [{"role": "user", "content": question}]
    print(json.dumps(messages[0], ensure_ascii=False))
    while True:
        answer = client.post(
            wire.path, json={"model": model, **wire.body(messages, choice)}
        ).raise_for_status()
        said, choice = wire.said(answer.json()), "auto"
        calls = wire.calls(said)
        new = [said, *(wire.results([(id, run(name, given)) for id, name, given in calls]) if calls else ())]
        print(*(json.dumps(message, ensure_ascii=False) for message in new), sep="\n")
        messages += new
        if not calls:
            return wire.text(said)


def main(words: list[str] | None = None) -> str:
    parser = argparse.ArgumentParser(description="Ask a model that has one tool, get_weather.")
    parser.add_argument("service", choices=["openai", "anthropic"])
    parser.add_argument("question")
    parser.add_argument("--base-url")
    parser.add_argument("--model")
    parser.add_argument("--tool-choice", default="auto", help="auto, none, required, or get_weather")
    given = parser.parse_args(words)
    wire = OpenAI() if given.service == "openai" else Anthropic()
    headers = wire.headers(os.environ.get(wire.key, "none"))
    with httpx2.Client(base_url=given.base_url or wire.url, headers=headers, timeout=120) as client:
        return converse(wire, given.question, given.tool_choice, client, given.model or wire.model)


if __name__ == "__main__":
    main()
