"""One sound filter, and for each promise a twin that breaks it and no other."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from claw import Address
from pytest_claw import FilterSuite


class Plain:
    """Removes stars from replies, and drops reactions."""

    async def inbound(self, message: Any) -> Any:
        return None if message.kind == "reaction" else message

    def outbound(self, message: Any) -> Any:
        return replace(message, text=message.text.replace("**", ""))

    def describe(self, message: Any, capabilities: Any) -> str:
        return "It is Monday.\n" if message.text else ""


class TestSound(FilterSuite):
    kind: type[Any] = Plain
    breaks = ""

    def make(self, folder: Path) -> Any:
        return self.kind()


class Empty:
    position = 3


class TestFiltersNothing(TestSound):
    kind, breaks = Empty, "test_it_has_the_members_of_its_hook"


class Textual(Plain):
    def outbound(self, message: Any) -> Any:
        return message.text.upper() or message


class TestReturnsText(TestSound):
    kind, breaks = Textual, "test_it_answers_with_a_message_or_nothing"

    def test_a_message_stays_where_it_belongs(self, subject: Any) -> None:
        """Text has no address."""


class Hasty(Plain):
    def outbound(self, message: Any) -> Any:
        return replace(message, text=message.text[0].upper() + message.text[1:])


class TestFailsOnAnEmptyMessage(TestSound):
    kind, breaks = Hasty, "test_it_answers_with_a_message_or_nothing"

    def test_a_message_stays_where_it_belongs(self, subject: Any) -> None:
        """It raises there too."""

    def test_it_is_quick(self, subject: Any) -> None:
        """It raises there too."""


class Diverting(Plain):
    def outbound(self, message: Any) -> Any:
        return replace(message, address=Address("fake", "chat-2"))


class TestSendsElsewhere(TestSound):
    kind, breaks = Diverting, "test_a_message_stays_where_it_belongs"


class Slow(Plain):
    def outbound(self, message: Any) -> Any:
        time.sleep(0.2 if len(message.text) > 1000 else 0)
        return message


class TestTakesLong(TestSound):
    kind, breaks, quick_seconds = Slow, "test_it_is_quick", 0.1


class Endless(Plain):
    def describe(self, message: Any, capabilities: Any) -> str:
        return "It is Monday. "


class TestDescribesInTheLineOfTheWords(TestSound):
    kind, breaks = Endless, "test_its_descriptions_are_lines"
