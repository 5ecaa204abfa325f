"""Command lines: read one completely, or refuse it. This form knows plain words, which need no shell."""

import re

from claw.errors import ToolError

# IEEE Std 1003.1, Shell Command Language, 2.2 to 2.13, with what bash adds: braces, and ~ after = and :
_ALWAYS = frozenset(";|&<>$`(){}*?[]\\")
_IN_DOUBLE_QUOTES = frozenset("$`\\")
_BLANKS = " \t"
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_RESERVED = frozenset([
    "!", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while",
])  # fmt: skip


def split_plain(line: str) -> list[str]:
    """The words of a command line, the program first, exactly as a shell would read them.

    Plain single and double quotes round literal text are read; everything else that a shell would act on is refused.

    :raises ToolError: naming the character or word that needs a shell.
    """
    words: list[str] = []
    word: str | None = None  # None between words: '' is a word too
    quote = ""
    for letter in line:
        _check(letter, quote, word)
        if quote:
            if letter == quote:
                quote = ""
            else:
                word = f"{word}{letter}"
        elif letter in "'\"":
            quote, word = letter, word or ""
        elif letter not in _BLANKS:
            word = f"{word or ''}{letter}"
        elif word is not None:
            words.append(word)
            word = None
    if quote:
        raise ToolError(
            "the command has an opening {quote} without the closing one", fix="close it", quote=quote
        )
    if word is not None:
        words.append(word)
    _check_program(words)
    return words


def _check(letter: str, quote: str, word: str | None) -> None:
    """Refuse a character that a shell would act on where it stands."""
    if letter in "\n\r":
        raise _refused("a line end in a command would begin a second one", letter)
    if _is_control(letter):
        raise _refused("the command holds the control character {what}", ascii(letter)[1:-1])
    if quote == "'" or (quote == '"' and letter not in _IN_DOUBLE_QUOTES):
        return
    if quote == '"':
        raise _refused("{what} means something to a shell, also in double quotes", letter)
    if letter in _ALWAYS:
        raise _refused("{what} means something to a shell", letter)
    if letter.isspace() and letter not in _BLANKS:
        raise _refused("{what} looks like a blank and is none", ascii(letter)[1:-1])
    if letter == "#" and word is None:
        raise _refused("{what} would begin a comment", letter)
    if letter == "~" and (word is None or word[-1:] in ("=", ":")):
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
