"""Tests of the section's text, of the reviewer's refusals, and of the filter; and the suites of pytest-claw."""

import claw_plugin_acme_mood
import pytest
from claw import Address, Outbound, ToolCall
from pytest_claw import FilterSuite, ReviewerSuite


class Settings:
    """The part of the host's config that this plugin reads."""

    def __init__(self, **values):
        self.values = values

    def plugin(self, model):
        return model(**self.values)


def test_the_tone_of_the_prompt_is_a_setting():
    [section] = claw_plugin_acme_mood.register_prompt_sections(Settings(tone="dry"))
    assert section.stable
    assert "Your tone is dry." in section.render(None)


@pytest.mark.parametrize(
    ("name", "arguments", "refused"),
    [
        ("exec", {"command": "rm -rf build"}, True),
        ("exec", {"command": "rm build/one.txt"}, False),
        ("read", {"file_path": "rm -rf.txt"}, False),
    ],
)
def test_only_deleting_a_whole_tree_is_refused(name, arguments, refused):
    [careful] = claw_plugin_acme_mood.register_reviewers(Settings())
    review = careful.before(ToolCall("1", name, arguments), None)
    assert (review is not None and review.verdict == "deny") == refused


@pytest.mark.parametrize(
    ("said", "shown"),
    [("DONE! The file is there.", "Done. The file is there."), ("HTTP is fine", "HTTP is fine")],
)
def test_shouting_becomes_plain_words(said, shown):
    [calm] = claw_plugin_acme_mood.register_filters(Settings())
    assert calm.outbound(Outbound("t:0", Address("fake", "c1"), said)).text == shown


class TestCareful(ReviewerSuite):
    calls = (ToolCall("c1", "exec", {"command": "rm -rf build"}),)

    def make(self, folder):
        return claw_plugin_acme_mood.Careful()


class TestCalm(FilterSuite):
    def make(self, folder):
        return claw_plugin_acme_mood.Calm()
