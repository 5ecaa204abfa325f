"""The app: build once, run, stop. The only place where everything meets."""

import asyncio
import contextlib
import inspect
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from claw import survey, words
from claw.approval import Approvals
from claw.builtin.context_files import ContextFiles, repo_of
from claw.catalog import CORE_TOOLS, GROUPS
from claw.channel import Channel, Unready
from claw.clock import SYSTEM, Clock
from claw.config import Agent, Config, judge as judge_file, load
from claw.config.check import absent, known_of
from claw.config.outline import outline
from claw.config.source import read
from claw.config.values import Secret
from claw.config.view import PluginConfig
from claw.cooldown import Rules
from claw.errors import ClawError, PluginError, UsageError
from claw.event import unheard
from claw.fallback import ModelRef, candidates
from claw.gate import Caller, prepare
from claw.guard.fetch import Network
from claw.guard.redact import Redactor
from claw.guard.shapes import is_secret_name
from claw.guests import MEND
from claw.host import Host
from claw.index import scan
from claw.journal import Journal
from claw.keys import Keys
from claw.kit import Brought, Kit
from claw.lane import Lanes
from claw.loop import Emit
from claw.manifest import Found, variables_of
from claw.message import Address, Inbound, Outbound, Receipt
from claw.meter import Spending
from claw.overrides import Overrides
from claw.pairing import Pairing
from claw.policy import Run, ToolFact, fact_of, judge, strays
from claw.route import LOCAL, TERMINAL, admit, owners_of
from claw.session import Sessions
from claw.spending import Book
from claw.spoken.house import interpreted
from claw.stage import Rooms, Stage, Wish, set_stage
from claw.standing import Standing, choose_model
from claw.store import SYSTEM as DISK, Database, Disk
from claw.tool import Result
from claw.transcript import ToolCall
from claw.turn import take_turn
from claw.wall import USUAL, Leeway, bounded, name_of, within
from claw.words import say
from claw.yard import Yard


@dataclass(frozen=True)
class House:
    """What is known before any plugin's code is here: the file, and how the plugins stand."""

    config: Config
    found: tuple[Found, ...]
    standings: tuple[Standing, ...]
    default_model: str

    @cached_property
    def facts(self) -> tuple[ToolFact, ...]:
        """The tools that the manifests promise."""
        from claw.scenario import declared  # asked for by commands alone

        return declared(self.standings, self.config.settings.tools.suppliers)

    def models(self, agent: str = "") -> tuple[ModelRef, ...]:
        """The models of an agent, in the order in which they are asked."""
        choice = self.config.agent(agent).settings.model
        primary = (choice and choice.primary) or self.default_model
        return candidates(
            "", primary, choice.fallbacks if choice else (), self.config.settings.models.aliases
        )


def look_round(
    environ: Mapping[str, str] = os.environ, found: Sequence[Found] | None = None, models: Sequence[str] = (),
    file: Path | None = None,
) -> House:  # fmt: skip
    """Read the file and the manifests of this home; no plugin is imported.

    :param found: the plugins that are there; None = look for them.
    :param models: further models that this process may ask, beside those of the file.
    :param file: to be read in place of the home's own.
    :raises ConfigError: the file is wrong (exit 3).
    """
    home = survey.home_of(environ)
    config = judge_file(read(file), home, environ) if file else load(home, environ)
    words.use(config.settings.locale if "locale" in config.raw else words.language_of(environ))
    seen = tuple(found) if found is not None else scan(home)
    wanted = outline(config.raw)
    named = [config.settings.models.aliases.get(model, model) for model in models if model]
    standings = survey.stand(seen, config.raw, environ, named, file=config.file, lines=config.teller.lines)
    return House(config, seen, standings, choose_model(seen, wanted, environ, config.raw))


def commands_host(environ: Mapping[str, str] = os.environ) -> Host:
    """A host that can let a plugin add its commands; nothing is loaded yet."""
    house, network = look_round(environ), Network()
    folder = house.config.home / "plugins"
    return Host(
        house.standings, lambda id: PluginConfig(house.config, id, network.client, folder / id), folder
    )


