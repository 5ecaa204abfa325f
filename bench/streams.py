"""CPU of one streamed call for every provider, beside a bare client that reads the same events: one JSON document.

    python bench/streams.py [--words 500] [--calls 20]

The bare client is httpx2 as it comes: one POST, its lines, ``json.loads`` of each event, the pieces of text joined. The
services run in a process of their own.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import httpx2
from claw import Credential, Finished, Request, SystemPrompt, Text, TextDelta, User
from claw.testing import plugin_contributions
from claw_testing.services import (
    AnthropicService,
    GoogleService,
    MistralService,
    OpenAIService,
    ReceivedRequest,
    ServiceReply,
)

KEY = "sk-of-the-bench"
WIRES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "anthropic": (AnthropicService, "anthropic", {}),
    "openai, chat": (OpenAIService, "openai", {}),
    "openai, responses": (OpenAIService, "openai", {"api": "responses"}),
    "google": (GoogleService, "google", {}),
    "mistral": (MistralService, "mistral", {}),
}


class Wordy:
    """A protocol whose every answer is so many small pieces of text, each an event."""

    def __init__(self, protocol: Any, words: int) -> None:
        self._protocol, self._words, self.error = protocol, words, protocol.error
        self.whole = protocol.whole

    def check(self, headers: Any, body: Any) -> None:
        """Accept any request: checking is not measured."""

    def stream(self, reply: Any, body: Any, number: int) -> Any:
        """Return the valid stream, with its first piece of text repeated."""
        events = list(self._protocol.stream(reply, body, number))
        first = next(at for at, event in enumerate(events) if b'"hello' in event)
        return [*events[:first], *[events[first]] * self._words, *events[first + 1 :]]


async def serve(words: int) -> None:
    """Start all services, print their addresses as one line, and run until stdin is closed."""
    urls, running = {}, []
    for name, (service, _, _) in WIRES.items():
        protocols = {path: Wordy(one, words) for path, one in service.protocols.items()}
        wordy = type(service.__name__, (service,), {"protocols": protocols})

        def reply(request: ReceivedRequest) -> ServiceReply:
            return ServiceReply(text="hello hello ")

        running.append(await wordy(reply).__aenter__())
        urls[name] = running[-1].url
    print(json.dumps(urls), flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def cost(call: Callable[[], Awaitable[int]], calls: int, words: int) -> float:
    """Return CPU of one call in ms: the minimum of several rounds, as other work can only add to it."""
    await call()
    found = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(max(1, calls // 5)):
            assert await call() > words, "the whole answer came"
        found.append(1000 * (time.process_time() - began) / max(1, calls // 5))
    return min(found)


def bare(client: httpx2.AsyncClient, request: ReceivedRequest) -> Callable[[], Awaitable[int]]:
    """Return a call without a provider: the same request, its events parsed, their texts joined."""
    headers = {
        name: value for name, value in request.headers.items() if name not in ("content-length", "connection")
    }

    async def call() -> int:
        text = []
        async with client.stream("POST", request.path, json=request.body, headers=headers) as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    text.append(words_of(json.loads(line[6:])))
        return len("".join(text))

    return call


def words_of(data: Any) -> str:
    """Return the text of an event, of any protocol."""
    if choices := data.get("choices"):
        return choices[0]["delta"].get("content") or ""
    if candidates := data.get("candidates"):
        return candidates[0]["content"]["parts"][0].get("text") or ""
    delta = data.get("delta")
    return delta if isinstance(delta, str) else (delta or {}).get("text") or ""


def ours(model: Any) -> Callable[[], Awaitable[int]]:
    """Return the same call through the provider."""
    asking = Request(
        "model-x",
        SystemPrompt("You are claw."),
        (User((Text("hello"),)),),
        credential=Credential("main", KEY),
    )

    async def call() -> int:
        text = []
        async for event in model.stream(asking):
            if isinstance(event, TextDelta):
                text.append(event.text)
        assert isinstance(event, Finished)
        return len("".join(text))

    return call


async def sent(wire: str) -> ReceivedRequest:
    """Return the request that a provider sends."""
    service, maker, section = WIRES[wire]
    async with service(["hello"]) as there:
        tree = {"providers": {maker: {"baseUrl": there.url, "apiKey": KEY, **section}}}
        async with plugin_contributions(import_module(f"claw_{maker}"), tree, maker) as answers:
            await ours({one.name: one for one in answers["register_providers"]}[maker])()
        return there.requests[0]


async def measure(
    urls: dict[str, str], words: int, calls: int, wires: Any = WIRES
) -> dict[str, dict[str, float]]:
    """Return by protocol: CPU of a call in ms, bare and through the provider, and their ratio."""
    found = {}
    for wire in wires:
        _, maker, section = WIRES[wire]
        tree = {"providers": {maker: {"baseUrl": urls[wire], "apiKey": KEY, **section}}}
        request, origin = await sent(wire), urls[wire].removesuffix("/v1")
        async with (
            plugin_contributions(import_module(f"claw_{maker}"), tree, maker) as answers,
            httpx2.AsyncClient(base_url=origin, timeout=60, trust_env=False) as client,
        ):
            model = {one.name: one for one in answers["register_providers"]}[maker]
            plain = await cost(bare(client, request), calls, words)
            own = await cost(ours(model), calls, words)
        found[wire] = {"bare_cpu_ms": plain, "cpu_ms": own, "times": own / plain}
    return found


class Services:
    """The services in a process of their own."""

    def __init__(self, words: int) -> None:
        command = [sys.executable, __file__, "--serve", "--words", str(words)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.urls: dict[str, str] = json.loads(self._process.stdout.readline())

    def __enter__(self) -> dict[str, str]:
        return self.urls

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=500)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.words))
        return
    with Services(options.words) as urls:
        print(json.dumps(asyncio.run(measure(urls, options.words, options.calls))))


if __name__ == "__main__":
    main()
