"""Command lines: read one completely, or refuse it. This form knows plain words, and what joins plain commands."""

import re
from dataclasses import dataclass, field

from claw.errors import ToolError

# IEEE Std 1003.1, Shell Command Language, 2.2 to 2.13, with what bash adds: braces, and ~ after = and :
_ALWAYS = frozenset("<>$`(){}*?[]")
_IN_DOUBLE_QUOTES = frozenset("$`\\")
_BLANKS = " \t"
_JOINING = "|&;"
_JOINS = frozenset({"|", "&&", "||", ";"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_RESERVED = frozenset([
    "!", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while",
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a line.

    :param words: exactly as a shell would read them, the program first.
    :param then: what joins it to the next one: ``|``, ``&&``, ``||`` or ``;``. Empty behind the last.
    """

    words: tuple[str, ...]
    then: str = ""


@dataclass(slots=True)
class _Reading:
    """What was read of a line so far."""

    steps: list[Step] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    word: list[str] | None = None  # its letters; None between words: '' is a word too

    def add(self, text: str) -> None:
        self.word = self.word or []
        self.word += text

    def end_word(self) -> None:
        if self.word is not None:
            self.words.append("".join(self.word))
            self.word = None

    def end_step(self, then: str) -> None:
        if then and then not in _JOINS:
            raise _refused("{what} means something to a shell", then)
        self.end_word()
        _check_program(self.words)
        self.steps.append(Step(tuple(self.words), then))
        self.words = []


def split_steps(line: str) -> tuple[Step, ...]:
    """The commands of a line, at least one.

    Plain single and double quotes round literal text and a backslash before one letter are read, and so is what joins
    plain commands; everything else that a shell would act on is refused.

    :raises ToolError: naming the character or word that needs a shell.
    """
    reading, quote, escaped, at = _Reading(), "", False, 0
    while at < len(line):
        letter = line[at]
        at += 1
        _check(letter, "\\" if escaped else quote, reading.word)
        if escaped or (quote and letter != quote):
            reading.add(letter)
            escaped = False
        elif quote:
            quote = ""
        elif letter == "\\":
            escaped = True
        elif letter in "'\"":
            quote = letter
            reading.add("")
        elif letter in _JOINING:
            twice = line[at : at + 1] == letter
            at += twice
            reading.end_step(letter * 2 if twice else letter)
        elif letter in _BLANKS:
            reading.end_word()
        else:
            reading.add(letter)
    if escaped:
        raise _refused("nothing stands behind the last {what}", "\\")
    if quote:
        raise ToolError(
            "the command has an opening {quote} without the closing one", fix="close it", quote=quote
        )
    reading.end_step("")
    return tuple(reading.steps)


def split_plain(line: str) -> list[str]:
    """The words of a line that is one command, the program first, exactly as a shell would read them.

    :raises ToolError: as :func:`split_steps` does, or naming what joins it to a second command.
    """
    first = split_steps(line)[0]
    if first.then:
        raise _refused("{what} means something to a shell", first.then)
    return list(first.words)


def _check(letter: str, quote: str, word: list[str] | None) -> None:
    """Refuse a character that a shell would act on where it stands; behind a backslash none of them counts."""
    if letter in "\n\r":
        raise _refused("a line end in a command would begin a second one", letter)
    if _is_control(letter):
        raise _refused("the command holds the control character {what}", ascii(letter)[1:-1])
    if quote in ("'", "\\") or (quote and letter not in _IN_DOUBLE_QUOTES):
        return
    if quote:
        raise _refused("{what} means something to a shell, also in double quotes", letter)
    if letter in _ALWAYS:
        raise _refused("{what} means something to a shell", letter)
    if letter.isspace() and letter not in _BLANKS:
        raise _refused("{what} looks like a blank and is none", ascii(letter)[1:-1])
    if letter == "#" and word is None:
        raise _refused("{what} would begin a comment", letter)
    if letter == "~" and (word is None or word[-1:] in (["="], [":"])):
        raise _refused("{what} would become a home folder", letter)


def _is_control(letter: str) -> bool:
    code = ord(letter)
    return (code < 0x20 and letter != "\t") or 0x7F <= code < 0xA0 or 0xD800 <= code <= 0xDFFF


def _check_program(words: list[str]) -> None:
    if not words or not words[0].strip():
        raise ToolError("the command names no program")
    if found := _ASSIGNMENT.match(words[0]):
        raise _refused("{what} would set a variable", found.group())
    if words[0] in _RESERVED or words[0].startswith("!"):
        raise _refused("{what} belongs to the language of a shell", words[0])


def _refused(problem: str, what: str) -> ToolError:
    return ToolError(
        problem, fix="write plain words; tools.exec.mode: full runs it through a shell", what=what
    )
