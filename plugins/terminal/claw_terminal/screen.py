"""The output of turns on a terminal: the answer as it streams, tool calls beside it."""

from typing import TextIO

from claw import (
    Event,
    MessageRecorded,
    StepStarted,
    TextStreamed,
    ThinkingStreamed,
    TurnStarted,
    t,
)
from claw.runtime import AnswerPrinter


class TerminalScreen(AnswerPrinter):
    """The output of turns: text as it streams, tool calls beside it. In a pipe, the answer alone."""

    def __init__(self, as_json: bool, out: TextIO) -> None:
        super().__init__(as_json, out)
        self.reasoning = False
        self._is_terminal = out.isatty()
        self._pieces: list[str] = []  # of the newest step that had text
        self._streamed = self._interrupted = self._line_open = False

    async def on_event(self, event: Event) -> None:
        """Show one event of the turn."""
        if self.as_json:
            await super().on_event(event)
        elif isinstance(event, TurnStarted):
            self._pieces, self._interrupted = [], False
        elif isinstance(event, MessageRecorded):
            self._interrupted = self._streamed and getattr(event.message, "stop_reason", "") == "error"
        elif isinstance(event, StepStarted):
            if self._interrupted:  # text on a terminal cannot be removed
                self.line(t("(The answer was interrupted. It starts again:)"))
            self._streamed = self._interrupted = False
        elif isinstance(event, TextStreamed) and self._is_terminal:
            self._pieces = self._pieces if self._streamed else []
            self._pieces.append(event.text)
            self._streamed = self._line_open = True
            self.write(event.text)
        elif isinstance(event, ThinkingStreamed) and self.reasoning:
            self._line_open = True
            self.write(event.text)
        else:
            await super().on_event(event)

    def answer(self, text: str) -> None:
        """Print the whole answer, unless it was streamed."""
        if self._streamed or (self._is_terminal and text.strip() == "".join(self._pieces).strip()):
            self._end_line()
        else:
            super().answer(text)

    def line(self, text: str) -> None:
        """Print an answer of claw itself."""
        self._end_line()
        self.write(text + "\n")

    def note(self, text: str) -> None:
        """Print a line that is not the answer."""
        self._end_line()
        super().note(text)

    def _end_line(self) -> None:
        if self._line_open:
            self.out.write("\n")
            self.out.flush()
        self._line_open = False
