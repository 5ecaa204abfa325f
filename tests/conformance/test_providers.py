"""Requirements on our provider plugins beyond the public suite (``test_kit.py``), whatever their protocol."""

import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from claw.contracts.errors import ProviderError
from claw.contracts.provider import ToolSpec
from claw.contracts.transcript import Assistant, Image, Text, Thinking, ToolCall, ToolResultMessage, User
from claw.security.http_client import HttpClients
from claw_testing.services import AnthropicService, OpenAIService, ServiceConnection, ServiceReply
from models import KEY, LS, answer, asks, provider, registered
from typed import TypedGoogleService, TypedMistralService


@dataclass(frozen=True)
class Wire:
    """A protocol, and the plugin that speaks it."""

    service: Any
    plugin: str
    section: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    address: str = ""
    tells_writes: bool = True
    """True for a service that reports how many tokens it wrote to its cache."""

    def model(self, url: str, **section: Any) -> Any:
        return provider(url, self.plugin, **self.section | section)


WIRES = {
    "messages": Wire(AnthropicService, "anthropic"),
    "chat": Wire(OpenAIService, "openai"),
    "responses": Wire(OpenAIService, "openai", {"api": "responses"}),
    "gemini": Wire(
        TypedGoogleService,
        "google",
        key="GEMINI_API_KEY",
        address="GOOGLE_GEMINI_BASE_URL",
        tells_writes=False,
    ),
    "mistral": Wire(TypedMistralService, "mistral", tells_writes=False),
}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]


async def failure(model: Any, request: Any = None) -> ProviderError:
    with pytest.raises(ProviderError) as error:
        await answer(model, request)
    return error.value


async def test_words_thoughts_calls_and_usage_come_through(wire):
    usage = {"input": 12, "output": 3, "cache_read": 100, "cache_write": 7}
    reply = ServiceReply(
        text="看一下。", thinking="first ls", calls=[("ls", {"path": "项目"}), ("ls", {})], usage=usage
    )
    async with wire.service([reply]) as service, wire.model(service.url) as model:
        shown, message = await answer(model, asks(tools=(LS,)))

    assert shown == message.text == "看一下。"
    assert [(call.name, call.arguments) for call in message.tool_calls] == [
        ("ls", {"path": "项目"}),
        ("ls", {}),
    ]
    thoughts = [block.text for block in message.content if isinstance(block, Thinking) and block.text]
    assert thoughts == ["first ls"]
    assert message.stop_reason == "tool_use"
    assert message.model == f"{model.name}/model-x"
    read = message.usage
    written = 7 if wire.tells_writes else None
    assert (read.input, read.output, read.cache_read, read.cache_write) == (12, 3, 100, written)


async def test_a_service_that_does_not_stream_is_understood(wire):
    reply = ServiceReply(text="All at once.", calls=[("ls", {"path": "."})], whole=True)
    async with wire.service([reply]) as service, wire.model(service.url) as model:
        shown, message = await answer(model)

    assert shown == message.text == "All at once."
    assert message.tool_calls[0].arguments == {"path": "."}


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "rate_limit"), (500, "server"), (503, "server"), (529, "overloaded")]
)
async def test_one_attempt_is_one_request(wire, status, reason):
    refused = ServiceReply(
        status=status, headers={"retry-after": "9"}, body={"error": {"message": "not now"}}
    )
    async with wire.service([refused] * 3) as service, wire.model(service.url) as model:
        error = await failure(model)

    assert len(service.requests) == 1
    assert (error.reason, error.retryable, error.status) == (reason, True, status)
    assert error.retry_after_seconds == 9


async def test_a_silent_service_times_out_and_the_connection_closed(wire):
    silent = ServiceReply(text="a long story", hang=True)
    async with wire.service([silent]) as service, wire.model(service.url, idleTimeoutSeconds=0.2) as model:
        error = await failure(model)
        await asyncio.wait_for(service.left.wait(), 20)

    assert (error.reason, error.retryable) == ("timeout", True)


@pytest.mark.parametrize("sent", [b"", b": only a comment\n\n", b"data: {", b'data: {"type":"message_start"'])
async def test_a_connection_that_breaks_early_is_no_answer(wire, sent):
    async with wire.service([ServiceReply(raw=sent, cut=True)]) as service, wire.model(service.url) as model:
        error = await failure(model)

    assert error.reason in ("network", "truncated")
    assert error.retryable


