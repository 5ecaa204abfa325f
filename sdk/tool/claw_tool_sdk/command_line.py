"""Strict parser of shell command lines: plain words and the operators between commands; anything else is refused."""

import re
from dataclasses import dataclass, field

from claw import ToolError

# IEEE Std 1003.1, Shell Command Language, 2.2 to 2.13, with what bash adds: braces, and ~ after = and :
_SPECIAL = frozenset("<>$`(){}*?[]")
_IN_DOUBLE_QUOTES = frozenset("$`\\")
_BLANKS = " \t"
_OPERATOR_CHARACTERS = "|&;"
_OPERATORS = frozenset({"|", "&&", "||", ";"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_RESERVED = frozenset([
    "!", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while",
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommandStep:
    """One command of a line.

    :param words: exactly as a shell would read them, the program first.
    :param then: operator before the next command: ``|``, ``&&``, ``||`` or ``;``. Empty for the last.
    """

    words: tuple[str, ...]
    then: str = ""


@dataclass(slots=True)
class _ParserState:
    """Parser state: the part of a line that was read so far."""

    steps: list[CommandStep] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    word: list[str] | None = None  # its characters; None between words, as '' is a word too

    def add(self, text: str) -> None:
        self.word = self.word or []
        self.word += text

    def end_word(self) -> None:
        if self.word is not None:
            self.words.append("".join(self.word))
            self.word = None

    def end_step(self, then: str) -> None:
        if then and then not in _OPERATORS:
            raise _refused("{what} has a special meaning in a shell", then)
        self.end_word()
        _check_program(self.words)
        self.steps.append(CommandStep(tuple(self.words), then))
        self.words = []


def split_commands(line: str) -> tuple[CommandStep, ...]:
    """Split a line into its commands, at least one.

    Supports single and double quotes around literal text, a backslash before one character, and the operators between
    commands; everything else that has a meaning in a shell is refused.

    :raises ToolError: with the character or word that needs a shell.
    """
    state, quote, escaped, at = _ParserState(), "", False, 0
    while at < len(line):
        char = line[at]
        at += 1
        _check(char, "\\" if escaped else quote, state.word)
        if escaped or (quote and char != quote):
            state.add(char)
            escaped = False
        elif quote:
            quote = ""
        elif char == "\\":
            escaped = True
        elif char in "'\"":
            quote = char
            state.add("")
        elif char in _OPERATOR_CHARACTERS:
            twice = line[at : at + 1] == char
            at += twice
            state.end_step(char * 2 if twice else char)
        elif char in _BLANKS:
            state.end_word()
        else:
            state.add(char)
    if escaped:
        raise _refused("nothing follows the last {what}", "\\")
    if quote:
        raise ToolError("the command has an unclosed {quote}", fix="close the quote", quote=quote)
    state.end_step("")
    return tuple(state.steps)


def split_single_command(line: str) -> list[str]:
    """Split a line that is one command into words, the program first, exactly as a shell would read them.

    :raises ToolError: as :func:`split_commands` does, or with the operator before a second command.
    """
    first = split_commands(line)[0]
    if first.then:
        raise _refused("{what} has a special meaning in a shell", first.then)
    return list(first.words)


def _check(char: str, quote: str, word: list[str] | None) -> None:
    """Refuse a character that has a meaning in a shell in this context; after a backslash only line ends and
    control characters have one."""
    if char in "\n\r":
        raise _refused("a line break in a command would start a second command", char)
    if _is_control(char):
        raise _refused("the command contains the control character {what}", ascii(char)[1:-1])
    if quote in ("'", "\\") or (quote and char not in _IN_DOUBLE_QUOTES):
        return
    if quote:
        raise _refused("{what} has a special meaning in a shell, even in double quotes", char)
    if char in _SPECIAL:
        raise _refused("{what} has a special meaning in a shell", char)
    if char.isspace() and char not in _BLANKS:
        raise _refused("{what} looks like a space but is another character", ascii(char)[1:-1])
    if char == "#" and word is None:
        raise _refused("{what} would start a comment", char)
    if char == "~" and (word is None or word[-1:] in (["="], [":"])):
        raise _refused("{what} would expand to a home folder", char)


def _is_control(char: str) -> bool:
    code = ord(char)
    return (code < 0x20 and char != "\t") or 0x7F <= code < 0xA0 or 0xD800 <= code <= 0xDFFF


def _check_program(words: list[str]) -> None:
    if not words or not words[0].strip():
        raise ToolError("the command names no program")
    if found := _ASSIGNMENT.match(words[0]):
        raise _refused("{what} would set a variable", found.group())
    if words[0] in _RESERVED or words[0].startswith("!"):
        raise _refused("{what} is shell syntax", words[0])


def _refused(problem: str, what: str) -> ToolError:
    return ToolError(
        problem, fix="write plain words; tools.exec.mode: full runs it through a shell", what=what
    )
