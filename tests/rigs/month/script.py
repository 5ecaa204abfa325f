"""The messages of a month, made from a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rigs.month import words
from rigs.month.facts import Fact, facts

TERMINAL, WORK, PHONE, GROUP = "terminal", "work", "phone", "group"
_CHATS, _OFTEN = (TERMINAL, WORK, PHONE, GROUP), (40, 25, 20, 15)
_PRIVATE = (TERMINAL, WORK, PHONE)
_BEGINS = 1_772_352_000.0  # 1 March 2026, 08:00 UTC
_DAY, _AWAKE = 86_400.0, 14 * 3600.0
REPORTS = 60


@dataclass(frozen=True)
class Line:
    """Something that a person says, which makes a turn.

    :param at: seconds since 1970.
    :param fact: the fact in it; ``asked`` the fact that it asks for.
    :param cut: the person stops the turn while a tool runs.
    :param restart: claw was restarted before it.
    """

    at: float
    chat: str
    text: str
    fact: Fact | None = None
    asked: Fact | None = None
    cut: bool = False
    restart: bool = False


def month(turns: int = 3000, count: int = 200, days: int = 30, seed: int = 1) -> tuple[Line, ...]:
    """So many turns over so many days, in which ``count`` facts are stated and asked for, most of them days later.

    Two in three are asked for in the chat where they were stated, the rest in any that is private: what was said there is
    kept from the group.
    """
    dice = random.Random(seed)
    told_at, asked_at = _places(turns, count, dice)
    some = facts(count, dice)
    chats: dict[int, str] = {}
    lines = []
    for at, moment in enumerate(_moments(turns, days, dice)):
        chat = dice.choices(_CHATS, _OFTEN)[0]
        line = Line(moment, chat, "")
        if (number := told_at.get(at)) is not None:
            chats[number] = chat
            line = replace(line, text=words.telling(some[number].said, dice), fact=some[number])
        elif (number := asked_at.get(at)) is not None:
            where = chats[number] if dice.random() < 2 / 3 else dice.choice(_PRIVATE)
            line = replace(line, chat=where, text=words.asking(some[number].asked, dice), asked=some[number])
        elif dice.random() < 0.45:
            cut = chat in (TERMINAL, WORK) and dice.random() < 0.04
            line = replace(line, text=words.work(dice, REPORTS), cut=cut)
        else:
            line = replace(line, text=words.talk(dice))
        lines.append(replace(line, restart=at > 0 and dice.random() < 12 / turns))
    return tuple(lines)


def _places(turns: int, count: int, dice: random.Random) -> tuple[dict[int, int], dict[int, int]]:
    """Return the turns in which each fact is stated and asked for: one in ten soon after, the rest at any time from 300
    turns later on, in a short month half of it later."""
    gap = min(300, turns // 2)
    fact: dict[int, int] = {}
    asked: dict[int, int] = {}
    free = set(range(turns))
    for number in range(count):
        early = [at for at in free if at < (turns - gap) * 0.8]
        begin = dice.choice(early)
        soon = dice.random() < 0.1
        least, most = (begin + 1, begin + turns // 50) if soon else (begin + gap, turns)
        later = [at for at in free if least <= at <= most and at != begin]
        end = dice.choice(later)
        fact[begin], asked[end] = number, number
        free -= {begin, end}
    return fact, asked


def _moments(turns: int, days: int, dice: random.Random) -> Iterator[float]:
    """Return the start of each turn, at a random time of the waking hours of its day."""
    for day in range(days):
        many = turns * (day + 1) // days - turns * day // days
        yield from sorted(_BEGINS + day * _DAY + dice.random() * _AWAKE for _ in range(many))
