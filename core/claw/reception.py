"""The reception: what becomes of something that came in before it is a turn.

Filters, admission, approvals by button, abort words, commands; what is left waits in the backlog of its conversation.
Each thing that came in is settled in the journal exactly once, here or by the turn that answers it.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial

from claw.abort import is_abort
from claw.app import App
from claw.backlog import Backlog, Waiting
from claw.builtin import chat_commands
from claw.config.channels import QueueSettings
from claw.delivery import Delivery
from claw.desk import Desk
from claw.guard.admission import rule
from claw.guests import filtered
from claw.journal import Accepted, Unfinished
from claw.letter import excuse, pieces
from claw.live import find_again
from claw.media import brought_in
from claw.message import Address, Heard, Inbound, Outbound
from claw.pairing import Pairing
from claw.policy import Run, for_group
from claw.question import pressed
from claw.route import Route, Verdict, admission, route
from claw.stage import Rooms, fence_of
from claw.wall import name_of
from claw.words import say

_UNSEEN = frozenset({"heard", "seen", "bots"})
"""What is settled without anybody waiting for it."""
ATTEMPTS = 3
"""How often a turn is begun that takes the process with it each time."""


MOST_PLACES = 1000
"""Groups and threads of which is remembered what was said there without us; the one that is silent longest goes."""
BOT_TURNS = 4
"""Messages of other bots in a row that are answered in one chat, until a person writes there (spec P8)."""


class ServedDesk(Desk):
    """The desk of a conversation whose turns run here.

    :ivar further: a message that followed the command, to be taken up.
    """

    def __init__(self, app: App, inbound: Inbound, going: Route, backlog: Backlog) -> None:
        super().__init__(app, inbound, going)
        self._backlog, self.further = backlog, ""

    async def stop(self) -> str:
        """End the turn that runs, its open questions, and what waits behind it."""
        key = self.route.session_key
        ran, waited = self._backlog.stop(key)
        if self.app.rooms.approvals:
            self.app.rooms.approvals.withdraw(key)
        if not ran and not waited:
            return say("nothing runs now")
        return (
            say("stopped; {count:waiting message is|waiting messages are} forgotten", count=waited)
            if waited
            else say("stopped")
        )

    async def forget(self) -> None:
        """Begin anew, once what runs is stopped."""
        await self.stop()
        await self._backlog.idle(self.route.session_key)
        await super().forget()

    async def hear(self, text: str) -> None:
        """A message that follows the command."""
        self.further = text


class Reception:
    """Where messages of channels arrive.

    :param app: the one of the configuration in force.
    """

    def __init__(
        self, app: Callable[[], App], backlog: Backlog, delivery: Delivery, pairing: Pairing
    ) -> None:
        self._app, self._backlog, self._delivery, self._pairing = app, backlog, delivery, pairing
        self._heard: dict[Address, deque[Heard]] = {}
        self._bots: dict[Address, int] = {}

    @property
    def _rooms(self) -> Rooms:
        return self._app().rooms

    async def receive(self, accepted: Accepted) -> None:
        """Find out what this is, and let it happen."""
        rooms = self._rooms
        inbound = await filtered(accepted.inbound, "inbound", rooms.kit.filters, rooms.yard, rooms.complain)
        if inbound is None:
            return self._settle(accepted, "filtered")
        accepted = replace(accepted, inbound=inbound)
        address = inbound.address
        paired = self._pairing.paired(address.channel, address.account, lately=True)
        verdict = admission(inbound, rooms.config, paired)
        if verdict.kind == "stranger":  # perhaps no longer: somebody may just have let them in
            verdict = admission(inbound, rooms.config, self._pairing.paired(address.channel, address.account))
        if verdict.kind == "stranger":
            return self._settle(accepted, "stranger", self._offer(inbound, verdict))
        if verdict.kind == "unaddressed":
            self._remember(inbound)
            return self._settle(accepted, "heard")
        if verdict.kind != "admitted":
            return self._settle(accepted, "refused")
        try:
            await self._take(accepted, verdict)
        except Exception:  # who may talk here hears that nothing comes
            sorry = self._say(f"in{accepted.number}", inbound, excuse())
            await rooms.journal.insist(partial(self._settle, accepted, "failed", sorry), rooms.complain)
            raise

    async def _take(self, accepted: Accepted, verdict: Verdict) -> None:
        """Something of a person who may talk here: an answer to a question of ours, a command, or a turn."""
        inbound = accepted.inbound
        if inbound.kind == "button" and (answer := pressed(inbound.text)):
            return self._settle(accepted, "decided", self._decided(inbound, verdict, *answer))
        if inbound.kind not in ("message", "button"):
            return self._settle(accepted, "seen")
        if self._talks_to_itself(inbound):
            return self._settle(accepted, "bots")
        going = route(inbound, self._rooms.config)
        line = "/stop" if is_abort(inbound.text) else inbound.text.strip()
        if inbound.around.forwarded_from:  # who passes words on does not say them
            line = ""
        if not (line.startswith("/") and await self._command(accepted, going, line)):
            self._wait(self._with_history(await self._with_files(accepted, going)), going)
        return None

    async def resume(self, cut: Unfinished) -> None:
        """Take up a turn that a death cut off, or end it with a notice when it was begun too often."""
        rooms, taken = self._rooms, []
        for one in cut.taken:
            said = await filtered(one.inbound, "inbound", rooms.kit.filters, rooms.yard, rooms.complain)
            taken += [replace(one, inbound=said)] if said else []
        if not taken:
            rooms.journal.ended(cut.turn, "filtered")
            return
        newest = taken[-1].inbound
        paired = self._pairing.paired(newest.address.channel, newest.address.account)
        if admission(newest, rooms.config, paired).kind != "admitted":
            rooms.journal.ended(cut.turn, "refused")
        elif cut.attempts >= ATTEMPTS:
            text = say(
                "I could not answer your last message: claw stopped {count:time|times} while it was at it.",
                count=cut.attempts,
            )
            await self._give_up(cut, newest, text)
        else:
            try:
                going = replace(route(newest, rooms.config), session_key=cut.session_key)
                taken = [await self._with_files(one, going) for one in taken]
                queue, rights = self._queue(newest, cut.session_key), self._rights(newest, going)
                self._backlog.add(Waiting(taken[-1], going, queue, rights, cut.turn, tuple(taken)))
            except Exception:
                await self._give_up(cut, newest, excuse())
                raise

    async def _give_up(self, cut: Unfinished, newest: Inbound, text: str) -> None:
        """A cut-off turn ends with a notice, in the place of what stands of its answer."""
        rooms = self._rooms
        if channel := rooms.kit.channel(newest.address.channel, newest.address.account):
            where = Outbound(cut.turn, newest.address, "", answers=newest.message_id)
            await find_again(channel, where, cut.turn, rooms.journal)
        half = rooms.journal.standing(cut.turn)[0]
        owed = self._say(f"{cut.turn}:cut", newest, text, half)
        rooms.journal.ended(cut.turn, "failed", owed)
        self._delivery.post(owed)

    def dropped(self, accepted: Accepted, why: str) -> None:
        """A message that waited gets no turn."""
        owed: tuple[Outbound, ...] = ()
        if why == "overflow":
            text = say("Too many messages wait here: this one is not answered. Please send it again later.")
            owed = self._say(f"in{accepted.number}", accepted.inbound, text)
        self._settle(accepted, why, owed)

    def _settle(self, accepted: Accepted, why: str, owed: Sequence[Outbound] = ()) -> None:
        if accepted.number:
            self._rooms.journal.settle(accepted.number, why, owed)
        self._delivery.post(owed)
        if why not in _UNSEEN:
            self._delivery.settle(accepted.inbound.address, accepted.inbound.message_id)

    def _say(self, key: str, inbound: Inbound, text: str, shown: Sequence[str] = ()) -> tuple[Outbound, ...]:
        channel = self._rooms.kit.channel(inbound.address.channel, inbound.address.account)
        whole = Outbound(key, inbound.address, text, answers=inbound.message_id, plain=not shown)
        return pieces(whole, channel, shown) if channel and text else ()

    def _offer(self, inbound: Inbound, verdict: Verdict) -> tuple[Outbound, ...]:
        """A code for a stranger; silence when there may be no more of them."""
        address = inbound.address
        code = self._pairing.ask(address.channel, address.account, inbound.sender)
        if code is None:
            return ()
        text = say(
            "I do not know you yet. Ask the owner to run: claw pairing approve {code} (within an hour)",
            code=code,
        )
        return self._say(f"pair-{code}", inbound, text)

    def _decided(self, inbound: Inbound, verdict: Verdict, id: str, word: str) -> tuple[Outbound, ...]:
        approvals = self._rooms.approvals
        if approvals is None:
            return ()
        outcome = approvals.decide(
            id, word, channel=inbound.address.channel, sender=inbound.sender, owner=verdict.owner
        )
        return self._say(f"ev-{inbound.event_id}"[:50], inbound, outcome.text)

    async def _command(self, accepted: Accepted, going: Route, line: str) -> bool:
        """Do a chat command; False when it is none. One that asks a model keeps nobody waiting."""
        if not chat_commands.takes_long(line):
            return await self._done(accepted, going, line)
        work = self._done_beside(accepted, going, line)
        if not self._backlog.beside(going.session_key, accepted, work):
            text = say("this conversation is being made shorter already; /stop ends that")
            self._settle(accepted, "command", self._say(f"cmd-{accepted.number}", accepted.inbound, text))
        return True

    async def _done_beside(self, accepted: Accepted, going: Route, line: str) -> None:
        try:
            await self._done(accepted, going, line)
        except Exception as broken:  # noqa: BLE001 - nobody waits for this: it is told in the chat
            why = say("something broke inside claw: {why}", why=name_of(broken))
            self._settle(accepted, "command", self._say(f"cmd-{accepted.number}", accepted.inbound, why))

    async def _done(self, accepted: Accepted, going: Route, line: str) -> bool:
        inbound = accepted.inbound
        desk = ServedDesk(self._app(), inbound, going, self._backlog)
        said = await chat_commands.run(line, desk)
        if said is None:
            return False
        owed = self._say(f"cmd-{accepted.number}", inbound, said)
        if not desk.further:
            self._settle(accepted, "command", owed)
            return True
        for one in owed:
            self._rooms.journal.owe(f"in{accepted.number}", one)
        self._delivery.post(owed)
        self._wait(replace(accepted, inbound=replace(inbound, text=desk.further)), going)
        return True

    def _wait(self, accepted: Accepted, going: Route) -> None:
        queue = self._queue(accepted.inbound, going.session_key)
        self._backlog.add(Waiting(accepted, going, queue, self._rights(accepted.inbound, going)))

    def _queue(self, inbound: Inbound, session_key: str) -> QueueSettings:
        """How messages wait: the conversation's own mode, else the account's, the channel's, the house's."""
        config = self._rooms.config
        queue = rule(inbound.address, config, "queue") or config.settings.messages.queue
        chosen = self._rooms.overrides.of(session_key).queue if self._rooms.overrides else ""
        return queue.model_copy(update={"mode": chosen}) if chosen else queue

    def _rights(self, inbound: Inbound, going: Route) -> Hashable:
        """What of the sender decides on tools: being an owner, and what the file gives them in this group."""
        place, direct = inbound.address, inbound.chat_type in ("direct", "dm")
        run = Run(
            going.agent_id, place.channel, place.account, None if direct else place.chat, inbound.sender
        )
        scope = for_group(self._rooms.config, run)
        return going.owner, scope.key if scope else ""

    async def _with_files(self, accepted: Accepted, going: Route) -> Accepted:
        """The message with its files in the workspace of the agent that will read it."""
        inbound, rooms = accepted.inbound, self._rooms
        channel = rooms.kit.channel(inbound.address.channel, inbound.address.account)
        if channel is None or not inbound.attachments:
            return accepted
        fence = fence_of(going.agent_id, rooms)
        return replace(accepted, inbound=await brought_in(inbound, channel, fence, rooms.complain))

    def _talks_to_itself(self, inbound: Inbound) -> bool:
        """Whether bots alone have been answered here for a while: two of them would go on for ever."""
        place = inbound.address
        if not inbound.sender.is_bot:
            self._bots.pop(place, None)
            return False
        self._bots[place] = turns = self._bots.pop(place, 0) + 1
        if len(self._bots) > MOST_PLACES:
            del self._bots[next(iter(self._bots))]
        return turns > BOT_TURNS

    def _remember(self, inbound: Inbound) -> None:
        """What is said in a group without us is shown with the next question."""
        most = rule(inbound.address, self._rooms.config, "group_history")
        if most and inbound.kind == "message":
            heard = self._heard.pop(inbound.address, ())
            if len(self._heard) >= MOST_PLACES:
                del self._heard[next(iter(self._heard))]
            heard = self._heard[inbound.address] = deque(heard, maxlen=most)
            heard.append(
                Heard(
                    inbound.text,
                    inbound.sender.name or inbound.sender.id,
                    inbound.message_id,
                    inbound.sent_at,
                )
            )

    def _with_history(self, accepted: Accepted) -> Accepted:
        heard = self._heard.pop(accepted.inbound.address, None)
        if not heard:
            return accepted
        around = replace(accepted.inbound.around, history=tuple(heard))
        return replace(accepted, inbound=replace(accepted.inbound, around=around))
