"""Streaming parser that separates text from prompted tool calls, independent of how the answer is split (pure).

No part of a call is emitted as text: a possible beginning of a call is held back until it is decided.
"""

import re
from collections.abc import Callable, Iterator

from claw_prompted_tools.formats import (
    CALL_CLOSE,
    CALL_MARKS,
    MAX_HEAD_CHARS,
    RESULT_OPEN,
    SECTION_MARKS,
    ParsedCall,
    Schemas,
    UnreadableCall,
    find_call_json,
    is_call,
    looks_like_call,
    parse_json_call,
    parse_tagged_call,
    parse_valid_call,
)
from claw_prompted_tools.position import MarkdownPosition

Part = str | ParsedCall | UnreadableCall
IsQuoted = Callable[[ParsedCall | UnreadableCall], bool]

_MARKS = (*CALL_MARKS, *SECTION_MARKS, RESULT_OPEN, CALL_CLOSE)
_MARK = re.compile("|".join(map(re.escape, sorted(_MARKS, key=len, reverse=True))))
_LONGEST_MARK = max(map(len, _MARKS))
_FIRST_CHARS = frozenset("{").union(mark[0] for mark in _MARKS)
_MAX_BLANKS = 200
"""Maximum number of blanks held back."""
_BARE = re.compile(r"\s{0,200}(?:```[A-Za-z_]{0,20}\s{0,20})?(?:\[\s{0,20})?\{")
_BARE_PREFIX = re.compile(r"\s{0,200}(?:`{0,2}|```[A-Za-z_]{0,20}\s{0,20}\[?\s{0,20}|\[\s{0,20})")
_KEY = re.compile(r'\s{0,200}"([^"\\]{0,12})"\s{0,20}:')
_KEY_PREFIX = re.compile(r'\s{0,200}(?:"[^"\\]{0,12}(?:"\s{0,20})?)?')
_NAME_KEYS = frozenset({"name", "tool", "tool_name", "function"})
_KEYS = _NAME_KEYS | {"type", "id", "arguments", "parameters", "args", "input"}
BREAKS_OFF = "it breaks off before its end"
CUT_OFF = "the limit of output tokens cut it off; write less at once, or in several calls"
_MAX_HELD_CHARS = 100_000
"""Maximum characters held back of an object after text that may be a call; a longer object is text."""
_HEAD = re.compile(_MARK.pattern + r"|\{\s{0,20}\"(" + "|".join(sorted(_KEYS)) + r")\"\s{0,20}:")
_HEAD_PREFIX = re.compile(r'\{\s{0,20}(?:"[a-z_]{0,12}(?:"\s{0,20})?)?\Z')
_HEAD_CHARS = 60
_NAME = re.compile(r'\s{0,20}(?:"([^"\\]{0,64})(")?|\Z)')
_OUTSIDE_STRING = re.compile(r'[{}\[\]"<]')
_INSIDE_STRING = re.compile(r'["\\]')
_BETWEEN = re.compile(r"(?:[\s,;\]]|```)*")


