"""Overrides: what was chosen for one conversation, until it is taken back."""

from pathlib import Path

import pytest
from claw.storage.database import Database
from claw.storage.overrides import NO_OVERRIDE, Override, Overrides

HERE, THERE = "agent:a:main", "agent:a:feishu:group:oc_1"


@pytest.fixture
def overrides(tmp_path: Path) -> Overrides:
    return Overrides(Database(tmp_path / "state.db"))


def test_nothing_is_chosen_at_first(overrides: Overrides) -> None:
    assert overrides.of(HERE) == NO_OVERRIDE == Override()


def test_a_choice_stays_while_another_is_made_and_holds_for_its_conversation_alone(
    overrides: Overrides,
) -> None:
    overrides.set(HERE, model="openai/gpt-5")
    assert overrides.set(HERE, thinking="high", reasoning=False) == Override("openai/gpt-5", "high", False)
    assert overrides.of(HERE) == Override("openai/gpt-5", "high", False)
    assert overrides.of(THERE) == NO_OVERRIDE


def test_a_restart_forgets_nothing(overrides: Overrides, tmp_path: Path) -> None:
    overrides.set(HERE, queue="collect")
    assert Overrides(Database(tmp_path / "state.db")).of(HERE).queue == "collect"


def test_one_choice_or_all_can_be_taken_back(overrides: Overrides) -> None:
    overrides.set(HERE, model="a/b", queue="steer")
    assert overrides.set(HERE, model="") == Override(queue="steer")
    overrides.clear(HERE)
    assert overrides.of(HERE) == NO_OVERRIDE


def test_what_chooses_nothing_leaves_no_row(overrides: Overrides, tmp_path: Path) -> None:
    overrides.set(HERE, model="a/b")
    overrides.set(HERE, model="")
    assert Database(tmp_path / "state.db").read("SELECT * FROM overrides") == []


def test_what_only_a_newer_claw_knows_is_left_alone(overrides: Overrides, tmp_path: Path) -> None:
    overrides.set(HERE, model="a/b")
    Database(tmp_path / "state.db").write(
        """UPDATE overrides SET chosen = '{"model": "c/d", "mood": "merry"}'"""
    )
    assert overrides.of(HERE) == Override("c/d")
