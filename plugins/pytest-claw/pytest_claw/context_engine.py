"""Conformance tests of a context engine: it runs in a claw whose model has a small window."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from claw import Assistant, Request, ToolResultMessage, User, hookimpl
from claw.testing import FakeProvider, FakeTool, Harness, calls, says

from pytest_claw.hook import HookSuite

PLUGIN = "engine-under-test"
_LONG = "All work and no play makes a long message. " * 40


class ContextEngineSuite(HookSuite):
    """The promises of a context engine. ``make`` is yours.

    :cvar window_tokens: the window of the model.
    :cvar turns: how many turns of about a thousand tokens a conversation has.
    :cvar config: keys of the config file that the engine needs.
    """

    members = ("wrap", "compact", "before_reset")
    limit_seconds = 60.0
    window_tokens = 16_000
    turns = 24
    config: Mapping[str, Any] = {}

    def test_the_newest_message_is_always_shown(self, subject: Any, tmp_path: Path) -> None:
        for number, request in enumerate(self.conversation(subject, tmp_path)):
            users = [message for message in request.messages if isinstance(message, User)]
            assert users, "a request without a message of a person"
            assert f"question {number} " in str(users[-1].content), "the newest message is not the last one"

    def test_a_call_is_never_separated_from_its_result(self, subject: Any, tmp_path: Path) -> None:
        for request in self.conversation(subject, tmp_path, with_tool=True):
            called = [
                call.id for one in request.messages if isinstance(one, Assistant) for call in one.tool_calls
            ]
            answered = [one.call_id for one in request.messages if isinstance(one, ToolResultMessage)]
            assert called == answered, "each call has its result, and each result its call"

    def test_a_long_conversation_fits_into_the_window(self, subject: Any, tmp_path: Path) -> None:
        for request in self.conversation(subject, tmp_path):
            chars = sum(len(str(message.content)) for message in request.messages)
            assert chars <= 4 * self.window_tokens, "the history is longer than the model's window"

    def test_what_fits_is_shown_whole(self, subject: Any, tmp_path: Path) -> None:
        requests = self.conversation(subject, tmp_path)
        for number, request in enumerate(requests[:3]):
            shown = str([message.content for message in request.messages])
            missing = [past for past in range(number) if f"question {past} " not in shown]
            assert missing == [], "a message is left out although the window has room for it"

    def conversation(self, engine: Any, folder: Path, *, with_tool: bool = False) -> list[Request]:
        """Return the first request of each turn of a conversation that is much longer than the window."""

        class Plugin:
            @hookimpl
            def register_context_engines(self) -> list[Any]:
                return [engine]

        def reply(request: Request) -> Assistant:
            newest = request.messages[-1]
            if with_tool and isinstance(newest, User):
                return calls("look", place="here")
            return says(_LONG)

        async def talked() -> list[Request]:
            model = FakeProvider(*[reply] * 10 * self.turns, context_tokens=self.window_tokens)
            config = {**self.config, "plugins": {"slots": {"context": PLUGIN}}}
            tools, plugins = [FakeTool("look", result=_LONG)], {PLUGIN: Plugin()}
            async with Harness(
                model, tools=tools, plugins=plugins, config=config, home=folder / "home"
            ) as harness:
                first = list[Request]()
                for number in range(self.turns):
                    before = len(model.requests)
                    await harness.send(f"question {number} {_LONG}")
                    asked = [one.request for one in model.requests[before:]]
                    # Beside the turn an engine may ask for a summary, which has older messages only.
                    shown = [one for one in asked if f"question {number} " in str(one.messages)]
                    first.append((shown or asked)[0])
                return first

        requests: list[Request] = self.run(talked())
        return requests
