"""A plugin may specify its own hooks: every loaded plugin is asked, one that fails is quarantined, the others go on."""

import pytest
from claw import hookimpl, hookspec
from claw.contracts.errors import UsageError
from claw.testing import FakeProvider, Harness


class Asking:
    """A plugin that specifies ``register_doors``."""

    class hookspecs:
        @hookspec
        def register_doors(config):
            """Answer with doors."""

    def __init__(self):
        self.config = None

    @hookimpl
    def register_tools(self, config):
        self.config = config
        return []


class Answering:
    """A plugin that answers it."""

    def __init__(self, *doors):
        self.doors = doors

    @hookimpl
    def register_doors(self, config):
        yield from self.doors


class Failing:
    @hookimpl
    def register_doors(self, config):
        raise SystemExit("no doors today")


class Greedy:
    @hookimpl
    def register_doors(self, config, everything):
        return [everything]


def harness_of(**plugins):
    return Harness(FakeProvider(), plugins=plugins)


def state_of(harness, plugin):
    return next(one for one in harness.app.host.plugin_states if one.id == plugin)


async def test_the_plugin_that_specifies_a_hook_reads_what_the_others_answered_with_their_names():
    asking = Asking()
    async with harness_of(early=Answering("front"), asking=asking, late=Answering("back", "side")) as harness:
        assert harness.app
        assert asking.config.contributions("register_doors") == (
            ("early", "front"),
            ("late", "back"),
            ("late", "side"),
        )


async def test_it_may_answer_its_own_hook_as_well():
    class Both(Asking, Answering):
        def __init__(self):
            Asking.__init__(self)
            Answering.__init__(self, "own")

    both = Both()
    async with harness_of(both=both) as harness:
        assert harness.app
        assert both.config.contributions("register_doors") == (("both", "own"),)


@pytest.mark.parametrize(("bad", "why"), [(Failing(), "no doors today"), (Greedy(), "everything")])
async def test_one_that_fails_is_quarantined_with_its_name_and_the_answers_of_the_others_remain(bad, why):
    asking = Asking()
    async with harness_of(asking=asking, bad=bad, good=Answering("front")) as harness:
        assert harness.app
        assert asking.config.contributions("register_doors") == (("good", "front"),)
        assert (state_of(harness, "bad").state, state_of(harness, "bad").stage) == ("quarantined", "register")
        assert why in state_of(harness, "bad").why
        assert any("bad" in line for line in harness.log_lines)


async def test_a_hook_that_nobody_specifies_is_asked_of_nobody_and_answered_to_nobody():
    asking, failing = Asking(), Failing()
    async with harness_of(failing=failing) as harness:
        assert state_of(harness, "failing").state == "loaded"
    async with harness_of(asking=asking, other=Answering("front")) as harness:
        assert harness.app
        with pytest.raises(UsageError, match="asking does not define a hook register_windows"):
            asking.config.contributions("register_windows")


async def test_only_the_plugin_that_specifies_a_hook_reads_its_answers():
    class Nosy:
        @hookimpl
        def register_tools(self, config):
            self.config = config
            return []

    nosy = Nosy()
    async with harness_of(asking=Asking(), nosy=nosy) as harness:
        assert harness.app
        with pytest.raises(UsageError, match="nosy does not define a hook"):
            nosy.config.contributions("register_doors")


async def test_a_hook_must_have_a_name_of_its_own_and_take_config_alone():
    class Second(Asking):
        pass

    class Core:
        class hookspecs:
            @hookspec
            def register_tools(config):
                """One of core's."""

    class Wide:
        class hookspecs:
            @hookspec
            def register_walls(config, colour):
                """More than anybody gets."""

    first = Asking()
    async with harness_of(first=first, second=Second(), core=Core(), wide=Wide()) as harness:
        for plugin, why in {"second": "take another", "core": "take another", "wide": "config"}.items():
            assert state_of(harness, plugin).state == "quarantined"
            assert why in state_of(harness, plugin).why
        assert first.config.contributions("register_doors") == ()
