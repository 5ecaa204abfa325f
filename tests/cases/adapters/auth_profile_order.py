"""auth_profile_order: the keys of an agent's file and what is known of them → the order in which they are tried."""

from pathlib import Path
from typing import Any

from claw.contracts.provider import Credential
from claw_models.credentials import ordered_keys

from cases.adapters.auth_profile_cooldown import use_of

FUNCTIONS = ("claw_models.credentials:ordered_keys",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    keys = [key_of(name, profile) for name, profile in given["profiles"].items()]
    uses = {name: use_of(known) for name, known in given["usage"].items()}
    tried = ordered_keys(
        keys,
        given["order"] or (),
        uses=uses,
        now=given["now_ms"] / 1000,
        preferred=given["preferred"] or "",
        provider=given["provider"],
    )
    assert {"order": [key.name for key in tried]} == case["expect"]


def key_of(name: str, profile: dict[str, Any]) -> Credential:
    expires = profile.get("expires_ms")
    return Credential(
        name,
        "" if profile.get("empty") else "secret",
        profile["type"],
        profile["provider"],
        expires / 1000 if expires is not None else None,
    )
