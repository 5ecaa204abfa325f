"""Typing signs of a killed process are removed at the next start."""

import asyncio

import pytest
from claw.contracts.errors import DeliveryError
from claw.contracts.messages import Address, Inbound, Sender
from claw.host.isolation import DEFAULT_TIMEOUTS
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw.testing import FakeChannel
from claw_gateway import left_typing
from claw_gateway.journal import Journal

WHERE = Address("fake", "c1")


class Marking(FakeChannel):
    """A channel whose typing signs stay, and that refuses first as it is told."""

    def __init__(self, *refusals):
        super().__init__()
        self.removed, self.refusals = [], list(refusals)

    async def remove_left_typing(self, address, message_id):
        if self.refusals:
            raise self.refusals.pop(0)
        self.removed.append(message_id)


def accepted(journal, id):
    return journal.accept(Inbound(WHERE, "hello", Sender("u"), message_id=id, event_id=id)).number


class Moment:
    """The time that a test sets."""

    seconds = 1_000_000.0


@pytest.fixture
def moment():
    return Moment()


@pytest.fixture
def journal(tmp_path, moment):
    return Journal(Database(tmp_path / "state.db"), Clock(now=lambda: moment.seconds))


async def signs(journal, channel):
    log = []
    await left_typing.remove_left_typing(journal, lambda address: channel, log.append, DEFAULT_TIMEOUTS)
    return log


async def test_they_are_removed_from_messages_of_cut_off_turns_and_of_turns_that_had_just_ended(
    journal, moment
):
    journal.began("old", "key", [accepted(journal, "long-answered")])
    journal.ended("old", "delivered")
    moment.seconds += 120
    journal.began("just", "key", [accepted(journal, "just-answered")])
    journal.ended("just", "delivered")
    journal.began("cut", "key", [accepted(journal, "cut-off"), accepted(journal, "steered")])
    accepted(journal, "waits")

    channel = Marking()
    assert await signs(journal, channel) == []
    assert channel.removed == ["just-answered", "cut-off", "steered"]


async def test_an_idle_gateway_that_is_started_much_later_still_finds_them(journal, moment):
    journal.began("just", "key", [accepted(journal, "just-answered")])
    journal.ended("just", "delivered")
    moment.seconds += 24 * 3600
    channel = Marking()
    removing = left_typing.remove_left_typing(journal, lambda address: channel, print, DEFAULT_TIMEOUTS)
    accepted(journal, "new")
    await removing
    assert channel.removed == ["just-answered"]


async def test_a_service_that_cannot_be_asked_is_asked_again(journal, monkeypatch):
    monkeypatch.setattr(left_typing, "_FIRST_PAUSE", 0.01)
    journal.began("cut", "key", [accepted(journal, "m1")])
    channel = Marking(DeliveryError("away"), DeliveryError("busy", retry_after_seconds=0.02))
    assert await signs(journal, channel) == []
    assert channel.removed == ["m1"]


async def test_a_refusal_for_good_is_said_once_and_the_channel_is_not_asked_again(journal):
    journal.began("cut", "key", [accepted(journal, "m1"), accepted(journal, "m2")])
    refused = DeliveryError("no scope", permanent=True)
    channel = Marking(refused, refused)
    [line] = await signs(journal, channel)
    assert "channel fake: typing signs" in line and "no scope" in line
    assert channel.removed == [] and len(channel.refusals) == 1


async def test_a_channel_without_such_signs_is_not_asked(journal):
    journal.began("cut", "key", [accepted(journal, "m1")])
    assert await signs(journal, FakeChannel()) == []
    await asyncio.sleep(0)
