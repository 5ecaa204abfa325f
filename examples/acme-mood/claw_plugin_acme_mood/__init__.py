"""Good manners: a section of the system prompt, a reviewer of tool calls, and a filter of replies."""

import re
from dataclasses import replace

from claw import PromptSection, Review, Section, hookimpl


class Mood(Section):
    """``plugins.entries.acme-mood.config``."""

    tone: str = "friendly and short"


class Careful:
    """Refuses to delete a whole tree; about everything else it has no opinion."""

    def before(self, call, context):
        line = str(call.arguments.get("command", ""))
        if call.name == "exec" and line.split()[:2] == ["rm", "-rf"]:
            return Review("deny", "Delete files one by one, so that nothing is lost by mistake.")
        return None


class Calm:
    """Changes shouting in replies, whole words in capitals with exclamation marks, into plain words."""

    def outbound(self, message):
        calm = re.sub(r"\b[A-Z]{4,}!+", lambda shout: shout[0].rstrip("!").capitalize() + ".", message.text)
        return replace(message, text=calm)


@hookimpl
def register_prompt_sections(config):
    # Read once: the same settings must give the same bytes, or the provider's cache is lost.
    mood = config.plugin(Mood)
    yield PromptSection("mood", position=150, render=lambda facts: f"## Mood\nYour tone is {mood.tone}.")


@hookimpl
def register_reviewers(config):
    return [Careful()]


@hookimpl
def register_filters(config):
    return [Calm()]
