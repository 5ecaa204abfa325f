"""The grades of a plugin: each is reached when its rules, and those of the grades below it, are kept. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

RULES = {
    "bronze": {
        "loads": "it loads, and each of its hooks answers",
        "manifest": "its manifest says what its code does",
        "check": "claw plugins check has no findings",
    },
    "silver": {
        "import-time": "its import is short",
        "access": "it uses only what its manifest declares",
        "typed": "it has py.typed, and each function is annotated",
    },
    "gold": {
        "conformance": "a suite of pytest-claw passes for each of its kinds and each of its tools",
        "closes": "nothing stays open after its suites: threads, processes, files, sockets",
    },
    "platinum": {"docs": "the programs, settings and commands of its README work"},
}
"""Grade → its rules, each with what it means; the lowest grade first."""
GRADES = tuple(RULES)
NONE = "none"
IMPORT_MS = 150.0
"""Longest import of a plugin, beyond what claw itself has loaded: with ten such plugins a start takes 1.5 s more."""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of a rule.

    :param kept: None = not checked.
    :param why: the problems of a rule that is broken, or the reason that it was not checked.
    """

    kept: bool | None
    why: tuple[str, ...] = ()


def broken(*why: str) -> RuleResult:
    """Return a result with these problems; without one, the rule is kept."""
    return RuleResult(not why, why)


def unchecked(why: str) -> RuleResult:
    """Return the result of a rule that could not be checked."""
    return RuleResult(None, (why,))


def grade_of(results: Mapping[str, RuleResult]) -> str:
    """Return the highest grade whose rules are all kept, with those below; ``none`` if the lowest is not reached."""
    reached = NONE
    for grade, rules in RULES.items():
        if not all(results[rule].kept for rule in rules):
            break
        reached = grade
    return reached
