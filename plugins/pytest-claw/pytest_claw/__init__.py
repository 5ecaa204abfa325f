"""Conformance suites for claw plugins: subclass one in your tests, say what is to be tried, and it becomes tests.

from pytest_claw import ToolSuite

class TestStatus(ToolSuite):
    tool = acme_status
    sample = {"name": "door"}

Each test is one promise that the house makes of every plugin of that kind. The tests are plain functions: they need no
asyncio plugin. Nothing of claw is imported before a suite is.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_claw.channel import ChannelSuite as ChannelSuite, Place as Place
    from pytest_claw.enduring import FaultSuite as FaultSuite
    from pytest_claw.provider import ProviderSuite as ProviderSuite
    from pytest_claw.section import SectionSuite as SectionSuite
    from pytest_claw.tool import ToolSuite as ToolSuite

_ROOMS = {
    "ChannelSuite": "channel",
    "FaultSuite": "enduring",
    "Place": "channel",
    "ProviderSuite": "provider",
    "SectionSuite": "section",
    "ToolSuite": "tool",
}
__all__ = sorted(_ROOMS)  # noqa: PLE0605

# An editable install does not name its files, so pytest would not find the asserts by itself.
_PARTS = ("growing", "hearing", "living", "place", "saying", "scene", "served", "trying")
pytest.register_assert_rewrite(*(f"{__name__}.{room}" for room in sorted({*_ROOMS.values(), *_PARTS})))


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
