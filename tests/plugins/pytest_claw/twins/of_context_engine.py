"""One sound context engine, and for each promise a twin that breaks it and no other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from claw import Message, ToolResultMessage, User
from claw.runtime import limit_turns
from pytest_claw import ContextEngineSuite


class Window:
    """Shows the newest turns."""

    name = "window"
    most = 5

    def wrap(self, call: Any, turn: Any) -> Any:
        return lambda messages, tool_choice: call(self.shown(messages), tool_choice)

    def shown(self, messages: Sequence[Message]) -> list[Message]:
        return list(limit_turns(messages, self.most))

    async def compact(self, turn: Any, focus: str) -> str:
        return "nothing to do"

    async def before_reset(self, turn: Any) -> None:
        return None


class TestSound(ContextEngineSuite):
    kind: type[Window] = Window
    turns = 9
    window_tokens = 6_500
    breaks = ""

    def make(self, folder: Path) -> Any:
        return self.kind()


class Misplaced(Window):
    position = "first"


class TestHasNoNumberAsPosition(TestSound):
    kind, breaks = Misplaced, "test_it_has_the_members_of_its_hook"


class Late(Window):
    """Leaves out the newest message, once there is another one."""

    def shown(self, messages: Sequence[Message]) -> list[Message]:
        users = [index for index, one in enumerate(messages) if isinstance(one, User)]
        shown = list(messages)
        if len(users) > self.most and users[-1] == len(messages) - 1:
            shown[-1] = messages[users[-2]]
        return super().shown(shown)


class TestShowsAnOlderMessage(TestSound):
    kind, breaks = Late, "test_the_newest_message_is_always_shown"


class Splitting(Window):
    """Leaves out results of older turns."""

    def shown(self, messages: Sequence[Message]) -> list[Message]:
        shown = super().shown(messages)
        return [one for one in shown if not isinstance(one, ToolResultMessage) or one in shown[-2:]]


class TestLeavesOutResults(TestSound):
    kind, breaks = Splitting, "test_a_call_is_never_separated_from_its_result"


class Everything(Window):
    most = 1000


class TestShowsEverything(TestSound):
    kind, breaks = Everything, "test_a_long_conversation_fits_into_the_window"


class Short(Window):
    most = 1


class TestShowsOneTurn(TestSound):
    kind, breaks = Short, "test_what_fits_is_shown_whole"
