"""The tools on the vendor's SDK, each call against the fake, which holds every request field by field."""

import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import claw_feishu
import pytest
from claw import Address, Tool, ToolResult
from claw.testing import FakeChatApi, check_and_run, plugin_contributions, tool_context
from claw_feishu.fake import FakeAnswer, FakeFeishu
from claw_feishu.fake.shapes import misfit
from claw_feishu.tools import office_tools
from claw_feishu.tools.doc import blocks_of
from claw_feishu.tools.sdk import Sdk, token_in
from plugins.feishu.places import channel
from third_party import Machine

pytestmark = pytest.mark.xdist_group("lark")  # one worker pays for the import
SOMEBODY, ANOTHER = "ou_881e8247625e31527b4d15a31471504c", "ou_another"


@dataclass
class Office:
    """The tools, and the platform that they work on."""

    feishu: FakeFeishu
    tools: dict[str, Tool]
    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)
    calls: int = 0

    async def result(self, name: str, **arguments: Any) -> ToolResult:
        self.calls += 1
        facts = {"call_id": f"call-{self.calls}", "status": {"zone": "Asia/Shanghai"}, **self.facts}
        return await check_and_run(self.tools[name], arguments, tool_context(self.folder, **facts))

    async def do(self, name: str, **arguments: Any) -> Any:
        """Return the answer of the tool; it must not fail."""
        result = await self.result(name, **arguments)
        assert not result.is_error, result.content
        return json.loads(said(result))

    async def refused(self, name: str, **arguments: Any) -> str:
        """Return the text of a failure for the model."""
        result = await self.result(name, **arguments)
        assert result.is_error, result.content
        return said(result)


def filled(**values: Any) -> list[dict[str, Any]]:
    """Return the values of a record as the write tool takes them."""
    return [{"field": name, "value": value} for name, value in values.items()]


def said(result: ToolResult) -> str:
    return "".join(block.text for block in result.blocks)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with FakeFeishu() as feishu, channel(feishu) as one:
        tools = {tool.name: tool for tool in office_tools(lambda: {"default": one})}
        yield Office(feishu, tools, tmp_path)


# What they are


def test_they_are_optional_for_owners_only_and_writing_is_never_repeated() -> None:
    tools = office_tools(dict)
    assert all(tool.optional and tool.owner_only for tool in tools)
    assert {tool.name.rpartition("_")[2]: tool.effects for tool in tools} == {"read": "none", "write": "once"}
    areas = {tool.name.split("_")[1] for tool in tools}
    assert areas == {"doc", "sheet", "bitable", "wiki", "calendar"}