class ToolCallParser:
    """The parser of one answer: a state machine, its current state is the method ``_step``.

    :param schemas: the parameters of each tool that may be called, by its name.
    :param quoted: returns true if a call only repeats the text of another author; such a call is text.
    """

    def __init__(self, schemas: Schemas, quoted: IsQuoted = lambda call: False) -> None:
        self._schemas, self._quoted = schemas, quoted
        self._buffer = ""  # not yet parsed; short, except for the newest piece of the answer
        self._step = self._read_text
        self._open_mark = self._name_before_json = self._blanks = ""
        self._call_parts: list[str] = []  # the text of the call so far
        self._json_at = self._depth = 0
        self._in_string = self._escaped = False
        self._at_start = True
        self._needs_gap = False
        self._has_text = self._has_calls = False
        self._context = MarkdownPosition()
        self._allows_trailing_call = True
        self._trailing_calls: list[
            tuple[str, ParsedCall]
        ] = []  # calls after text, while no text follows them
        self._in_trailing_call = False
        self._seeks_trailing_call = True
        self._held_chars = 0
        self._is_cut = False

    def feed(self, text: str) -> list[Part]:
        """Add the next piece of the answer; return the parts that are decided now."""
        plain = self._step == self._read_text and not (self._buffer or self._at_start or self._needs_gap)
        if plain and text and _FIRST_CHARS.isdisjoint(text) and not text[-1].isspace():
            self._context.feed(text)
            return [text]
        self._buffer += text
        return _join_text(self._run_states(last=False))

    def end(self, whole: bool = True, alone: bool = True) -> list[Part]:
        """End the answer; return the parts that were held back.

        :param whole: False when the answer was cut short at its limit, which is then the reason for an incomplete call.
        :param alone: False when the model has made native tool calls: an object after its text is then text.
        """
        self._allows_trailing_call, self._is_cut = whole and alone, not whole
        parts = list(self._run_states(last=True))
        if self._step in (self._read_raw, self._read_json):
            parts += self._end_partial_call(whole)
        return _join_text(iter(parts))

    def _run_states(self, last: bool) -> Iterator[Part]:
        while True:
            before = self._step, self._buffer
            yield from self._step(last)
            if (self._step, self._buffer) == before:
                return

    # --- text

    def _read_text(self, last: bool) -> Iterator[Part]:
        text = self._buffer
        if self._at_start:
            bare = _BARE.match(text)
            if bare and (go := self._may_be_bare(text, bare.end(), last)) is not False:
                if go:
                    self._open_mark = self._blanks = ""
                    self._call_parts, self._buffer = [text[: bare.end() - 1]], text[bare.end() - 1 :]
                    self._begin_json("")
                return
            if not bare and not last and _BARE_PREFIX.fullmatch(text):
                return
            self._at_start = False
        found = (_HEAD if self._seeks_trailing_call else _MARK).search(text)
        if found:  # no mark is a prefix of another
            words = text[: _end_of_text(text, found.start())]
            yield from self._emit_text(words)
            blank = text[len(words) : found.start()]
            if found[0][0] == "{":
                yield from self._on_object(blank, text[len(words) :], last)
                return
            self._buffer = text[found.end() :]
            yield from self._on_mark(blank, found[0])
            return
        held = len(text) if last else _decided_length(text)
        yield from self._emit_text(text[:held])
        self._buffer = text[held:]

    def _may_be_bare(self, text: str, at: int, last: bool) -> bool | None:
        """Return true if an object at the start of the answer may be a call; None = undecided."""
        if key := _KEY.match(text, at):
            return key[1] in _KEYS
        if not last and _KEY_PREFIX.fullmatch(text, at):
            return None
        return False

    def _on_mark(self, blank: str, mark: str) -> Iterator[Part]:
        if mark == RESULT_OPEN and self._has_calls:  # the model invents the result
            self._step = self._discard
        elif mark in CALL_MARKS:
            self._open_mark, self._call_parts, self._step, self._blanks = mark, [mark], self._read_head, blank
        elif mark == RESULT_OPEN or (mark == CALL_CLOSE and not self._has_calls):
            yield from self._emit_text(blank + mark)

    # --- trailing calls: objects after text, at the very end

    def _on_object(self, blank: str, text: str, last: bool) -> Iterator[Part]:
        """Decide on an object that may be a call; ``text`` begins with the blanks and the head of the object."""
        goes = self._context.is_open(blank) and self._may_name_tool(text, len(blank), last)
        self._buffer = text
        if goes:
            self._begin_trailing_call(blank)
        elif goes is not None:
            self._buffer = text[len(blank) + 1 :]
            yield from self._emit_text(blank + "{")

    def _may_name_tool(self, text: str, at: int, last: bool) -> bool | None:
        """Return true if the beginning of an object may name one of the tools; None = undecided."""
        head = _HEAD.match(text, at)
        if head is None or head[1] is None:  # a mark, not an object
            return None if not last and _HEAD_PREFIX.match(text, at) else False
        name = _NAME.match(text, head.end()) if head[1] in _NAME_KEYS else None
        if head[1] not in _NAME_KEYS:
            return True
        if name is None:
            return head[1] == "function"
        if name[2]:
            return name[1] in self._schemas
        known = any(tool.startswith(name[1] or "") for tool in self._schemas)
        return None if known and not last and name.end() == len(text) else False

    def _begin_trailing_call(self, blank: str) -> None:
        self._open_mark, self._blanks, self._call_parts = "", "", [blank]
        self._buffer = self._buffer[len(blank) :]
        self._in_trailing_call, self._held_chars = True, len(blank)
        self._begin_json("")

    def _end_trailing_call(self, whole: bool = True) -> Iterator[Part]:
        """End an object that is complete or can no longer be a call; ``whole``: its last bracket was read."""
        raw, blank = "".join(self._call_parts), self._call_parts[0]
        self._call_parts, self._in_trailing_call, self._step = [], False, self._after_trailing_call
        part = parse_valid_call(raw[len(blank) :], self._schemas) if len(raw) <= _MAX_HELD_CHARS else None
        if part:
            self._trailing_calls.append((raw, part))
            return
        yield from self._release_trailing_calls()
        if whole and len(raw) <= _MAX_HELD_CHARS:
            yield from self._emit_text(raw)
        else:  # unterminated: parse what follows its first bracket as text, and seek no further trailing call
            self._seeks_trailing_call = False
            yield from self._emit_text(blank + "{")
            self._buffer = raw[len(blank) + 1 :] + self._buffer

    def _end_cut_call(self) -> Iterator[Part]:
        """End an object that names a tool and that the limit of the answer cut off."""
        raw, self._call_parts, self._in_trailing_call = "".join(self._call_parts), [], False
        yield from self._release_trailing_calls()
        yield from self._emit_call(UnreadableCall(raw.strip(), CUT_OFF))

    def _after_trailing_call(self, last: bool) -> Iterator[Part]:
        """After a trailing call: another one or the end of the answer; with anything else the call becomes text."""
        text = self._buffer
        blank = text[: len(text) - len(text.lstrip())]
        if len(blank) < _MAX_BLANKS:
            if not last and blank == text:
                return
            goes = self._may_name_tool(text, len(blank), last)
            if goes is None:
                return
            if goes:
                self._begin_trailing_call(blank)
                return
        if blank == text and last and self._allows_trailing_call:
            self._buffer, self._step = "", self._read_text
            for raw, part in self._trailing_calls:
                self._blanks = raw[: len(raw) - len(part.raw)]
                yield from self._emit_call(part)
            self._trailing_calls, self._step = [], self._read_text
            if not self._needs_gap:
                yield from self._emit_text(blank)
        else:
            yield from self._release_trailing_calls()

    def _release_trailing_calls(self) -> Iterator[Part]:
        held, self._trailing_calls, self._step = self._trailing_calls, [], self._read_text
        for raw, _ in held:
            yield from self._emit_text(raw)

    def _emit_text(self, text: str) -> Iterator[str]:
        if self._needs_gap:
            text = text.lstrip()
            if text and self._has_text:
                text = f"\n\n{text}"
        if text:
            self._needs_gap = False
            self._has_text = self._has_text or not text.isspace()
            self._context.feed(text)
            yield text

    def _discard(self, last: bool) -> Iterator[Part]:
        self._buffer = ""
        yield from ()

    # --- a call

    def _read_head(self, last: bool) -> Iterator[Part]:
        """After an opening mark: a name, a code fence, or the JSON directly."""
        text, closing = self._buffer, CALL_MARKS[self._open_mark]
        at = text.find("{")
        end = text.find(closing) if closing else -1
        if at >= 0 and (end < 0 or at < end) and (head := find_call_json(text[: at + 1])):
            self._call_parts.append(text[:at])
            self._buffer = text[at:]
            self._begin_json(head[1])
        elif last or at >= 0 or end >= 0 or len(text) > MAX_HEAD_CHARS:
            self._step = self._read_raw
        yield from ()

    def _begin_json(self, named: str) -> None:
        self._name_before_json, self._step = named, self._read_json
        self._json_at, self._depth = len(self._call_parts), 0
        self._in_string = self._escaped = False

    def _read_json(self, last: bool) -> Iterator[Part]:
        """Read to the bracket that closes the first one; a closing tag inside a string does not count."""
        text, at = self._buffer, 0
        while at < len(text):
            if self._escaped:
                self._escaped, at = False, at + 1
                continue
            special = (_INSIDE_STRING if self._in_string else _OUTSIDE_STRING).search(text, at)
            if special is None:
                break
            at, sign = special.end(), special[0]
            if sign == '"':
                self._in_string = not self._in_string
            elif sign == "\\":
                self._escaped = True
            elif sign == "<":
                if self._open_mark and CALL_MARKS[self._open_mark]:
                    self._call_parts.append(text[: at - 1])
                    self._buffer, self._step = text[at - 1 :], self._read_raw
                    return
            else:
                self._depth += 1 if sign in "{[" else -1
                if self._depth <= 0:
                    self._call_parts.append(text[:at])
                    self._buffer = text[at:]
                    yield from self._end_trailing_call() if self._in_trailing_call else self._end_json()
                    return
        self._call_parts.append(text)
        self._held_chars += len(text)
        self._buffer = ""
        if self._in_trailing_call and (last or self._held_chars > _MAX_HELD_CHARS):
            is_cut_call = last and self._is_cut and _names_a_tool("".join(self._call_parts), self._schemas)
            yield from self._end_cut_call() if is_cut_call else self._end_trailing_call(whole=False)

    def _end_json(self) -> Iterator[Part]:
        raw, written = "".join(self._call_parts), "".join(self._call_parts[self._json_at :])
        self._call_parts = []
        if self._open_mark or is_call(written, self._schemas):
            self._step = self._after_call
            yield from self._emit_call(parse_json_call(raw, written, self._name_before_json))
        else:
            self._step = self._read_text
            yield from self._emit_text(raw)
            self._at_start = False

    def _emit_call(self, part: ParsedCall | UnreadableCall) -> Iterator[Part]:
        if self._quoted(part):
            self._step, self._at_start = self._read_text, False
            yield from self._emit_text(self._blanks + part.raw)
        else:
            self._has_calls = self._needs_gap = True
            yield part

    def _after_call(self, last: bool) -> Iterator[Part]:
        """After a complete call: another one, its closing mark, or text."""
        text = _BETWEEN.sub("", self._buffer, count=1)
        closing = CALL_MARKS[self._open_mark] if self._open_mark else ""
        self._buffer = text
        if text in ("", "`", "``") and not last:
            return
        if text.startswith("{") and self._open_mark:
            self._call_parts = [self._open_mark]
            self._begin_json("")
        elif closing and text.startswith(closing):
            self._buffer, self._step = text[len(closing) :], self._read_text
        elif last or not (closing and closing.startswith(text)):
            self._step = self._read_text
            self._at_start = not self._open_mark
        yield from ()

    def _read_raw(self, last: bool) -> Iterator[Part]:
        """Read text that is not valid JSON, up to the closing mark."""
        closing = CALL_MARKS[self._open_mark]
        end = self._buffer.find(closing) if closing else -1
        if end < 0:
            held = len(closing) - 1 if closing and not last else 0
            cut = max(0, len(self._buffer) - held)
            if cut:
                self._call_parts.append(self._buffer[:cut])
                self._buffer = self._buffer[cut:]
            return
        body = "".join([*self._call_parts, self._buffer[:end]])[len(self._open_mark) :]
        raw = self._open_mark + body + closing
        self._call_parts, self._buffer, self._step = [], self._buffer[end + len(closing) :], self._read_text
        if looks_like_call(body, self._schemas):
            yield from self._emit_call(self._read(raw, body))
        else:
            yield from self._emit_text(self._blanks + raw)

    def _read(self, raw: str, body: str) -> ParsedCall | UnreadableCall:
        head = find_call_json(body)
        if head and "<parameter" not in body[: head[0]]:
            return parse_json_call(raw, body[head[0] :].rstrip(" \n`;]"), head[1])
        return parse_tagged_call(raw, body, self._schemas)

    def _end_partial_call(self, whole: bool) -> Iterator[Part]:
        """Handle the end of the answer inside a call."""
        raw = "".join([*self._call_parts, self._buffer])
        self._call_parts, self._buffer = [], ""
        meant = self._step == self._read_json if self._open_mark else _names_a_tool(raw, self._schemas)
        tags = self._open_mark and self._step == self._read_raw
        self._step = self._read_text
        if not meant and tags and isinstance(self._read(raw, raw[len(self._open_mark) :]), ParsedCall):
            meant = True
        if not meant:
            yield from self._emit_text(self._blanks + raw if self._open_mark else raw)
        else:
            yield from self._emit_call(UnreadableCall(raw, BREAKS_OFF if whole else CUT_OFF))


