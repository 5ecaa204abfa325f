"""Tools for single files: read, write, edit, ls."""

import base64
import difflib
import posixpath
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice

from claw import Image, Text, ToolContext, ToolError, ToolResult, nearest, result_limit, tool

MOST_READ_BYTES = 20_000_000
MOST_EDIT_BYTES = 20_000_000
MOST_IMAGE_BYTES = 5_000_000
MOST_LINES = 2000
MOST_LINE_CHARS = 2000
MOST_CHARS = 50_000
MOST_ENTRIES = 1000
MOST_NEIGHBOURS = 5000
MOST_NAME_CHARS = 255
MOST_NAMED_LINES = 1000
"""Line numbers of an edit that a result holds."""
LARGE_BYTES = 1_000_000
"""Files above this are read, changed and patched one after the other: each may take several times its size."""
_HINT_CHARS = 200
_BLOCK_CHARS = 65_536
_ONE_LARGE_FILE = threading.Lock()

_IMAGES = {b"\x89PNG\r\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


@dataclass(frozen=True, slots=True)
class FileChange:
    old_text: str
    new_text: str


@dataclass(frozen=True, slots=True)
class TextPage:
    """A range of lines of a text.

    :param last: number of the last line shown, 1-based.
    :param more: how many lines follow.
    """

    text: str
    last: int
    more: int


@contextmanager
def large_files_in_turn(context: ToolContext, path: str) -> Iterator[None]:
    """Let only one call at a time work on a file of more than :data:`LARGE_BYTES`."""
    try:
        is_large = context.files.stat(path).size_bytes > LARGE_BYTES
    except ToolError:  # the work itself says why
        is_large = False
    with _ONE_LARGE_FILE if is_large else nullcontext():
        yield


@tool(effects="none", reads_files=True)
def read(
    context: ToolContext,
    file_path: str,
    offset: int | None = None,
    limit: int | None = None,
    column: int | None = None,
) -> ToolResult:
    """Read a text file or picture. offset: first line, from 1; limit: how many lines; column: inside a long line."""
    with large_files_in_turn(context, file_path):
        return _read(context, file_path, offset, limit, column)


def _read(
    context: ToolContext, file_path: str, offset: int | None, limit: int | None, column: int | None
) -> ToolResult:
    data = _bytes(context, file_path)
    if mime := image_type(data):
        if len(data) > MOST_IMAGE_BYTES:
            raise ToolError(
                "{path} is a picture of {size} bytes; at most {most} can be shown",
                path=file_path,
                size=len(data),
                most=MOST_IMAGE_BYTES,
            )
        words = Text(f"{file_path}: {mime}, {len(data)} bytes")
        return ToolResult(
            (words, Image(base64.b64encode(data).decode(), mime)), {"path": file_path, "mime": mime}
        )
    whole, most = _text(data, file_path), _page_chars(context)
    if column:
        return ToolResult(part_of_line(whole, offset or 1, column, most), {"path": file_path})
    page = paged(whole, offset or 1, limit or MOST_LINES, most)
    text = page.text
    if page.more:
        text += f"\n[{page.more} more lines; go on with offset={page.last + 1}]"
    if len(data) == MOST_READ_BYTES:
        text += f"\n[only the first {MOST_READ_BYTES} bytes of the file were looked at; search the rest with grep]"
    return ToolResult(
        text, {"path": file_path, "bytes": len(data), "lastLine": page.last, "moreLines": page.more}
    )


@tool(effects="idempotent", parallel=False, results="own")
def write(context: ToolContext, file_path: str, content: str) -> ToolResult:
    """Create or overwrite a file; missing folders are made."""
    data = encoded(content)
    context.files.write(file_path, data)
    shown = context.files.display_path(file_path)
    return ToolResult(f"Wrote {len(data)} bytes to {shown}", {"path": shown, "bytesWritten": len(data)})


@tool(effects="once", parallel=False, results="own")
def edit(
    context: ToolContext,
    file_path: str,
    old_text: str | None = None,
    new_text: str | None = None,
    edits: list[FileChange] | None = None,
    replace_all: bool | None = None,
) -> ToolResult:
    """Replace exact text that occurs once in a file; edits makes several changes in order, all or none."""
    changes = list(edits or ())
    if old_text is not None:
        changes.insert(0, FileChange(old_text, new_text or ""))
    if not changes:
        raise ToolError("nothing to change: give old_text and new_text, or edits")
    with large_files_in_turn(context, file_path):
        return _edited(context, file_path, changes, bool(replace_all))


def _edited(context: ToolContext, file_path: str, changes: list[FileChange], replace_all: bool) -> ToolResult:
    text = decoded(whole(context, file_path))
    count, lines = 0, list[int]()
    for number, change in enumerate(changes, 1):
        label = f"edit {number}: " if len(changes) > 1 else ""
        text, found, at = changed(text, change.old_text, change.new_text, replace_all, label, file_path)
        count += found
        lines += at
    context.files.write(file_path, encoded(text))
    shown = context.files.display_path(file_path)
    places = ", ".join(map(str, lines[:20])) + (", …" if count > 20 else "")
    word = "replacement" if count == 1 else "replacements"
    return ToolResult(
        f"Edited {shown}: {count} {word} (line {places})",
        {"path": shown, "replacements": count, "lines": lines[:MOST_NAMED_LINES]},
    )


@tool(effects="none", results="own")
def ls(context: ToolContext, path: str | None = None) -> ToolResult:
    """List a folder; folders end with /, links with @."""
    marks = {"dir": "/", "link": "@", "file": "", "other": ""}
    entries = context.files.entries(path or ".")
    names = [entry.name + marks[entry.kind] for entry in entries]
    more = f"[{len(names) - MOST_ENTRIES} more; use find]\n" if len(names) > MOST_ENTRIES else ""
    details = [{"name": e.name, "kind": e.kind, "bytes": e.size_bytes} for e in entries[:MOST_ENTRIES]]
    text = "".join(f"{name}\n" for name in names[:MOST_ENTRIES]) + more
    return ToolResult(text or "(empty)\n", {"entries": details})


def paged(text: str, first: int, limit: int, most_chars: int) -> TextPage:
    """Return lines ``first`` to ``first + limit - 1`` of ``text``, as far as they fit ``most_chars``; cut a
    very long line.

    :raises ToolError: the text has no line ``first``.
    """
    start, count = max(first, 1) - 1, line_count(text)
    at = _line_start(text, first)
    shown: list[str] = []
    used = 0
    while at < len(text) and len(shown) < max(limit, 1):
        end = text.find("\n", at) + 1 or len(text)
        short = _short_line(text[at:end], start + len(shown) + 1)
        if shown and used + len(short) > most_chars:
            break
        shown.append(short)
        used += len(short)
        at = end
    last = start + max(len(shown), 1)
    whole = "".join(shown)
    return TextPage(whole.removesuffix("\n") if last < count else whole, last, count - last)


def part_of_line(text: str, first: int, column: int, most_chars: int) -> str:
    """Return line ``first`` from character ``column`` (1-based) on, as far as it fits ``most_chars``.

    :raises ToolError: there is no such line, or no such character in it.
    """
    start, at = max(first, 1) - 1, _line_start(text, first)
    stop = text.find("\n", at)
    line = text[at : stop if stop >= 0 else len(text)]
    end = column - 1 + most_chars
    if not 0 < column <= len(line):
        raise ToolError(
            "line {line} has {count} characters; there is no column {column}",
            line=start + 1,
            count=len(line),
            column=column,
        )
    return line[column - 1 : end] + (_rest_of_line(len(line), start + 1, end) if end < len(line) else "")


def line_count(text: str) -> int:
    """Return the number of lines; an empty text has one."""
    return text.count("\n") + (not text.endswith("\n"))


def _line_start(text: str, first: int) -> int:
    """Return the index of line ``first`` (1-based) without a list of all lines, which takes a hundred bytes for each."""
    at, left, count = 0, max(first, 1) - 1, line_count(text)
    if left >= count:
        raise ToolError("the file has {count} lines; there is no line {first}", count=count, first=first)
    while left and (ends := text.count("\n", at, at + _BLOCK_CHARS)) < left:
        at, left = at + _BLOCK_CHARS, left - ends
    for _ in range(left):
        at = text.find("\n", at) + 1
    return at


def changed(
    text: str, old: str, new: str, everywhere: bool, label: str, path: str
) -> tuple[str, int, list[int]]:
    """Replace ``old`` by ``new``; return the text, the number of places, and the original line numbers of the first ones.

    A file with CRLF line ends is matched, and keeps them, whatever line ends the model writes.

    :raises ToolError: not found (with the most similar line), or found more than once (with the lines).
    """
    if not old:
        raise ToolError("{label}old_text is empty; use write to make a file", label=label)
    if old == new:
        raise ToolError("{label}old_text and new_text are the same", label=label)
    if "\r\n" in text and "\r" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    count = text.count(old)
    if not count:
        raise ToolError(
            "{label}old_text is not in {path}. {hint}",
            label=label,
            path=path,
            hint=_most_similar(text, old),
            fix="",
        )
    lines = list(_line_numbers(text, islice(_places(text, old), MOST_NAMED_LINES)))
    if count > 1 and not everywhere:
        raise ToolError(
            "{label}old_text occurs {count} times in {path} (lines {lines})",
            fix="Add lines around it, or set replace_all",
            label=label,
            count=count,
            path=path,
            lines=[*map(str, lines[:20])],
        )
    size = len(text) + count * (len(new) - len(old))
    if size > MOST_EDIT_BYTES:
        raise ToolError(
            "{label}{path} would have {size} characters then; an edit makes at most {most}",
            label=label,
            path=path,
            size=size,
            most=MOST_EDIT_BYTES,
        )
    return text.replace(old, new), count, lines


def whole(context: ToolContext, path: str) -> bytes:
    """Read a file that is to be changed.

    :raises ToolError: it is larger than :data:`MOST_EDIT_BYTES`, which are held in memory.
    """
    data = context.files.read(path, MOST_EDIT_BYTES + 1)
    if len(data) > MOST_EDIT_BYTES:
        raise ToolError(
            "{path} is larger than {most} bytes, and is not changed by this tool",
            fix="Change it with a script",
            path=path,
            most=MOST_EDIT_BYTES,
        )
    return data


def image_type(data: bytes) -> str | None:
    """Return the media type of a picture that models can see, by its first bytes."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _IMAGES.items() if data.startswith(magic)), None)


def decoded(data: bytes) -> str:
    """Decode bytes to text that :func:`encoded` turns back into the same bytes, UTF-8 or not."""
    return data.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """Encode text to bytes, the inverse of :func:`decoded`."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _places(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + len(old))


def _line_numbers(text: str, places: Iterator[int]) -> Iterator[int]:
    line, counted = 1, 0
    for place in places:
        line += text.count("\n", counted, place)
        counted = place
        yield line


def _most_similar(text: str, old: str) -> str:
    """Return a hint at the line that is most similar to the first non-empty line of ``old``."""
    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = text.split("\n")[:20_000]
    stripped = [line.strip() for line in lines]
    if wanted in stripped:
        number = stripped.index(wanted)
        return f"Its first line is line {number + 1}, but blanks or what follows differ: {lines[number][:_HINT_CHARS]!r}"
    close = difflib.get_close_matches(
        wanted[:500], [line[:500] for line in stripped[:3000] if line], n=1, cutoff=0.5
    )
    if not close:
        return "Read the file first, and copy the text exactly"
    number = next(n for n, line in enumerate(stripped) if line[:500] == close[0])
    return f"Most similar is line {number + 1}: {lines[number][:_HINT_CHARS]!r}"


def _bytes(context: ToolContext, path: str) -> bytes:
    try:
        return context.files.read(path, MOST_READ_BYTES)
    except ToolError as refused:
        hint = _similar_name(context, path)
        if hint:
            raise ToolError("{problem}. Did you mean {hint}?", problem=refused.problem, hint=hint) from None
        raise


def _similar_name(context: ToolContext, path: str) -> str:
    """Return a file of the same folder with a similar name, for a missing path; empty when there is none."""
    folder, name = posixpath.split(path)
    try:
        names = {entry.name for entry in context.files.entries(folder or ".")}
    except ToolError:
        return ""
    if not names or name in names or len(names) > MOST_NEIGHBOURS or len(name) > MOST_NAME_CHARS:
        return ""
    best = nearest(name, names, 0)
    return posixpath.join(folder, best) if difflib.SequenceMatcher(None, name, best).ratio() > 0.6 else ""


def _text(data: bytes, path: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:8192]:
        raise ToolError("{path} is binary ({size} bytes), not text", path=path, size=len(data))
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")


def _short_line(line: str, number: int) -> str:
    if len(line) <= MOST_LINE_CHARS:
        return line
    end = "\n" if line.endswith("\n") else ""
    rest = _rest_of_line(len(line) - len(end), number, MOST_LINE_CHARS)
    return f"{line[:MOST_LINE_CHARS]}{rest}{end}"


def _rest_of_line(size: int, number: int, shown: int) -> str:
    """Return the note behind the shown part of a long line: how to read the rest."""
    return f" [... {size - shown} more chars in this line; go on with offset={number}, column={shown + 1}]"


def _page_chars(context: ToolContext) -> int:
    """Return the maximum size of a page, so that its last line, which says how to continue, is not
    truncated later.
    """
    window = context.status.get("context_tokens")
    return (
        min(MOST_CHARS, result_limit(window) - _HINT_CHARS)
        if isinstance(window, int) and window > 1000
        else MOST_CHARS
    )
