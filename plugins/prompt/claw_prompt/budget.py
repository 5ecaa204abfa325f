"""The budget of the context files in the prompt: what is cut, and what is left out."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from claw import ContextFile, neutralise

FILE_CHARS, TOTAL_CHARS = 20_000, 60_000
_LEAST_CHARS = 64  # with less than this left, no further file is added (spec/runtime.md B5)


def fit_context_files(
    files: Sequence[ContextFile], per_file: int = FILE_CHARS, total: int = TOTAL_CHARS
) -> tuple[ContextFile, ...]:
    """Cut the agent's own files to the budget; earlier files have priority.

    A file that does not fit is cut to the rest of the budget, marker included, and later ones are dropped.
    Trailing blanks are trimmed, empty files and blank paths are left out, and a missing file is one line with
    its path.

    :param per_file: characters that one file may take.
    :param total: characters that all may take together; never exceeded.
    """
    kept: list[ContextFile] = []
    rest = total
    for file in files:
        if rest <= 0:
            break
        fitted = _fitted(file, min(per_file, rest), rest)
        if fitted is None:
            break
        if fitted.path.strip() and fitted.text:
            kept.append(fitted)
            rest -= len(fitted.text)
    return tuple(kept)


def _fitted(file: ContextFile, limit: int, rest: int) -> ContextFile | None:
    """Return ``file`` within ``limit`` characters; None when too little is left to add it."""
    if file.text is None:
        return replace(file, text=f"(missing: {file.path})"[:rest], state="missing")
    if rest < _LEAST_CHARS:
        return None
    text = neutralise(file.text.rstrip())
    if len(text) <= limit:
        return replace(file, text=text)
    return replace(file, text=_cut(PurePath(file.path).name, text, limit), state="cut")


def _cut(name: str, text: str, limit: int) -> str:
    """Return exactly ``limit`` characters of ``text``: three quarters from its head, the rest from its tail,
    a marker between.

    AGENTS.md has rules everywhere: at least 45 % of its budget is for its head, up to 35 % for lines of its
    middle that read like rules, 15 % for its tail (spec/runtime.md B5).
    """
    marker = f"\n[{name} is cut here: at most {limit} of {len(text)} characters shown]\n"
    left = limit - len(marker)
    if left < 2:
        return text[:limit]
    if name.upper() == "AGENTS.MD" and left > 1000:
        head, tail = left * 45 // 100, left * 15 // 100
        rules = _rules(text[head : len(text) - tail], left * 35 // 100)
        if rules:
            head = left - len(marker) - len(rules) - tail
            return text[:head] + marker + rules + marker + text[len(text) - tail :]
    tail = left // 4
    return text[: left - tail] + marker + text[len(text) - tail :]


_RULE = re.compile(
    r"^\s*(#|[-*+] |\d+[.)] )|\b(must|never|always|do not|don't)\b|必须|不要|禁止|总是", re.IGNORECASE
)


def _rules(middle: str, left: int) -> str:
    """Return the whole lines of ``middle`` that read like rules, as many as fit into ``left`` characters, in
    order.
    """
    kept: list[str] = []
    for line in middle.splitlines():
        if _RULE.search(line) and len(line) + 1 <= left:
            kept.append(line)
            left -= len(line) + 1
    return "\n".join(kept)
