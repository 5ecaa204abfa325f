"""The public surface: what ``from claw import ...`` gives to strangers."""

import re
import subprocess
import sys
from pathlib import Path

import claw
import pytest


@pytest.mark.parametrize("name", claw.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    value = getattr(claw, name)
    told = (value.__doc__ or "").strip()
    assert told, f"{name} has no docstring"
    assert not told.startswith(f"{name}("), f"{name} has only the docstring that dataclass made"


def test_the_list_is_sorted_and_names_nothing_twice() -> None:
    assert list(claw.__all__) == sorted(set(claw.__all__))


def test_a_name_that_is_not_public_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Manager'"):
        _ = claw.Manager


def test_importing_claw_imports_nothing_else() -> None:
    script = "import sys, importlib, typing; before = set(sys.modules); import claw; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["claw"]


def test_type_checkers_see_the_same_names() -> None:
    stub = (Path(claw.__file__).parent / "__init__.pyi").read_text(encoding="utf-8")

    assert sorted(re.findall(r" as (\w+)", stub)) == claw.__all__, "write core/claw/__init__.pyi anew"
