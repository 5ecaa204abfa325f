"""Building session keys. The table's null scope is ``main``."""

from pathlib import Path
from typing import Any

from claw.agent.routing import build_key

FUNCTIONS = ("claw.agent.routing:build_key",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    key = build_key(
        given["agent_id"],
        given["channel"],
        given["peer_kind"],
        given["peer_id"],
        account=given["account_id"],
        scope=given["dm_scope"] or "main",
        main_key=given.get("main_key", "main"),
        identity_links=given.get("identity_links"),
        default_agent="main",
    )
    assert key == case["expect"]["key"]
