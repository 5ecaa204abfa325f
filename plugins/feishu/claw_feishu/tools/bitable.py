"""Tools for tables (多维表格, Base). Facts: open.feishu.cn, "Docs > Base": filters have a conjunction and conditions."""

from typing import Any, Literal

from claw import Tool, ToolContext, tool
from pydantic import BaseModel

from claw_feishu.tools.sdk import READS, WRITES, Sdk, id_in, needed, once_token, token_in


class Condition(BaseModel):
    """One condition of a filter; isEmpty and isNotEmpty have no values."""

    field: str
    operator: Literal[
        "is", "isNot", "contains", "doesNotContain", "isEmpty", "isNotEmpty",
        "isGreater", "isGreaterEqual", "isLess", "isLessEqual",
    ]  # fmt: skip
    values: list[str] = []


class OfficePerson(BaseModel):
    """A person, by open_id."""

    id: str


class Link(BaseModel):
    """The value of a hyperlink field."""

    text: str
    link: str


class FieldValue(BaseModel):
    """The new value of a field: a date in milliseconds since 1970, a choice by its name, several choices as a list."""

    field: str
    value: str | float | bool | list[str] | list[OfficePerson] | Link


class BaseTools:
    """The tools for tables."""

    def __init__(self, sdk: Sdk) -> None:
        self._sdk = sdk

    def tools(self) -> tuple[Tool, ...]:
        """Return the read tool and the write tool."""
        reads, writes = tool(name="feishu_bitable_read", **READS), tool(name="feishu_bitable_write", **WRITES)
        return reads(self.read), writes(self.write)

    async def read(
        self,
        action: Literal["tables", "fields", "records"],
        base: str,
        context: ToolContext,
        *,
        table: str = "",
        conditions: list[Condition] | None = None,
        match: Literal["and", "or"] = "and",
        fields: list[str] | None = None,
        page_size: int = 50,
        page_token: str = "",
        account: str = "",
    ) -> dict[str, Any]:
        """Read a Feishu base (多维表格): its tables, the fields of one, or the records that fit.

        :param base: app token, or its address.
        :param table: id of a table (tbl…); for fields and records.
        :param conditions: which records; all of them when left out.
        :param fields: names of the fields to give; all when left out.
        :param page_size: records at once, up to 500.
        :param page_token: of the page before this one.
        :param account: account of the app, when there are several.
        """
        app, table = token_in(base), id_in(table)
        if action == "tables":
            return await self._sdk.ask(context, account, _tables(app, page_token))
        needed(action, table=table)
        if action == "fields":
            return await self._sdk.ask(context, account, _fields(app, table, page_token))
        body: dict[str, Any] = {"field_names": fields} if fields else {}
        if conditions:
            each = [
                {"field_name": one.field, "operator": one.operator, "value": one.values} for one in conditions
            ]
            body["filter"] = {"conjunction": match, "conditions": each}
        return await self._sdk.ask(context, account, _search(app, table, body, page_size, page_token))

    async def write(
        self,
        action: Literal["create", "update", "delete"],
        base: str,
        table: str,
        context: ToolContext,
        record: str = "",
        fields: list[FieldValue] | None = None,
        account: str = "",
    ) -> dict[str, Any]:
        """Make, change or delete a record of a Feishu base (多维表格). Ask for the fields first.

        :param base: app token, or its address.
        :param table: id of the table (tbl…).
        :param record: id of the record (rec…); for update and delete.
        :param fields: new values; what an update leaves out stays.
        :param account: account of the app, when there are several.
        """
        app, table = token_in(base), id_in(table)
        values = {one.field: one.model_dump()["value"] for one in fields or ()}
        if action == "create":
            needed(action, fields=values)
            return await self._sdk.ask(context, account, _create(app, table, values, once_token(context)))
        needed(action, record=record)
        if action == "delete":
            return await self._sdk.ask(context, account, _delete(app, table, id_in(record)))
        needed(action, fields=values)
        return await self._sdk.ask(context, account, _update(app, table, id_in(record), values))


def _tables(app: str, page_token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.bitable.v1 import ListAppTableRequest

        request = ListAppTableRequest.builder().app_token(app).page_size(100)
        if page_token:
            request.page_token(page_token)
        return client.bitable.v1.app_table.list(request.build(), option)

    return call


def _fields(app: str, table: str, page_token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.bitable.v1 import ListAppTableFieldRequest

        request = ListAppTableFieldRequest.builder().app_token(app).table_id(table).page_size(100)
        if page_token:
            request.page_token(page_token)
        return client.bitable.v1.app_table_field.list(request.build(), option)

    return call


def _search(app: str, table: str, body: dict[str, Any], page_size: int, page_token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.bitable.v1 import SearchAppTableRecordRequest, SearchAppTableRecordRequestBody

        request = SearchAppTableRecordRequest.builder().app_token(app).table_id(table).page_size(page_size)
        request.request_body(SearchAppTableRecordRequestBody(body))
        if page_token:
            request.page_token(page_token)
        return client.bitable.v1.app_table_record.search(request.build(), option)

    return call


def _create(app: str, table: str, fields: dict[str, Any], token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.bitable.v1 import AppTableRecord, CreateAppTableRecordRequest

        request = CreateAppTableRecordRequest.builder().app_token(app).table_id(table).client_token(token)
        request.request_body(AppTableRecord({"fields": fields}))
        return client.bitable.v1.app_table_record.create(request.build(), option)

    return call


def _update(app: str, table: str, record: str, fields: dict[str, Any]) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.bitable.v1 import AppTableRecord, UpdateAppTableRecordRequest

        request = UpdateAppTableRecordRequest.builder().app_token(app).table_id(table).record_id(record)
        request.request_body(AppTableRecord({"fields": fields}))
        return client.bitable.v1.app_table_record.update(request.build(), option)

    return call


def _delete(app: str, table: str, record: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.bitable.v1 import DeleteAppTableRecordRequest

        request = DeleteAppTableRecordRequest.builder().app_token(app).table_id(table).record_id(record)
        return client.bitable.v1.app_table_record.delete(request.build(), option)

    return call
