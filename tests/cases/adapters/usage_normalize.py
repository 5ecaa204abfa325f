"""usage_normalize: a service's own figures → ours."""

from pathlib import Path
from typing import Any

import msgspec
from claw_provider_sdk import usage_of

FUNCTIONS = ("claw_provider_sdk.usage:usage_of", "claw.contracts.transcript:Usage.prompt_tokens")


def check(case: dict[str, Any], tmp_path: Path) -> None:
    usage = usage_of(case["input"]["raw"] or {})
    assert (msgspec.structs.asdict(usage) if usage else None) == case["expect"]["usage"]
    if usage and "prompt_tokens" in case["expect"]:
        assert usage.prompt_tokens == case["expect"]["prompt_tokens"]
