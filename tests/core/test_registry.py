"""Registry: what plugins may contribute, and the objects of others that they may not patch."""

import pytest
from claw.host import isolation
from claw.host.registry import check_answers, tool_problems
from claw.policy.engine import judge_tools as judge_module  # noqa: F401 - so that the module is loaded
from claw.testing import FakeTool


def test_sound_tools_pass():
    check_answers("register_tools", [FakeTool("acme_status").tool, FakeTool("acme-wipe").tool])


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ([FakeTool("two words.dot").tool], "two words.dot"),
        ([FakeTool("x" * 65).tool], "at most 64"),
        ([FakeTool(f"t{n}").tool for n in range(10_000)], "10000 tools"),
        ([object()], "object"),
    ],
)
def test_what_is_out_of_bounds_is_named(tools, says):
    with pytest.raises((TypeError, ValueError), match=says.replace(".", r"\.")):
        check_answers("register_tools", tools)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [({"type": "object", "description": "x" * 5_000_000}, "64,000"), ({"x": object()}, "not JSON")],
)
def test_a_tool_that_no_request_can_hold_is_named_and_costs_no_sibling(parameters, says):
    tools = [FakeTool("acme_status").tool, FakeTool("acme_odd", parameters=parameters).tool]
    check_answers("register_tools", tools)
    [problem] = tool_problems(tools)
    assert "acme_odd is withheld" in str(problem)
    assert says in str(problem)


def test_a_function_in_the_place_of_another_is_seen():
    from claw.agent import routing

    before, real = isolation.function_ids(), routing.admit
    assert isolation.replaced_functions(before, isolation.function_ids()) == ()
    routing.admit = lambda *_: None
    try:
        assert isolation.replaced_functions(before, isolation.function_ids()) == ("claw.agent.routing:admit",)
    finally:
        routing.admit = real
