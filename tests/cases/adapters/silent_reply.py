"""A whole answer, or the beginning of one → whether it is silent, what is left of it, whether it may become silent."""

from pathlib import Path
from typing import Any

from claw.agent.outcome import silent_tokens
from claw_gateway.directives import may_become_silent, parse_reply

FUNCTIONS = (
    "claw_gateway.directives:parse_reply",
    "claw_gateway.directives:may_become_silent",
    "claw.agent.outcome:silent_tokens",
)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given, wanted = case["input"], case["expect"]
    tokens = silent_tokens(given.get("token", "NO_REPLY"))

    reply = parse_reply(given["text"], silent_tokens=tokens)
    found = {
        "is_silent": reply.silent,
        "stripped": reply.text,
        "is_prefix": may_become_silent(given["text"], tokens),
    }

    assert {key: found[key] for key in wanted} == wanted
