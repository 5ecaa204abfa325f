"""redaction: what may stand in a log, an error, an approval, a transcript copy."""

import time
from pathlib import Path
from typing import Any

from claw.security.redaction import redact

FUNCTIONS = ("claw.security.redaction:redact",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    began = time.process_time()
    shown = redact(case["text"], case["known_values"])
    assert time.process_time() - began < 1
    assert [secret for secret in case["must_not_appear"] if secret in shown] == []
    assert [text for text in case["must_keep"] if text not in shown] == []
