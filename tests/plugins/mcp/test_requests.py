"""Requests of a server during a call: questions to the person, model calls, folders. The server is ``asking.py``."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import claw_budgets
import claw_mcp
import msgspec
import pytest
from claw import Assistant, BudgetError, Finished, Text, ToolEnded, ToolError, ToolResult, Usage
from claw.testing import FakeProvider, Harness, calls, check_and_run, says, tool_context
from claw_mcp.fleet import Fleet
from claw_mcp.record import Offer, ServerRecord, ServerRecords, identity_of, with_offers
from claw_mcp.requests import form_values
from claw_mcp.settings import ServerSettings
from plugins.mcp.servers import ASKING, fleet, free_port, serving, text

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def asking(tmp_path: Path, **about: Any) -> dict[str, Any]:
    return {"asking": {"command": sys.executable, "args": [str(ASKING), str(tmp_path)], **about}}


class Asked:
    """A person, and what that person was shown."""

    def __init__(self, answer: bool | str = True, seconds: float = 0) -> None:
        self.shown: list[str] = []
        self._answer, self._seconds = answer, seconds

    async def ask(self, shown: str, title: str = "", binds: str = "") -> bool:
        self.shown.append(f"{title}: {shown}")
        await asyncio.sleep(self._seconds)
        if isinstance(self._answer, str):
            raise ToolError(self._answer)
        return self._answer


async def call(
    ours: Fleet, name: str, tmp_path: Path, person: Asked | None = None, **facts: Any
) -> ToolResult:
    tool = next(tool for tool in ours.tools() if tool.name == f"asking__{name}")
    facts |= {"ask": person.ask} if person else {}
    return await check_and_run(tool, {}, tool_context(tmp_path, **facts))


@pytest.fixture
async def ours(tmp_path: Path) -> Any:
    async with fleet(tmp_path, asking(tmp_path, timeoutSeconds=0.2, connectSeconds=20)) as ours:
        await ours.connect(["asking"])
        yield ours


async def test_a_form_of_yes_and_defaults_is_answered_by_a_persons_approval_of_all_its_values(
    ours: Fleet, tmp_path: Path
) -> None:
    person = Asked()
    result = await call(ours, "throw_away", tmp_path, person)

    assert text(result) == "accept sure=True colour='grey'"
    assert person.shown == [
        "the MCP server asking asks: Throw everything away?\n\nSent if you allow it:\nsure: yes\ncolour: grey"
    ]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("not allowed", ("decline None", "asked: Throw everything away?. It was not answered: not allowed")),
        (False, ("cancel None", "It was not answered: no one can be asked here")),
    ],
)
async def test_a_question_that_nobody_allows_is_declined_and_the_model_reads_why(
    answer: Any, said: tuple[str, str], ours: Fleet, tmp_path: Path
) -> None:
    lines = text(await call(ours, "throw_away", tmp_path, Asked(answer))).split("\n")
    assert lines[0] == said[0]
    assert said[1] in lines[1]


async def test_a_form_that_must_be_typed_is_declined_with_the_field(ours: Fleet, tmp_path: Path) -> None:
    person = Asked()
    said = text(await call(ours, "christen", tmp_path, person))
    assert said.startswith("decline\n")
    assert "a field that cannot be filled in here: Name" in said
    assert person.shown == []


async def test_the_wait_for_a_person_does_not_count_towards_the_time_limit_of_the_call(
    tmp_path: Path,
) -> None:
    about = asking(tmp_path, timeoutSeconds=0.2, connectSeconds=0.5)
    async with fleet(tmp_path, asking(tmp_path)) as first:
        await first.connect(["asking"])
        link, person = first._links["asking"], Asked(seconds=0.9)
        async with link.requests.during(tool_context(tmp_path, ask=person.ask), 0.7):
            answer = await link.ask(lambda client: client.call_tool("throw_away", {}), again=False)
    assert "accept" in str(answer.content), about


class TestOlderProtocol:
    """A server that asks while it runs the tool, as all did before revision 2026-07-28."""

    @pytest.fixture
    async def ours(self, tmp_path: Path) -> Any:
        port = free_port()
        with serving(tmp_path, port, "sse", program=ASKING):
            server = {
                "type": "sse",
                "url": f"http://127.0.0.1:{port}/sse",
                "sampling": "ask",
                "samplingCalls": 2,
            }
            async with fleet(tmp_path, {"asking": server}) as ours:
                await ours.connect(["asking"])
                yield ours

    async def test_its_questions_reach_the_person_of_the_only_call(self, ours: Fleet, tmp_path: Path) -> None:
        person = Asked()
        assert text(await call(ours, "throw_away", tmp_path, person)) == "accept sure=True colour='grey'"
        assert text(await call(ours, "pay", tmp_path, person)) == "accept"
        assert "https://pay.example/1" in person.shown[1]

        assert "open this first" in (first := text(await call(ours, "pay_first", tmp_path)))
        assert first.endswith("https://pay.example/2")

        other, calls_of_it = Asked(), ours._links["asking"].requests
        async with calls_of_it.during(tool_context(tmp_path, ask=other.ask), 60):
            refused = await call(ours, "throw_away", tmp_path, person)
        assert "cannot be told which call of a tool asks" in text(refused)

        with pytest.raises(TimeoutError):
            async with calls_of_it.during(tool_context(tmp_path), 0.01):
                await asyncio.sleep(1)
        late = await call(ours, "throw_away", tmp_path, person)
        assert "cannot be told" in text(late), "it may be a question for the call that was cut off"
        assert (len(person.shown), other.shown) == (2, [])

    async def test_model_calls_are_asked_about_and_limited_in_number(
        self, ours: Fleet, tmp_path: Path
    ) -> None:
        person, requests = Asked(), []

        def model_call(request: Any) -> Any:
            async def answer(messages: Any, tool_choice: str) -> Any:
                requests.append((request, messages))
                yield Finished(Assistant((Text("an anvil"),), "fake/m"))

            return answer

        said = text(await call(ours, "ponder_long", tmp_path, person, model_call=model_call))
        assert "a call of a tool may make 2 model calls" in said
        assert len(requests) == 2
        assert person.shown == ["the MCP server asking asks a model: user: Name a thing."] * 2
        assert requests[0][0].max_tokens == 9


async def test_sampling_and_roots_are_off_unless_they_are_configured(ours: Fleet, tmp_path: Path) -> None:
    assert "ampling" in text(await call(ours, "ponder", tmp_path))
    assert "oots" in text(await call(ours, "places", tmp_path))


async def test_a_server_is_told_of_the_configured_folders_and_of_the_workspace_during_a_call(
    tmp_path: Path,
) -> None:
    async with fleet(tmp_path, asking(tmp_path, roots=["workspace", str(tmp_path / "notes")])) as ours:
        await ours.connect(["asking"])
        workspace = tool_context(tmp_path).files.workspace.resolve()
        assert (
            text(await call(ours, "places", tmp_path))
            == f"{workspace.as_uri()} {(tmp_path / 'notes').as_uri()}"
        )


@pytest.fixture(scope="module")
def offers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Offer, ...]:
    async def reach(folder: Path) -> tuple[Offer, ...]:
        async with fleet(folder, asking(folder, connectSeconds=60)) as ours:
            assert await ours.connect(["asking"]) == {}
            return ours.record("asking").offers

    return asyncio.run(reach(tmp_path_factory.mktemp("asking")))


class TestSampling:
    @pytest.fixture(autouse=True)
    def known(self, offers: tuple[Offer, ...]) -> None:
        self.offers = offers

    def harness(self, model: FakeProvider, home: Path, **about: Any) -> Harness:
        """A claw that knows the tool already: its start waits for no server."""
        config = {"mcpServers": asking(home, sampling=True), **about}
        identity = identity_of(ServerSettings.model_validate(config["mcpServers"]["asking"]).identity)
        known = with_offers(ServerRecord(identity), self.offers)
        ServerRecords(home / "plugins" / "mcp").write("asking", known)
        return Harness(model, config=config, plugins={"mcp": claw_mcp, "budgets": claw_budgets}, home=home)

    async def test_a_model_call_is_made_without_the_conversation_and_billed_to_the_turn(
        self, tmp_path: Path
    ) -> None:
        model = FakeProvider(calls("asking__ponder"), says("an anvil"), says("done"))
        async with self.harness(model, tmp_path) as harness:
            reply = await harness.send("ponder")

        assert reply.text == "done"
        asked, after = model.requests[1].request, model.requests[2].request
        assert [block.text for message in asked.messages for block in message.content] == ["Name a thing."]
        assert (asked.system.whole, asked.tools, asked.max_tokens) == ("Be short.", (), 20)
        assert "an anvil!" in str(after.messages)

    async def test_a_budget_that_is_used_up_refuses_the_model_call_of_a_server(self, tmp_path: Path) -> None:
        dear = msgspec.structs.replace(calls("asking__ponder"), usage=Usage(input=99_990))
        model, budgets = FakeProvider(dear, says("never")), {"one": {"tokens": 100_000, "per": "turn"}}
        async with self.harness(model, tmp_path, budgets=budgets) as harness:
            with pytest.raises(BudgetError):
                await harness.send("ponder")
            [result] = [one for one in harness.events if isinstance(one, ToolEnded)]
        assert len(model.requests) == 1
        assert "the budget one is too small for this call" in str(result)


@pytest.mark.parametrize(
    ("schema", "values", "missing"),
    [
        ({"properties": {}}, {}, ""),
        ({"properties": {"a": {"type": "string"}}}, {}, ""),
        ({"properties": {"a": {"type": "string", "title": "An A"}}, "required": ["a"]}, {}, "An A"),
        ({"properties": {"a": {"enum": ["x"]}}, "required": ["a"]}, {"a": "x"}, ""),
        ({"properties": {"a": {"type": "boolean"}}}, {}, ""),
        ({"properties": {"a": {"type": "number", "default": 0}}, "required": ["a"]}, {"a": 0}, ""),
    ],
)
def test_the_values_of_a_form(schema: dict[str, Any], values: dict[str, Any], missing: str) -> None:
    assert form_values(schema) == (values, missing)
