"""Small talk, work, and what files hold: the rest of a month, which nobody will be asked for."""

import random
import re

TELLING = re.compile(
    r"\d|\b(?:must not|decided|drinks nothing|contact|birthday|kept in|prefers?|agreed)\b"
    r"|不能|决定|生日|联系人|放在|只喝|必须|航班|订单|价格"
)
"""Parts of a sentence that is worth a note: a figure, or a word of choice, place and person."""

ANSWERS = (
    "That sounds like a plan.", "I have put it on the list for this afternoon.", "Shall I prepare a short draft first?",
    "Good to hear that it went well.", "I would start with the smaller part and see how far we get.",
    "Let me know when the others have answered.", "There is no hurry as far as I can see.", "好的，我明白了。",
    "我会先整理一份草稿给你看。", "如果有变化请告诉我。", "听起来不错，我们就这么办。", "我建议先从简单的部分开始。",
)  # fmt: skip

_SMALL_TALK = (
    "Good morning, how is it going?", "The meeting ran longer than anybody wanted.", "I am off to lunch now.",
    "Could you word that a little more kindly for the client?", "It is raining again and the tram was late.",
    "Thanks, that helps a lot.", "What would you tell a new colleague about the way we work?",
    "Let us go through the open points of this week once more.", "I think the second version reads better.",
    "Somebody left the window open over night and the plants look sad.", "Version 2.4 of the slides went out at 16:05.",
    "We had 37 people in the room, which is more than the chairs.", "早上好，今天有什么安排？", "刚才的会开得太久了。",
    "谢谢，帮了大忙。", "这一段能不能写得更客气一点？", "我去吃午饭了，一会儿回来。", "今天来了23个人，椅子都不够坐。",
    "我觉得第二个版本更好一些。", "外面又下雨了，路上很堵。", "你怎么看这件事情？",
)  # fmt: skip
_THINKING = (
    "I have been turning it over in my head since yesterday and I still see good reasons for both ways.",
    "On the one hand it would be nice to be done with it, on the other hand nobody likes to do things twice.",
    "The people downstairs say one thing and the people upstairs say another, as always.",
    "Perhaps we should simply ask those who have to live with it every day.",
    "说实话我还没有想好，两边都有道理，要不再等等看。", "楼上说这样好，楼下说那样好，每次都是这样。",
)  # fmt: skip
_BEFORE = (
    "By the way,",
    "Before I forget:",
    "One more thing for you to know.",
    "顺便说一下，",
    "对了，",
    "还有一件事。",
)
WORDS = ("invoice", "pallet", "warranty", "courier", "refund", "forklift", "tariff", "voucher")


def talk(dice: random.Random) -> str:
    """Something that wants no tool."""
    return " ".join(dice.choice(_SMALL_TALK) for _ in range(dice.randint(1, 3))) + _aside(dice)


def telling(said: str, dice: random.Random) -> str:
    """A fact amid other words."""
    before = dice.choice(_BEFORE[3:] if said.endswith("。") else _BEFORE[:3])
    return f"{dice.choice(_SMALL_TALK)} {before} {said} {dice.choice(_SMALL_TALK)}" + _aside(dice)


def asking(asked: str, dice: random.Random) -> str:
    """A question, perhaps behind a greeting."""
    return dice.choice(("", "Hello again! ", "Quick question. ", "请问一下。")) + asked


def work(dice: random.Random, reports: int) -> str:
    """Something that takes tools."""
    one, other = dice.randrange(reports), dice.randrange(reports)
    return dice.choice(
        (
            f"Please read report-{one}.txt and tell me how it ends.",
            f"Read report-{one}.txt, read report-{other}.txt, and compare them.",
            f"What do we know about customer {dice.randrange(900)}?",
            f"Where do the reports mention {dice.choice(WORDS)}?",
            f"Write the minutes to minutes-{dice.randrange(40)}.md: {talk(dice)}",
        )
    )


def report(number: int) -> str:
    """A report of 8 to 60 KB, its total at the end."""
    dice = random.Random(number)
    lines = []
    for at in range(dice.choice((120, 150, 200, 320, 700, 900))):
        state, who = dice.choice(("ok", "late", "open")), dice.choice("KLMNOP")
        lines.append(
            f"{at:04d};{dice.choice(WORDS)};{dice.randrange(10**6):06d};{state};lot {dice.randrange(10**5)} of hall "
            f"{dice.randrange(30)}, checked by {who}. {dice.choice('RSTUVW')}."
        )
    return "\n".join([*lines, f"total of report {number}: {dice.randrange(10**7)}"])


def customer(number: int) -> dict[str, object]:
    """Return an answer of a customer database: 2 to 45 KB."""
    dice = random.Random(-number)
    orders = [
        {"id": f"C{number}-{dice.randrange(10**6)}", "item": dice.choice(WORDS), "cents": dice.randrange(10**5),
         "state": dice.choice(("sent", "paid", "returned")), "note": "left with the neighbour, door on the side"}
        for _ in range(dice.choice((12, 40, 90, 300)))
    ]  # fmt: skip
    return {"customer": number, "orders": orders, "since": 1990 + number % 30}


def _aside(dice: random.Random) -> str:
    return (
        " " + " ".join(dice.choice(_THINKING) for _ in range(dice.randint(1, 4)))
        if dice.random() < 0.3
        else ""
    )
