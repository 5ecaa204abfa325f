"""Fake bases (tables of records)."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from claw_feishu.fake.cards import ok, refusal
from claw_feishu.fake.server import FakeAnswer, FakeCall
from claw_feishu.fake.shapes import Repeats, Route, page, unfit

BASE_GONE, TABLE_GONE, RECORD_GONE, FIELD_GONE = 1254040, 1254041, 1254043, 1254045
_OPERATORS = (
    "is", "isNot", "contains", "doesNotContain", "isEmpty", "isNotEmpty",
    "isGreater", "isGreaterEqual", "isLess", "isLessEqual",
)  # fmt: skip
_CONDITION = {"field_name": str, "operator": _OPERATORS, "value": [str]}


@dataclass
class FakeTable:
    """A table of a base; ``fields`` by name, ``records`` by id."""

    name: str
    fields: dict[str, str]
    records: dict[str, dict[str, Any]] = field(default_factory=dict)


class FakeBases:
    """The stored bases and their routes.

    :ivar apps: app token → tables by id.
    """

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self._fresh, self._repeats = fresh, Repeats()
        self.apps: dict[str, dict[str, FakeTable]] = {}

    def routes(self) -> Iterator[Route]:
        """Yield method, path as a regular expression, and handler."""
        tables = r"/open-apis/bitable/v1/apps/(\w+)/tables"
        records = rf"{tables}/(\w+)/records"
        yield "GET", tables, self._tables
        yield "GET", rf"{tables}/(\w+)/fields", self._fields
        yield "POST", f"{records}/search", self._search
        yield "POST", records, self._create
        yield "PUT", rf"{records}/(\w+)", self._update
        yield "DELETE", rf"{records}/(\w+)", self._delete

    def make(self, name: str, /, **fields: str) -> tuple[str, str]:
        """Create a base with one table, given the types of its fields by name; return app token and table id."""
        app, table = self._fresh("base"), self._fresh("tbl")
        self.apps[app] = {table: FakeTable(name, fields)}
        return app, table

    def _table(self, found: "re.Match[str]") -> FakeTable | FakeAnswer:
        if found[1] not in self.apps:
            return refusal(BASE_GONE, "BaseTokenNotFound", 404)
        return self.apps[found[1]].get(found[2]) or refusal(TABLE_GONE, "TableIdNotFound", 404)

    def _tables(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if found[1] not in self.apps:
            return refusal(BASE_GONE, "BaseTokenNotFound", 404)
        listing = [{"table_id": id, "name": one.name} for id, one in self.apps[found[1]].items()]
        return unfit(call, query={"page_size?": int, "page_token?": str}) or page(call, "items", listing, 100)

    def _fields(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        table = self._table(found)
        if fault := unfit(call, query={"page_size?": int, "page_token?": str}):
            return fault
        if isinstance(table, FakeAnswer):
            return table
        listing = [{"field_name": name, "ui_type": kind} for name, kind in table.fields.items()]
        return page(call, "items", listing, 100)

    def _search(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        body = {
            "field_names?": [str],
            "filter?": {"conjunction": ("and", "or"), "conditions": [_CONDITION]},
        }
        table = self._table(found)
        if fault := unfit(call, query={"page_size?": int, "page_token?": str}, body=body):
            return fault
        if isinstance(table, FakeAnswer):
            return table
        wanted = call.body.get("filter") or {"conjunction": "and", "conditions": []}
        asked = {one["field_name"] for one in wanted["conditions"]} | set(call.body.get("field_names") or ())
        if unknown := asked - table.fields.keys():
            return refusal(FIELD_GONE, f"FieldNameNotFound: {sorted(unknown)[0]}")
        join = all if wanted["conjunction"] == "and" else any
        listing = [
            {"record_id": id, "fields": _matching(fields, call.body.get("field_names"))}
            for id, fields in table.records.items()
            if not wanted["conditions"] or join(fits(fields, one) for one in wanted["conditions"])
        ]
        return page(call, "items", listing, 500)

    def _create(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        query = {"client_token?": str}
        table = self._filled(call, found, query)
        if isinstance(table, FakeAnswer):
            return table

        def make() -> dict[str, Any]:
            id = self._fresh("rec")
            table.records[id] = dict(call.body["fields"])
            return {"record": {"record_id": id, "fields": table.records[id]}}

        return self._repeats.answer(call.query.get("client_token", ""), make)

    def _update(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        table = self._filled(call, found, {})
        if isinstance(table, FakeAnswer):
            return table
        if found[3] not in table.records:
            return refusal(RECORD_GONE, "RecordIdNotFound", 404)
        table.records[found[3]].update(call.body["fields"])
        return ok({"record": {"record_id": found[3], "fields": table.records[found[3]]}})

    def _filled(
        self, call: FakeCall, found: "re.Match[str]", query: dict[str, Any]
    ) -> FakeTable | FakeAnswer:
        if fault := unfit(call, query=query, body={"fields": {"*": object}}):
            return fault
        table = self._table(found)
        if not isinstance(table, FakeAnswer) and (
            unknown := call.body["fields"].keys() - table.fields.keys()
        ):
            return refusal(FIELD_GONE, f"FieldNameNotFound: {sorted(unknown)[0]}")
        return table

    def _delete(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        table = self._table(found)
        if fault := unfit(call) or (table if isinstance(table, FakeAnswer) else None):
            return fault
        assert isinstance(table, FakeTable)
        gone = table.records.pop(found[3], None)
        if gone is None:
            return refusal(RECORD_GONE, "RecordIdNotFound", 404)
        return ok({"deleted": True, "record_id": found[3]})


def _matching(fields: dict[str, Any], names: list[str] | None) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if not names or name in names}


def fits(fields: dict[str, Any], condition: dict[str, Any]) -> bool:
    """Return true if a record meets one condition."""
    value, operator, wanted = fields.get(condition["field_name"]), condition["operator"], condition["value"]
    if operator in ("isEmpty", "isNotEmpty"):
        return (value in (None, "", [])) is (operator == "isEmpty")
    held = list(map(str, value)) if isinstance(value, list) else [str(value)]
    if operator in ("is", "isNot"):
        return (held == wanted) is (operator == "is")
    if operator in ("contains", "doesNotContain"):
        return any(one in text for one in wanted for text in held) is (operator == "contains")
    number, limit = float(held[0]), float(wanted[0])
    return {
        "isGreater": number > limit, "isGreaterEqual": number >= limit,
        "isLess": number < limit, "isLessEqual": number <= limit,
    }[operator]  # fmt: skip
