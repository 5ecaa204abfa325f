"""Building session keys. The table's null scope is ``main``."""

from pathlib import Path
from typing import Any

from claw.agent.routing import SessionRules, build_key
from claw.config.paths import normalise_agent_id

FUNCTIONS = ("claw.agent.routing:build_key",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    key = build_key(
        normalise_agent_id(given["agent_id"], "main"),
        given["channel"],
        given["peer_kind"],
        given["peer_id"],
        account=given["account_id"],
        rules=SessionRules(
            given["dm_scope"] or "main", given.get("main_key", "main"), given.get("identity_links") or {}
        ),
    )
    assert key == case["expect"]["key"]
