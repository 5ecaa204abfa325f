"""How commands show things: tables and colour on a terminal, plain text in a pipe, one document with ``--json``."""

import json
import os
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

SCHEMA_VERSION = 1
_STRIP = 30  # letters: what is narrower has a few words a line


def document(kind: str, body: Mapping[str, Any]) -> None:
    """Print one JSON document on stdout, with ``schemaVersion`` and ``kind`` inside."""
    text = json.dumps(
        {"schemaVersion": SCHEMA_VERSION, "kind": kind, **body}, ensure_ascii=False, indent=2, default=str
    )
    sys.stdout.write(text + "\n")


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], colours: Mapping[str, str] | None = None
) -> None:
    """Print rows under their column heads.

    :param colours: cell text → rich style, used on a terminal only.
    """
    if on_terminal():
        _drawn(columns, rows, colours or {})
        return
    widths = [max(width(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        cells = [cell + " " * (widths[i] - width(cell)) for i, cell in enumerate(row)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def utc(at: float) -> str:
    """A moment (seconds since 1970) that reads the same wherever one is."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def plain(text: str) -> str:
    """A text as one can print it: it came from outside."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def on_terminal() -> bool:
    """Whether a person with colours reads stdout."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def width(text: str) -> int:
    """Columns that ``text`` takes on a terminal: two for a wide character, none for a combining one."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _drawn(columns: Sequence[str], rows: Sequence[Sequence[str]], colours: Mapping[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    screen = Console()
    widths = [max(width(row[index]) for row in [columns, *rows]) for index in range(len(columns))]
    if stands_below(widths, screen.width):
        _with_the_last_below(screen, widths, columns, rows, colours)
        return
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        drawn.add_column(column, no_wrap=index == 0 or not column, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
    screen.print(drawn)


def stands_below(widths: Sequence[int], screen: int) -> bool:
    """Whether the last column would be squeezed into a strip that nobody reads, and so stands below the others.

    :param widths: of the columns, in letters; ``screen`` has so many.
    """
    *others, last = widths
    room = screen - sum(others) - 2 * len(others)
    return last > room and room < _STRIP <= screen and sum(others) + 2 * len(others) <= screen


def _with_the_last_below(
    screen: Any, widths: Sequence[int], columns: Sequence[str], rows: Sequence[Sequence[str]],
    colours: Mapping[str, str],
) -> None:  # fmt: skip
    from rich.padding import Padding
    from rich.text import Text

    for style, row in [("bold", columns), *(("", row) for row in rows)]:
        line = Text("  ").join(
            Text(cell + " " * (room - width(cell)), style or colours.get(cell, ""))
            for cell, room in zip(row[:-1], widths, strict=False)
        )
        screen.print(line)
        if row[-1]:
            screen.print(Padding(Text(row[-1], style), (0, 0, 0, 2)))
