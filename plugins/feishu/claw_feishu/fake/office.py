"""What the platform keeps beside chats. What was made can be read, and who may see it is noted.

Codes from the open platform's pages, by memory: they stand at the head of each file, so that a correction is one line.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from claw_feishu.fake.bases import Bases
from claw_feishu.fake.calendars import Calendars
from claw_feishu.fake.cards import ok, refusal
from claw_feishu.fake.documents import Documents, Wiki
from claw_feishu.fake.server import Answer, Call
from claw_feishu.fake.shapes import Route, unfit
from claw_feishu.fake.sheets import Sheets

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

    :param fresh: gives an id that nobody had, with a prefix.
    :ivar shared: token → open id → what they may.
    """

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self.documents = Documents(fresh)
        self.wiki = Wiki(fresh, self.documents)
        self.calendars, self.sheets, self.bases = Calendars(fresh), Sheets(fresh), Bases(fresh)
        self.shared: dict[str, dict[str, str]] = {}

    def routes(self) -> Iterator[Route]:
        """Method, path as a regular expression, and who answers."""
        yield "POST", r"/open-apis/drive/v1/permissions/(\w+)/members", self._share
        for area in (self.documents, self.wiki, self.calendars, self.sheets, self.bases):
            yield from area.routes()

    def _share(self, call: Call, found: "re.Match[str]") -> Answer:
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
