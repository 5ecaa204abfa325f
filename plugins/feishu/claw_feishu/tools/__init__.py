"""Tools for Feishu's documents, sheets, tables, wikis and calendars.

They act with the app's permissions, are for owners only, and must be enabled by an allow list.
The vendor's SDK is imported at the first call of one of them, see ``sdk.py``.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from claw_feishu.tools.bitable import BaseTools
from claw_feishu.tools.calendar import CalendarTools
from claw_feishu.tools.doc import DocumentTools
from claw_feishu.tools.sdk import Sdk
from claw_feishu.tools.sheet import SheetTools
from claw_feishu.tools.wiki import WikiTools

if TYPE_CHECKING:
    from claw import Tool

    from claw_feishu.channel import FeishuChannel


def office_tools(channels: "Callable[[], Mapping[str, FeishuChannel]]") -> "tuple[Tool, ...]":
    """Return all of them.

    :param channels: returns the configured accounts by name; called at each use.
    """
    sdk = Sdk(channels)
    areas = (DocumentTools, SheetTools, BaseTools, WikiTools, CalendarTools)
    return tuple(tool for area in areas for tool in area(sdk).tools())
