"""What strangers, other people's words and a model that obeys them try on the whole house, and what comes of it."""

from typing import Any

import pytest
from claw.message import Around, Heard
from claw.testing import FakeChannel, FakeProvider, House, says

OWNED: dict[str, Any] = {"channels": {"fake": {"allowFrom": ["u1"]}}, "owners": ["fake:u1"]}


# --- other people's words


@pytest.mark.parametrize("line", ["/approve abc once", "/status", "/new", "/stop", "stop"])
async def test_who_passes_a_command_on_does_not_give_it(line: str) -> None:
    channel, model = FakeChannel(), FakeProvider(says("Somebody wrote that."))
    async with House(model, channels=[channel], config=OWNED) as house, house.served():
        channel.says(line, "u1", around=Around(forwarded_from="Mallory"))
        assert await channel.until_shown() == ["Somebody wrote that."]
        assert line in model.requests[0].request.messages[-1].content[-1].text


async def test_a_command_that_is_quoted_is_not_given_either() -> None:
    channel, model = FakeChannel(), FakeProvider(says("Mallory wrote that."))
    async with House(model, channels=[channel], config=OWNED) as house, house.served():
        quoted = Heard("/status", "Mallory", "m0")
        channel.says("what is this?", "u1", reply_to="m0", around=Around(quoted=quoted))
        assert await channel.until_shown() == ["Mallory wrote that."]
