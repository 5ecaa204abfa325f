"""Scenes that take minutes: floods at the limits of a platform, lossy lines, few descriptors."""

import asyncio

from rigs.platform_rig.facts import KINDS
from rigs.platform_rig.faults import Rates
from rigs.platform_rig.scenes import SCENES, Play, Scene, listening
from rigs.platform_rig.settling import Patience
from rigs.platform_rig.world import World, until

_PATIENCE = Patience(1800.0, 90.0)
_FIRST_CHAT, _FIRST_GROUP = 10_001, -1_000_000_010_001
_LOSS, _IMPATIENT_SECONDS, _FORGOTTEN_SECONDS = 0.05, 4.0, 200.0


def _flood(chats: int, messages: int) -> Play:
    """Let people of so many private chats write so many messages each, at once."""

    async def play(world: World) -> None:
        assert world.telegram is not None
        await listening(world)
        everybody = range(_FIRST_CHAT, _FIRST_CHAT + chats)
        for chat in everybody:
            world.telegram.add_chat(chat)
        for _ in range(messages):
            for chat in everybody:
                await world.say("telegram", str(chat))

    return play


def _busy_groups(groups: int, messages: int) -> Play:
    """Let people of so many groups write so many messages each, more than the 20 answers that a group takes a minute."""

    async def play(world: World) -> None:
        assert world.telegram is not None
        await listening(world)
        everywhere = range(_FIRST_GROUP, _FIRST_GROUP - groups, -1)
        for chat in everywhere:
            world.telegram.add_chat(chat)
        for _ in range(messages):
            for chat in everywhere:
                await world.say("telegram", str(chat))

    return play


def _lossy_lines(messages: int) -> Play:
    """Lose 5 % of requests and 5 % of responses while people write."""

    async def play(world: World) -> None:
        assert world.telegram is not None
        await listening(world)
        world.telegram.faults.send = Rates(cut_before=_LOSS, cut_after=_LOSS)
        everybody = range(_FIRST_CHAT, _FIRST_CHAT + 30)
        for chat in everybody:
            world.telegram.add_chat(chat)
        for at in range(messages):
            await world.say("telegram", str(everybody[at % len(everybody)]), KINDS[at % 2])
            await asyncio.sleep(0.1)

    return play


def _lossy_chats(channel: str, messages: int) -> Play:
    """Lose 5 % of requests and 5 % of responses while people write in all chats of a channel, also with files."""

    async def play(world: World) -> None:
        await listening(world)
        service = {"telegram": world.telegram, "feishu": world.feishu}.get(channel)
        faults = world.discord.rest.faults if world.discord else service.faults if service else None
        assert faults is not None
        faults.send = Rates(cut_before=_LOSS, cut_after=_LOSS)
        chats = world.chats(channel)
        for at in range(messages):
            chat = chats[at % len(chats)]
            assert await until(lambda chat=chat: not world.is_busy(channel, chat), _PATIENCE.most_seconds)
            await world.say(channel, chat, ("plain", "long", "once", "file")[at % 4])
            await asyncio.sleep(0.15)

    return play


def many_users(users: int, *, at_once: bool) -> Play:
    """Let so many programs call, each with a conversation of its own."""

    async def play(world: World) -> None:
        assert world.callers is not None
        await listening(world)
        world.model.pause_seconds = (0.0, 0.01)
        for user in range(1, users + 1):
            await world.say("http", f"u{user}")
            while not at_once and world.callers.waiting:
                await asyncio.sleep(0.02)
        # Whoever comes later is answered too.
        await world.say("http", f"u{users + 1}", probe=True)

    return play


async def _keys_are_forgotten(world: World) -> None:
    """Kill a gateway behind the first words of an answer on Discord; wait until the service has forgotten the nonces."""
    await SCENES["discord killed behind the first words"].play(world)
    await asyncio.sleep(_FORGOTTEN_SECONDS)


def _impatient_callers(users: int) -> Play:
    """Let programs without a key call tools while their SDK repeats each request; a turn takes two of its three tries."""

    async def play(world: World) -> None:
        assert world.callers is not None
        await listening(world)
        world.callers.keyed, world.callers.timeout_seconds = False, _IMPATIENT_SECONDS
        world.model.pause_seconds = (0.8, 0.8)
        for user in range(1, users + 1):
            await world.say("http", f"u{user}", ("once", "undeclared")[user % 2])
        assert await until(lambda: not world.callers.waiting, _PATIENCE.most_seconds)

    return play


SAMPLE_SCENES: dict[str, Scene] = {
    f"60 callers {'at once' if at_once else 'one after another'} with 128 descriptors": Scene(
        ("http",), many_users(60, at_once=at_once), Patience(300.0, 60.0), 128
    )
    for at_once in (False, True)
}
"""A sample of the scenes with few descriptors, which the test suite plays in every run."""
LARGE_SCENES: dict[str, Scene] = {
    "300 chats write 5 messages at once": Scene(("telegram",), _flood(300, 5), _PATIENCE),
    "600 chats write at once": Scene(("telegram",), _flood(600, 1), _PATIENCE),
    "5 groups write 30 messages each at once": Scene(("telegram",), _busy_groups(5, 30), _PATIENCE),
    "5 % of requests and of responses are lost": Scene(("telegram",), _lossy_lines(600), _PATIENCE),
    **{
        f"5 % are lost in all chats of {channel}": Scene((channel,), _lossy_chats(channel, 200), _PATIENCE)
        for channel in ("telegram", "discord", "feishu")
    },
    **{
        f"500 chats write at once with {descriptors} descriptors": Scene(
            ("telegram",), _flood(500, 1), _PATIENCE, descriptors
        )
        for descriptors in (200, 256)
    },
    **{
        f"500 callers {'at once' if at_once else 'one after another'} with {descriptors} descriptors": Scene(
            ("http",), many_users(500, at_once=at_once), Patience(900.0, 60.0), descriptors
        )
        for descriptors in (200, 256)
        for at_once in (False, True)
    },
    "10 callers whose SDK repeats a call after 4 s": Scene(("http",), _impatient_callers(10), _PATIENCE),
    "discord killed behind the first words, and back after minutes": Scene(
        ("discord",), _keys_are_forgotten, _PATIENCE
    ),
    "1000 callers at once": Scene(("http",), many_users(1000, at_once=True), Patience(600.0, 60.0)),
}
"""The scenes by name; the test suite plays them with ``--full``."""