class App:
    """A running claw: the rooms of a turn, and what must be closed at the end.

    :param house: of ``look_round``.
    :param guests: plugin objects handed in by a test, by id.
    :param complain: told what went wrong without stopping anything; one line each, already in words.
    :param leeway: how long plugins may take.
    :param before: the app of an older configuration, in the same process: its state, conversations, network and guests
        are taken over, and so is every channel whose settings are as they were.
    :param disk: on which the state and the conversations are.
    """

    def __init__(
        self,
        house: House,
        *,
        guests: Mapping[str, Any] | None = None,
        complain: Callable[[str], None] = lambda line: None,
        clock: Clock = SYSTEM,
        leeway: Leeway = USUAL,
        before: "App | None" = None,
        disk: Disk = DISK,
    ) -> None:
        self.leeway: Leeway = before.leeway if before else leeway
        self._clock: Clock = before._clock if before else clock
        self.house, self.config = house, house.config
        self._guests: Mapping[str, Any] = before._guests if before else dict(guests or {})
        self.redact = Redactor(_secrets(self.config), self.config.settings.logging.redact_patterns)
        self._told: Callable[[str], None] = before._told if before else complain
        self._make_home()
        self._network: Network = before._network if before else Network()
        self._yard = Yard(self.leeway, self._task_failed)
        self.host = Host(
            house.standings,
            self._view,
            self.config.home / "plugins",
            self._guests,
            self.complain,
            self.leeway,
        )
        known = before and before._database
        self._database: Database = known or Database(
            self.config.home / "state.db", clock, self.complain, disk
        )
        self.pairing = Pairing(self._database, self._clock)
        self.outlet: Callable[[Outbound], Awaitable[Receipt]] | None = before.outlet if before else None
        self._context: dict[tuple[str, Path, bool], ContextFiles] = {}
        kit, facts = self._ordered(self.host.gather())
        self.kit = replace(kit, channels=before._still(kit, house)) if before else kit
        self.rooms: Rooms = self._rooms(before, facts, disk)
        self._tell_what_is_odd(facts)

    def _rooms(self, before: "App | None", facts: tuple[ToolFact, ...], disk: Disk) -> Rooms:
        """What a turn walks through; what has a state is that of ``before``."""
        rooms = before.rooms if before else None
        spending = self._spending(before)
        return Rooms(
            config=self.config, kit=self._asked_through(spending),
            sessions=rooms.sessions if rooms else Sessions(self.config.home, self._database, self._clock, disk),
            journal=rooms.journal if rooms else Journal(self._database, self._clock),
            lanes=rooms.lanes if rooms else Lanes(dict(self.config.settings.messages.lanes)),
            default_model=self.house.default_model, facts=facts, context_files=self._context_files, fetch=None,
            deliver=self.deliver, complain=self.complain, redact=self.redact, yard=self._yard, machine=_machine(),
            approvals=self._approvals(self._clock), overrides=Overrides(self._database), keys=self._keys(),
            spending=spending, repo=cache(repo_of),
        )  # fmt: skip

    def _tell_what_is_odd(self, facts: tuple[ToolFact, ...]) -> None:
        """Names in the file that nothing has, tools that clash, plugins that were set aside: a line each, once."""
        house = self.house
        known = known_of((standing.found for standing in self.host.standings), CORE_TOOLS, GROUPS)
        unnamed = strays(self.config, facts, _called(house.found))
        clashes = judge(facts, (), Run()).conflicts
        for line in (
            *self.kit.diagnostics,
            *map(str, self.config.warnings),
            *map(str, absent(self.config, known)),
            *map(str, unnamed),
            *map(str, clashes),
        ):
            self.complain(line)

    def _still(self, kit: Kit, house: House) -> dict[str, Brought[Channel]]:
        """The channels of a newer kit, where an older one goes on when nothing that it reads has changed."""
        kept = {}
        for key, brought in kit.channels.items():
            name, mine = brought.thing.name, self.kit.channels.get(key)
            entry = house.config.settings.plugins.entries.get(brought.plugin)
            same = (
                mine is not None
                and mine.plugin == brought.plugin
                and not isinstance(mine.thing, Unready)
                and self.config.settings.channels.get(name) == house.config.settings.channels.get(name)
                and self.config.settings.gateway == house.config.settings.gateway
                and self.config.settings.plugins.entries.get(brought.plugin) == entry
            )
            kept[key] = mine if same and mine else brought
        if any(kept[key] is not self.kit.channels.get(key) for key in kept):
            # Who asked others for routes and the like would go on with those of the channels that ended.
            asking = self.host.specifying
            kept |= {key: new for key, new in kit.channels.items() if new.plugin in asking}
        return kept

    async def retire(self, after: "App") -> None:
        """A newer app is in force: what only this one brought is closed; state and network go on."""
        kept = {id(brought.thing) for brought in after.kit.channels.values()}
        guests = {id(guest) for guest in self._guests.values()}
        for brought in self.host.closables():
            if id(brought.thing) not in kept | guests and not isinstance(brought.thing, ModuleType):
                await self._close_one(brought)
        self._yard.close()

    def complain(self, line: str) -> None:
        """Tell what went wrong without stopping anything; no secret is in it."""
        self._told(self.redact(line))

    def overheard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The exception handler for a loop in which this app runs: a task that nobody waits for has failed."""
        why = context.get("exception")
        self._task_failed("", name_of(why) if why else str(context.get("message")))

    def _task_failed(self, plugin: str, why: str) -> None:
        if plugin:
            self.complain(say("a task of plugin {id} failed: {why}", id=plugin, why=why))
        else:
            self.complain(say("a task that was left behind failed: {why}", why=why))

    async def hear(self, inbound: Inbound, emit: Emit, wish: Wish = Wish()) -> Outbound | None:  # noqa: B008 - frozen
        """Take one message up. None also when it was taken up before.

        :raises ClawError: the turn failed.
        """
        accepted = self.rooms.journal.accept(inbound)
        if accepted is None:
            return None
        if accepted.number:
            self.rooms.journal.settle(accepted.number, "heard")  # whoever waits here for the answer owns it
        return await take_turn(inbound, wish, rooms=self.rooms, emit=emit)

    async def deliver(self, outbound: Outbound) -> Receipt:
        """Hand an answer to its channel, by the ledger where one is kept."""
        if self.outlet and outbound.address.channel != TERMINAL:
            return await self.outlet(outbound)
        channel = self.kit.channel(outbound.address.channel, outbound.address.account)
        if channel is None:
            raise UsageError("there is no channel {name}", name=outbound.address.channel)
        return await channel.send(outbound)

    async def stage(self, inbound: Inbound, wish: Wish = Wish()) -> Stage:  # noqa: B008 - frozen
        """What this message would meet: the very rulings and prompt of a real turn, without asking a model."""
        paired = self.pairing.paired(inbound.address.channel, inbound.address.account)
        route = admit(inbound, self.config, wish.agent, wish.session, paired)
        if route is None:
            why = "claw route explain --channel {channel} --sender ID says why"
            place, who = inbound.address.channel, inbound.sender.id or say("a sender without an id")
            raise UsageError("nobody would answer {sender} there", fix=why, sender=who, channel=place)
        return await set_stage(inbound, route, self.rooms, wish)

    async def call_tool(self, name: str, arguments: dict[str, Any], inbound: Inbound, wish: Wish) -> Result:
        """Run one tool as a turn would: through the same rulings and the same gate."""
        caller = Caller("call", inbound, await self.stage(inbound, wish), self.rooms, unheard)
        ready = await prepare(ToolCall("call", name, arguments), caller)
        return ready if isinstance(ready, Result) else await ready.run()

    async def __aenter__(self) -> "App":
        return self

    async def __aexit__(self, *why: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End: what plugins brought is closed, then the network, the sessions, the database."""
        for brought in self.host.closables():
            await self._close_one(brought)
        self._yard.close()
        await self._network.aclose()
        self.rooms.sessions.close()
        self.rooms.keys.close()
        self.rooms.spending.book.close()
        self._database.close()

    async def _close_one(self, brought: Brought[Any]) -> None:
        close = getattr(brought.thing, "close", None)
        if close is None:
            return
        try:
            await within(2 * self.leeway.close_seconds, self._closed(close))
        except Exception as why:  # noqa: BLE001 - a stranger's code
            plugin, problem = brought.plugin, "it did not end well: {why}"
            self.complain(str(PluginError(plugin, "stop", problem, MEND, why=name_of(why), id=plugin)))

    async def _closed(self, close: Callable[[], Any]) -> None:
        """A plain function in a thread; what it hands back to be waited for, and a coroutine function, here."""
        seconds = self.leeway.close_seconds
        here = inspect.iscoroutinefunction(close)
        ending = close() if here else await asyncio.to_thread(bounded, close, seconds)
        if inspect.isawaitable(ending):
            await within(seconds, ending, self.leeway.grace_seconds)

    def _view(self, plugin: str) -> PluginConfig:
        return PluginConfig(self.config, plugin, self._network.client, self.config.home / "plugins" / plugin)

    def _approvals(self, clock: Clock) -> Approvals:
        settings = self.config.settings
        return Approvals(
            self._database, clock, approvers=settings.approvals.approvers, owners=owners_of(settings),
            timeout_seconds=settings.approvals.timeout, is_over=self._is_over,
        )  # fmt: skip

    def _is_over(self, turn: str) -> bool:
        return self.rooms.journal.is_over(turn)

    def _spending(self, before: "App | None") -> Spending:
        book = before.rooms.spending.book if before else Book(self._database, self._clock)
        return Spending.of(self.config.settings, book, self.complain)

    def _asked_through(self, spending: Spending) -> Kit:
        """What turns see of the kit: each provider behind the meter, and behind the words that stand for tools."""
        providers = interpreted(
            spending.over(self.kit.providers), self.config.settings, self.complain, self.redact
        )
        return replace(self.kit, providers=providers)

    def _keys(self) -> Keys:
        settings = self.config.settings
        told = settings.models.cooldowns
        rules = Rules(told.table, told.slow_down, told.disabled, told.disabled_most, told.window, told.probe)
        orders = {name: section.auth_order for name, section in settings.providers.items()}
        variables = partial(variables_of, self.house.found)
        return Keys(
            self._database, self._clock, rules, orders, self.config.environ, self.redact.learn, variables
        )

    def _make_home(self) -> None:
        home, refused = self.config.home, ""
        try:
            DISK.make_folder(home)
        except ClawError as why:
            refused = f"{why.where}: {why.problem}"
        if not refused and not os.access(home, os.W_OK | os.X_OK):
            refused = say("you may not write there")
        if refused:
            fix = "make it readable and writable for you, or set CLAW_HOME to another folder"
            raise ClawError("the home of claw cannot be used: {why}", where=str(home), fix=fix, why=refused)

    def _ordered(self, kit: Kit) -> tuple[Kit, tuple[ToolFact, ...]]:
        """Core tools first, each with what policy must know of it; the positions in both lists agree."""
        suppliers = self.config.settings.tools.suppliers
        pairs = [(tool, fact_of(tool, tool.plugin, suppliers)) for tool in kit.tools]
        pairs.sort(key=lambda pair: pair[1].plugin is not None)
        return replace(kit, tools=tuple(tool for tool, _ in pairs)), tuple(fact for _, fact in pairs)

    def _context_files(self, agent: Agent, workspace: Path, own: bool, private: bool) -> tuple[Any, ...]:
        key = (agent.id, workspace, own)
        if key not in self._context:
            settings = agent.settings
            self._context[key] = ContextFiles(
                agent.dir / "agent",
                workspace,
                own,
                settings.bootstrap_max_chars,
                settings.bootstrap_total_max_chars,
                self.complain,
            )
        return self._context[key].load(private)


