"""``claw sessions compact``: the conversation that a name means."""

import pytest
from claw.contracts.errors import UsageError
from claw_context.command import find_key

KEYS = ("agent:default:main", "agent:work:main", "agent:work:telegram:direct:7")


@pytest.mark.parametrize(
    ("name", "key"), [("agent:work:main", KEYS[1]), ("7", KEYS[2]), ("direct:7", KEYS[2])]
)
def test_a_conversation_is_found_by_its_key_or_its_end(name: str, key: str) -> None:
    assert find_key(KEYS, name) == key


@pytest.mark.parametrize(
    ("keys", "name", "said"),
    [
        (KEYS, "main", "several conversations: agent:default:main, agent:work:main"),
        (KEYS, "agent:work:mian", "did you mean agent:work:main"),
        ((), "main", "no other one yet"),
    ],
)
def test_a_name_that_means_none_or_several_is_refused(keys: tuple[str, ...], name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        find_key(keys, name)