async def test_the_plugin_provides_them_with_the_accounts_of_the_file(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu:
        tree = {"channels": {"feishu": feishu.config}}
        async with plugin_contributions(claw_feishu, tree, "feishu", home=tmp_path) as contributions:
            tools = {tool.name: tool for tool in contributions["register_tools"]}
            own = Office(feishu, tools, tmp_path)
            assert (await own.do("feishu_doc_write", action="create", title="a"))["title"] == "a"


async def test_without_an_account_they_say_which_keys_are_missing(tmp_path: Path) -> None:
    async with plugin_contributions(claw_feishu, {}, "feishu", home=tmp_path) as contributions:
        own = Office(None, {tool.name: tool for tool in contributions["register_tools"]}, tmp_path)
        problem = await own.refused("feishu_wiki_read", action="spaces")
        assert "channels.feishu" in problem and "appId" in problem


async def test_the_sdk_is_imported_at_the_first_call_and_its_absence_names_the_command(
    tmp_path: Path,
) -> None:
    def absent() -> Any:
        raise ModuleNotFoundError("No module named 'lark_oapi'", name="lark_oapi")

    from claw_feishu.tools.doc import DocumentTools

    async with FakeFeishu() as feishu, channel(feishu) as one:
        tools = {tool.name: tool for tool in DocumentTools(Sdk(lambda: {"default": one}, absent)).tools()}
        problem = await Office(feishu, tools, tmp_path).refused(
            "feishu_doc_read", action="text", document="docx1"
        )
        assert "lark-oapi" in problem and "install 'claw-feishu[tools]'" in problem


# Documents


async def test_a_document_is_made_written_and_read(office: Office) -> None:
    made = await office.do("feishu_doc_write", action="create", title="周报", markdown="# 本周\n- 一\n正文")
    id = made["document_id"]
    assert office.feishu.office.documents.all[id].title == "周报"

    await office.do("feishu_doc_write", action="append", document=id, markdown="> later")
    assert (await office.do("feishu_doc_read", action="text", document=id))["content"].split("\n")[:5] == [
        "周报", "本周", "一", "正文", "later",
    ]  # fmt: skip
    info = await office.do("feishu_doc_read", action="info", document=f"https://x.feishu.cn/docx/{id}?from=a")
    assert (info["document"]["title"], info["document"]["revision_id"]) == ("周报", 3)
    blocks = (await office.do("feishu_doc_read", action="blocks", document=id))["items"]
    assert [one["block_type"] for one in blocks] == [1, 3, 12, 2, 15]


async def test_blocks_come_in_pages_and_go_in_as_many_calls_as_it_takes(office: Office) -> None:
    lines = "\n".join(f"line {number}" for number in range(120))
    id = (await office.do("feishu_doc_write", action="create", title="long", markdown=lines))["document_id"]
    assert len(office.feishu.calls(f"POST /open-apis/docx/v1/documents/{id}/blocks")) == 3

    first = await office.do("feishu_doc_read", action="blocks", document=id)
    rest = await office.do("feishu_doc_read", action="blocks", document=id, page_token=first["page_token"])
    assert (len(first["items"]), first["has_more"], len(rest["items"])) == (100, True, 21)


async def test_a_document_is_made_in_a_folder_and_written_below_one_of_its_blocks(office: Office) -> None:
    folder = "https://x.feishu.cn/drive/folder/fld1"
    made = await office.do("feishu_doc_write", action="create", title="t", folder=folder, markdown="- a\n- b")
    id = made["document_id"]
    assert office.feishu.office.documents.all[id].folder == "fld1"
    first = (await office.do("feishu_doc_read", action="blocks", document=id))["items"][1]["block_id"]
    await office.do("feishu_doc_write", action="append", document=id, under=first, markdown="below a")
    text = (await office.do("feishu_doc_read", action="text", document=id))["content"]
    assert text.split("\n")[:4] == ["t", "a", "below a", "b"]


async def test_what_makes_something_carries_a_key_by_which_the_service_knows_a_repeat(office: Office) -> None:
    lines = "\n".join(f"line {number}" for number in range(120))
    await office.do("feishu_doc_write", action="create", title="long", markdown=lines)
    base, table = office.feishu.office.bases.make("t", title="Text")
    record = {"base": base, "table": table, "fields": filled(title="x")}
    await office.do("feishu_bitable_write", action="create", **record)
    day = {"start": "2026-10-01", "end": "2026-10-02"}
    await office.do("feishu_calendar_write", action="create", summary="holiday", **day)
    calls = [
        *office.feishu.calls("/children"),
        *office.feishu.calls("/records"),
        *office.feishu.calls("/events"),
    ]
    keys = [call.query.get("client_token") or call.query.get("idempotency_key") for call in calls]
    assert len(keys) == len(set(keys)) == 5 and all(uuid.UUID(str(key)).version == 4 for key in keys)

    office.facts["call_id"] = "the same call"
    for _ in range(2):
        await office.do("feishu_bitable_write", action="create", **record)
    office.facts["session_key"] = "of another conversation"
    await office.do("feishu_bitable_write", action="create", **record)
    found = await office.do("feishu_bitable_read", action="records", base=base, table=table)
    assert len(found["items"]) == 3, (
        "the first, the one that was repeated, and that of the other conversation"
    )


async def test_what_the_app_made_can_be_shared(office: Office) -> None:
    id = (await office.do("feishu_doc_write", action="create", title="ours"))["document_id"]
    await office.do("feishu_doc_write", action="share", document=id, people=[SOMEBODY, ANOTHER], perm="view")
    assert office.feishu.office.shared[id] == {SOMEBODY: "view", ANOTHER: "view"}


async def test_a_document_whose_text_is_refused_is_named_so_that_it_is_not_made_twice(office: Office) -> None:
    office.feishu.fail("/children", FakeAnswer(400, {"code": 1770001, "msg": "invalid param"}))
    problem = await office.refused("feishu_doc_write", action="create", title="half", markdown="x")
    [id] = office.feishu.office.documents.all
    assert id in problem and "1770001" in problem


def test_markdown_becomes_blocks_and_what_is_in_code_stays_as_it_is() -> None:
    text = "## t\n\n1. a\n* b\n---\n```py\n# no heading\n\nx = 1\n```\nplain *as it is*"
    blocks = list(blocks_of(text))
    assert [one["block_type"] for one in blocks] == [4, 13, 12, 22, 14, 2]
    assert blocks[4]["code"]["elements"][0]["text_run"]["content"] == "# no heading\n\nx = 1"
    assert blocks[5]["text"]["elements"][0]["text_run"]["content"] == "plain *as it is*"


@pytest.mark.parametrize(
    "text", ["docx123", " https://a.feishu.cn/docx/docx123 ", "https://a.feishu.cn/docx/docx123/?x=1#y"]
)
def test_an_address_is_as_good_as_a_token(text: str) -> None:
    assert token_in(text) == "docx123"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("bitable_write", {"action": "delete", "base": "b", "table": "tbl1", "record": ".."}),
        (
            "bitable_write",
            {"action": "delete", "base": "b", "table": "../../../../im/v1/chats", "record": "oc_1"},
        ),
        (
            "bitable_write",
            {"action": "update", "base": "..", "table": "tbl1", "record": "rec1", "fields": filled(a=1)},
        ),
        (
            "calendar_write",
            {"action": "delete", "calendar": "feishu.cn_1@group.calendar.feishu.cn", "event": ".."},
        ),
        ("calendar_write", {"action": "delete", "calendar": "..", "event": "e"}),
        ("calendar_read", {"action": "events", "calendar": "a/b"}),
        ("doc_write", {"action": "append", "document": "https://x.feishu.cn/docx/..", "markdown": "x"}),
        ("doc_write", {"action": "append", "document": "docx1", "under": "..", "markdown": "x"}),
        ("doc_read", {"action": "text", "document": "."}),
        ("sheet_read", {"action": "range", "spreadsheet": "s", "range": ".."}),
        ("sheet_write", {"action": "add_sheet", "spreadsheet": "..", "title": "t"}),
        ("wiki_write", {"action": "rename", "space": "..", "node": "n", "title": "t"}),
        ("wiki_read", {"action": "nodes", "space": "%2e%2e"}),
    ],
)
async def test_an_id_that_would_lead_elsewhere_is_asked_of_nobody(
    tool: str, arguments: dict[str, Any], office: Office
) -> None:
    assert "is not a Feishu id" in await office.refused(f"feishu_{tool}", **arguments)
    assert not [call for call in office.feishu.calls("/") if "/auth/" not in call.path]


