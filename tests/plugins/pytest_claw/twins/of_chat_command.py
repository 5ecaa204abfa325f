"""One sound chat command, and for each promise a twin that breaks it and no other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from claw.runtime import FunctionCommand
from claw_channel_sdk import Conversation
from pytest_claw import ChatCommandSuite


async def ping(arguments: str, conversation: Conversation) -> str:
    return f"pong {arguments[:20]}"


SOUND = FunctionCommand("ping", "answer pong", ping)


class TestSound(ChatCommandSuite):
    command = SOUND
    breaks = ""

    def make(self, folder: Path) -> Any:
        return self.command


class TestHasNoNumberAsPosition(TestSound):
    command = replace(SOUND, position="first")  # type: ignore[arg-type]  that is its fault
    breaks = "test_it_has_the_members_of_its_hook"


class TestHasNoSummary(TestSound):
    command = replace(SOUND, summary=" ")
    breaks = "test_its_name_and_summary_can_be_listed"


class TestTakesTheNameOfAnother(TestSound):
    command = replace(SOUND, name="stop")
    breaks = "test_help_lists_it"


async def silent(arguments: str, conversation: Conversation) -> str:
    return f"pong {arguments.split(' ', maxsplit=1)[0][0]}"


class TestFailsWithoutArguments(TestSound):
    command = replace(SOUND, run=silent)
    breaks = "test_it_answers_in_a_chat"

    def test_it_copes_with_all_arguments(self, subject: Any) -> None:
        """It fails there too."""


async def numbers(arguments: str, conversation: Conversation) -> str:
    return f"pong {int(arguments or 1)}"


class TestWantsANumber(TestSound):
    command = replace(SOUND, run=numbers)
    breaks = "test_it_copes_with_all_arguments"
