"""Words apart from calls, while a model speaks: however its answer is cut into pieces, the same comes out (pure).

Nothing of a call is ever among the words: what could become the beginning of one is held back until it is known.
"""

import re
from collections.abc import Callable, Iterator

from claw.spoken.forms import (
    AROUND,
    CLOSE,
    FORMS,
    HEAD_CHARS,
    RESULT,
    Garbled,
    Schemas,
    Spoken,
    head_of,
    is_call,
    is_meant,
    read_call,
    read_tags,
)

Part = str | Spoken | Garbled
Quoted = Callable[[Spoken | Garbled], bool]

_MARKS = (*FORMS, *AROUND, RESULT, CLOSE)
_MARK = re.compile("|".join(map(re.escape, sorted(_MARKS, key=len, reverse=True))))
_LONGEST = max(map(len, _MARKS))
_FIRST = frozenset(mark[0] for mark in _MARKS)
_BLANKS = 200
"""More of them are not held back."""
_BARE = re.compile(r"\s{0,200}(?:```[A-Za-z_]{0,20}\s{0,20})?\[?\s{0,20}\{")
_BARE_PERHAPS = re.compile(r"\s{0,200}(?:`{0,2}|```[A-Za-z_]{0,20}\s{0,20}\[?\s{0,20}|\[\s{0,20})")
_KEY = re.compile(r'\s{0,200}"([^"\\]{0,12})"\s{0,20}:')
_KEY_PERHAPS = re.compile(r'\s{0,200}(?:"[^"\\]{0,12}(?:"\s{0,20})?)?')
_KEYS = frozenset(
    {"name", "tool", "tool_name", "function", "type", "id", "arguments", "parameters", "args", "input"}
)
_OUTSIDE_STRING = re.compile(r'[{}\[\]"<]')
_INSIDE_STRING = re.compile(r'["\\]')
_BETWEEN = re.compile(r"(?:[\s,;\]]|```)*")


