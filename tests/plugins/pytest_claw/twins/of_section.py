"""One sound section, and for each promise a twin that breaks it and no other."""

import time
from collections.abc import Iterator
from itertools import count

from claw import PromptFacts, PromptSection
from pytest_claw import SectionSuite

NUMBERS: Iterator[int] = count()


class TestSound(SectionSuite):
    section = PromptSection("Mood", 150, lambda facts: f"## Mood\n{facts.agent.id} is in a good mood.")
    breaks = ""


class TestTellsTheHour(TestSound):
    section = PromptSection("Mood", 150, lambda facts: f"## Mood\nIt is hour {time.time() // 3600:.0f}.")
    breaks = "test_the_same_facts_give_the_same_bytes"


class TestIsNeverTheSame(TestSound):
    section = PromptSection("Mood", 150, lambda facts: f"## Mood\nMood number {next(NUMBERS)}.")
    breaks = "test_the_same_facts_give_the_same_bytes"


class TestFollowsTheMessage(TestSound):
    section = PromptSection("Mood", 150, lambda facts: f"## Mood\nWe talk to {facts.inbound_meta}.")
    breaks = "test_no_message_changes_a_stable_section"


LAST: list[object] = []


def remembers(facts: PromptFacts) -> str:
    if facts.extra:
        LAST.append(facts.extra)
    return f"## Mood\n{len(LAST)} groups were here."


class TestRemembersTheGroup(TestSound):
    section = PromptSection("Mood", 150, remembers)
    breaks = "test_no_message_changes_a_stable_section"


class TestTalksALot(TestSound):
    section = PromptSection("Mood", 150, lambda facts: "## Mood\n" + "A good mood is a good mood. " * 200)
    breaks = "test_it_stays_within_its_budget"
