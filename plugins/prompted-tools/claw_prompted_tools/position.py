"""Markdown context of a position in streamed text: code fence, quotation or plain text (pure)."""

_FENCES = ("```", "~~~")
_QUOTES = frozenset("\"'`“‘«「『")


class MarkdownPosition:
    """The Markdown context at the end of the text so far; independent of how the text is split into pieces.

    Facts: CommonMark 0.31, fenced code blocks, block quotes and code spans, as far as models write them.
    """

    def __init__(self) -> None:
        self._fence = self._line_start = self._last_char = ""
        self._in_code_span = False

    def feed(self, text: str) -> None:
        """Append a piece of text."""
        lines = text.split("\n")
        for at, line in enumerate(lines):
            if at:
                self._end_line()
            if len(self._line_start) < 3:
                self._line_start = (self._line_start + line).lstrip()[:3]
            if "`" in line and line.count("`") % 2:
                self._in_code_span = not self._in_code_span
        self._last_char = text[-1:] or self._last_char

    def _end_line(self) -> None:
        if self._fence:
            self._fence = "" if self._line_start == self._fence else self._fence
        elif self._line_start in _FENCES:
            self._fence = self._line_start
        self._line_start, self._in_code_span = "", False

    def is_open(self, blank: str = "") -> bool:
        """Return true if text after these blanks would be plain text, neither code nor a quotation."""
        is_new_line = "\n" in blank
        fence = self._fence
        if is_new_line and (self._line_start == fence or (not fence and self._line_start in _FENCES)):
            fence = "" if fence else self._line_start
        if fence or is_new_line:
            return not fence
        quotes = self._line_start[:1] == ">" or self._line_start in _FENCES or self._in_code_span
        return not quotes and not (self._last_char in _QUOTES and not blank)
