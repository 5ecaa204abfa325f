"""Bases (tables of records), as the platform keeps them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from claw_feishu.fake.cards import ok, refusal
from claw_feishu.fake.server import Answer, Call
from claw_feishu.fake.shapes import Repeats, Route, page, unfit

BASE_GONE, TABLE_GONE, RECORD_GONE, FIELD_GONE = 1254040, 1254041, 1254043, 1254045
_OPERATORS = (
    "is", "isNot", "contains", "doesNotContain", "isEmpty", "isNotEmpty",
    "isGreater", "isGreaterEqual", "isLess", "isLessEqual",
)  # fmt: skip
_CONDITION = {"field_name": str, "operator": _OPERATORS, "value": [str]}


@dataclass
class Table:
    """A table of a base; ``fields`` by name, ``records`` by id."""

    name: str
    fields: dict[str, str]
    records: dict[str, dict[str, Any]] = field(default_factory=dict)


class Bases:
    """Bases: tables of records.

    :ivar apps: app token → tables by id.
    """

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self._fresh, self._repeats = fresh, Repeats()
        self.apps: dict[str, dict[str, Table]] = {}

    def routes(self) -> Iterator[Route]:
        """Method, path as a regular expression, and who answers."""
        tables = r"/open-apis/bitable/v1/apps/(\w+)/tables"
        records = rf"{tables}/(\w+)/records"
        yield "GET", tables, self._tables
        yield "GET", rf"{tables}/(\w+)/fields", self._fields
        yield "POST", f"{records}/search", self._search
        yield "POST", records, self._create
        yield "PUT", rf"{records}/(\w+)", self._update
        yield "DELETE", rf"{records}/(\w+)", self._delete

    def make(self, name: str, /, **fields: str) -> tuple[str, str]:
        """A base with one table, its fields with their kinds; app token and table id."""
        app, table = self._fresh("base"), self._fresh("tbl")
        self.apps[app] = {table: Table(name, fields)}
        return app, table

    def _table(self, found: "re.Match[str]") -> Table | Answer:
        if found[1] not in self.apps:
            return refusal(BASE_GONE, "BaseTokenNotFound", 404)
        return self.apps[found[1]].get(found[2]) or refusal(TABLE_GONE, "TableIdNotFound", 404)

    def _tables(self, call: Call, found: "re.Match[str]") -> Answer:
        if found[1] not in self.apps:
            return refusal(BASE_GONE, "BaseTokenNotFound", 404)
        told = [{"table_id": id, "name": one.name} for id, one in self.apps[found[1]].items()]
        return unfit(call, query={"page_size?": int, "page_token?": str}) or page(call, "items", told, 100)

    def _fields(self, call: Call, found: "re.Match[str]") -> Answer:
        table = self._table(found)
        if fault := unfit(call, query={"page_size?": int, "page_token?": str}):
            return fault
        if isinstance(table, Answer):
            return table
        told = [{"field_name": name, "ui_type": kind} for name, kind in table.fields.items()]
        return page(call, "items", told, 100)

    def _search(self, call: Call, found: "re.Match[str]") -> Answer:
        body = {
            "field_names?": [str],
            "filter?": {"conjunction": ("and", "or"), "conditions": [_CONDITION]},
        }
        table = self._table(found)
        if fault := unfit(call, query={"page_size?": int, "page_token?": str}, body=body):
            return fault
        if isinstance(table, Answer):
            return table
        wanted = call.body.get("filter") or {"conjunction": "and", "conditions": []}
        asked = {one["field_name"] for one in wanted["conditions"]} | set(call.body.get("field_names") or ())
        if unknown := asked - table.fields.keys():
            return refusal(FIELD_GONE, f"FieldNameNotFound: {sorted(unknown)[0]}")
        join = all if wanted["conjunction"] == "and" else any
        told = [
            {"record_id": id, "fields": _some(fields, call.body.get("field_names"))}
            for id, fields in table.records.items()
            if not wanted["conditions"] or join(fits(fields, one) for one in wanted["conditions"])
        ]
        return page(call, "items", told, 500)

    def _create(self, call: Call, found: "re.Match[str]") -> Answer:
        query = {"client_token?": str}
        table = self._filled(call, found, query)
        if isinstance(table, Answer):
            return table

        def make() -> dict[str, Any]:
            id = self._fresh("rec")
            table.records[id] = dict(call.body["fields"])
            return {"record": {"record_id": id, "fields": table.records[id]}}

        return self._repeats.answer(call.query.get("client_token", ""), make)

    def _update(self, call: Call, found: "re.Match[str]") -> Answer:
        table = self._filled(call, found, {})
        if isinstance(table, Answer):
            return table
        if found[3] not in table.records:
            return refusal(RECORD_GONE, "RecordIdNotFound", 404)
        table.records[found[3]].update(call.body["fields"])
        return ok({"record": {"record_id": found[3], "fields": table.records[found[3]]}})

    def _filled(self, call: Call, found: "re.Match[str]", query: dict[str, Any]) -> Table | Answer:
        if fault := unfit(call, query=query, body={"fields": {"*": object}}):
            return fault
        table = self._table(found)
        if not isinstance(table, Answer) and (unknown := call.body["fields"].keys() - table.fields.keys()):
            return refusal(FIELD_GONE, f"FieldNameNotFound: {sorted(unknown)[0]}")
        return table

    def _delete(self, call: Call, found: "re.Match[str]") -> Answer:
        table = self._table(found)
        if fault := unfit(call) or (table if isinstance(table, Answer) else None):
            return fault
        assert isinstance(table, Table)
        gone = table.records.pop(found[3], None)
        if gone is None:
            return refusal(RECORD_GONE, "RecordIdNotFound", 404)
        return ok({"deleted": True, "record_id": found[3]})


def _some(fields: dict[str, Any], names: list[str] | None) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if not names or name in names}


def fits(fields: dict[str, Any], condition: dict[str, Any]) -> bool:
    """Whether a record meets one condition."""
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
