"""Conformance tests of a chat command: people type it in a chat of a running claw."""

import re
from typing import Any

from claw import ChannelLimits, hookimpl
from claw.testing import FakeChannel, FakeProvider, Harness

from pytest_claw.hook import HookSuite

PLUGIN = "command-under-test"
ARGUMENTS = ("", "one", "one two  three", "--help", "你好 👋", "-1 /x ;'\"", "long " * 500)


class ChatCommandSuite(HookSuite):
    """The promises of a chat command. ``make`` is yours.

    :cvar arguments: arguments to try beside the usual ones.
    """

    members = ("run",)
    arguments: tuple[str, ...] = ()
    limit_seconds = 30.0

    def test_its_name_and_summary_can_be_listed(self, subject: Any) -> None:
        assert re.fullmatch(r"[a-z0-9_]{1,32}", subject.name), f"{subject.name!r}"
        assert isinstance(subject.summary, str), "summary is text"
        assert subject.summary.strip(), "summary is empty"
        assert "\n" not in subject.summary, "summary is one line"

    def test_help_lists_it(self, subject: Any) -> None:
        [shown] = self.answers(subject, "/help")
        listed = [line for line in shown.splitlines() if line.startswith(f"/{subject.name}")]
        assert any(subject.summary in line for line in listed), f"another command has the name: {listed}"

    def test_it_answers_in_a_chat(self, subject: Any) -> None:
        [shown] = self.answers(subject, f"/{subject.name}")
        assert shown.strip(), "the answer is empty"
        assert PLUGIN not in shown, f"it failed: {shown}"

    def test_it_copes_with_all_arguments(self, subject: Any) -> None:
        tried = (*ARGUMENTS, *self.arguments)
        shown = self.answers(subject, *(f"/{subject.name} {one}" for one in tried))
        failed = {one: text for one, text in zip(tried, shown, strict=True) if PLUGIN in text}
        assert failed == {}, "wrong arguments are a text of the command, or a ClawError"

    def answers(self, command: Any, *lines: str) -> list[str]:
        """Return the answers to lines that an owner types in a direct chat."""

        class Plugin:
            @hookimpl
            def register_chat_commands(self) -> list[Any]:
                return [command]

        async def asked() -> list[str]:
            channel, shown = (
                FakeChannel(limits=ChannelLimits(text_chars=100_000, quiet_seconds=0.0)),
                list[str](),
            )
            config = {"owners": [f"{channel.name}:user-1"]}
            plugins = {PLUGIN: Plugin()}
            async with (
                Harness(FakeProvider(), channels=[channel], plugins=plugins, config=config) as harness,
                harness.serving(),
            ):
                for number, line in enumerate(lines, 1):
                    channel.says(line)
                    shown = [one.text for one in await channel.until_sent(number, self.limit_seconds)]
            return shown

        found: list[str] = self.run(asked())
        return found
