"""growing: what is made of a conversation is the same whether it was made at once or along the way."""

from claw.growing import Growing
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
    growing = Growing(begin, most)

    for past in asked:
        assert growing.of(past).items == past


def test_only_what_is_new_is_read() -> None:
    growing, before = Growing(Seen), Seen.added

    growing.of(ITEMS[:4])
    growing.of(ITEMS)

    assert Seen.added - before == 6


def test_when_the_newest_item_comes_again_in_another_form_only_what_stands_behind_it_is_read_anew() -> None:
    growing, items = Growing(Forking), [object()]
    for _ in range(100):
        growing.of([*items, object()])  # as a chat shows it in its own turn
        items += [object(), object()]
        growing.of(items)
    before = Seen.added

    growing.of([*items, object()])
    items += [object(), object()]
    assert growing.of(items).items == items

    assert Seen.added - before <= 6, "two turns' worth, not two hundred"


def test_the_same_items_about_something_else_are_another_conversation() -> None:
    growing = Growing(Seen)

    assert growing.of(ITEMS, "one model").about == "one model"
    assert growing.of(ITEMS, "another").about == "another"
    assert growing.of(ITEMS, "one model") is growing.of(ITEMS, "one model")


def test_only_the_newest_conversations_are_kept() -> None:
    growing = Growing(Seen, most=2)
    first = growing.of(ITEMS[:1])

    growing.of(ITEMS[1:2])
    assert growing.of(ITEMS[:1]) is first, "asked for again, it is new again"
    growing.of(ITEMS[2:3])
    growing.of(ITEMS[3:4])

    assert growing.of(ITEMS[:1]) is not first


def test_an_item_that_cannot_be_read_leaves_nothing_half_made() -> None:
    class Picky(Seen):
        def add(self, item: object) -> None:
            if item is ITEMS[2]:
                raise ValueError
            super().add(item)

    growing = Growing(Picky)
    growing.of(ITEMS[:2])
    try:
        growing.of(ITEMS[:4])
    except ValueError:
        pass

    assert growing.of(ITEMS[:2]).items == ITEMS[:2]


def test_as_many_conversations_as_a_busy_house_has_at_once_are_not_read_anew() -> None:
    growing, chats = Growing(Seen), [[object() for _ in range(20)] for _ in range(200)]
    for chat in chats:
        growing.of(chat)
    before = Seen.added

    for chat in chats:
        chat.append(object())
        growing.of(chat)

    assert Seen.added - before == 200


def test_long_conversations_make_room_for_each_other_and_the_newest_is_kept_however_long() -> None:
    growing = Growing(Seen, most_items=10)
    short, long = [object() for _ in range(4)], [object() for _ in range(30)]
    first, newest = growing.of(short), growing.of(long)

    assert growing.of(long) is newest
    assert growing.of(short) is not first
    assert growing.of(long) is not newest
