"""Number of earlier turns in a request, as configured for agent, channel and person."""

from pathlib import Path

import pytest
from claw.config.loader import validate_source
from claw.config.source import ConfigSource
from claw.contracts.errors import ConfigError
from claw.contracts.provider import Finished
from claw.contracts.transcript import User
from claw.testing import FakeChannel, FakeProvider, says
from integration.test_serving import OPEN, served


class Listening(FakeProvider):
    """Notes how many words of people each request shows."""

    def __init__(self):
        super().__init__()
        self.shown = []

    async def stream(self, request):
        self.shown.append(sum(isinstance(message, User) for message in request.messages))
        yield Finished(says("fine"))


def config_with(agent=None, **channel):
    fake = {**OPEN["channels"]["fake"], **channel}
    limits = {"agents": {"defaults": {"historyLimit": agent}}} if agent is not None else {}
    return {**OPEN, **limits, "channels": {"fake": fake}}


async def shown_to(tmp_path, config, sender="u1", **where):
    """Count the earlier turns in the last of six requests of one conversation."""
    channel, model = FakeChannel(), Listening()
    async with served(model, channel, home=tmp_path, config=config):
        for n in range(6):
            channel.says(f"question {n}", sender, **where)
            await channel.until_shown(n + 1)
    return model.shown[-1] - 1


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        (config_with(), 5),
        (config_with(agent=3), 3),
        (config_with(agent=3, historyLimit=2), 2),
        (config_with(agent=3, historyLimit=0), 5),
        (config_with(historyLimit=4, dms={"u1": {"historyLimit": 1}}), 1),
        (config_with(historyLimit=4, dms={"u1": {"historyLimit": 0}}), 5),
        (config_with(historyLimit=4, dms={"u1": {}}), 4),
        (config_with(historyLimit=4, dms={"u2": {"historyLimit": 1}}), 4),
    ],
)
async def test_the_nearest_limit_holds_the_persons_then_the_channels_then_the_agents(tmp_path, config, shown):
    assert await shown_to(tmp_path, config) == shown


async def test_the_limit_of_a_persons_direct_chat_is_none_of_a_groups(tmp_path):
    config = config_with(
        historyLimit=4, dms={"u1": {"historyLimit": 1}}, groups={"*": {"requireMention": False}}
    )
    assert await shown_to(tmp_path, config, chat="g1", chat_type="group") == 4


def test_a_limit_below_nothing_is_refused_with_its_key():
    tree = {"channels": {"fake": {"dms": {"u1": {"historyLimit": -1}}}}}
    with pytest.raises(ConfigError, match=r"channels\.fake\.dms.u1.historyLimit"):
        validate_source(ConfigSource(tree=tree), Path("home"), {})
