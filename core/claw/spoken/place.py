"""Where in a text something stands: in a code fence, in a quotation, or in the open (pure)."""

_FENCES = ("```", "~~~")
_QUOTES = frozenset("\"'`“‘«「『")


class Place:
    """The end of what was said so far, however it came in pieces.

    Facts: CommonMark 0.31, fenced code blocks, block quotes and code spans, as far as models write them.
    """

    def __init__(self) -> None:
        self._fence = self._lead = self._last = ""
        self._in_span = False

    def goes_on(self, text: str) -> None:
        """More was said."""
        lines = text.split("\n")
        for at, line in enumerate(lines):
            if at:
                self._line_ends()
            if len(self._lead) < 3:
                self._lead = (self._lead + line).lstrip()[:3]
            if "`" in line and line.count("`") % 2:
                self._in_span = not self._in_span
        self._last = text[-1:] or self._last

    def _line_ends(self) -> None:
        if self._fence:
            self._fence = "" if self._lead == self._fence else self._fence
        elif self._lead in _FENCES:
            self._fence = self._lead
        self._lead, self._in_span = "", False

    def is_open(self, blank: str = "") -> bool:
        """Whether what comes next, behind these blanks, is the speaker's own plain words."""
        is_new_line = "\n" in blank
        fence = self._fence
        if is_new_line and (self._lead == fence or (not fence and self._lead in _FENCES)):
            fence = "" if fence else self._lead
        if fence or is_new_line:
            return not fence
        quotes = self._lead[:1] == ">" or self._lead in _FENCES or self._in_span
        return not quotes and not (self._last in _QUOTES and not blank)