# Sheets


async def test_a_spreadsheet_is_made_written_and_read(office: Office) -> None:
    made = (await office.do("feishu_sheet_write", action="create", title="账"))["spreadsheet"]
    token = made["spreadsheet_token"]
    [sheet] = (await office.do("feishu_sheet_read", action="sheets", spreadsheet=token))["sheets"]
    where = {"spreadsheet": token, "range": f"{sheet['sheet_id']}!A1:B2"}

    rows = [["name", "n"], ["张三", 3]]
    assert (await office.do("feishu_sheet_write", action="write", values=rows, **where))["updatedCells"] == 4
    await office.do("feishu_sheet_write", action="append", values=[["李四", 4.5]], **where)
    await office.do("feishu_sheet_write", action="write", values=[[None]], spreadsheet=token,
                  range=f"{sheet['sheet_id']}!B1:B1")  # fmt: skip

    whole = {"spreadsheet": token, "range": sheet["sheet_id"]}
    read = await office.do("feishu_sheet_read", action="range", **whole)
    assert read["valueRange"]["values"] == [["name", None], ["张三", 3], ["李四", 4.5]]
    found = await office.do("feishu_sheet_read", action="find", text="李", **whole)
    assert found["find_result"]["matched_cells"] == ["A3"]
    area = {"spreadsheet": token, "range": f"{sheet['sheet_id']}!A1:B3"}
    found = await office.do("feishu_sheet_read", action="find", text="NAME", **area)
    assert found["find_result"]["matched_cells"] == ["A1"], "large and small letters are the same"
    [appended], [asked] = office.feishu.calls("values_append"), office.feishu.calls("/values/")
    assert appended.query == {"insertDataOption": "INSERT_ROWS"}, "what stands below stays"
    assert asked.query == {"valueRenderOption": "ToString", "dateTimeRenderOption": "FormattedString"}


