"""Tools for what lies in Feishu beside chats: documents, sheets, tables, wikis, calendars.

They work with the rights of the app, for owners only, and nobody has them who was not given them by an allow list.
The vendor's SDK is imported at the first call of one of them, see ``sdk.py``.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from claw_feishu.tools.bitable import Bases
from claw_feishu.tools.calendar import Calendars
from claw_feishu.tools.doc import Documents
from claw_feishu.tools.sdk import Sdk
from claw_feishu.tools.sheet import Sheets
from claw_feishu.tools.wiki import Wikis

if TYPE_CHECKING:
    from claw import Tool

    from claw_feishu.channel import FeishuChannel


def office_tools(channels: "Callable[[], Mapping[str, FeishuChannel]]") -> "tuple[Tool, ...]":
    """All of them.

    :param channels: the accounts of this house by name; asked at each call.
    """
    sdk = Sdk(channels)
    areas = (Documents, Sheets, Bases, Wikis, Calendars)
    return tuple(tool for area in areas for tool in area(sdk).tools())
