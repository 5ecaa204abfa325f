"""People are known by the stable id of their channel."""

import pytest
from claw.contracts.messages import Sender
from claw.security.admission import is_owner

ANN = Sender("42", name="7", username="boss", e164="+49 30 1234567")


@pytest.mark.parametrize(
    "owners", [["telegram:42"], ["Telegram: 42 "], ["+49301234567"], ["x:1", "+49 (30) 123-4567"]]
)
def test_an_owner_is_named_by_channel_and_id_or_by_phone_number(owners: list[str]) -> None:
    assert is_owner("telegram", ANN, owners)


@pytest.mark.parametrize(
    "entry",
    ["", " ", "*", "telegram:*", "telegram:", "telegram:4", "telegram:421", "discord:42", "42", "boss", "telegram:boss",
     "7", "telegram:7", "+4930123456", "301234567", "49301234567", "+"],
)  # fmt: skip
def test_nobody_else_is_an_owner(entry: str) -> None:
    assert not is_owner("telegram", ANN, [entry])


def test_a_sender_without_an_id_or_called_star_is_nobody() -> None:
    owners = ["telegram:", "", "*", ":", "+", "telegram:A"]
    assert not any(is_owner("telegram", Sender(name), owners) for name in ("", " ", "*", "a"))
