"""A sliding window for claw: the newest turns of a conversation; ``/compact`` makes an extract without a model."""

from claw import Section, User, hookimpl
from claw.runtime import CompactionRecord, limit_turns

LINE_CHARS, LINES = 100, 50


class Settings(Section):
    """``plugins.entries.sliding-window.config``."""

    turns: int = 20


class SlidingWindow:
    """A context engine that shows the newest turns. A turn is never split, so every call keeps its result."""

    name = "sliding-window"

    def __init__(self, turns):
        self._turns = turns

    def wrap(self, call, turn):
        """Return a call that is sent the newest turns, the present one included."""
        return lambda messages, tool_choice: call(limit_turns(messages, self._turns), tool_choice)

    async def compact(self, turn, focus):
        """Replace all but the newest turns by the beginnings of the questions in them."""
        session = turn.session
        kept = limit_turns(session.messages, self._turns)
        removed = session.messages[: len(session.messages) - len(kept)]
        if not removed:
            return f"nothing to do: the conversation has at most {self._turns} turns"
        asked = [f"- {text_of(message)[:LINE_CHARS]}" for message in removed if isinstance(message, User)]
        extract = "\n".join(["The person asked earlier:", *asked[-LINES:]])
        session.append_entry(CompactionRecord(summary=extract, first_kept_entry_id=session.id_of(kept[0])))
        return f"{len(removed)} older messages became an extract"

    async def before_reset(self, turn):
        """Keep nothing: this engine writes no notes."""


def text_of(message):
    return " ".join(block.text for block in message.content if hasattr(block, "text"))


@hookimpl
def register_context_engines(config):
    return [SlidingWindow(config.plugin(Settings).turns)]