def _names_a_tool(raw: str, schemas: Schemas) -> bool:
    found = re.search(r'"(?:name|tool|tool_name)"\s*:\s*"([^"]{1,64})"', raw)
    return bool(found and found[1] in schemas)


def _decided_length(text: str) -> int:
    """Return how many characters are text whatever follows: not trailing blanks, not a possible start of a mark."""
    perhaps = _HEAD_PREFIX.search(text, max(0, len(text) - _HEAD_CHARS))
    for at in range(max(0, len(text) - _LONGEST_MARK + 1), len(text)):
        if perhaps and at >= perhaps.start():
            break
        if text[at] in _FIRST_CHARS and any(mark.startswith(text[at:]) for mark in _MARKS):
            return _end_of_text(text, at)
    return _end_of_text(text, perhaps.start() if perhaps else len(text))


def _end_of_text(text: str, end: int) -> int:
    """Return ``end`` moved before the blanks that precede it."""
    return max(len(text[:end].rstrip()), end - _MAX_BLANKS)


def _join_text(parts: Iterator[Part]) -> list[Part]:
    """Join adjacent text parts."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def has_call_marks(text: str) -> bool:
    """Return true if the text holds a mark of a call."""
    return _MARK.search(text) is not None


def parse_answer(
    text: str, schemas: Schemas, whole: bool = True, quoted: IsQuoted = lambda call: False, alone: bool = True
) -> list[Part]:
    """Parse a whole answer at once."""
    parser = ToolCallParser(schemas, quoted)
    return _join_text(iter([*parser.feed(text), *parser.end(whole, alone)]))
