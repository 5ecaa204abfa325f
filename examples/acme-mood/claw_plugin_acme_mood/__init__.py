"""Good manners: a section of the system prompt, and a reviewer of tool calls."""

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


@hookimpl
def register_prompt_sections(config):
    # Read once: the same settings must give the same bytes, or the provider's cache is lost.
    mood = config.plugin(Mood)
    yield PromptSection("mood", position=500, render=lambda facts: f"## Mood\nYour tone is {mood.tone}.")


@hookimpl
def register_reviewers(config):
    return [Careful()]
