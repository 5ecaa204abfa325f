"""Unmarked, misspelt and missing hooks in the module of a plugin are named."""

from types import ModuleType

import pytest
from claw.contracts.errors import ClawError
from claw.host.registry import hook_problems

GOOD = "@hookimpl\ndef register_tools(config): return []\n"


def module(code: str) -> ModuleType:
    made = ModuleType("acme")
    exec(f"from claw import hookimpl\n{code}", vars(made))
    return made


@pytest.mark.parametrize(
    "code",
    [
        GOOD,
        "@hookimpl(specname='register_tools')\ndef mine(config): return []",
        "@hookimpl\ndef register_commands(app): pass",
        "@hookimpl\ndef acme_routes(config): return []",  # of a plugin that may not be loaded
        "hookspecs = object()",
    ],
)
def test_sound_hooks_are_no_problem(code):
    assert hook_problems(module(code)) == []


def test_a_hook_of_another_plugin_is_known():
    assert hook_problems(module("@hookimpl\ndef register_tool(config): return []"), ["register_tool"]) == []


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("@hookimpl\ndef register_tool(config): return []", "the nearest one is register_tools"),
        ("@hookimpl\ndef register_chanels(config): return []", "the nearest one is register_channels"),
        (
            "@hookimpl(specname='register_tol')\ndef mine(config): return []",
            "the nearest one is register_tools",
        ),
        ("def register_channels(config): return []", "register_channels is not marked with @hookimpl"),
    ],
)
def test_a_hook_that_nobody_asks_is_a_problem_and_an_error_when_it_is_the_only_one(code, problem):
    [found] = hook_problems(module(f"{GOOD}{code}"))
    assert problem in found.problem

    with pytest.raises(ClawError, match="register_") as refused:
        hook_problems(module(code))
    assert problem in refused.value.problem
    assert refused.value.fix


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "pass",
        "return",
        "return None",
        "if config: return",
        "tools = [len]",
        "with open('x'): return None",
    ],
)
def test_a_hook_that_can_only_return_none_is_a_problem(body):
    [found] = hook_problems(module(f"@hookimpl\ndef register_tools(config):\n    {body}"))

    assert "its hook register_tools returns nothing" in found.problem
    assert found.fix


@pytest.mark.parametrize(
    "body",
    [
        "return []",
        "return config or None",
        "return config and None",
        "return [] if config else None",
        "if not config: return None\n    return [len]",
        "with open('x'): return [len]",
        "try:\n        return [len]\n    finally:\n        print()",
        "yield len",
        "yield from []",
    ],
)
def test_a_hook_that_returns_a_list_in_some_case_is_sound(body):
    assert hook_problems(module(f"@hookimpl\ndef register_tools(config):\n    {body}")) == []


def test_a_module_without_hooks_is_sound_when_other_parts_of_it_are_used():
    assert hook_problems(module("x = 1"), kinds=("skill",)) == []
    with pytest.raises(ClawError, match="the nearest one is register_tools"):
        hook_problems(module("@hookimpl\ndef register_toolz(config): return []"), kinds=("skill",))


def test_a_module_without_hooks_is_an_error():
    with pytest.raises(ClawError, match="implements no hook"):
        hook_problems(module("x = 1"))
