"""The steering queue of a turn: later messages that it answers too."""

from claw_gateway.channel_turn import SteeringQueue


def test_a_later_text_is_put_before_the_turn_that_runs():
    steering = SteeringQueue()
    assert steering.put("and in French") and steering.put("please")

    assert steering.take() == ["and in French", "please"]
    assert steering.take() == []


def test_a_turn_that_asks_the_model_no_more_takes_nothing_and_nothing_is_lost():
    steering = SteeringQueue()
    assert steering.put("just in time")
    assert steering.close() == ["just in time"]
    assert not steering.put("too late")

    assert steering.take() == []


def test_what_a_turn_never_looked_at_can_still_be_taken_after_it():
    steering = SteeringQueue()
    steering.put("unseen")
    steering.open = False

    assert not steering.put("too late")
    assert steering.take() == ["unseen"]