async def test_an_endpoint_that_is_down_is_reported_in_one_clear_line(wire):
    async with wire.service() as service:
        gone = service.url
    async with wire.model(gone) as model:
        error = await failure(model)

    assert (error.reason, error.retryable) == ("network", True)
    assert f"providers.{model.name}.baseUrl" in str(error)
    assert "\n" not in str(error)


async def test_a_web_page_is_reported_as_a_wrong_address(wire):
    page = ServiceReply(body=b"<html><body>Welcome</body></html>", content_type="text/html")
    missing = ServiceReply(status=404, body=b"<html><body>Not here</body></html>", content_type="text/html")
    async with wire.service([page, missing]) as service, wire.model(service.url) as model:
        for _ in range(2):
            error = await failure(model)
            assert f"providers.{model.name}.baseUrl" in str(error)
            assert not error.retryable
            assert "<" not in str(error)


async def test_a_key_is_never_shown(wire):
    echo = ServiceReply(status=401, body={"error": {"message": f"Incorrect API key provided: {KEY}"}})
    page = ServiceReply(status=500, body=f"<p>{KEY}</p>".encode(), content_type="text/html")
    plain = ServiceReply(status=500, body=f"no: {KEY}".encode(), content_type="text/plain")
    inside = ServiceReply(raw=f'data: {{"type": "error", "error": {{"message": "bad {KEY}"}}}}\n\n'.encode())
    async with (
        wire.service([echo, page, plain, inside]) as service,
        wire.model(service.url, apiKey=KEY) as model,
    ):
        shown = [repr(model), repr(model.credentials()), repr(asks())]
        for _ in range(4):
            error = await failure(model)
            shown += [str(error), repr(error), repr(vars(error)), repr(error.__cause__)]
        shown.append(repr(vars(model)))

    assert len(service.requests) == 4
    assert KEY not in "\n".join(shown)


async def test_sixty_four_streams_run_side_by_side_on_one_client(wire):
    def echo(received: Any) -> ServiceReply:
        return ServiceReply(
            text=str(received.body).partition("number ")[2].partition("!")[0],
            piece_bytes=50,
            delay_seconds=0.1,
        )

    async with wire.service(echo) as service, wire.model(service.url) as model:
        await answer(model)
        begun = time.monotonic()
        asked = [asks(User((Text(f"number {n}!"),))) for n in range(64)]
        answers = await asyncio.gather(*(answer(model, one) for one in asked))
        took = time.monotonic() - begun

    assert [message.text for _, message in answers] == [str(n) for n in range(64)]
    assert took < 5


async def test_one_connection_serves_one_call_after_the_other(wire):
    async with wire.service(["one", "two", "three"]) as service, wire.model(service.url) as model:
        for word in ("one", "two", "three"):
            assert (await answer(model))[0] == word

    assert service.connections == 1


@pytest.mark.parametrize("goes", ["reset", "half_close"])
async def test_a_kept_connection_that_the_service_gave_up_is_no_failure(wire, goes):
    """Services close connections that they kept, also in the moment in which the next request is on its way."""

    async def gone(line: ServiceConnection) -> None:
        getattr(line, goes)()

    script = ["one", ServiceReply(play=gone), "two", ServiceReply(raw=b": so far\n\n", cut=True)]
    async with wire.service(script) as service, wire.model(service.url) as model:
        assert [(await answer(model))[0] for _ in range(2)] == ["one", "two"]
        assert (await failure(model)).reason == "network"  # what breaks behind its first byte is

    assert len(service.requests) == 4
    assert service.connections == 2