async def test_a_sheet_is_added_and_the_file_shared(office: Office) -> None:
    token = office.feishu.office.sheets.make("books")
    added = await office.do("feishu_sheet_write", action="add_sheet", spreadsheet=token, title="Q2")
    sheets = (await office.do("feishu_sheet_read", action="sheets", spreadsheet=token))["sheets"]
    assert added["replies"][0]["addSheet"]["properties"]["sheetId"] == sheets[1]["sheet_id"]
    assert [one["title"] for one in sheets] == ["Sheet1", "Q2"]

    await office.do("feishu_sheet_write", action="share", spreadsheet=token, people=[SOMEBODY])
    assert office.feishu.office.shared[token] == {SOMEBODY: "edit"}


async def test_a_range_of_another_sheet_is_refused_in_the_words_of_the_service(office: Office) -> None:
    token = office.feishu.office.sheets.make("books")
    problem = await office.refused(
        "feishu_sheet_read", action="range", spreadsheet=token, range="nosuch!A1:B2"
    )
    assert "90215" in problem and "20260101fake" in problem, "the code, and the log id"


# Bases


async def test_records_are_made_changed_found_and_deleted(office: Office) -> None:
    base, table = office.feishu.office.bases.make("任务", 标题="Text", 状态="SingleSelect", 点数="Number")
    place = {"base": base, "table": table}
    assert (await office.do("feishu_bitable_read", action="tables", base=base))["items"][0]["name"] == "任务"
    fields = (await office.do("feishu_bitable_read", action="fields", **place))["items"]
    assert [one["field_name"] for one in fields] == ["标题", "状态", "点数"]

    ids = []
    for title, points in (("a", 1), ("b", 5), ("c", 8)):
        given = {"标题": title, "状态": "开", "点数": points}
        made = await office.do("feishu_bitable_write", action="create", fields=filled(**given), **place)
        ids.append(made["record"]["record_id"])
    await office.do("feishu_bitable_write", action="update", record=ids[1], fields=filled(状态="关"), **place)

    conditions = [
        {"field": "点数", "operator": "isGreater", "values": ["2"]},
        {"field": "状态", "operator": "is", "values": ["开"]},
    ]
    found = await office.do(
        "feishu_bitable_read", action="records", conditions=conditions, fields=["标题"], **place
    )
    assert [one["fields"] for one in found["items"]] == [{"标题": "c"}]
    either = await office.do(
        "feishu_bitable_read", action="records", conditions=conditions, match="or", **place
    )
    assert len(either["items"]) == 3

    await office.do("feishu_bitable_write", action="delete", record=ids[0], **place)
    first = await office.do("feishu_bitable_read", action="records", page_size=1, **place)
    rest = await office.do("feishu_bitable_read", action="records", page_token=first["page_token"], **place)
    assert [one["record_id"] for one in first["items"] + rest["items"]] == ids[1:]


async def test_an_unknown_field_is_named(office: Office) -> None:
    base, table = office.feishu.office.bases.make("t", name="Text")
    problem = await office.refused(
        "feishu_bitable_write", action="create", base=base, table=table, fields=filled(nmae="x")
    )
    assert "FieldNameNotFound: nmae" in problem


# Wikis


async def test_a_wiki_is_looked_through_and_grows(office: Office) -> None:
    space = office.feishu.office.wiki.space("手册")
    assert (await office.do("feishu_wiki_read", action="spaces"))["items"][0]["space_id"] == space

    top = (await office.do("feishu_wiki_write", action="create", space=space, title="部署"))["node"]
    below = await office.do(
        "feishu_wiki_write", action="create", space=space, title="表", node=top["node_token"], kind="sheet"
    )
    await office.do("feishu_wiki_write", action="rename", space=space, node=top["node_token"], title="上线")

    node = (await office.do("feishu_wiki_read", action="node", node=top["node_token"]))["node"]
    assert (node["title"], node["has_child"]) == ("上线", True)
    nodes = await office.do("feishu_wiki_read", action="nodes", space=space, node=top["node_token"])
    assert [one["obj_type"] for one in nodes["items"]] == ["sheet"] == [below["node"]["obj_type"]]
    text = await office.do("feishu_doc_read", action="text", document=node["obj_token"])
    assert text["content"].startswith("部署")


