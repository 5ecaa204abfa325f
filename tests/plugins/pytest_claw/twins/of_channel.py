"""``FakeChannel``, and for each promise a twin that breaks it and no other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from claw import ChannelLimits, DeliveryError, Inbound, Inbox, Outbound, Receipt
from claw.testing import FakeChannel
from claw_testing.fake_channel import FakeStreamingReply
from pytest_claw import ChannelSuite


class TestSound(ChannelSuite):
    channel: type[FakeChannel] = FakeChannel
    breaks = ""
    limit_seconds = 0.6
    stop_seconds = 0.2
    abort_seconds = 0.2

    @asynccontextmanager
    async def place(self) -> AsyncIterator[FakeChannel]:
        yield self.channel(limits=ChannelLimits(text_chars=200), streaming=True)


class _Changed:
    """An inbox that changes every message, or drops it."""

    def __init__(self, inbox: Inbox, change: Any) -> None:
        self._inbox, self._change = inbox, change

    async def submit(self, inbound: Inbound) -> bool:
        changed = self._change(inbound)
        return True if changed is None else await self._inbox.submit(changed)


class Anonymous(FakeChannel):
    async def run(self, inbox: Inbox) -> None:
        await super().run(_Changed(inbox, lambda one: replace(one, sender=replace(one.sender, id=""))))


class TestForgetsWhoSpoke(TestSound):
    channel, breaks = Anonymous, "test_a_message_becomes_an_inbound"


class Elsewhere(FakeChannel):
    async def run(self, inbox: Inbox) -> None:
        def moved(one: Inbound) -> Inbound:
            return replace(one, address=replace(one.address, chat=f"of {one.address.chat}"))

        await super().run(_Changed(inbox, moved))

    async def send(self, outbound: Outbound) -> Receipt:
        if outbound.address.chat.startswith("of "):
            raise DeliveryError("there is no such chat", permanent=True)
        return await super().send(outbound)


class TestAnswersNobody(TestSound):
    channel, breaks = Elsewhere, "test_an_answer_goes_where_the_message_came_from"


class FreshIds(FakeChannel):
    def again(self, inbound: Inbound | None = None) -> None:
        assert self._last
        super().again(replace(self._last, message_id="another", event_id="another"))


class TestMintsIdsOfItsOwn(TestSound):
    channel, breaks = FreshIds, "test_a_message_delivered_twice_keeps_its_id"


class ByName(FakeChannel):
    def says_in_group(self, text: str, mention: str = "") -> Inbound:
        return super().says_in_group(text, "us" if mention == "namesake" else mention)


class TestListensToTheName(TestSound):
    channel, breaks = ByName, "test_in_a_group_a_mention_is_recognised_by_id"


class TakesBotsForPeople(FakeChannel):
    async def run(self, inbox: Inbox) -> None:
        await super().run(_Changed(inbox, lambda one: replace(one, sender=replace(one.sender, is_bot=False))))


class TestTakesBotsForPeople(TestSound):
    channel, breaks = TakesBotsForPeople, "test_another_bot_is_marked_as_a_bot"


class Echoing(FakeChannel):
    async def send(self, outbound: Outbound) -> Receipt:
        if outbound.text == "mine":
            self.says(outbound.text, "ourselves")
        return await super().send(outbound)


class TestTalksToItself(TestSound):
    channel, breaks = Echoing, "test_our_own_messages_are_not_received"


class Hasty(FakeChannel):
    async def _listen(self, inbox: Inbox) -> None:
        class Early:
            async def submit(_, inbound: Inbound) -> bool:
                self.acknowledged.append(inbound.event_id)
                taken = await inbox.submit(inbound)
                self.acknowledged.pop()
                return taken

        await super()._listen(Early())


class TestAcknowledgesFirst(TestSound):
    channel, breaks = Hasty, "test_a_message_is_acknowledged_after_claw_accepted_it"


class Deaf(FakeChannel):
    async def run(self, inbox: Inbox) -> None:
        class Once:
            async def submit(self, inbound: Inbound) -> bool:
                await inbox.submit(inbound)
                return True

        await super().run(Once())


class TestDoesNotHearNo(TestSound):
    channel, breaks = Deaf, "test_a_message_that_claw_refused_is_delivered_again"


class Halved(FakeChannel):
    def split(self, text: str) -> tuple[str, ...]:
        return (text[: self.limits.text_chars],)


class TestSendsTheFirstPieceOnly(TestSound):
    channel, breaks = Halved, "test_an_answer_is_cut_into_messages_that_fit"


class Whole(FakeChannel):
    def split(self, text: str) -> tuple[str, ...]:
        return (text,)

    async def send(self, outbound: Outbound) -> Receipt:
        limits, self.limits = self.limits, ChannelLimits(text_chars=1_000_000)
        try:
            return await super().send(outbound)
        finally:
            self.limits = limits


class TestSendsItWhole(TestSound):
    channel, breaks = Whole, "test_an_answer_is_cut_into_messages_that_fit"


class ShortKeys(FakeChannel):
    async def send(self, outbound: Outbound) -> Receipt:
        return await super().send(replace(outbound, key=outbound.key[:40]))


class TestCutsTheKeyShort(TestSound):
    channel, breaks = ShortKeys, "test_the_same_delivery_key_is_shown_once"


class _Telling(FakeChannel):
    """Tells another error than the truth."""

    def reported_error(self, why: DeliveryError) -> Exception:
        return why

    async def send(self, outbound: Outbound) -> Receipt:
        try:
            return await super().send(outbound)
        except DeliveryError as why:
            raise self.reported_error(why) from None


class Hopeful(_Telling):
    def reported_error(self, why: DeliveryError) -> Exception:
        return DeliveryError("no") if why.permanent else why


class TestHopesForEver(TestSound):
    channel, breaks = Hopeful, "test_a_permanent_refusal_is_not_to_be_repeated"


class Impatient(_Telling):
    def reported_error(self, why: DeliveryError) -> Exception:
        return DeliveryError("busy", retry_after_seconds=1.0) if why.retry_after_seconds else why


class TestWillNotWait(TestSound):
    channel, breaks = Impatient, "test_a_rate_limit_gives_the_pause"


class Patient(_Telling):
    async def send(self, outbound: Outbound) -> Receipt:
        try:
            return await super().send(outbound)
        except DeliveryError as why:
            await asyncio.sleep(why.retry_after_seconds or 0)
            raise


class TestWaitsItself(TestSound):
    channel, breaks = Patient, "test_a_rate_limit_gives_the_pause"


class Hopeless(_Telling):
    def reported_error(self, why: DeliveryError) -> Exception:
        plain = not (why.permanent or why.outcome_unknown or why.retry_after_seconds)
        return DeliveryError("never", permanent=True) if plain else why


class TestGivesUp(TestSound):
    channel, breaks = Hopeless, "test_a_temporary_failure_may_be_repeated"


class Raw(_Telling):
    def reported_error(self, why: DeliveryError) -> Exception:
        plain = not (why.permanent or why.outcome_unknown or why.retry_after_seconds)
        return ConnectionError("of the library's") if plain else why


class TestRaisesWhatTheLibraryRaises(TestSound):
    channel, breaks = Raw, "test_a_temporary_failure_may_be_repeated"


class Sure(_Telling):
    def reported_error(self, why: DeliveryError) -> Exception:
        return DeliveryError("it did not go out") if why.outcome_unknown else why


class TestIsSureOfWhatItCannotKnow(TestSound):
    channel, breaks = Sure, "test_a_lost_answer_leaves_the_outcome_unknown"


class Stubborn(FakeChannel):
    async def send(self, outbound: Outbound) -> Receipt:
        sending = asyncio.ensure_future(super().send(outbound))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.sleep(0.4)
            sending.cancel()
            raise


class TestSendsOn(TestSound):
    channel, breaks = Stubborn, "test_a_cancelled_send_ends_at_once"


class Engraving(FakeChannel):
    async def edit(self, address: Any, message_id: str, text: str) -> None:
        self.acts.append(("edit", ()))


class TestChangesNothing(TestSound):
    channel, breaks = Engraving, "test_a_message_can_be_edited_and_deleted"


class Modest(FakeChannel):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.capabilities -= {"edit"}


class TestKeepsAnAbilityToItself(TestSound):
    channel, breaks = Modest, "test_it_has_the_methods_of_its_capabilities"


class _Growing(FakeChannel):
    """Has another writer."""

    writer: type[FakeStreamingReply]

    def _stream(self, outbound: Outbound) -> FakeStreamingReply:
        return self.writer(self)


class Unfinished(FakeStreamingReply):
    async def finish(self, outbound: Outbound) -> Receipt:
        if len(outbound.text) < 20 and outbound.text.startswith("Once"):
            outbound = replace(outbound, text="Once upon")
        return await super().finish(outbound)


class StopsShort(_Growing):
    writer = Unfinished


class TestStopsShort(TestSound):
    channel, breaks = StopsShort, "test_a_streamed_reply_ends_complete_in_one_message"


class OneMessage(FakeStreamingReply):
    async def finish(self, outbound: Outbound) -> Receipt:
        return await super().finish(replace(outbound, text=outbound.text[:200]))


class StaysInOne(_Growing):
    writer = OneMessage


class TestStaysInOneMessage(TestSound):
    channel, breaks = StaysInOne, "test_a_streamed_reply_that_is_too_long_continues_in_the_next_message"


class Doubling(FakeStreamingReply):
    async def show(self, text: str) -> None:
        if self._channel._failures:
            self._ids.clear()  # the edit failed: a new message
            self._channel._failures.clear()
        await super().show(text)


class Doubles(_Growing):
    writer = Doubling


class TestDoublesUnderPressure(TestSound):
    channel, breaks = (
        Doubles,
        "test_a_rate_limit_neither_blocks_nor_doubles_a_streamed_reply",
    )


class Waiting(FakeStreamingReply):
    async def show(self, text: str) -> None:
        if self._channel._failures:
            await asyncio.sleep(0.6)
        await super().show(text)


class Waits(_Growing):
    writer = Waiting


class TestWaitsUnderPressure(TestSound):
    channel, breaks = Waits, "test_a_rate_limit_neither_blocks_nor_doubles_a_streamed_reply"


class Ticking(FakeStreamingReply):
    async def abandon(self) -> None:
        self._ticks = asyncio.ensure_future(asyncio.sleep(0.5))


class Ticks(_Growing):
    writer = Ticking


class TestTicksOn(TestSound):
    channel, breaks = Ticks, "test_an_abandoned_reply_does_not_change"


class Beside(FakeChannel):
    async def send(self, outbound: Outbound) -> Receipt:
        return await super().send(replace(outbound, replaces=()))


class TestStandsBesideWhatItReplaces(TestSound):
    channel, breaks = Beside, "test_an_answer_replaces_the_messages_of_an_interrupted_stream"


class OneConnection(FakeChannel):
    _deaf = False

    def disconnect(self) -> None:
        self._deaf = True
        self._lost.set()

    def says(self, text: str, *given: Any, **more: Any) -> Inbound:
        reported_error = super().says(text, *given, **more)
        if self._deaf:
            self._waiting.pop()
        return reported_error


class TestStaysAway(TestSound):
    channel, breaks = OneConnection, "test_it_reconnects_after_a_lost_connection"


class Numb(FakeChannel):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, replace(value, last_frame_at=None) if name == "state" else value)


class TestDoesNotKnowWhenItHeard(TestSound):
    channel, breaks = Numb, "test_it_reports_its_state"


class Knocking(FakeChannel):
    async def run(self, inbox: Inbox) -> None:
        while not self._known:
            self.state = replace(self.state, state="waiting", detail="trying again")
            await asyncio.sleep(0.05)
        await super().run(inbox)

    def impostor(self) -> "Knocking":
        return Knocking(known=False)


class TestKnocksForEver(TestSound):
    channel, breaks = Knocking, "test_wrong_credentials_fail_with_a_message_for_a_person"


class SlowToGo(FakeChannel):
    async def run(self, inbox: Inbox) -> None:
        try:
            await super().run(inbox)
        except asyncio.CancelledError:
            await asyncio.sleep(0.4)
            raise


class TestWillNotGo(TestSound):
    stop_seconds = 0.05  # each of its tests waits so long
    channel, breaks = SlowToGo, "test_it_stops_when_cancelled_and_leaves_no_tasks"


class Littering(FakeChannel):
    async def run(self, inbox: Inbox) -> None:
        self._beat = asyncio.ensure_future(asyncio.sleep(60))
        await super().run(inbox)


class TestLeavesATaskBehind(TestSound):
    channel, breaks = Littering, "test_it_stops_when_cancelled_and_leaves_no_tasks"
