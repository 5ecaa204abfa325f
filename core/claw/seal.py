"""The seal: which functions decide, and whether a plugin has put others in their place.

In-process code can replace anything, and nothing in the process can prevent it; it can be seen and said.
"""

import sys
from types import FunctionType

_SEALED = ("claw.policy", "claw.gate", "claw.guard", "claw.route", "claw.guests")


def marks() -> dict[str, int]:
    """Every function of the rooms that decide, and the identity of its code: ``claw.policy.judge:judge`` → id."""
    found: dict[str, int] = {}
    for name, module in list(sys.modules.items()):
        if module is not None and name.startswith(_SEALED):
            for key, value in vars(module).items():
                if isinstance(value, FunctionType):
                    found[f"{name}:{key}"] = id(value.__code__)
    return found


def broken(before: dict[str, int], after: dict[str, int]) -> tuple[str, ...]:
    """What was there before and is another function now, sorted."""
    return tuple(sorted(name for name, code in before.items() if after.get(name, code) != code))
