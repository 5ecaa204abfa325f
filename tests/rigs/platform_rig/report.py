"""The table and the JSON document of a run, and the exit code."""

import json
from collections.abc import Mapping
from typing import Any

from rigs.platform_rig.judge import LIMITS, Verdict

_EXAMPLES = 12


def document(verdict: Verdict, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON document.

    :param run: what was run: seed, kills, channels, seconds, injected faults.
    """
    return {
        "run": dict(run),
        "counts": dict(sorted(verdict.counts.items())),
        "broken": verdict.broken,
        "notices": dict(verdict.notices.most_common()),
        "examples": {name: found[:_EXAMPLES] for name, found in sorted(verdict.examples.items())},
    }


def table(verdict: Verdict, run: Mapping[str, Any]) -> str:
    """Return the table for a terminal."""
    lines = [f"{name:>24}  {value}" for name, value in run.items() if not isinstance(value, dict)]
    for name, value in run.items():
        if isinstance(value, dict):
            listed = ", ".join(f"{key}: {count}" for key, count in sorted(value.items()))
            lines.append(f"{name:>24}  {listed}")
    lines.append("")
    for name, count in sorted(verdict.counts.items(), key=lambda one: (one[0] in LIMITS, one[0])):
        lines.append(f"{name:>24}  {count:>6}{'   must be 0' if name in verdict.broken else ''}")
    for name in verdict.broken:
        lines += ["", f"{name}:", *(f"  {one}" for one in verdict.examples.get(name, ())[:_EXAMPLES])]
    if verdict.notices:
        lines += [
            "",
            "notices:",
            *(f"  {count:>4}  {text}" for text, count in verdict.notices.most_common(12)),
        ]
    return "\n".join(lines)


def exit_code(verdict: Verdict) -> int:
    """Return 1 if a limit is broken, else 0."""
    return 1 if verdict.broken else 0


def dumps(verdict: Verdict, run: Mapping[str, Any]) -> str:
    """Return the JSON document as text."""
    return json.dumps(document(verdict, run), indent=2, ensure_ascii=False)
