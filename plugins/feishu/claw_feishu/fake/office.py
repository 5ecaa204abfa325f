"""Fake office data beside the chats. Created objects can be read back, and permissions are recorded.

Codes from the open platform's pages, from memory: they are at the top of each file, so that a correction is one line.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from claw_feishu.fake.bases import FakeBases
from claw_feishu.fake.calendars import FakeCalendars
from claw_feishu.fake.cards import ok, refusal
from claw_feishu.fake.documents import FakeDocuments, FakeWiki
from claw_feishu.fake.server import FakeAnswer, FakeCall
from claw_feishu.fake.shapes import Route, unfit
from claw_feishu.fake.sheets import FakeSheets

GONE = 1063005
SCOPES = (
    ("docx/v", "docx:document"),
    ("sheets/v", "sheets:spreadsheet"),
    ("bitable/v", "bitable:app"),
    ("wiki/v", "wiki:wiki"),
    ("calendar/v", "calendar:calendar"),
    ("drive/v", "drive:drive"),
)


class Office:
    """Documents, wiki, calendars, sheets and bases of one tenant.

    :param fresh: returns an unused id with a prefix.
    :ivar shared: token → open id → permission.
    """

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self.documents = FakeDocuments(fresh)
        self.wiki = FakeWiki(fresh, self.documents)
        self.calendars, self.sheets, self.bases = FakeCalendars(fresh), FakeSheets(fresh), FakeBases(fresh)
        self.shared: dict[str, dict[str, str]] = {}

    def routes(self) -> Iterator[Route]:
        """Yield method, path as a regular expression, and handler."""
        yield "POST", r"/open-apis/drive/v1/permissions/(\w+)/members", self._share
        for area in (self.documents, self.wiki, self.calendars, self.sheets, self.bases):
            yield from area.routes()

    def _share(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        query = {"type": ("docx", "sheet", "bitable", "wiki"), "need_notification?": str}
        body = {
            "member_type": ("openid",),
            "member_id": str,
            "perm": ("view", "edit", "full_access"),
            "type?": str,
        }
        if fault := unfit(call, query=query, body=body):
            return fault
        if found[1] not in self._tokens:
            return refusal(GONE, "Resource is deleted", 404)
        self.shared.setdefault(found[1], {})[call.body["member_id"]] = call.body["perm"]
        return ok({"member": call.body})

    @property
    def _tokens(self) -> set[Any]:
        return {*self.documents.all, *self.sheets.files, *self.bases.apps}
