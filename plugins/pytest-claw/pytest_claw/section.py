"""Conformance tests of a prompt section: a model service's cache needs identical bytes in every request."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claw import PromptFacts
from claw.testing import prompt_facts

VOLATILE_FROM = 195.0
"""Above this position a section is after the cache boundary, whatever it declares."""
CLOCK_AND_CHANCE = frozenset(
    {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "now", "utcnow", "today"}
    | {"urandom", "getrandbits", "random", "uuid4", "uuid1", "uuid_generate_time_safe"}
)
ITS_MODULES = frozenset({"time", "datetime", "random", "os", "posix", "_random", "_uuid", ""})


class SectionSuite:
    """Three promises of a prompt section. ``section`` is yours; the rest has defaults.

    :cvar section: the section under test; a property when it has to be made.
    :cvar budget_chars: its maximum share of every prompt.
    :cvar may_ask_clock: it reads the clock for something that does not show in its text, such as the age of a
        file.
    """

    section: Any = None
    budget_chars = 4_000
    may_ask_clock = False

    def facts(self, workspace: Path) -> PromptFacts:
        """Return the facts to render from; put the files that it reads into ``workspace``."""
        return prompt_facts(workspace)

    @pytest.fixture
    def known(self, tmp_path: Path) -> PromptFacts:
        """Return the facts, in a workspace of their own."""
        if not hasattr(self.section, "render"):
            pytest.fail(f"{type(self).__name__}.section is not set: section = the section to try")
        return self.facts(tmp_path)

    def test_the_same_facts_give_the_same_bytes(self, known: PromptFacts) -> None:
        first, second = self._render(known), self._render(known)
        assert first == second
        if self._is_stable and not self.may_ask_clock:
            assert _asked_clock_or_chance(lambda: self._render(known)) == []

    def test_no_message_changes_a_stable_section(self, known: PromptFacts) -> None:
        if not self._is_stable:
            pytest.skip("it is after the cache boundary: it may change with each message")
        before = self._render(known)
        if self._render(known) != before:
            pytest.skip("it is never the same: another test says so")
        for number in (1, 2):
            meta = {"channel": "fake", "message_id": f"message-{number}", "sender": f"user-{number}"}
            runtime = {**known.runtime, "session": f"agent:default:chat-{number}"}
            other = replace(known, inbound_meta=meta, extra=f"Group {number}.", runtime=runtime)
            assert self._render(other) == before, "it depends on the message"
        assert self._render(known) == before, "it remembers the message before"

    def test_it_stays_within_its_budget(self, known: PromptFacts) -> None:
        chars = len(self._render(known).decode("utf-8"))
        assert chars <= self.budget_chars, f"{chars} characters, about {chars // 4} tokens in every request"

    @property
    def _is_stable(self) -> bool:
        return bool(self.section.stable) and self.section.position <= VOLATILE_FROM

    def _render(self, facts: PromptFacts) -> bytes:
        text = self.section.render(facts)
        assert isinstance(text, str), f"render answered with {type(text).__name__}, not text"
        return text.encode("utf-8")


def _asked_clock_or_chance(render: Any) -> list[str]:
    """Return the functions of clock and randomness that ``render`` calls."""
    asked: list[str] = []

    def note(frame: Any, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__name__", "") in CLOCK_AND_CHANCE:
            owner = getattr(function, "__module__", None) or ""
            if owner in ITS_MODULES:
                asked.append(".".join(filter(None, (owner, function.__name__))))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        render()
    finally:
        sys.setprofile(before)
    return asked