# Calendars


async def test_an_event_is_made_moved_and_deleted_and_people_are_invited(office: Office) -> None:
    made = await office.do(
        "feishu_calendar_write", action="create", summary="评审", start="2026-06-15T14:00",
        end="2026-06-15T15:00:00+08:00", people=[SOMEBODY],
    )  # fmt: skip
    assert made["start_time"] == {"timestamp": "1781503200", "timezone": "Asia/Shanghai"}
    assert made["invited"] == [SOMEBODY]
    event = made["event_id"]

    await office.do(
        "feishu_calendar_write", action="update", event=event, end="2026-06-15T16:00", description="d"
    )
    await office.do("feishu_calendar_write", action="invite", event=event, people=[ANOTHER])
    window = {"start": "2026-06-15", "end": "2026-06-16T00:00"}
    [seen] = (await office.do("feishu_calendar_read", action="events", **window))["items"]
    assert (seen["end_time"]["timestamp"], seen["description"]) == ("1781510400", "d")
    assert [one["user_id"] for one in seen["attendees"]] == [SOMEBODY, ANOTHER]
    assert (await office.do("feishu_calendar_read", action="events", start="2026-07-01"))["items"] == []

    await office.do("feishu_calendar_write", action="delete", event=event)
    assert office.feishu.log[-1].query == {"need_notification": "true"}, "those who were invited hear of it"
    assert all(call.body["need_notification"] for call in office.feishu.calls("/attendees"))
    assert (await office.do("feishu_calendar_read", action="events", **window))["items"] == []


async def test_a_day_alone_is_the_whole_day(office: Office) -> None:
    day = {"start": "2026-10-01", "end": "2026-10-02"}
    made = await office.do("feishu_calendar_write", action="create", summary="holiday", **day)
    assert (made["start_time"], made["end_time"]) == ({"date": "2026-10-01"}, {"date": "2026-10-02"})


async def test_busy_times_and_calendars_are_read(office: Office) -> None:
    times = {"start_time": "2026-06-15T06:00:00Z", "end_time": "2026-06-15T07:00:00Z"}
    office.feishu.office.calendars.busy[SOMEBODY] = [times]
    asked = {"start": "2026-06-15T00:00", "end": "2026-06-16T00:00", "person": SOMEBODY}
    assert (await office.do("feishu_calendar_read", action="freebusy", **asked))["freebusy_list"] == [times]
    [call] = office.feishu.calls("freebusy")
    assert call.body["time_min"] == "2026-06-15T00:00:00+08:00"

    calendars = (await office.do("feishu_calendar_read", action="calendars"))["calendar_list"]
    assert calendars[0]["calendar_id"] == office.feishu.office.calendars.own


@pytest.mark.parametrize("start", ["tomorrow", "2026-13-01T10:00"])
async def test_what_is_no_time_is_refused_before_anything_is_asked(office: Office, start: str) -> None:
    problem = await office.refused(
        "feishu_calendar_read", action="freebusy", person="ou_1", start=start, end="2026-06-15"
    )
    assert start in problem
    assert office.feishu.log == []


# What goes wrong


@pytest.mark.parametrize(
    ("name", "arguments", "missing"),
    [
        ("feishu_doc_write", {"action": "create"}, "title"),
        ("feishu_doc_write", {"action": "append", "document": "d"}, "markdown"),
        ("feishu_sheet_read", {"action": "find", "spreadsheet": "s", "range": "r"}, "text"),
        ("feishu_sheet_write", {"action": "write", "spreadsheet": "s"}, "range, values"),
        ("feishu_bitable_read", {"action": "records", "base": "b"}, "table"),
        ("feishu_bitable_write", {"action": "update", "base": "b", "table": "t"}, "record"),
        ("feishu_wiki_read", {"action": "nodes"}, "space"),
        ("feishu_calendar_write", {"action": "delete", "calendar": "c"}, "event"),
    ],
)
async def test_arguments_that_an_action_needs_are_named(
    office: Office, name: str, arguments: dict[str, str], missing: str
) -> None:
    assert f"needs {missing}" in await office.refused(name, **arguments)
    assert office.feishu.log == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("feishu_bitable_read", {"action": "tables", "base": "BASE"}),
        ("feishu_bitable_read", {"action": "fields", "base": "BASE", "table": "TABLE"}),
        ("feishu_bitable_read", {"action": "records", "base": "BASE", "table": "TABLE"}),
        ("feishu_wiki_read", {"action": "spaces"}),
        ("feishu_wiki_read", {"action": "nodes", "space": "SPACE"}),
        ("feishu_calendar_read", {"action": "calendars"}),
        ("feishu_calendar_read", {"action": "events"}),
    ],
)
async def test_the_next_page_of_every_list_can_be_asked_for(
    office: Office, name: str, arguments: dict[str, str]
) -> None:
    base, table = office.feishu.office.bases.make("t", title="Text")
    given = {"BASE": base, "TABLE": table, "SPACE": office.feishu.office.wiki.space("s")}
    arguments = {key: given.get(value, value) for key, value in arguments.items()}
    problem = await office.do(name, page_token="1", **arguments)
    assert office.feishu.log[-1].query["page_token"] == "1"
    assert not any(problem.get(key) for key in ("items", "calendar_list")), "there is one, on the first page"


