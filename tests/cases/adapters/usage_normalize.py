"""usage_normalize: a service's own figures → ours."""

from pathlib import Path
from typing import Any

import msgspec
from claw.storage.usage import prompt_tokens, usage_of

FUNCTIONS = ("claw.storage.usage:usage_of", "claw.storage.usage:prompt_tokens")


def check(case: dict[str, Any], tmp_path: Path) -> None:
    usage = usage_of(case["input"]["raw"] or {})
    assert (msgspec.structs.asdict(usage) if usage else None) == case["expect"]["usage"]
    if usage and "prompt_tokens" in case["expect"]:
        assert prompt_tokens(usage) == case["expect"]["prompt_tokens"]