class Ear:
    """One answer.

    :param schemas: the parameters of each tool that may be called, by its name.
    :param quoted: whether a call only repeats what somebody else wrote: then it is words.
    """

    def __init__(self, schemas: Schemas, quoted: Quoted = lambda call: False) -> None:
        self._schemas, self._quoted = schemas, quoted
        self._rest = ""  # not yet judged; short, but for one piece of the answer
        self._step = self._words
        self._opened = self._named = self._blank = ""
        self._kept: list[str] = []  # of the call so far
        self._json_at = self._depth = 0
        self._in_string = self._escaped = False
        self._fresh, self._gap = True, False
        self._said = self._caught = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held back."""
        return not self._rest and not self._kept

    def feed(self, text: str) -> list[Part]:
        """The next piece; what is certain now."""
        plain = self._step == self._words and not (self._rest or self._fresh or self._gap)
        if plain and text and _FIRST.isdisjoint(text) and not text[-1].isspace():
            return [text]
        self._rest += text
        return _joined(self._judged(last=False))

    def end(self, whole: bool = True) -> list[Part]:
        """The answer is over: what was held back.

        :param whole: False when it was cut short: half a call is then nobody's.
        """
        parts = list(self._judged(last=True))
        if self._step in (self._raw, self._json):
            parts += self._cut_off(whole)
        return _joined(iter(parts))

    def _judged(self, last: bool) -> Iterator[Part]:
        while True:
            before = self._step, self._rest
            yield from self._step(last)
            if (self._step, self._rest) == before:
                return

    # --- words

    def _words(self, last: bool) -> Iterator[Part]:
        text = self._rest
        if self._fresh:
            bare = _BARE.match(text)
            if bare and (go := self._may_be_bare(text, bare.end(), last)) is not False:
                if go:
                    self._opened, self._blank, self._kept, self._rest = (
                        "",
                        "",
                        [text[: bare.end() - 1]],
                        text[bare.end() - 1 :],
                    )
                    self._begin_json("")
                return
            if not bare and not last and _BARE_PERHAPS.fullmatch(text):
                return
            self._fresh = False
        found = _MARK.search(text)
        if found:  # no mark is the beginning of another
            words = text[: _end_of_words(text, found.start())]
            yield from self._say(words)
            self._rest = text[found.end() :]
            yield from self._meet(text[len(words) : found.start()], found[0])
            return
        held = len(text) if last else _certain(text)
        yield from self._say(text[:held])
        self._rest = text[held:]

    def _may_be_bare(self, text: str, at: int, last: bool) -> bool | None:
        """Whether an object at the beginning may be a call: None = it cannot be known yet."""
        if key := _KEY.match(text, at):
            return key[1] in _KEYS
        if not last and _KEY_PERHAPS.fullmatch(text, at):
            return None
        return False

    def _meet(self, blank: str, mark: str) -> Iterator[Part]:
        if mark == RESULT and self._caught:  # it makes the answer up by itself
            self._step = self._deaf
        elif mark in FORMS:
            self._opened, self._kept, self._step, self._blank = mark, [mark], self._head, blank
        elif mark == RESULT or (mark == CLOSE and not self._caught):
            yield from self._say(blank + mark)

    def _say(self, text: str) -> Iterator[str]:
        if self._gap:
            text = text.lstrip()
            if text and self._said:
                text = f"\n\n{text}"
        if text:
            self._gap = False
            self._said = self._said or not text.isspace()
            yield text

    def _deaf(self, last: bool) -> Iterator[Part]:
        self._rest = ""
        yield from ()

    # --- a call

    def _head(self, last: bool) -> Iterator[Part]:
        """Behind an opening: a name, a fence, or the JSON at once."""
        text, closing = self._rest, FORMS[self._opened]
        at = text.find("{")
        end = text.find(closing) if closing else -1
        if at >= 0 and (end < 0 or at < end) and (head := head_of(text[: at + 1])):
            self._kept.append(text[:at])
            self._rest = text[at:]
            self._begin_json(head[1])
        elif last or at >= 0 or end >= 0 or len(text) > HEAD_CHARS:
            self._step = self._raw
        yield from ()

    def _begin_json(self, named: str) -> None:
        self._named, self._step = named, self._json
        self._json_at, self._depth = len(self._kept), 0
        self._in_string = self._escaped = False

    def _json(self, last: bool) -> Iterator[Part]:
        """To the bracket that closes the first one; a closing tag within a string is none."""
        text, at = self._rest, 0
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
                if self._opened and FORMS[self._opened]:
                    self._kept.append(text[: at - 1])
                    self._rest, self._step = text[at - 1 :], self._raw
                    return
            else:
                self._depth += 1 if sign in "{[" else -1
                if self._depth <= 0:
                    self._kept.append(text[:at])
                    self._rest = text[at:]
                    yield from self._closed()
                    return
        self._kept.append(text)
        self._rest = ""

    def _closed(self) -> Iterator[Part]:
        raw, written = "".join(self._kept), "".join(self._kept[self._json_at :])
        self._kept = []
        if self._opened or is_call(written, self._schemas):
            self._step = self._behind
            yield from self._catch(read_call(raw, written, self._named))
        else:
            self._step = self._words
            yield from self._say(raw)
            self._fresh = False

    def _catch(self, part: Spoken | Garbled) -> Iterator[Part]:
        if self._quoted(part):
            self._step, self._fresh = self._words, False
            yield from self._say(self._blank + part.raw)
        else:
            self._caught = self._gap = True
            yield part

    def _behind(self, last: bool) -> Iterator[Part]:
        """Behind a whole call: another one, its closing, or words again."""
        text = _BETWEEN.sub("", self._rest, count=1)
        closing = FORMS[self._opened] if self._opened else ""
        self._rest = text
        if text in ("", "`", "``") and not last:
            return
        if text.startswith("{") and self._opened:
            self._kept = [self._opened]
            self._begin_json("")
        elif closing and text.startswith(closing):
            self._rest, self._step = text[len(closing) :], self._words
        elif last or not (closing and closing.startswith(text)):
            self._step = self._words
            self._fresh = not self._opened
        yield from ()

    def _raw(self, last: bool) -> Iterator[Part]:
        """What is no sound JSON, up to its closing."""
        closing = FORMS[self._opened]
        end = self._rest.find(closing) if closing else -1
        if end < 0:
            held = len(closing) - 1 if closing and not last else 0
            cut = max(0, len(self._rest) - held)
            if cut:
                self._kept.append(self._rest[:cut])
                self._rest = self._rest[cut:]
            return
        body = "".join([*self._kept, self._rest[:end]])[len(self._opened) :]
        raw = self._opened + body + closing
        self._kept, self._rest, self._step = [], self._rest[end + len(closing) :], self._words
        if is_meant(body, self._schemas):
            yield from self._catch(self._read(raw, body))
        else:
            yield from self._say(self._blank + raw)

    def _read(self, raw: str, body: str) -> Spoken | Garbled:
        head = head_of(body)
        if head and "<parameter" not in body[: head[0]]:
            return read_call(raw, body[head[0] :].rstrip(" \n`;]"), head[1])
        return read_tags(raw, body, self._schemas)

    def _cut_off(self, whole: bool) -> Iterator[Part]:
        """The end came inside of a call."""
        raw = "".join([*self._kept, self._rest])
        self._kept, self._rest = [], ""
        meant = self._step == self._json if self._opened else _names_a_tool(raw, self._schemas)
        tags = self._opened and self._step == self._raw
        self._step = self._words
        if not meant and tags and isinstance(self._read(raw, raw[len(self._opened) :]), Spoken):
            meant = True
        if not meant:
            yield from self._say(self._blank + raw if self._opened else raw)
        elif whole:
            yield from self._catch(Garbled(raw, "it breaks off before its end"))


def _names_a_tool(raw: str, schemas: Schemas) -> bool:
    found = re.search(r'"(?:name|tool|tool_name)"\s*:\s*"([^"]{1,64})"', raw)
    return bool(found and found[1] in schemas)


def _certain(text: str) -> int:
    """How much of it is words whatever follows: not its last blanks, not what may become a mark."""
    for at in range(max(0, len(text) - _LONGEST + 1), len(text)):
        if text[at] in _FIRST and any(mark.startswith(text[at:]) for mark in _MARKS):
            return _end_of_words(text, at)
    return _end_of_words(text, len(text))


def _end_of_words(text: str, end: int) -> int:
    """Without the blanks before ``end``."""
    return max(len(text[:end].rstrip()), end - _BLANKS)


def _joined(parts: Iterator[Part]) -> list[Part]:
    """Words that follow each other as one part."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def has_marks(text: str) -> bool:
    """Whether anything in it could be a call that stands between marks."""
    return _MARK.search(text) is not None


def listen(
    text: str, schemas: Schemas, whole: bool = True, quoted: Quoted = lambda call: False
) -> list[Part]:
    """A whole answer at once."""
    ear = Ear(schemas, quoted)
    return _joined(iter([*ear.feed(text), *ear.end(whole)]))
