"""Loopback services whose every word, in both directions, is read by the vendors' own types as well.

What a type does not know, or would lose, is a fault of ours: of the plugin for a request, of the service for an answer.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from claw_testing.protocols import google, mistral
from claw_testing.services import GoogleService, MistralService
from google.genai import types
from mistralai.client import models
from pydantic import BaseModel, ConfigDict


class GoogleRequest(BaseModel):
    """The body of ``generateContent``: the SDK has a type for each of its parts."""

    model_config = ConfigDict(extra="forbid")
    contents: list[types.Content]
    systemInstruction: types.Content | None = None
    tools: list[types.Tool] | None = None
    toolConfig: types.ToolConfig | None = None
    generationConfig: types.GenerationConfig | None = None


def google_request(body: Any) -> None:
    """The SDK's types refuse what they do not know by themselves."""
    GoogleRequest.model_validate(body)


def google_answer(data: Any) -> None:
    types.GenerateContentResponse.model_validate(data)


def mistral_request(body: Any) -> None:
    """These types pass over what they do not know, so what they say again is held against what was said."""
    read = models.ChatCompletionStreamRequest.model_validate(body)
    again = json.loads(read.model_dump_json(by_alias=True))
    assert contains(again, body) == "", contains(again, body)


def mistral_answer(data: Any) -> None:
    kind = models.CompletionChunk if "chunk" in data["object"] else models.ChatCompletionResponse
    again = json.loads(kind.model_validate(data).model_dump_json(by_alias=True))
    assert contains(again, data) == "", contains(again, data)


def contains(whole: Any, part: Any, where: str = "") -> str:
    """The place of the first thing in ``part`` that ``whole`` lacks; empty when it has all."""
    if isinstance(part, dict) and isinstance(whole, dict):
        lost = next((key for key, value in part.items() if key not in whole and value is not None), None)
        if lost is not None:
            return f"{where}.{lost}"
        inner = (contains(whole[key], value, f"{where}.{key}") for key, value in part.items() if key in whole)
        return next((place for place in inner if place), "")
    if isinstance(part, list) and isinstance(whole, list) and len(part) == len(whole):
        inner = (contains(a, b, f"{where}[{at}]") for at, (a, b) in enumerate(zip(whole, part, strict=True)))
        return next((place for place in inner if place), "")
    return "" if whole == part else where or "."


class Typed:
    """A protocol of the services, read along by the vendor's types."""

    def __init__(self, protocol: Any, request: Any, answer: Any) -> None:
        self._protocol, self._request, self._answer = protocol, request, answer
        self.error = protocol.error

    def check(self, headers: Mapping[str, str], body: Any) -> None:
        self._protocol.check(headers, body)
        self._request(body)

    def whole(self, reply: Any, body: Any, number: int) -> Any:
        said = self._protocol.whole(reply, body, number)
        self._answer(said)
        return said

    def stream(self, reply: Any, body: Any, number: int) -> Iterator[bytes]:
        for event in self._protocol.stream(reply, body, number):
            data = event.removeprefix(b"data: ").strip()
            if data != b"[DONE]":
                self._answer(json.loads(data))
            yield event


class TypedGoogleService(GoogleService):
    protocols: ClassVar[Mapping[str, Any]] = dict.fromkeys(
        GoogleService.protocols, Typed(google, google_request, google_answer)
    )


class TypedMistralService(MistralService):
    protocols: ClassVar[Mapping[str, Any]] = dict.fromkeys(
        MistralService.protocols, Typed(mistral, mistral_request, mistral_answer)
    )
