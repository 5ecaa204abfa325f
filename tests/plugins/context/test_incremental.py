"""growing: what is made of a conversation is the same whether it was made at once or along the way."""

from claw_provider_sdk import IncrementalCache
from hypothesis import given, strategies as st


class Seen:
    """Items in order, and how often anybody added one."""

    added = 0

    def __init__(self, about: str = "") -> None:
        self.about = about
        self.items: list[object] = []

    def add(self, item: object) -> None:
        Seen.added += 1
        self.items.append(item)


class Forking(Seen):
    """One that can be copied."""

    def fork(self) -> "Forking":
        other = Forking(self.about)
        other.items = [*self.items]
        return other


ITEMS = [object() for _ in range(6)]
pasts = st.lists(st.lists(st.sampled_from(ITEMS), max_size=6), max_size=12)


@given(pasts, st.integers(1, 3), st.sampled_from([Seen, Forking]))
def test_whatever_was_asked_before_all_items_are_in_it_once_and_in_order(
    asked: list, most: int, begin: type[Seen]
) -> None:
    growing = IncrementalCache(begin, most)

    for past in asked:
        assert growing.get(past).items == past


def test_only_what_is_new_is_read() -> None:
    growing, before = IncrementalCache(Seen), Seen.added

    growing.get(ITEMS[:4])
    growing.get(ITEMS)

    assert Seen.added - before == 6


def test_when_the_newest_item_comes_again_in_another_form_only_what_follows_it_is_read_again() -> None:
    growing, items = IncrementalCache(Forking), [object()]
    for _ in range(100):
        growing.get([*items, object()])  # as a chat shows it in its own turn
        items += [object(), object()]
        growing.get(items)
    before = Seen.added

    growing.get([*items, object()])
    items += [object(), object()]
    assert growing.get(items).items == items

    assert Seen.added - before <= 6, "two turns' worth, not two hundred"


def test_the_same_items_about_something_else_are_another_conversation() -> None:
    growing = IncrementalCache(Seen)

    assert growing.get(ITEMS, "one model").about == "one model"
    assert growing.get(ITEMS, "another").about == "another"
    assert growing.get(ITEMS, "one model") is growing.get(ITEMS, "one model")


def test_only_the_newest_conversations_are_kept() -> None:
    growing = IncrementalCache(Seen, most=2)
    first = growing.get(ITEMS[:1])

    growing.get(ITEMS[1:2])
    assert growing.get(ITEMS[:1]) is first, "asked for again, it is new again"
    growing.get(ITEMS[2:3])
    growing.get(ITEMS[3:4])

    assert growing.get(ITEMS[:1]) is not first


def test_an_item_that_cannot_be_read_leaves_nothing_half_made() -> None:
    class Picky(Seen):
        def add(self, item: object) -> None:
            if item is ITEMS[2]:
                raise ValueError
            super().add(item)

    growing = IncrementalCache(Picky)
    growing.get(ITEMS[:2])
    try:
        growing.get(ITEMS[:4])
    except ValueError:
        pass

    assert growing.get(ITEMS[:2]).items == ITEMS[:2]


def test_as_many_conversations_as_a_busy_gateway_has_at_once_are_not_read_again() -> None:
    growing, chats = IncrementalCache(Seen), [[object() for _ in range(20)] for _ in range(200)]
    for chat in chats:
        growing.get(chat)
    before = Seen.added

    for chat in chats:
        chat.append(object())
        growing.get(chat)

    assert Seen.added - before == 200


def test_long_conversations_make_space_for_each_other_and_the_newest_is_kept_however_long() -> None:
    growing = IncrementalCache(Seen, most_items=10)
    short, long = [object() for _ in range(4)], [object() for _ in range(30)]
    first, newest = growing.get(short), growing.get(long)

    assert growing.get(long) is newest
    assert growing.get(short) is not first
    assert growing.get(long) is not newest
