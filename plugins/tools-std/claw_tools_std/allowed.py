"""The decision whether a command needs approval, by ``tools.exec.allow`` and ``tools.exec.safeBins``. Pure:
the caller
resolves the paths of programs.

A program on the list may do what it likes with files, but may not start another one
(:mod:`claw_tools_std.launchers`) nor
run program text from the command line. A filter reads its input and writes its output, and opens no file.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from claw import ToolError

from claw_tools_std.launchers import FRONTS, find_launch, wrapped_command
from claw_tools_std.readers import READERS

INTERPRETERS = re.compile(
    r"python[\d.]*|pypy[\d.]*|node(js)?|deno|bun|perl[\d.]*|ruby[\d.]*|php[\d.]*|lua[\d.]*|(ba|da|z|k|fi|t?c)?sh"
    r"|[rR]script|julia|guile[\d.]*|m4|tclsh[\d.]*|wish[\d.]*"
)
_VERSION = frozenset({"--version", "-V", "-v"})


@dataclass(frozen=True, slots=True)
class _Filter:
    """The arguments that a filter may have (GNU coreutils 9, grep 3).

    :param flags: letters of options without a value.
    :param valued: letters of options with a value, attached or as the next word.
    :param long: long options, whole; for those with ``=`` at the end the value follows ``=`` in the same
        word.
    :param texts: maximum number of words that are not options.
    """

    flags: str
    valued: str
    long: str
    texts: int = 0

    def takes(self, words: Sequence[str]) -> bool:
        """Return true if these words name no file and no program."""
        rest, texts = list(words), 0
        while rest:
            word = rest.pop(0)
            if word.startswith("--"):
                name, equals, _ = word[2:].partition("=")
                if name not in self.long.split() and not (equals and f"{name}=" in self.long.split()):
                    return False
            elif word.startswith("-") and len(word) > 1:
                if not self._cluster(word[1:], rest):
                    return False
            else:
                texts += 1
        return texts <= self.texts

    def _cluster(self, chars: str, rest: list[str]) -> bool:
        for position, char in enumerate(chars):
            if char in self.valued:
                if chars[0].isdigit():  # head -5c FILE, tail -5c FILE: a number, its unit, and a file
                    return False
                if position + 1 == len(chars):  # its value is the next word
                    return bool(rest and rest.pop(0))
                return True
            if char not in self.flags:
                return False
        return True


_FILTERS = {
    "cut": _Filter(
        "nsz", "bcdf",
        "bytes= characters= complement delimiter= fields= only-delimited output-delimiter= zero-terminated"
    ),
    "grep": _Filter(
        "EFGPbchilLnoqsvwxz", "eABCm",
        "after-context= basic-regexp before-context= byte-offset color context= count extended-regexp fixed-strings "
        "ignore-case invert-match line-number line-regexp max-count= no-filename null-data only-matching perl-regexp "
        "quiet regexp= silent word-regexp",
    ),
    "head": _Filter("0123456789qvz", "cn", "bytes= lines= quiet silent verbose zero-terminated"),
    "sort": _Filter(
        "bcCdfghiMmnRrsuVz", "kt",
        "check dictionary-order field-separator= general-numeric-sort human-numeric-sort ignore-case "
        "ignore-leading-blanks ignore-nonprinting key= merge month-sort numeric-sort reverse sort stable unique "
        "version-sort zero-terminated",
    ),
    "tail": _Filter("0123456789qvz", "cn", "bytes= lines= quiet silent verbose zero-terminated"),
    "tr": _Filter("cCdst", "", "complement delete squeeze-repeats truncate-set1", texts=2),
    "uniq": _Filter(
        "cdDiuz", "fsw",
        "all-repeated check-chars= count group ignore-case repeated skip-chars= skip-fields= unique zero-terminated",
    ),
    "wc": _Filter("clmLw", "", "bytes chars lines max-line-length words"),
}  # fmt: skip


def refusal(words: Sequence[str], settings: Any, real: Callable[[str], str]) -> ToolError | None:
    """Return why these words need a person's approval before they are started; None if they need none.

    :param settings: ``tools.exec``.
    :param real: the resolved path of the program that a word names; raises ToolError for one that may not be
        started.
    """
    word, path = words[0], real(words[0])
    if _is_exact_entry(words, path, settings):
        return None
    if not any(_entry_matches(entry, word, path, settings) for entry in allowed_names(settings)):
        is_filter = word in settings.safe_bins and is_trusted(path, settings)
        return _filter_refusal(words) if is_filter else _not_listed(word, path, settings)
    called = {word.rsplit("/", 1)[-1], path.rsplit("/", 1)[-1]}
    if called & FRONTS and (inner := wrapped_command(words)):
        return refusal(inner, settings, real)
    launches = (word if name in FRONTS else find_launch(name, words) for name in sorted(called))
    if found := next(filter(None, launches), ""):
        return ToolError(
            "with {option} {program} would start another program",
            where="tools.exec.allow",
            option=found,
            program=word,
            fix="Leave it out; or an operator can add the whole command there as argv",
        )
    if settings.strict_inline_eval and any(INTERPRETERS.fullmatch(name) for name in called):
        return _script_refusal(words)
    return None


def is_trusted(path: str, settings: Any) -> bool:
    """Return true if a resolved path lies in ``tools.exec.trustedDirs``; always true without that list."""
    folders = settings.trusted_dirs
    return not folders or any(
        path.startswith(f"{known.rstrip('/')}/")
        for each in folders
        for known in (each, os.path.realpath(each))
    )


def allowed_names(settings: Any) -> Sequence[str]:
    """Return the bare names and patterns of ``tools.exec.allow``."""
    return [entry for entry in settings.allow if isinstance(entry, str)]


def _is_exact_entry(words: Sequence[str], path: str, settings: Any) -> bool:
    """Return true if the list has the whole command: ``{argv: […]}``, or ``{pattern: NAME, argv: [its
    arguments]}``.
    """
    for entry in settings.allow:
        if isinstance(entry, Mapping) and "argv" in entry:
            argv, pattern = list(entry["argv"] or ()), entry.get("pattern")
            if pattern is None:
                if argv and argv == list(words):
                    return True
            elif argv == list(words[1:]) and _entry_matches(str(pattern), words[0], path, settings):
                return True
    return False


def _entry_matches(entry: str, word: str, path: str, settings: Any) -> bool:
    """Match a bare name against a word found in a trusted folder, a pattern with slashes against the resolved
    path; ``*`` does not match a slash.
    """
    if "/" not in entry:
        return entry == word and is_trusted(path, settings)
    return path.count("/") == entry.count("/") and fnmatchcase(path, entry)


def _not_listed(word: str, path: str, settings: Any) -> ToolError:
    if not is_trusted(path, settings):
        return ToolError(
            "{program} is not in a trusted folder",
            where="tools.exec.trustedDirs",
            program=path,
            fix="An operator can add {folder}",
            folder=os.path.dirname(path),
        )
    return ToolError(
        "{program} is not among the programs that may run",
        where="tools.exec.allow",
        fix="An operator can add {program} there; these run already: {known}",
        program=word,
        known=sorted({*READERS, *settings.safe_bins, *allowed_names(settings)}),
    )


def _filter_refusal(words: Sequence[str]) -> ToolError | None:
    known = _FILTERS.get(words[0])
    if known is None:
        return ToolError(
            "{program} is no program that only filters", where="tools.exec.safeBins", program=words[0]
        )
    needs = words[0] == "grep" and not any(re.match(r"-[a-zA-Z]*e|--regexp=", word) for word in words[1:])
    if needs or not known.takes(words[1:]):
        return ToolError(
            "as a filter {program} may name no file and take only options that are known to touch none",
            where="tools.exec.safeBins",
            program=words[0],
            fix="Pipe the text into it; grep takes its pattern with -e",
        )
    return None


def _script_refusal(words: Sequence[str]) -> ToolError | None:
    """Refuse an interpreter that runs anything but a script file: program text from the command line or a
    pipe.
    """
    script = words[1] if len(words) > 1 else ""
    if (script in _VERSION and len(words) == 2) or (script and not script.startswith("-")):
        return None
    return ToolError(
        "{program} must be followed by a script file; program text and options before it are refused",
        where="tools.exec.strictInlineEval",
        fix="Write the script with write, then run {program} FILE",
        program=words[0],
    )
