"""Tests of inbound messages, and of their acknowledgement to the service."""

import asyncio

from pytest_claw.channel_base import ChannelSuiteBase
from pytest_claw.channel_trial import CHAT_TYPES, ChannelTrial


class InboundChecks(ChannelSuiteBase):
    """Checks of inbound messages."""

    def test_a_message_becomes_an_inbound(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                await on.does("says", "你好 👋 hello")
                inbound = await on.received("hello")
            assert inbound.text == "你好 👋 hello"
            assert inbound.kind == "message"
            assert inbound.address.channel == on.channel.name
            assert inbound.address.account == getattr(on.channel, "account", "default")
            assert inbound.chat_type in CHAT_TYPES
            missing = [name for name in ("message_id", "event_id") if not getattr(inbound, name)]
            assert missing == [], "two unique keys keep a message from being received twice"
            assert inbound.sender.id, "people are known by a stable id"
            assert not inbound.sender.is_bot

        self.try_(trial)

    def test_an_answer_goes_where_the_message_came_from(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                await on.does("says", "hello")
                inbound = await on.received("hello")
                await on.send("hi", address=inbound.address, reply_to=inbound.message_id)
                await on.until_shown("hi")

        self.try_(trial)

    def test_a_message_delivered_twice_keeps_its_id(self) -> None:
        self.needs("redelivery")

        async def trial(on: ChannelTrial) -> None:
            async with on.running() as inbox:
                await on.does("says", "first")
                await on.received("first")
                await on.does("again")
                await on.does("says", "second")
                await on.received("second")
            ids = {
                text: {one.message_id for one in inbox.received if one.text == text}
                for text in ("first", "second")
            }
            assert len(ids["first"]) == 1, "the same message came with another message id"
            assert ids["first"].isdisjoint(ids["second"]), "another message came with the same message id"

        self.try_(trial)

    def test_in_a_group_a_mention_is_recognised_by_id(self) -> None:
        self.needs("groups")

        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                for text, mention in (("all of you", ""), ("you there", "us"), ("the other", "namesake")):
                    await on.does("says_in_group", text, mention)
                group_messages = [
                    await on.received(text) for text in ("all of you", "you there", "the other")
                ]
                await on.does("says", "in private")
                private = await on.received("in private")
            assert {one.chat_type for one in group_messages} <= {"group", "channel"}
            assert private.address.chat not in {one.address.chat for one in group_messages}
            meant = {one.text: one.mentions_us for one in group_messages}
            assert [one.mentions_us for one in group_messages] == [False, True, False], (
                f"mentions_us: {meant}"
            )

        self.try_(trial)

    def test_another_bot_is_marked_as_a_bot(self) -> None:
        self.needs("bots")

        async def trial(on: ChannelTrial) -> None:
            async with on.running() as inbox:
                await on.does("bot_says", "beep")
                await on.does("says", "hello")
                await on.received("hello")
            bots = [one.sender.is_bot for one in inbox.received if "beep" in one.text]
            assert all(bots), "two bots that take each other for people talk for ever"

        self.try_(trial)

    def test_our_own_messages_are_not_received(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running() as inbox:
                await on.send("mine")
                await on.does("says", "theirs")
                await on.received("theirs")
            assert "mine" not in inbox.texts

        self.try_(trial)

    def test_a_message_is_acknowledged_after_claw_accepted_it(self) -> None:
        self.needs("acknowledgement")

        async def trial(on: ChannelTrial) -> None:
            async with on.running() as inbox:
                before = await on.acknowledged()
                inbox.open.clear()
                await on.does("says", "hello")
                await on.received("hello")
                await asyncio.sleep(0.03)
                early = await on.acknowledged() - before
                inbox.open.set()
                assert early == 0, "it was acknowledged while submit had not returned"

                async def taken() -> bool:
                    return await on.acknowledged() > before

                await on.until(taken, "it was never acknowledged, though submit said True")

        self.try_(trial)

    def test_a_message_that_claw_refused_is_delivered_again(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running() as inbox:
                inbox.answers = [False, False]
                await on.does("says", "hello")
                await on.until(
                    lambda: inbox.texts.count("hello") >= 3,
                    "a refused message was not delivered again",
                )
                await on.does("says", "more")
                await on.received("more")
            again = {one.message_id for one in inbox.received if one.text == "hello"}
            assert len(again) == 1, "the repeated message had another message id"

        self.try_(trial)
