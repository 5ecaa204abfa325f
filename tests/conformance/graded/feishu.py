"""The office tools of Feishu, each against the fake: ``claw plugins grade plugins/feishu`` alone runs this."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from claw import ToolContext, ToolResult
from claw.testing import tool_context
from claw_feishu.fake import FakeFeishu
from claw_feishu.tools import office_tools
from plugins.feishu.places import channel
from plugins.feishu.test_tools import Office, filled
from pytest_claw import ToolSuite

TOOLS = {tool.name: tool for tool in office_tools(dict)}


async def doc_read(office: Office) -> dict[str, Any]:
    made = await office.do("feishu_doc_write", action="create", title="t", markdown="a")
    return {"action": "text", "document": made["document_id"]}


async def sheet_read(office: Office) -> dict[str, Any]:
    made = (await office.do("feishu_sheet_write", action="create", title="t"))["spreadsheet"]
    return {"action": "sheets", "spreadsheet": made["spreadsheet_token"]}


async def bitable_write(office: Office) -> dict[str, Any]:
    base, table = office.feishu.office.bases.make("t", title="Text")
    return {"action": "create", "base": base, "table": table, "fields": filled(title="x")}


async def bitable_read(office: Office) -> dict[str, Any]:
    return {"action": "tables", "base": (await bitable_write(office))["base"]}


async def wiki_write(office: Office) -> dict[str, Any]:
    return {"action": "create", "space": office.feishu.office.wiki.space("s"), "title": "t"}


GIVEN: dict[str, Any] = {
    "feishu_doc_read": doc_read,
    "feishu_doc_write": {"action": "create", "title": "t", "markdown": "a"},
    "feishu_sheet_read": sheet_read,
    "feishu_sheet_write": {"action": "create", "title": "t"},
    "feishu_bitable_read": bitable_read,
    "feishu_bitable_write": bitable_write,
    "feishu_wiki_read": {"action": "spaces"},
    "feishu_wiki_write": wiki_write,
    "feishu_calendar_read": {"action": "calendars"},
    "feishu_calendar_write": {"action": "create", "summary": "s", "start": "2026-10-01", "end": "2026-10-02"},
}


@pytest.mark.parametrize("name", TOOLS)
class TestOffice(ToolSuite):
    @pytest.fixture(autouse=True)
    def _chosen(self, name: str, tmp_path: Path) -> None:
        self.tool, self.folder = TOOLS[name], tmp_path

    async def call(self, context: ToolContext, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        async with FakeFeishu() as feishu, channel(feishu) as one:
            tools = {tool.name: tool for tool in office_tools(lambda: {"default": one})}
            given = GIVEN[self.tool.name]
            sample = await given(Office(feishu, tools, self.folder)) if callable(given) else given
            self.tool, facts = (
                tools[self.tool.name],
                {"call_id": "call-1", "status": {"zone": "Asia/Shanghai"}},
            )
            context = tool_context(self.folder, **facts)
            return await super().call(context, sample)

    def same(self, first: str, second: str) -> bool:
        return len(first) == len(second)  # the fake makes new ids
