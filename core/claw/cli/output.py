"""The output of commands: tables and colour on a terminal, plain text in a pipe, one document with
``--json``."""

import json
import os
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

SCHEMA_VERSION = 1
_STEERING = (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = {code: f"⟨U+{code:04X}⟩" for code in _STEERING}  # control characters, and marks of text direction
_LEAST_WIDTH = 30  # columns: a narrower column has only a few words per line


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
    rows = [[cell.translate(_CONTROLS) for cell in row] for row in rows]
    if on_terminal():
        _draw(columns, rows, colours or {})
        return
    widths = [max(width(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    for row in [columns, *rows]:
        cells = [cell + " " * (widths[i] - width(cell)) for i, cell in enumerate(row)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def utc_time(at: float) -> str:
    """Format a moment (seconds since 1970) in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def printable(text: str) -> str:
    """Replace what cannot be printed in a text that came from outside."""
    return "".join(char if char.isprintable() else "?" for char in text)


def on_terminal() -> bool:
    """Return true if stdout is a terminal that shows colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def width(text: str) -> int:
    """Return the columns that ``text`` takes on a terminal: two for a wide character, none for a combining
    one."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _draw(columns: Sequence[str], rows: Sequence[Sequence[str]], colours: Mapping[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    screen = Console()
    widths = [max(width(row[index]) for row in [columns, *rows]) for index in range(len(columns))]
    if last_column_below(widths, screen.width):
        _draw_last_below(screen, widths, columns, rows, colours)
        return
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        grid.add_column(column, no_wrap=index == 0 or not column, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
    screen.print(grid)


def last_column_below(widths: Sequence[int], screen: int) -> bool:
    """Return true if the last column would be too narrow to read, and so goes below the others.

    :param widths: widths of the columns, in terminal cells; ``screen`` is the width of the terminal.
    """
    *others, last = widths
    free = screen - sum(others) - 2 * len(others)
    return last > free and free < _LEAST_WIDTH <= screen and sum(others) + 2 * len(others) <= screen


def _draw_last_below(
    screen: Any, widths: Sequence[int], columns: Sequence[str], rows: Sequence[Sequence[str]],
    colours: Mapping[str, str],
) -> None:  # fmt: skip
    from rich.padding import Padding
    from rich.text import Text

    for style, row in [("bold", columns), *(("", row) for row in rows)]:
        line = Text("  ").join(
            Text(cell + " " * (size - width(cell)), style or colours.get(cell, ""))
            for cell, size in zip(row[:-1], widths, strict=False)
        )
        screen.print(line)
        if row[-1]:
            screen.print(Padding(Text(row[-1], style), (0, 0, 0, 2)))
