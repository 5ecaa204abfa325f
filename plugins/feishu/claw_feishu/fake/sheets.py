"""Fake spreadsheets."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from claw_feishu.fake.cards import ok, refusal
from claw_feishu.fake.server import FakeAnswer, FakeCall
from claw_feishu.fake.shapes import Route, unfit

SHEET_GONE, RANGE_WRONG, TOO_MUCH = 1310214, 90215, 90203
_CELLS = {"valueRange": {"range": str, "values": [[object]]}}


@dataclass
class FakeSheet:
    """One sheet; ``rows`` of cells."""

    title: str
    rows: list[list[Any]] = field(default_factory=list)

    def read(self, area: "Area") -> list[list[Any]]:
        """Return the cells of an area; None for empty ones."""
        rows = self.rows[area.top : area.bottom]
        return [[(row[at] if at < len(row) else None) for at in area.columns(len(row))] for row in rows]

    def write(self, area: "Area", values: list[list[Any]]) -> None:
        """Write cells, from the upper left corner."""
        for at, row in enumerate(values, area.top):
            self.rows += [[] for _ in range(at + 1 - len(self.rows))]
            here = self.rows[at]
            here += [None] * (area.left + len(row) - len(here))
            here[area.left : area.left + len(row)] = row


@dataclass(frozen=True)
class Area:
    """A part of a sheet, counted from 0; the ends are exclusive, None = open."""

    sheet: str
    top: int = 0
    left: int = 0
    bottom: int | None = None
    right: int | None = None

    def columns(self, width: int) -> range:
        """Return its columns in a row of that width."""
        return range(self.left, width if self.right is None else self.right)


def area_of(text: str) -> Area | None:
    """Parse ``SHEET!A1:C3``, ``SHEET!A1`` or ``SHEET``; None for anything else."""
    found = re.fullmatch(r"(\w+)(?:!([A-Z]+)(\d+)(?::([A-Z]+)(\d+))?)?", text)
    if not found:
        return None
    if found[2] is None:
        return Area(found[1])
    left, top = _column(found[2]), int(found[3]) - 1
    right, bottom = (_column(found[4]), int(found[5]) - 1) if found[4] else (left, top)
    return Area(found[1], top, left, bottom + 1, right + 1) if right >= left and bottom >= top >= 0 else None


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number - 1


class FakeSheets:
    """The stored spreadsheets and their routes.

    :ivar files: token → (title, sheets by id).
    """

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self._fresh = fresh
        self.files: dict[str, tuple[str, dict[str, FakeSheet]]] = {}

    def routes(self) -> Iterator[Route]:
        """Yield method, path as a regular expression, and handler."""
        v2, v3 = "/open-apis/sheets/v2/spreadsheets", "/open-apis/sheets/v3/spreadsheets"
        yield "POST", v3, self._make
        yield "GET", rf"{v3}/(\w+)/sheets/query", self._list
        yield "POST", rf"{v3}/(\w+)/sheets/(\w+)/find", self._find
        yield "POST", rf"{v2}/(\w+)/sheets_batch_update", self._change
        yield "GET", rf"{v2}/(\w+)/values/([^/]+)", self._read
        yield "PUT", rf"{v2}/(\w+)/values", self._write
        yield "POST", rf"{v2}/(\w+)/values_append", self._append

    def make(self, title: str) -> str:
        """Create a spreadsheet with one sheet; return its token."""
        token = self._fresh("sht")
        self.files[token] = title, {}
        self._add(token, "Sheet1")
        return token

    def _add(self, token: str, title: str) -> str:
        id = f"s{len(self.files[token][1])}{token[-4:]}"
        self.files[token][1][id] = FakeSheet(title)
        return id

    def _make(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if fault := unfit(call, body={"title?": str, "folder_token?": str}):
            return fault
        title = call.body.get("title", "")
        token = self.make(title)
        folder = call.body.get("folder_token", "")
        return ok({"spreadsheet": {"title": title, "folder_token": folder, "spreadsheet_token": token}})

    def _list(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if found[1] not in self.files:
            return refusal(SHEET_GONE, "SpreadSheet Not Found")
        sheets = self.files[found[1]][1].items()
        listing = [{"sheet_id": id, "title": one.title, "index": at} for at, (id, one) in enumerate(sheets)]
        return unfit(call) or ok({"sheets": listing})

    def _change(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        body = {"requests": [{"addSheet": {"properties": {"title": str, "index?": int}}}]}
        if fault := unfit(call, body=body):
            return fault
        if found[1] not in self.files:
            return refusal(SHEET_GONE, "SpreadSheet Not Found")
        replies = []
        for one in call.body["requests"]:
            title = one["addSheet"]["properties"]["title"]
            made = {"sheetId": self._add(found[1], title), "title": title, "index": 0}
            replies.append({"addSheet": {"properties": made}})
        return ok({"replies": replies})

    def _at(self, token: str, text: str) -> tuple[FakeSheet, Area] | FakeAnswer:
        if token not in self.files:
            return refusal(SHEET_GONE, "SpreadSheet Not Found")
        area = area_of(text)
        sheet = self.files[token][1].get(area.sheet) if area else None
        if area is None or sheet is None:
            return refusal(RANGE_WRONG, "validate RangeVal fail: sheetId not found or range wrong")
        return sheet, area

    def _read(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        options = {
            "valueRenderOption?": ("ToString", "Formula", "FormattedValue", "UnformattedValue"),
            "dateTimeRenderOption?": ("FormattedString",),
        }
        text = unquote(found[2])
        there = self._at(found[1], text)
        if fault := unfit(call, query=options) or (there if isinstance(there, FakeAnswer) else None):
            return fault
        assert isinstance(there, tuple)
        values = {"majorDimension": "ROWS", "range": text, "values": there[0].read(there[1])}
        return ok({"spreadsheetToken": found[1], "valueRange": values})

    def _write(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if fault := unfit(call, body=_CELLS):
            return fault
        given = call.body["valueRange"]
        there = self._at(found[1], given["range"])
        if isinstance(there, FakeAnswer):
            return there
        sheet, area = there
        tall, wide = len(given["values"]), max(map(len, given["values"]), default=0)
        if (area.bottom and tall > area.bottom - area.top) or (area.right and wide > area.right - area.left):
            return refusal(TOO_MUCH, "the values do not fit into the range")
        sheet.write(area, given["values"])
        listing = {
            "updatedRange": given["range"],
            "updatedRows": tall,
            "updatedColumns": wide,
            "updatedCells": tall * wide,
        }
        return ok({"spreadsheetToken": found[1], **listing})

    def _append(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        query = {"insertDataOption?": ("OVERWRITE", "INSERT_ROWS")}
        if fault := unfit(call, query=query, body=_CELLS):
            return fault
        given = call.body["valueRange"]
        there = self._at(found[1], given["range"])
        if isinstance(there, FakeAnswer):
            return there
        sheet, area = there
        sheet.write(Area(area.sheet, len(sheet.rows), area.left), given["values"])
        return ok({"spreadsheetToken": found[1], "updates": {"updatedRows": len(given["values"])}})

    def _find(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        condition = {"range": str, "match_case?": bool}
        if fault := unfit(call, body={"find": str, "find_condition": condition}):
            return fault
        there = self._at(found[1], call.body["find_condition"]["range"])
        if isinstance(there, FakeAnswer):
            return there
        if there[1].sheet != found[2]:
            return refusal(1310211, "Wrong Sheet Id")
        as_is = call.body["find_condition"].get("match_case", False)
        fold = str if as_is else str.casefold
        wanted = fold(call.body["find"])
        cells = [
            f"{chr(65 + column)}{row + 1}"
            for row, line in enumerate(there[0].rows)
            for column, cell in enumerate(line)
            if wanted in fold(str(cell))
        ]
        return ok({"find_result": {"matched_cells": cells, "rows_count": len(cells)}})