async def test_a_missing_scope_is_named_with_what_to_do(office: Office) -> None:
    office.feishu.missing_scopes.add("docx:document")
    problem = await office.refused("feishu_doc_write", action="create", title="x")
    assert "99991672" in problem and "docx:document" in problem and "developer console" in problem


async def test_a_field_that_the_service_refuses_is_named(office: Office) -> None:
    problem = await office.refused("feishu_bitable_read", action="tables", base="nosuch")
    assert "1254040" in problem
    office.feishu.office.bases.make("t", name="Text")
    [app] = office.feishu.office.bases.apps
    [table] = office.feishu.office.bases.apps[app]
    problem = await office.refused(
        "feishu_bitable_read", action="records", base=app, table=table, page_size=501
    )
    assert "page_size" in problem


async def test_each_field_that_is_wrong_is_reported_with_its_reason(office: Office) -> None:
    wrong = [
        {"field": "title", "description": "is too long"},
        {"field": "folder_token", "description": "is gone"},
    ]
    body = {"code": 99992402, "msg": "field validation failed", "error": {"field_violations": wrong}}
    office.feishu.fail("/docx/", FakeAnswer(400, body))
    problem = await office.refused("feishu_doc_write", action="create", title="x" * 9000)
    assert "title: is too long; folder_token: is gone" in problem


async def test_a_stale_token_is_renewed_once(office: Office) -> None:
    space = office.feishu.office.wiki.space("s")
    await office.do("feishu_wiki_read", action="spaces")
    office.feishu.expire_token()
    assert (await office.do("feishu_wiki_read", action="spaces"))["items"][0]["space_id"] == space
    assert len(office.feishu.calls("tenant_access_token")) == 2


async def test_a_short_rate_limit_is_waited_for_and_a_long_one_is_reported(office: Office) -> None:
    limit = {"code": 99991400, "msg": "request trigger frequency limit"}
    office.feishu.fail("/wiki/", FakeAnswer(429, limit, {"x-ogw-ratelimit-reset": "0"}))
    await office.do("feishu_wiki_read", action="spaces")
    office.feishu.fail("/wiki/", FakeAnswer(429, limit, {"x-ogw-ratelimit-reset": "60"}))
    assert "99991400" in await office.refused("feishu_wiki_read", action="spaces")


async def test_a_connection_that_breaks_says_that_it_may_have_been_done(office: Office) -> None:
    office.feishu.cut("POST /open-apis/docx", after=3)
    problem = await office.refused("feishu_doc_write", action="create", title="x")
    assert "may have been done" in problem
    assert len(office.feishu.office.documents.all) == 1


async def test_an_answer_that_is_no_json_is_reported(office: Office) -> None:
    office.feishu.fail("/wiki/", FakeAnswer(502, b"<html>bad gateway</html>", content_type="text/html"))
    assert "JSON" in await office.refused("feishu_wiki_read", action="spaces")