async def test_a_past_of_other_makers_is_accepted(wire):
    """Ids, thoughts, pictures and empty words of any other provider: the service, which is strict, takes them."""
    picture = Image("aGk=", "image/png")
    past = (
        User((Text("look"), picture)),
        Assistant(
            (
                Thinking("hm", signature="s", maker="acme"),
                ToolCall("工具/1", "ls", {}),
                ToolCall("x" * 80, "ls", {}),
            )
        ),
        ToolResultMessage("工具/1", "ls", (Text("a"),)),
        ToolResultMessage("x" * 80, "ls", (Text(""), picture), is_error=True),
        Assistant((Text(""),)),
        User((Text("again"),)),
        Assistant((Text("well"), ToolCall("call_1", "ls", {"path": "."}))),
        ToolResultMessage("call_1", "ls", ()),
        Assistant((ToolCall("call_1", "ls", {"path": "."}),)),
        ToolResultMessage("call_1", "ls", (Text("b"),)),
    )
    async with wire.service(["fine"]) as service, wire.model(service.url) as model:
        shown, _ = await answer(model, asks(*past, tools=(LS,), thinking="low"))

    assert (shown, service.refusals) == ("fine", [])
    assert "hm" not in str(service.requests[0].body)


async def test_nulls_for_optional_arguments_are_dropped(wire):
    spec = ToolSpec("ls", "List", {"type": "object", "properties": {"path": {"type": "string"}}})
    async with (
        wire.service([ServiceReply(calls=[("ls", {"path": None})])]) as service,
        wire.model(service.url) as model,
    ):
        _, message = await answer(model, asks(tools=(spec,)))

    assert message.tool_calls[0].arguments == {}


async def test_keys_come_from_profiles_in_their_order_else_from_the_environment(wire):
    network, variable = HttpClients(), wire.key or f"{wire.plugin.upper()}_API_KEY"
    profiles = [{"id": name, "apiKey": f"sk-{name}"} for name in ("a", "b", "c")]
    section = {"authProfiles": [*profiles, {"id": "lost", "apiKey": "${NOT_SET}"}], "authOrder": ["c", "a"]}

    def keys(section: dict[str, Any], environ: dict[str, str]) -> list[tuple[str, str]]:
        tree = {"providers": {wire.plugin: section}} if section else {}
        model = registered(wire.plugin, tree, network, environ)[wire.plugin]
        return [(key.name, key.secret) for key in model.credentials()]

    assert keys(section, {variable: "sk-env"}) == [("c", "sk-c"), ("a", "sk-a"), ("b", "sk-b")]
    assert keys({"apiKey": "${MY_KEY}"}, {"MY_KEY": "sk-mine"}) == [("default", "sk-mine")]
    assert keys({}, {variable: " sk-env\n"}) == [("environment", "sk-env")]
    assert keys({}, {variable: " "}) == []
    assert keys({}, {}) == []


async def test_a_key_that_cannot_be_read_is_reported_with_its_place(wire):
    model = registered(wire.plugin, {"providers": {wire.plugin: {"apiKey": "${NOT_SET}"}}}, HttpClients())[
        wire.plugin
    ]

    with pytest.raises(Exception, match=rf"^providers\.{wire.plugin}\.apiKey: .*NOT_SET"):
        model.credentials()


async def test_the_address_comes_from_the_environment_when_the_file_has_none(wire):
    variable = wire.address or f"{wire.plugin.upper()}_BASE_URL"
    async with wire.service(["hello"]) as service:
        network = HttpClients()
        tree = {"providers": {wire.plugin: wire.section}} if wire.section else {}
        model = registered(wire.plugin, tree, network, {variable: service.url + "/"})[wire.plugin]
        assert (await answer(model))[0] == "hello"
        await network.aclose()


@pytest.mark.parametrize(
    ("plugin", "sdk"),
    [
        ("anthropic", "anthropic"),
        ("openai", "openai"),
        ("google", "google.genai"),
        ("mistral", "mistralai.client"),
    ],
)
def test_no_sdk_is_imported_before_the_first_call(plugin, sdk):
    """In a fresh interpreter: after the import of the plugin and after it was asked for its providers."""
    script = f"""
import sys
import claw_{plugin}
heavy = {{"{sdk}", "httpx2"}} & sys.modules.keys()
assert not heavy, heavy
sys.path.insert(0, "tests")
from models import registered
from claw.security.http_client import HttpClients
registered("{plugin}", {{"providers": {{"{plugin}": {{"apiKey": "k"}}}}}}, HttpClients())["{plugin}"].credentials()
heavy = {{"{sdk}", "httpx2"}} & sys.modules.keys()
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
