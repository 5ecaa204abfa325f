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
    sound_call,
)
from claw.spoken.place import Place

Part = str | Spoken | Garbled
Quoted = Callable[[Spoken | Garbled], bool]

_MARKS = (*FORMS, *AROUND, RESULT, CLOSE)
_MARK = re.compile("|".join(map(re.escape, sorted(_MARKS, key=len, reverse=True))))
_LONGEST = max(map(len, _MARKS))
_FIRST = frozenset("{").union(mark[0] for mark in _MARKS)
_BLANKS = 200
"""More of them are not held back."""
_BARE = re.compile(r"\s{0,200}(?:```[A-Za-z_]{0,20}\s{0,20})?(?:\[\s{0,20})?\{")
_BARE_PERHAPS = re.compile(r"\s{0,200}(?:`{0,2}|```[A-Za-z_]{0,20}\s{0,20}\[?\s{0,20}|\[\s{0,20})")
_KEY = re.compile(r'\s{0,200}"([^"\\]{0,12})"\s{0,20}:')
_KEY_PERHAPS = re.compile(r'\s{0,200}(?:"[^"\\]{0,12}(?:"\s{0,20})?)?')
_NAMING = frozenset({"name", "tool", "tool_name", "function"})
_KEYS = _NAMING | {"type", "id", "arguments", "parameters", "args", "input"}
_MOST_HELD = 100_000
"""Characters of an object behind words that may be a call: a longer one is words."""
_HEAD = re.compile(_MARK.pattern + r"|\{\s{0,20}\"(" + "|".join(sorted(_KEYS)) + r")\"\s{0,20}:")
_HEAD_PERHAPS = re.compile(r'\{\s{0,20}(?:"[a-z_]{0,12}(?:"\s{0,20})?)?\Z')
_HEAD_CHARS = 60
_NAME = re.compile(r'\s{0,20}(?:"([^"\\]{0,64})(")?|\Z)')
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
        self._place, self._alone = Place(), True
        self._last_words: list[
            tuple[str, Spoken]
        ] = []  # calls behind the words, as long as no words follow them
        self._is_behind_words, self._looks_behind_words, self._held_chars = False, True, 0

    def feed(self, text: str) -> list[Part]:
        """The next piece; what is certain now."""
        plain = self._step == self._words and not (self._rest or self._fresh or self._gap)
        if plain and text and _FIRST.isdisjoint(text) and not text[-1].isspace():
            self._place.goes_on(text)
            return [text]
        self._rest += text
        return _joined(self._judged(last=False))

    def end(self, whole: bool = True, alone: bool = True) -> list[Part]:
        """The answer is over: what was held back.

        :param whole: False when it was cut short: half a call is then nobody's.
        :param alone: False when the model has called tools in their own way: an object behind its words is then words.
        """
        self._alone = whole and alone
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
                    self._opened = self._blank = ""
                    self._kept, self._rest = [text[: bare.end() - 1]], text[bare.end() - 1 :]
                    self._begin_json("")
                return
            if not bare and not last and _BARE_PERHAPS.fullmatch(text):
                return
            self._fresh = False
        found = (_HEAD if self._looks_behind_words else _MARK).search(text)
        if found:  # no mark is the beginning of another
            words = text[: _end_of_words(text, found.start())]
            yield from self._say(words)
            blank = text[len(words) : found.start()]
            if found[0][0] == "{":
                yield from self._meet_object(blank, text[len(words) :], last)
                return
            self._rest = text[found.end() :]
            yield from self._meet(blank, found[0])
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

    # --- objects behind the words, at the very end

    def _meet_object(self, blank: str, text: str, last: bool) -> Iterator[Part]:
        """``text`` begins, behind the blanks, with the head of an object that may be a call."""
        goes = self._place.is_open(blank) and self._names(text, len(blank), last)
        self._rest = text
        if goes:
            self._begin_behind_words(blank)
        elif goes is not None:
            self._rest = text[len(blank) + 1 :]
            yield from self._say(blank + "{")

    def _names(self, text: str, at: int, last: bool) -> bool | None:
        """Whether an object may name one of the tools, by its beginning: None = it cannot be known yet."""
        head = _HEAD.match(text, at)
        if head is None or head[1] is None:  # a mark is no head
            return None if not last and _HEAD_PERHAPS.match(text, at) else False
        name = _NAME.match(text, head.end()) if head[1] in _NAMING else None
        if head[1] not in _NAMING:
            return True
        if name is None:
            return head[1] == "function"
        if name[2]:
            return name[1] in self._schemas
        known = any(tool.startswith(name[1] or "") for tool in self._schemas)
        return None if known and not last and name.end() == len(text) else False

    def _begin_behind_words(self, blank: str) -> None:
        self._opened, self._blank, self._kept = "", "", [blank]
        self._rest = self._rest[len(blank) :]
        self._is_behind_words, self._held_chars = True, len(blank)
        self._begin_json("")

    def _closed_behind_words(self, whole: bool = True) -> Iterator[Part]:
        """The object has ended, or can no longer be a call; ``whole``: its last bracket came."""
        raw, blank = "".join(self._kept), self._kept[0]
        self._kept, self._is_behind_words, self._step = [], False, self._at_the_end
        part = sound_call(raw[len(blank) :], self._schemas) if len(raw) <= _MOST_HELD else None
        if part:
            self._last_words.append((raw, part))
            return
        yield from self._let_go()
        if whole and len(raw) <= _MOST_HELD:
            yield from self._say(raw)
        else:  # one that never ends hides nothing behind it; and it is looked for but once
            self._looks_behind_words = False
            yield from self._say(blank + "{")
            self._rest = raw[len(blank) + 1 :] + self._rest

    def _at_the_end(self, last: bool) -> Iterator[Part]:
        """Behind a call behind words: another one, or the end; anything else makes words of it."""
        text = self._rest
        blank = text[: len(text) - len(text.lstrip())]
        if len(blank) < _BLANKS:
            if not last and blank == text:
                return
            goes = self._names(text, len(blank), last)
            if goes is None:
                return
            if goes:
                self._begin_behind_words(blank)
                return
        if blank == text and last and self._alone:
            self._rest, self._step = "", self._words
            for raw, part in self._last_words:
                self._blank = raw[: len(raw) - len(part.raw)]
                yield from self._catch(part)
            self._last_words, self._step = [], self._words
            if not self._gap:
                yield from self._say(blank)
        else:
            yield from self._let_go()

    def _let_go(self) -> Iterator[Part]:
        held, self._last_words, self._step = self._last_words, [], self._words
        for raw, _ in held:
            yield from self._say(raw)

    def _say(self, text: str) -> Iterator[str]:
        if self._gap:
            text = text.lstrip()
            if text and self._said:
                text = f"\n\n{text}"
        if text:
            self._gap = False
            self._said = self._said or not text.isspace()
            self._place.goes_on(text)
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
                    yield from self._closed_behind_words() if self._is_behind_words else self._closed()
                    return
        self._kept.append(text)
        self._held_chars += len(text)
        self._rest = ""
        if self._is_behind_words and (last or self._held_chars > _MOST_HELD):
            yield from self._closed_behind_words(whole=False)

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
    perhaps = _HEAD_PERHAPS.search(text, max(0, len(text) - _HEAD_CHARS))
    for at in range(max(0, len(text) - _LONGEST + 1), len(text)):
        if perhaps and at >= perhaps.start():
            break
        if text[at] in _FIRST and any(mark.startswith(text[at:]) for mark in _MARKS):
            return _end_of_words(text, at)
    return _end_of_words(text, perhaps.start() if perhaps else len(text))


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
    text: str, schemas: Schemas, whole: bool = True, quoted: Quoted = lambda call: False, alone: bool = True
) -> list[Part]:
    """A whole answer at once."""
    ear = Ear(schemas, quoted)
    return _joined(iter([*ear.feed(text), *ear.end(whole, alone)]))
