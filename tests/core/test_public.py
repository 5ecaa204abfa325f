"""The public surface: what ``from claw import ...`` gives to third parties."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import claw
import pytest
from claw import runtime

TIERS = (claw, runtime)


@pytest.mark.parametrize(
    ("tier", "name"), [(tier, name) for tier in TIERS for name in tier.__all__], ids=lambda one: str(one)[:40]
)
def test_every_public_name_is_there_and_says_what_it_is(tier: ModuleType, name: str) -> None:
    value = getattr(tier, name)
    docstring = (value.__doc__ or "").strip()
    assert docstring, f"{name} has no docstring"
    assert not docstring.startswith(f"{name}("), f"{name} has only the docstring that dataclass made"


def test_the_lists_are_sorted_and_name_nothing_twice() -> None:
    assert list(claw.__all__) == sorted(set(claw.__all__))
    assert list(runtime.__all__) == sorted(set(runtime.__all__))
    assert set(claw.__all__).isdisjoint(runtime.__all__)


def test_a_name_that_is_not_public_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Manager'"):
        _ = claw.Manager


def test_importing_claw_imports_nothing_else() -> None:
    script = "import sys, importlib, typing; before = set(sys.modules); import claw; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["claw"]


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.__name__)
def test_type_checkers_see_the_same_names(tier: ModuleType) -> None:
    stub = Path(str(tier.__file__)).with_suffix(".pyi")

    names = sorted(re.findall(r" as (\w+)", stub.read_text(encoding="utf-8")))
    assert names == tier.__all__, f"{stub.name} has one name a line: NAME as NAME,"
