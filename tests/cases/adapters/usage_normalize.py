"""usage_normalize: a service's own figures → ours."""

from pathlib import Path
from typing import Any

import msgspec
from claw.usage import normalise, prompt_tokens

FUNCTIONS = ("claw.usage:normalise", "claw.usage:prompt_tokens")


def check(case: dict[str, Any], tmp_path: Path) -> None:
    usage = normalise(case["input"]["raw"] or {})
    assert (msgspec.structs.asdict(usage) if usage else None) == case["expect"]["usage"]
    if usage and "prompt_tokens" in case["expect"]:
        assert prompt_tokens(usage) == case["expect"]["prompt_tokens"]
