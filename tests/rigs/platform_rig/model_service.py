"""A Chat Completions service (platform.openai.com/docs/api-reference/chat) that numbers its answers.

It answers the questions of the user's messages behind the last answer, as a model does that does not know which of them
are meant; or, where several messages may share a turn, all questions that no whole answer follows. A question that was
answered and is asked again is answered again, with another number, so the judge sees the double.
"""

import asyncio
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Self

from aiohttp import web

from rigs.platform_rig.labels import ASK, answer_parts, file_name, pieces, whole_runs

TOOLS = {
    "once": "note_once", "idempotent": "note_idempotent", "undeclared": "note_undeclared", "file": "note_file",
}  # fmt: skip
"""Kind of a question → the tool that its answer needs."""

Message = Mapping[str, Any]


def text_of(message: Message) -> str:
    """Return the text of a message, whose content is a string or a list of parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text") or "" for part in content)


def pending(messages: Sequence[Message], *, only_newest: bool = False) -> dict[str, str]:
    """Return the questions that no whole answer follows, with their kinds.

    :param only_newest: leave out those before the last answer of the assistant.
    """
    open_questions: dict[str, str] = {}
    for message in messages:
        if message["role"] == "user":
            open_questions |= dict(ASK.findall(text_of(message)))
        elif message["role"] == "assistant" and only_newest and not message.get("tool_calls"):
            open_questions.clear()
        elif message["role"] == "assistant":
            found = pieces(text_of(message))
            for question in {piece.question for piece in found} & open_questions.keys():
                if whole_runs([piece for piece in found if piece.question == question]):
                    del open_questions[question]
    return open_questions


def called(messages: Sequence[Message]) -> set[str]:
    """Return the questions for which a tool was called after they were asked."""
    done: set[str] = set()
    for message in messages:
        if message["role"] == "user":
            done -= {question for question, _ in ASK.findall(text_of(message))}
        for call in message.get("tool_calls") or ():
            done.add(json.loads(call["function"]["arguments"] or "{}").get("question", ""))
    return done


class ModelService:
    """The service; ``async with``.

    :param only_newest: see ``pending``.
    :ivar runs: by question, the numbers of the requests that answered it.
    :ivar refusals: so many of the next requests are answered with 400.
    :ivar missing: tools that a question needed and the request did not offer.
    :ivar seen: the questions of all requests.
    :ivar pause_seconds: between two parts of an answer.
    """

    def __init__(self, dice: random.Random, *, only_newest: bool) -> None:
        self._dice, self._only_newest = dice, only_newest
        self.pause_seconds = (0.02, 0.25)
        self.requests = self.refusals = 0
        self.runs: dict[str, list[int]] = defaultdict(list)
        self.missing: Counter[str] = Counter()
        self.seen: set[str] = set()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _models(self, _: web.Request) -> web.Response:
        one = {"id": "gpt-4o", "object": "model", "created": 1715367049, "owned_by": "system"}
        return web.json_response({"object": "list", "data": [one]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
        except ConnectionError:
            return web.Response(status=400)  # the gateway is gone
        self.requests += 1
        run = self.requests
        if self.refusals:
            self.refusals -= 1
            error = {
                "message": "Invalid value.",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
            return web.json_response({"error": error}, status=400)
        parts, calls = self._answer(body, run)
        if not body.get("stream"):
            return web.json_response(self._document(body, run, parts, calls))
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "x-request-id": f"req_{run}"}
        )
        try:
            await response.prepare(request)
            async for chunk in self._chunks(body, run, parts, calls):
                await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            await response.write(b"data: [DONE]\n\n")
        except ConnectionError:
            return response  # the gateway is gone
        return response

    def _answer(self, body: Mapping[str, Any], run: int) -> tuple[list[str], list[dict[str, Any]]]:
        """Return the parts of the answer, or the tool calls before it."""
        messages = body["messages"]
        self.seen |= {question for message in messages for question, _ in ASK.findall(text_of(message))}
        questions, done = pending(messages, only_newest=self._only_newest), called(messages)
        offered = {tool["function"]["name"] for tool in body.get("tools") or () if "function" in tool}
        calls: list[dict[str, Any]] = []
        for question, kind in questions.items():
            tool = TOOLS.get(kind)
            if tool is None or question in done:
                continue
            if tool not in offered:
                self.missing[tool] += 1
                continue
            arguments = json.dumps({"question": question})
            function = {"name": tool, "arguments": arguments}
            calls.append({"id": f"call_{run}_{len(calls)}", "type": "function", "function": function})
        if calls:
            return [], calls
        parts: list[str] = []
        for question, kind in questions.items():
            self.runs[question].append(run)
            parts += [*answer_parts(question, run, kind)[:-1], answer_parts(question, run, kind)[-1] + "\n\n"]
            if kind == "file":  # docs/messages.md: such a line sends a file of the workspace
                parts.append(f"MEDIA:{file_name(question)}\n\n")
        return parts or ["Fine."], []

    def _document(
        self, body: Mapping[str, Any], run: int, parts: list[str], calls: list[dict[str, Any]]
    ) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(parts).strip() or None,
            "refusal": None,
        }
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return {**self._head(body, run, "chat.completion"), "choices": [choice], "usage": self._usage(parts)}

    async def _chunks(
        self, body: Mapping[str, Any], run: int, parts: list[str], calls: list[dict[str, Any]]
    ) -> Any:
        head = self._head(body, run, "chat.completion.chunk")
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": part} for part in parts]
        deltas += [{"tool_calls": [{"index": at, **call}]} for at, call in enumerate(calls)]
        for delta in deltas:
            yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            await asyncio.sleep(self._dice.uniform(*self.pause_seconds))
        end = "tool_calls" if calls else "stop"
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]}
        if (body.get("stream_options") or {}).get("include_usage"):
            yield {**head, "choices": [], "usage": self._usage(parts)}

    @staticmethod
    def _head(body: Mapping[str, Any], run: int, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{run}", "object": kind, "created": int(time.time()), "model": body["model"]}

    @staticmethod
    def _usage(parts: Sequence[str]) -> dict[str, int]:
        tokens = sum(map(len, parts)) // 4 + 1
        return {"prompt_tokens": 100, "completion_tokens": tokens, "total_tokens": 100 + tokens}
