"""Patches over several files in the "*** Begin Patch" envelope: parsed, checked as a whole, and only then
written.

The envelope is that of Codex (instructions of its ``apply_patch``): ``*** Add File:``, ``*** Update File:``
(with ``*** Move to:``), ``*** Delete File:``; hunks begin with ``@@`` and optionally a line to look for first.
Their lines begin with a blank (context), ``-`` (removed) or ``+`` (added). There are no line numbers: a hunk is
found by its text.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from claw import ToolContext, ToolError, ToolResult, tool

from claw_tools_std.files import decoded, encoded, whole

_MARK = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_LINE_NUMBERS = re.compile(r"-\d+(,\d+)? \+\d+(,\d+)? @@")
MOST_WORK = 20_000_000
"""Maximum of hunks times lines of the file they are searched in, over all steps of a patch."""
_LOOSER = (lambda line: line, str.rstrip, str.strip)


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change inside a file: the line to look for first, the lines with their signs, and whether it
    ends the file.
    """

    anchor: str
    lines: tuple[str, ...]
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that must be present."""
        return [line[1:] for line in self.lines if line[0] != "+"]


@dataclass(frozen=True, slots=True)
class PatchStep:
    """The change of one file. ``content`` is for an added file, ``hunks`` and ``target`` for an updated
    one.
    """

    kind: Literal["Add", "Update", "Delete"]
    path: str
    content: str = ""
    hunks: tuple[Hunk, ...] = ()
    target: str = ""


@tool(effects="once", parallel=False, results="own")
def apply_patch(context: ToolContext, input: str) -> ToolResult:
    """Change files, all or none: *** Begin Patch; per file *** Add File: PATH (lines +TEXT), *** Delete File: PATH or
    *** Update File: PATH (hunks: @@, then lines " same", "-old", "+new"); *** End Patch
    """
    steps = parsed(input)
    files = context.files
    before: dict[str, bytes | None] = {}
    after: dict[str, bytes | None] = {}
    work = 0
    for step in steps:
        work += _work(step, _current(step.path, context, before, after))
        if work > MOST_WORK:
            raise ToolError(
                "{path}: the hunks of this patch are too many at once for files of so many lines",
                fix="Make several patches",
                path=step.path,
            )
        _prepare(step, context, before, after)
    written: list[str] = []
    try:
        for path, data in after.items():
            written.append(path)
            _write_or_remove(files, path, data)
    except BaseException:
        for path in written:
            with suppress(ToolError):
                _write_or_remove(files, path, before[path])
        raise
    lines = [
        f"{_status_letter(step)} {step.path}" + (f" -> {step.target}" if step.target else "")
        for step in steps
    ]
    count = len(steps)
    head = f"Patched {count} {'file' if count == 1 else 'files'}:\n"
    return ToolResult(head + "\n".join(lines), {"files": [step.target or step.path for step in steps]})


def parsed(patch: str) -> tuple[PatchStep, ...]:
    """Parse the envelope.

    :raises ToolError: with the invalid line.
    """
    lines = [line.removesuffix("\r") for line in patch.strip().split("\n")]
    if not lines or lines[0].strip() != "*** Begin Patch":
        raise ToolError("the patch must begin with the line *** Begin Patch")
    if lines[-1].strip() != "*** End Patch":
        raise ToolError("the patch must end with the line *** End Patch")
    steps = tuple(_steps(lines[1:-1]))
    if not steps:
        raise ToolError("the patch changes no file", fix="Add a line such as *** Update File: PATH")
    return steps


def patched(text: str, hunks: Sequence[Hunk], path: str) -> str:
    """Return the text after all hunks, each found behind the one before. Line ends and a missing final one
    are kept.

    :raises ToolError: a hunk is not found, with its first lines.
    """
    windows = "\r\n" in text and text.count("\r\n") == text.count("\n")
    body = text.replace("\r\n", "\n") if windows else text
    lines = body.split("\n")
    ends = lines[-1] == ""
    if ends:
        lines.pop()
    out: list[str] = []
    done = 0
    for number, hunk in enumerate(hunks, 1):
        start = _found(lines, hunk, done, f"{path}: hunk {number}")
        out += lines[done:start]
        done = start
        for line in hunk.lines:
            if line[0] == "+":
                out.append(line[1:])
                continue
            if line[0] == " ":
                out.append(lines[done])  # the file's own line: the patch may have lost its blanks
            done += 1
    out += lines[done:]
    new = "\n".join(out) + ("\n" if out and (ends or not text) else "")
    return new.replace("\n", "\r\n") if windows else new


def _work(step: PatchStep, data: bytes | None) -> int:
    return (
        max(len(step.hunks), 1) * (data.count(b"\n") + 1) if data is not None and step.kind == "Update" else 0
    )


def _prepare(
    step: PatchStep, context: ToolContext, before: dict[str, bytes | None], after: dict[str, bytes | None]
) -> None:
    """Compute one step, on top of the steps before it, without writing anything."""
    data = _current(step.path, context, before, after)
    if step.kind == "Add":
        if data is not None:
            raise ToolError("{path} exists already; use *** Update File", path=step.path)
        after[step.path] = encoded(step.content)
        return
    if data is None:
        context.files.read(step.path, 1)  # raises the error of the workspace check
        raise ToolError("{path} was deleted earlier in this patch", path=step.path)
    if step.kind == "Delete":
        after[step.path] = None
        return
    new = encoded(patched(decoded(data), step.hunks, step.path))
    if step.target:
        if _current(step.target, context, before, after) is not None:
            raise ToolError("cannot move {path}: {target} exists already", path=step.path, target=step.target)
        after[step.path] = None
    after[step.target or step.path] = new


def _current(
    path: str, context: ToolContext, before: dict[str, bytes | None], after: dict[str, bytes | None]
) -> bytes | None:
    """Return the content of the file at this point of the patch; None if it does not exist."""
    if path not in before:
        try:
            before[path] = whole(context, path)
        except ToolError:
            if _exists(context.files, path):
                raise
            before[path] = None
    return after.get(path, before[path])


def _exists(files: Any, path: str) -> bool:
    try:
        files.stat(path)
    except ToolError:
        return False
    return True


def _write_or_remove(files: Any, path: str, data: bytes | None) -> None:
    if data is not None:
        files.write(path, data)
    elif _exists(files, path):
        files.remove(path)


def _status_letter(step: PatchStep) -> str:
    return "R" if step.target else {"Add": "A", "Update": "M", "Delete": "D"}[step.kind]


def _steps(lines: list[str]) -> Iterator[PatchStep]:
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        found = _MARK.fullmatch(lines[at].strip())
        if not found:
            raise ToolError(
                "line {number} of the patch is neither *** Add File:, *** Update File: nor *** Delete File: {line}",
                number=at + 2,
                line=repr(lines[at][:100]),
            )
        kind, path = found[1], posixpath.normpath(found[2].strip())
        end = at + 1
        while end < len(lines) and not _MARK.fullmatch(lines[end].strip()):
            end += 1
        yield _step(kind, path, lines[at + 1 : end], at + 3)
        at = end


def _step(kind: str, path: str, body: list[str], first: int) -> PatchStep:
    """:param first: number of the body's first line in the patch, for errors."""
    if kind == "Delete":
        return PatchStep("Delete", path)
    while body and not body[-1]:  # blank lines between two files
        body = body[:-1]
    if kind == "Add":
        for number, line in enumerate(body, first):
            if not line.startswith("+"):
                raise ToolError(
                    "line {number} of the patch: a line of a new file begins with +", number=number
                )
        return PatchStep("Add", path, "".join(f"{line[1:]}\n" for line in body))
    target = ""
    if body and body[0].startswith("*** Move to: "):
        target = posixpath.normpath(body[0].removeprefix("*** Move to: ").strip())
        body, first = body[1:], first + 1
    hunks = tuple(_hunks(body, first))
    if not hunks and not target:
        raise ToolError("{path}: nothing is changed; add a hunk that begins with @@", path=path)
    return PatchStep("Update", path, hunks=hunks, target=target)


