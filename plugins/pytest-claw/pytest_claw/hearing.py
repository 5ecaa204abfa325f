"""Tests of inbound messages, and of their acknowledgement to the service."""

import asyncio

from pytest_claw.place import CHAT_TYPES, ChannelTrial
from pytest_claw.trying import ChannelPromises


class InboundPromises(ChannelPromises):
    """Promises about inbound messages."""

    def test_a_message_is_put_into_our_words(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                await on.does("says", "你好 👋 hello")
                inbound = await on.heard("hello")
            assert inbound.text == "你好 👋 hello"
            assert inbound.kind == "message"
            assert inbound.address.channel == on.channel.name
            assert inbound.address.account == getattr(on.channel, "account", "default")
            assert inbound.chat_type in CHAT_TYPES
            missing = [name for name in ("message_id", "event_id") if not getattr(inbound, name)]
            assert missing == [], "two unique keys keep a message from being heard twice"
            assert inbound.sender.id, "people are known by a stable id"
            assert not inbound.sender.is_bot

        self.try_(trial)

    def test_an_answer_goes_where_the_message_came_from(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                await on.does("says", "hello")
                inbound = await on.heard("hello")
                await on.send("hi", address=inbound.address, reply_to=inbound.message_id)
                await on.until_shown("hi")

        self.try_(trial)

    def test_a_message_delivered_twice_is_known_as_one(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running() as door:
                await on.does("says", "first")
                await on.heard("first")
                await on.does("again")
                await on.does("says", "second")
                await on.heard("second")
            ids = {
                text: {one.message_id for one in door.heard if one.text == text}
                for text in ("first", "second")
            }
            assert len(ids["first"]) == 1, "the same message came with another message id"
            assert ids["first"].isdisjoint(ids["second"]), "another message came with the same message id"

        self.try_(trial)

    def test_in_a_group_it_tells_by_id_what_is_meant_for_us(self) -> None:
        self.needs("groups")

        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                for text, mention in (("everybody", ""), ("you there", "us"), ("the other", "namesake")):
                    await on.does("says_in_group", text, mention)
                told = [await on.heard(text) for text in ("everybody", "you there", "the other")]
                await on.does("says", "in private")
                private = await on.heard("in private")
            assert {one.chat_type for one in told} <= {"group", "channel"}
            assert private.address.chat not in {one.address.chat for one in told}
            meant = {one.text: one.mentions_us for one in told}
            assert [one.mentions_us for one in told] == [False, True, False], f"mentions_us: {meant}"

        self.try_(trial)

    def test_another_bot_is_known_as_one(self) -> None:
        self.needs("bots")

        async def trial(on: ChannelTrial) -> None:
            async with on.running() as door:
                await on.does("bot_says", "beep")
                await on.does("says", "hello")
                await on.heard("hello")
            bots = [one.sender.is_bot for one in door.heard if "beep" in one.text]
            assert all(bots), "two bots that take each other for people talk for ever"

        self.try_(trial)

    def test_our_own_words_do_not_come_back(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running() as door:
                await on.send("mine")
                await on.does("says", "theirs")
                await on.heard("theirs")
            assert "mine" not in door.texts

        self.try_(trial)

    def test_nothing_is_acknowledged_before_the_house_has_it(self) -> None:
        self.needs("acknowledgement")

        async def trial(on: ChannelTrial) -> None:
            async with on.running() as door:
                before = await on.acknowledged()
                door.open.clear()
                await on.does("says", "hello")
                await on.heard("hello")
                await asyncio.sleep(0.03)
                early = await on.acknowledged() - before
                door.open.set()
                assert early == 0, "it was acknowledged while submit had not returned"

                async def taken() -> bool:
                    return await on.acknowledged() > before

                await on.until(taken, "it was never acknowledged, though submit said True")

        self.try_(trial)

    def test_what_the_house_did_not_take_comes_again(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running() as door:
                door.answers = [False, False]
                await on.does("says", "hello")
                await on.until(lambda: door.texts.count("hello") >= 3, "what was not taken never came again")
                await on.does("says", "more")
                await on.heard("more")
            again = {one.message_id for one in door.heard if one.text == "hello"}
            assert len(again) == 1, "when it came again it had another message id"

        self.try_(trial)
