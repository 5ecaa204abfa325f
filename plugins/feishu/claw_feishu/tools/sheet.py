"""Tools for spreadsheets. Facts: open.feishu.cn, "Docs > Sheets": values in ranges ``SHEET!A1:C3`` are
version 2 of that API, for which the SDK has no types, but it can send those requests."""

from typing import Any, Literal

from claw import Tool, ToolContext, tool

from claw_feishu.tools.sdk import READS, WRITES, Sdk, id_in, needed, share, token_in

Cell = str | int | float | bool | None
_V2 = "/open-apis/sheets/v2/spreadsheets/:token"


class SheetTools:
    """The tools for spreadsheets."""

    def __init__(self, sdk: Sdk) -> None:
        self._sdk = sdk

    def tools(self) -> tuple[Tool, ...]:
        """Return the read tool and the write tool."""
        reads, writes = tool(name="feishu_sheet_read", **READS), tool(name="feishu_sheet_write", **WRITES)
        return reads(self.read), writes(self.write)

    async def read(
        self,
        action: Literal["sheets", "range", "find"],
        spreadsheet: str,
        context: ToolContext,
        range: str = "",
        text: str = "",
        account: str = "",
    ) -> dict[str, Any]:
        """Read a Feishu spreadsheet: its sheets and their ids, the values of a range, or the cells that hold a text.

        :param spreadsheet: token, or its address.
        :param range: SHEET_ID!A1:C3, for range and find; the sheet's id alone means all of it.
        :param text: what to find.
        :param account: account of the app, when there are several.
        """
        token = token_in(spreadsheet)
        if action == "sheets":
            return await self._sdk.ask(context, account, _sheets(token))
        needed(action, range=range)
        if action == "range":
            return await self._sdk.ask(context, account, _values(token, id_in(range)))
        needed(action, text=text)
        return await self._sdk.ask(context, account, _find(token, id_in(range), text))

    async def write(
        self,
        action: Literal["create", "add_sheet", "write", "append", "share"],
        context: ToolContext,
        *,
        spreadsheet: str = "",
        title: str = "",
        folder: str = "",
        range: str = "",
        values: list[list[Cell]] | None = None,
        people: list[str] | None = None,
        perm: Literal["view", "edit", "full_access"] = "edit",
        account: str = "",
    ) -> dict[str, Any]:
        """Make a Feishu spreadsheet or a sheet in one, write or append rows, or let people at it.

        :param spreadsheet: token or address; for everything but create.
        :param title: of a new spreadsheet or sheet.
        :param folder: token of the folder for a new one; empty = the app's own.
        :param range: SHEET_ID!A1:C3; write replaces these cells; append adds rows below.
        :param values: rows of cells.
        :param people: open ids (ou_…) to share with.
        :param account: account of the app, when there are several.
        """
        token = token_in(spreadsheet)
        if action == "create":
            needed(action, title=title)
            return await self._sdk.ask(context, account, _create(title, token_in(folder)))
        needed(action, spreadsheet=token)
        if action == "share":
            needed(action, people=people)
            return await share(self._sdk, context, account, token, "sheet", people or [], perm)
        if action == "add_sheet":
            needed(action, title=title)
            return await self._sdk.ask(context, account, _add_sheet(token, title))
        needed(action, range=range, values=values)
        return await self._sdk.ask(context, account, _put(token, range, values, append=action == "append"))


def _sheets(token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.sheets.v3 import QuerySpreadsheetSheetRequest

        request = QuerySpreadsheetSheetRequest.builder().spreadsheet_token(token).build()
        return client.sheets.v3.spreadsheet_sheet.query(request, option)

    return call


def _find(token: str, range: str, text: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.sheets.v3 import Find, FindSpreadsheetSheetRequest

        body = Find({"find": text, "find_condition": {"range": range, "match_case": False}})
        request = FindSpreadsheetSheetRequest.builder().spreadsheet_token(token)
        request = request.sheet_id(range.partition("!")[0]).request_body(body).build()
        return client.sheets.v3.spreadsheet_sheet.find(request, option)

    return call


def _create(title: str, folder: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.sheets.v3 import CreateSpreadsheetRequest, Spreadsheet

        body = Spreadsheet({"title": title, "folder_token": folder or None})
        return client.sheets.v3.spreadsheet.create(
            CreateSpreadsheetRequest.builder().request_body(body).build(), option
        )

    return call


def _values(token: str, range: str) -> Any:
    options = [("valueRenderOption", "ToString"), ("dateTimeRenderOption", "FormattedString")]
    return _v2("GET", "/values/:range", {"token": token, "range": range}, queries=options)


def _put(token: str, range: str, values: Any, *, append: bool) -> Any:
    body = {"valueRange": {"range": range, "values": values}}
    if append:
        return _v2(
            "POST", "/values_append", {"token": token}, body, queries=[("insertDataOption", "INSERT_ROWS")]
        )
    return _v2("PUT", "/values", {"token": token}, body)


def _add_sheet(token: str, title: str) -> Any:
    body = {"requests": [{"addSheet": {"properties": {"title": title}}}]}
    return _v2("POST", "/sheets_batch_update", {"token": token}, body)


def _v2(
    method: str,
    path: str,
    paths: dict[str, str],
    body: Any = None,
    queries: list[tuple[str, str]] | None = None,
) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi import AccessTokenType, BaseRequest, HttpMethod

        request = BaseRequest.builder().http_method(HttpMethod[method]).uri(_V2 + path).paths(paths)
        request = request.queries(queries or []).token_types({AccessTokenType.TENANT})
        if body is not None:
            request = request.body(body).headers({"Content-Type": "application/json; charset=utf-8"})
        return client.request(request.build(), option)

    return call