async def test_an_account_is_that_of_the_chat_or_the_one_that_is_named(tmp_path: Path) -> None:
    class There(FakeChatApi):
        def resolve_address(self, target: str = "", channel: str = "", account: str = "") -> Address:
            return Address("feishu", "oc_1", "second")

    async with FakeFeishu() as one, FakeFeishu(app_id="cli_two") as two, channel(one) as a, channel(two) as b:
        tools = {tool.name: tool for tool in office_tools(lambda: {"default": a, "second": b})}
        own = Office(one, tools, tmp_path)
        await own.do("feishu_wiki_read", action="spaces")
        await own.do("feishu_wiki_read", action="spaces", account="second")
        own.facts["talk"] = There()
        await own.do("feishu_wiki_read", action="spaces")
        assert (len(one.calls("/wiki/")), len(two.calls("/wiki/"))) == (1, 2)
        assert "default, second" in await own.refused("feishu_wiki_read", action="spaces", account="third")


async def test_the_sdk_never_holds_the_app_secret_and_says_nothing_on_stdout(
    office: Office, capsys: pytest.CaptureFixture[str]
) -> None:
    office.feishu.fail("/wiki/", FakeAnswer(400, {"code": 131002, "msg": "param err"}))
    await office.refused("feishu_wiki_read", action="spaces")
    assert capsys.readouterr().out == ""


# The fake


async def test_the_fake_refuses_a_field_that_the_service_does_not_know(office: Office) -> None:
    base, table = office.feishu.office.bases.make("t", title="Text")
    token = office.feishu.office.sheets.make("books")
    space = office.feishu.office.wiki.space("s")
    [sheet] = (await office.do("feishu_sheet_read", action="sheets", spreadsheet=token))["sheets"]
    rows = {"spreadsheet": token, "range": sheet["sheet_id"]}
    record = {"base": base, "table": table}
    await office.do("feishu_doc_write", action="create", title="t", markdown="x")
    await office.do("feishu_sheet_write", action="append", values=[[1]], **rows)
    await office.do("feishu_sheet_read", action="find", text="1", **rows)
    await office.do("feishu_bitable_write", action="create", fields=filled(title="x"), **record)
    await office.do("feishu_bitable_read", action="records", **record)
    await office.do("feishu_wiki_write", action="create", space=space, title="t")
    times = {"start": "2026-06-15T14:00", "end": "2026-06-15T15:00"}
    await office.do("feishu_calendar_write", action="create", summary="s", people=[SOMEBODY], **times)
    await office.do("feishu_calendar_read", action="events")

    sent = [call for call in office.feishu.log if "/auth/" not in call.path]
    assert len(sent) > 12
    for call in sent:
        strange = [replace(call, query={**call.query, "surprise": "1"})]
        if call.body:
            strange.append(replace(call, body={**call.body, "surprise": 1}))
            strange.append(replace(call, body={name: [[]] for name in call.body}))
        for one in strange:
            answer = office.feishu.serve(one)
            assert answer.body["code"] == 99992402, call
            assert answer.body["error"]["field_violations"][0]["description"]


SHAPE = {"name": str, "size?": int, "kind?": ("a", "b"), "each?": [{"id": str}]}


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"name": "x", "size": 1, "kind": "a", "each": [{"id": "1"}]}, ""),
        ({}, "name: is required"),
        ({"name": 1}, "name: is no str"),
        ({"name": "x", "size": True}, "size: is no int"),
        ({"name": "x", "kind": "c"}, "kind: 'c' is none of a, b"),
        ({"name": "x", "each": [{"id": "1"}, {}]}, "each[1].id: is required"),
        ({"name": "x", "more": 1}, "more: is unknown"),
        ([], ": is no object"),
    ],
)
def test_a_request_is_held_field_by_field(value: Any, wrong: str) -> None:
    assert misfit(value, SHAPE) == wrong


# Who has them


@pytest.mark.parametrize(
    ("allowed", "words", "code", "gate"),
    [
        ([], [], 1, "optional"),
        (["*"], [], 1, "optional"),
        (["feishu_doc_read"], [], 0, ""),
        (["feishu"], [], 0, ""),
        (["feishu"], ["--no-owner"], 1, "owner"),
        (["feishu_doc_write"], [], 1, "optional"),
    ],
)
def test_nobody_has_one_that_was_not_named_and_only_owners_do(
    tmp_path: Path, allowed: list[str], words: list[str], code: int, gate: str
) -> None:
    machine = Machine(tmp_path)
    machine.configured(json.dumps({"tools": {"alsoAllow": allowed}} if allowed else {}), "config.json")
    problem = machine.claw("tools", "explain", "feishu_doc_read", *words)
    assert problem.code == code, problem.out + problem.err
    assert gate in problem.out
