"""Single faults at exact moments, each in a home of its own: they happen always, and in a storm by chance."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx

from rigs.nursery import Nursery
from rigs.platform_rig.facts import History
from rigs.platform_rig.faults import Fault
from rigs.platform_rig.gateway_process import STOP_SECONDS, GatewayProcess
from rigs.platform_rig.judge import Verdict, judge
from rigs.platform_rig.labels import pieces, whole_runs
from rigs.platform_rig.settling import Patience, stop, until_settled
from rigs.platform_rig.world import API_TOKEN, Setting, World, until

_PATIENCE = Patience(600.0)
_LISTENS_SECONDS = 60.0
_IN_TIME_SECONDS = 1.5
_SLOWLY = (0.4, 0.4)
_FOURTH = 11  # a part of the fourth message of the longest answer
_BOT_INFO = "GET /bot/v3/info"
_REPLY = "POST /messages/{message}/reply"
_CHAT = {"telegram": "101", "discord": "201", "http": "u1", "feishu": "301"}
_MANY_CALLS, _MANY_CONNECTIONS, _WRONG_TOKENS, _REFUSALS, _CUTS = 28, 300, 10, 16, 6
Play = Callable[[World], Awaitable[None]]


@dataclass(frozen=True)
class Scene:
    """One scene.

    :ivar play: what happens up to the start of the last life.
    :ivar patience: for the last life.
    :ivar descriptors: limit of open files of the gateway; 0 = that of this machine.
    :ivar import_seconds: time that the import of the rig's plugin takes.
    """

    channels: tuple[str, ...]
    play: Play
    patience: Patience = _PATIENCE
    descriptors: int = 0
    import_seconds: float = 0.0


async def listening(world: World) -> GatewayProcess:
    """Start a gateway and wait until every channel works."""
    life = await world.start(forked=True)
    polls = world.telegram.polls if world.telegram else 0
    asked = world.feishu.calls.get(_BOT_INFO, 0) if world.feishu else 0

    def listens() -> bool:
        telegram = world.telegram is None or world.telegram.calls.get("getUpdates", 0) > polls
        feishu = world.feishu is None or world.feishu.calls.get(_BOT_INFO, 0) > asked
        return telegram and feishu and (world.discord is None or world.discord.is_connected)

    assert await until(listens, _LISTENS_SECONDS), "the gateway does not listen"
    while world.port and await _get(world, "/health") != 200:
        await asyncio.sleep(0.1)
    return life


async def _get(world: World, path: str, token: str = API_TOKEN) -> int:
    """Return the status of a request to the gateway itself; 0 = no response."""
    async with httpx.AsyncClient() as client:
        try:
            url = f"http://127.0.0.1:{world.port}{path}"
            return (await client.get(url, headers={"Authorization": f"Bearer {token}"})).status_code
        except httpx.HTTPError:
            return 0


def _killed_at_first_words(channel: str, *, responded: bool) -> Play:
    async def play(world: World) -> None:
        life = await listening(world)

        def shown(text: str, has_responded: bool) -> None:
            found = pieces(text)
            if has_responded == responded and found and not whole_runs(found):
                if responded:  # the gateway has had time to note which message it is
                    asyncio.get_running_loop().call_later(_SLOWLY[0], life.kill)
                else:
                    life.kill()

        world.model.pause_seconds = _SLOWLY
        if channel == "discord":
            await world.say(channel, _CHAT[channel])
            await until_settled(world, life, _PATIENCE)
        world.watch(shown)
        await world.say(channel, _CHAT[channel], "long")
        assert await life.wait(_LISTENS_SECONDS), "no beginning of an answer was shown"

    return play


async def _feishu_killed_at_the_whole_answer(world: World) -> None:
    """Refuse cards for a while; kill the gateway when the answer is in the chat and the response is not sent."""
    assert world.feishu is not None
    life = await listening(world)
    world.model.pause_seconds = _SLOWLY
    world.feishu.faults.order("POST /cards", *[Fault.E429] * _CUTS)

    def shown(text: str, has_responded: bool) -> None:
        if not has_responded and whole_runs(pieces(text)):
            life.kill()

    world.watch(shown)
    await world.say("feishu", _CHAT["feishu"])
    assert await life.wait(_LISTENS_SECONDS), "no answer was shown"


async def _long_answer_behind_a_backlog(world: World) -> None:
    """Kill the gateway at the fourth of five messages in a group, its id is lost; then people write, and calls are slow.

    So the search for the first message is repeated in the background while the notice about the last one is held back.
    """
    assert world.telegram is not None
    life = await listening(world)

    def shown(text: str, responded: bool) -> None:
        if not responded and any(piece.part == _FOURTH for piece in pieces(text)):
            life.kill()

    world.model.pause_seconds = _SLOWLY
    world.watch(shown)
    await world.say("telegram", "-501", "longest")
    assert await life.wait(_LISTENS_SECONDS), "no fourth message was shown"
    for chat in ("101", "102", "103") * 3:  # ids of the sequence of the group
        await world.say("telegram", chat)
    faults, world.telegram.delay_seconds = world.telegram.faults, 0.3
    faults.order("getUpdates", *[Fault.E502] * 2)
    faults.order("sendMessage", *[Fault.NONE] * 4, *[Fault.E429] * 2)


def _while_words_grow(channel: str, act: Callable[[World, int], Awaitable[None]]) -> Play:
    """Let people act on a chat while the beginning of an answer is there; ``act`` gets the place of the question."""

    async def play(world: World) -> None:
        life = await listening(world)
        if channel == "discord":
            await world.say(channel, _CHAT[channel])
            await until_settled(world, life, _PATIENCE)
        is_shown = asyncio.Event()

        def shown(text: str, responded: bool) -> None:
            found = pieces(text)
            if responded and found and not whole_runs(found):
                is_shown.set()

        world.model.pause_seconds = _SLOWLY
        world.watch(shown)
        await world.say(channel, _CHAT[channel], "long")
        asked = world.history().asked[-1].position
        async with asyncio.timeout(_LISTENS_SECONDS):
            await is_shown.wait()
        await act(world, asked)

    return play


async def _delete_the_beginning(world: World, asked: int) -> None:
    (newest,) = [one for one in world.history().visible if one.position > asked]
    await world.change_message(newest.channel, newest.chat, newest.position, "")


async def _edit_the_question(world: World, asked: int) -> None:
    channel = world.history().asked[-1].channel
    await world.change_message(channel, _CHAT[channel], asked, ", please")


def _killed_in_tool(kind: str) -> Play:
    async def play(world: World) -> None:
        life = await listening(world)
        await world.say("telegram", _CHAT["telegram"], kind)
        assert await until(world.effect_lines, _LISTENS_SECONDS, 0.005), "the tool was not called"
        life.kill()
        await life.wait(STOP_SECONDS)

    return play


def _ended_twice_in_an_import(*, kill: bool) -> Play:
    async def play(world: World) -> None:
        for count in (1, 2):
            life = await world.start()
            assert await until(lambda count=count: world.imports() >= count, _LISTENS_SECONDS, 0.01)
            life.kill() if kill else life.terminate()
            await life.wait(STOP_SECONDS)
        await world.say("telegram", _CHAT["telegram"], "once")

    return play


def _faults_of(method: str, fault: Fault, times: int) -> Play:
    async def play(world: World) -> None:
        assert world.telegram is not None
        await listening(world)
        world.telegram.faults.order(method, *[fault] * times)
        if method == "getUpdates":  # the poll that is held now has to end before the fault is met
            await world.say("telegram", _CHAT["telegram"])
            faults = world.telegram.faults
            assert await until(lambda: not faults.ordered.get(method), _LISTENS_SECONDS)
        await world.say("telegram", _CHAT["telegram"])

    return play


def _files(channel: str, *faults: Fault) -> Play:
    """Let answers with a file be sent while the line breaks."""

    async def play(world: World) -> None:
        await listening(world)
        if world.telegram is not None:
            world.telegram.faults.order("sendDocument", *faults)
        for _ in range(1 + len(faults)):
            await world.say(channel, _CHAT[channel], "file")

    return play


async def _page_of_a_proxy_for_feishu(world: World) -> None:
    assert world.feishu is not None
    world.feishu.faults.order(_BOT_INFO, Fault.E404_PAGE)
    await listening(world)
    await world.say("feishu", _CHAT["feishu"])


async def _responses_of_feishu_are_cut(world: World) -> None:
    assert world.feishu is not None
    await listening(world)
    world.feishu.faults.order(_REPLY, *[Fault.CUT_AFTER] * _CUTS)
    for kind in ("plain", "long", "once"):
        await world.say("feishu", _CHAT["feishu"], kind)


async def _event_comes_again_after_a_restart(world: World) -> None:
    """Kill the gateway when it has an event and the platform has not heard so; then push what was answered."""
    feishu = world.feishu
    assert feishu is not None
    life = await listening(world)
    feishu.faults.order("webhook", *[Fault.CUT_AFTER] * 2)
    await world.say("feishu", _CHAT["feishu"], "once")
    assert await until(world.effect_lines, _LISTENS_SECONDS, 0.005), "the tool was not called"
    life.kill()
    await life.wait(STOP_SECONDS)
    life = await listening(world)
    await until_settled(world, life, _PATIENCE)
    (event,) = feishu.push.taken
    await stop(world, life)
    life = await listening(world)
    for other_id in (False, True):
        status = await feishu.push.again(event, other_id=other_id)
        assert status == 200, f"an event that comes again is answered with {status}"


async def _response_of_a_call_is_cut(world: World) -> None:
    await listening(world)
    world.relay_faults.order("connection", Fault.CUT_AFTER)
    await world.say("http", _CHAT["http"], "once")


async def _response_of_a_keyless_call_is_cut(world: World) -> None:
    assert world.callers is not None
    world.callers.keyed = False
    await _response_of_a_call_is_cut(world)


async def _many_calls_of_one_user(world: World) -> None:
    await listening(world)
    for _ in range(_MANY_CALLS):
        await world.say("http", _CHAT["http"])


async def _model_refuses(world: World) -> None:
    await listening(world)
    world.model.refusals = 1
    await world.say("http", _CHAT["http"])


async def _many_connections(world: World) -> None:
    await listening(world)
    headers = f"Host: localhost\r\nAuthorization: Bearer {API_TOKEN}\r\nConnection: close"
    request = f"GET /v1/models HTTP/1.1\r\n{headers}\r\n\r\n"

    async def ask() -> bool:
        began = time.monotonic()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
            with closing(writer):
                await asyncio.sleep(0.5)
                if time.monotonic() - began > _IN_TIME_SECONDS:
                    return True  # this machine is so busy that the request would be late: it may be refused
                writer.write(request.encode())
                status = await asyncio.wait_for(reader.read(13), _LISTENS_SECONDS)
        except (OSError, TimeoutError):
            return False
        return status.startswith((b"HTTP/1.1 200", b"HTTP/1.1 429"))

    served = await asyncio.gather(*(ask() for _ in range(_MANY_CONNECTIONS)))
    if lost := served.count(False):
        world.incidents["http_dropped"] += lost


async def _wrong_tokens(world: World) -> None:
    await listening(world)
    for at in range(_WRONG_TOKENS + 1):
        await _get(world, "/v1/models", f"wrong-token-{at:04d}")
    if await _get(world, "/v1/models") != 200:
        world.incidents["http_locked_out"] += 1


SCENES: dict[str, Scene] = {
    "telegram killed at the first words": Scene(
        ("telegram",), _killed_at_first_words("telegram", responded=False)
    ),
    "telegram killed behind the first words": Scene(
        ("telegram",), _killed_at_first_words("telegram", responded=True)
    ),
    "discord killed at the first words": Scene(
        ("discord",), _killed_at_first_words("discord", responded=False)
    ),
    "discord killed behind the first words": Scene(
        ("discord",), _killed_at_first_words("discord", responded=True)
    ),
    **{
        f"{what} while it grows on {channel}": Scene((channel,), _while_words_grow(channel, act))
        for channel in ("telegram", "discord")
        for what, act in (
            ("a person deletes an answer", _delete_the_beginning),
            ("a person edits the question of an answer", _edit_the_question),
        )
    },
    **{
        f"feishu killed {'behind' if responded else 'at'} the first words of a card": Scene(
            ("feishu",), _killed_at_first_words("feishu", responded=responded)
        )
        for responded in (False, True)
    },
    "feishu killed at a whole answer without a card": Scene(("feishu",), _feishu_killed_at_the_whole_answer),
    "one 404 page for the bot of feishu": Scene(("feishu",), _page_of_a_proxy_for_feishu),
    "six responses of feishu are cut": Scene(("feishu",), _responses_of_feishu_are_cut),
    "an event of feishu comes again after a restart": Scene(("feishu",), _event_comes_again_after_a_restart),
    "killed in a tool that may run once": Scene(("telegram",), _killed_in_tool("once")),
    "killed in an undeclared tool": Scene(("telegram",), _killed_in_tool("undeclared")),
    "killed twice in an import": Scene(
        ("telegram",), _ended_twice_in_an_import(kill=True), import_seconds=1.5
    ),
    "stopped twice in an import": Scene(
        ("telegram",), _ended_twice_in_an_import(kill=False), import_seconds=1.5
    ),
    "one 401 for a poll": Scene(("telegram",), _faults_of("getUpdates", Fault.E401, 1)),
    "one 404 page for a poll": Scene(("telegram",), _faults_of("getUpdates", Fault.E404_PAGE, 1)),
    "a long answer of a group is in doubt behind a backlog": Scene(
        ("telegram",), _long_answer_behind_a_backlog
    ),
    "sixteen 429 for one answer": Scene(("telegram",), _faults_of("sendMessage", Fault.E429, _REFUSALS)),
    "six sends are cut": Scene(("telegram",), _faults_of("sendMessage", Fault.CUT_BEFORE, _CUTS)),
    "six responses are cut": Scene(("telegram",), _faults_of("sendMessage", Fault.CUT_AFTER, _CUTS)),
    "files, the sends of two are cut": Scene(
        ("telegram",), _files("telegram", Fault.CUT_BEFORE, Fault.NONE, Fault.CUT_AFTER)
    ),
    "a file on discord": Scene(("discord",), _files("discord")),
    "the response of a call is cut": Scene(("http",), _response_of_a_call_is_cut),
    "the response of a keyless call is cut": Scene(("http",), _response_of_a_keyless_call_is_cut),
    "28 calls of one user": Scene(("http",), _many_calls_of_one_user),
    "the model refuses a call": Scene(("http",), _model_refuses),
    "300 connections at once": Scene(("http",), _many_connections),
    "ten wrong tokens, then the right one": Scene(("http",), _wrong_tokens),
}
"""All scenes by name."""


async def play(
    scene: Scene, folder: Path, python: str = "", nursery: Nursery | None = None
) -> tuple[Verdict, History]:
    """Play a scene in a new folder; let one more life settle it if the last one is dead.

    :param nursery: forks the gateways, other than those of a scene about imports or descriptors.
    """
    setting = Setting(
        channels=scene.channels, faults=False, tool_seconds=1.0, import_seconds=scene.import_seconds, python=python,
        patience_seconds=scene.patience.most_seconds, descriptors=scene.descriptors,
    )  # fmt: skip
    forks = nursery if not (scene.descriptors or scene.import_seconds) else None
    async with World(folder, setting, forks) as world:
        await scene.play(world)
        world.watch(lambda text, responded: None)
        world.model.pause_seconds = (0.02, 0.1)
        life = world.gateway
        if life is None or life.code is not None:
            life = await world.start(forked=True)
        await until_settled(world, life, scene.patience)
        await stop(world, life)
        history = world.history()
    return judge(history), history
