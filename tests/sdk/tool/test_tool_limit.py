"""The share of each source in the tools of one plugin."""

from claw.host.registry import TOOLS_OF_ONE_PLUGIN
from claw_tool_sdk.tool_limit import MOST_TOOLS, tool_shares


def test_small_sources_keep_all_and_large_ones_share_the_rest() -> None:
    assert tool_shares({"huge": 10_000, "small": 3, "large": 400}) == {"small": 3, "large": 248, "huge": 249}
    assert tool_shares({"a": 10, "b": 400}) == {"a": 10, "b": 400}
    assert tool_shares({}) == {}
    assert sum(tool_shares(dict.fromkeys(range(700), 2)).values()) <= MOST_TOOLS == TOOLS_OF_ONE_PLUGIN