def _hunks(body: list[str], first: int) -> Iterator[Hunk]:
    anchor, lines, at_end = "", list[str](), False
    for number, line in enumerate(body, first):
        if line.startswith("@@"):
            if lines:
                yield Hunk(anchor, tuple(lines), at_end)
            anchor, lines, at_end = line[2:].strip(), [], False
            anchor = "" if _LINE_NUMBERS.match(anchor) else anchor
        elif line.strip() == "*** End of File":
            at_end = True
        elif line[:1] in (" ", "-", "+"):
            lines.append(line)
        elif not line:
            lines.append(" ")  # models omit the blank of an empty line
        else:
            raise ToolError(
                "line {number} of the patch begins neither with a blank, - nor +: {line}",
                number=number,
                line=repr(line[:100]),
            )
    if lines:
        yield Hunk(anchor, tuple(lines), at_end)


def _found(lines: list[str], hunk: Hunk, start: int, label: str) -> int:
    """Return the index in ``lines`` where ``hunk`` applies, at or behind ``start``."""
    if hunk.anchor:
        start = _find(lines, [hunk.anchor], start, label) + 1
    old = hunk.old
    if not old:
        return start if hunk.anchor and not hunk.at_end else len(lines)
    if hunk.at_end and len(lines) - len(old) >= start:
        with suppress(ToolError):
            return _find(lines, old, len(lines) - len(old), label)
    return _find(lines, old, start, label)


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"\n{line}" for line in lines) + "\n"


def _find(lines: list[str], wanted: list[str], start: int, label: str) -> int:
    for loosely in _LOOSER:
        have = _joined(map(loosely, lines[start:]))
        at = have.find(
            _joined(map(loosely, wanted))
        )  # search in one string: two long runs of similar lines cost no quadratic time
        if at >= 0:
            return start + have.count("\n", 0, at)
    shown = "\n".join(wanted[:5])
    raise ToolError(
        "{label} does not fit: after line {start} there is no\n{shown}",
        fix="Read the file and copy its lines exactly",
        label=label,
        start=start,
        shown=shown,
    )
