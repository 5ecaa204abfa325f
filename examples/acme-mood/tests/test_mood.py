"""Tests of the section's text, and of the reviewer's refusals."""

import claw_plugin_acme_mood
import pytest
from claw import ToolCall


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
