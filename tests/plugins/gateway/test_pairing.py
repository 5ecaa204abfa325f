"""Pairing: an unknown sender gets a code, the owner approves it, and guessing does not help."""

import pytest
from claw.contracts.errors import ClawError, UsageError
from claw.contracts.messages import Sender
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw_gateway.pairing import LOCKED_SECONDS, MAX_PENDING, VALID_SECONDS, WRONG_CODES, Pairing

ANN, BOB = Sender("42", name="Ann"), Sender("43", name="Bob")


class Watch:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0
        self.clock = Clock(now=lambda: self.seconds, monotonic=lambda: self.seconds)


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "state.db")
    yield database
    database.close()


@pytest.fixture
def pairing(database, watch):
    return Pairing(database, watch.clock)


def test_who_asks_gets_a_code_of_forty_bits_and_asking_again_shows_the_same(pairing):
    code = pairing.request_code("telegram", "default", ANN)
    assert len(code) == 8 and set(code) <= set("ABCDEFGHJKLMNPQRSTUVWXYZ23456789")
    assert pairing.request_code("Telegram", "default", ANN) == code
    assert [(one.sender, one.name, one.code) for one in pairing.pending()] == [("42", "Ann", code)]


def test_the_owner_lets_in_who_was_given_the_code_and_nobody_else(pairing):
    code, _ = (
        pairing.request_code("telegram", "default", ANN),
        pairing.request_code("telegram", "default", BOB),
    )
    person = pairing.approve(f" {code[:4].lower()}-{code[4:]} ")
    assert (person.channel, person.account, person.sender) == ("telegram", "default", "42")
    assert pairing.paired("telegram", "default") == {"42"}
    assert [one.sender for one in pairing.pending()] == ["43"]
    assert [one.sender for one in pairing.people()] == ["42"]


def test_pairing_holds_for_one_account_of_one_channel(pairing):
    pairing.approve(pairing.request_code("telegram", "default", ANN))
    assert pairing.paired("telegram", "work") == pairing.paired("discord", "default") == frozenset()


def test_it_outlives_a_restart_and_another_process_sees_it_at_once(pairing, tmp_path, watch):
    code = pairing.request_code("telegram", "default", ANN)
    elsewhere = Database(tmp_path / "state.db")
    Pairing(elsewhere, watch.clock).approve(code)
    elsewhere.close()
    assert pairing.paired("telegram", "default") == {"42"}


def test_a_code_is_good_for_an_hour_and_once(pairing, watch):
    code = pairing.request_code("telegram", "default", ANN)
    watch.seconds += VALID_SECONDS
    assert pairing.pending() == ()
    with pytest.raises(ClawError, match="no pending request"):
        pairing.approve(code)
    fresh = pairing.request_code("telegram", "default", ANN)
    assert fresh != code
    pairing.approve(fresh)
    with pytest.raises(ClawError, match="no pending request"):
        pairing.approve(fresh)


def test_only_a_few_may_wait_on_one_account_and_the_next_one_gets_no_code(pairing, watch):
    codes = [pairing.request_code("telegram", "default", Sender(str(n))) for n in range(MAX_PENDING)]
    assert len(set(codes)) == 3
    assert pairing.request_code("telegram", "default", ANN) is None
    assert pairing.request_code("telegram", "work", ANN) is not None
    watch.seconds += VALID_SECONDS + 1
    assert pairing.request_code("telegram", "default", ANN) is not None


def test_a_thousand_unknown_senders_leave_no_more_than_the_few_that_wait(pairing):
    given = [pairing.request_code("telegram", "default", Sender(f"x{n}")) for n in range(1000)]
    assert len([code for code in given if code]) == len(pairing.pending()) == MAX_PENDING


def test_who_was_denied_gets_no_code_until_the_hour_is_over(pairing, watch):
    code = pairing.request_code("telegram", "default", ANN)
    assert pairing.deny(code).sender == "42"
    assert pairing.request_code("telegram", "default", ANN) is None
    assert pairing.pending() == () and pairing.paired("telegram") == frozenset()
    with pytest.raises(ClawError, match="no pending request"):
        pairing.approve(code)
    watch.seconds += VALID_SECONDS + 1
    assert pairing.request_code("telegram", "default", ANN) is not None


def test_who_was_let_in_can_be_taken_out_again(pairing):
    pairing.approve(pairing.request_code("telegram", "default", ANN))
    assert pairing.request_code("telegram", "default", ANN) is None, "who is in needs no code"
    assert pairing.unpair("telegram", "default", "42")
    assert not pairing.unpair("telegram", "default", "42")
    assert pairing.paired("telegram") == frozenset()


@pytest.mark.parametrize("nobody", ["", "  "])
def test_a_sender_without_an_id_gets_no_code(pairing, nobody):
    assert pairing.request_code("telegram", "default", Sender(nobody, name="Ann")) is None


def test_ten_thousand_guesses_hit_nothing_and_block_further_codes_even_for_the_right_code(pairing, watch):
    code = pairing.request_code("telegram", "default", ANN)
    refusals = [refusal_of(pairing, f"{n:08d}") for n in range(10_000)]
    assert sum("no pending request" in str(why) for why in refusals) == WRONG_CODES
    assert pairing.paired("telegram") == frozenset()
    with pytest.raises(ClawError, match=r"too many wrong codes.*15 minutes"):
        pairing.approve(code)
    watch.seconds += LOCKED_SECONDS
    assert pairing.approve(code).sender == "42"


def refusal_of(pairing, code):
    with pytest.raises(ClawError) as refused:
        pairing.approve(code)
    return refused.value


def test_a_name_that_a_sender_chose_cannot_steer_the_terminal_that_prints_it(pairing):
    pairing.request_code("telegram", "default", Sender("1", name="\x1b[2J\u202eevil\n" + "x" * 999))
    [person] = pairing.pending()
    assert person.name.startswith("[2Jevil") and person.name.isprintable() and len(person.name) == 64


@pytest.mark.parametrize("code", ["", "\ud800", "' OR 1=1 --", "x" * 10_000])
def test_any_text_may_be_tried_as_a_code(pairing, code):
    assert isinstance(refusal_of(pairing, code), UsageError) == (code == "")