def from_terminal(text: str, message_id: str = "") -> Inbound:
    """What the person at this terminal says: the owner, in a direct chat."""
    return Inbound(Address(TERMINAL, "local"), text, LOCAL, message_id=message_id, mentions_us=True)


_FOLDERS = frozenset({"PWD", "OLDPWD"})  # a shell's working folders, which look like passwords by their names


def _secrets(config: Config) -> Iterator[str]:
    """Every secret that this process can know: those of the file, and those of the environment by their names."""
    waiting: list[Any] = [config.settings]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Secret):
            with contextlib.suppress(ClawError):
                yield value.reveal()
        elif isinstance(value, BaseModel):
            waiting += [getattr(value, name) for name in type(value).model_fields]
            waiting.append(value.model_extra or {})
        elif isinstance(
            value, Mapping
        ):  # also what only a plugin's own model knows to be a secret: by its name
            waiting += [
                _hidden(config, item) if is_secret_name(name) else item for name, item in value.items()
            ]
        elif isinstance(value, list | tuple):
            waiting += value
    for name, value in config.environ.items():
        if is_secret_name(name) and name not in _FOLDERS:
            yield value


def _hidden(config: Config, item: Any) -> Any:
    """A value under a telling name, as a secret when it is written in one of the forms of a secret."""
    if isinstance(item, list | tuple):
        return [_hidden(config, each) for each in item]
    refers = isinstance(item, Mapping) and set(item) in ({"env"}, {"file"})
    written = refers and all(isinstance(text, str) for text in item.values())
    if written or (isinstance(item, str) and item):
        return Secret(item, environ=config.environ, home=config.home)
    return item


def _called(found: Iterable[Found]) -> Iterator[str]:
    """What an operator may call installed plugins: their ids, and the tools that they declare."""
    for one in found:
        yield one.id
        yield from (tool.name for tool in one.manifest.tools) if one.manifest else ()


def _machine() -> dict[str, str]:
    system = os.uname()
    return {
        "host": socket.gethostname(),
        "os": f"{system.sysname} ({system.machine})",
        "python": ".".join(map(str, sys.version_info[:3])),
        "shell": Path(os.environ.get("SHELL", "")).name,
    }
