"""The script of a text, and sample sentences for each script.

Multilingual embedders place the texts of one language together, so that a question finds texts in its own
language before those that answer it. The mean of the vectors of a script is therefore subtracted (after
Libovický, Rosa, Fraser: "On the Language Neutrality of Pre-trained Multilingual Representations", Findings of
EMNLP 2020, section 3). While an index is small, the sample sentences supply that mean.
"""

import unicodedata
from collections import Counter

LATIN, HAN, JAPANESE = "LATIN", "CJK", "JAPANESE"
_KANA = ("HIRAGANA", "KATAKANA")

ANY_TEXT = {
    LATIN: (
        "The train to the coast was late again.",
        "She bought a red umbrella at the market.",
        "We need to talk about the next steps.",
        "The water in the lake is very cold.",
        "He answered the letter on the same day.",
        "There are two ways to solve this problem.",
        "The shop around the corner sells old books.",
        "Please remember to lock the door.",
        "The results will be published next week.",
        "My uncle told us a long story.",
    ),
    HAN: (
        "去海边的火车又晚点了。",
        "她在市场上买了一把红伞。",
        "我们需要谈谈下一步怎么办。",
        "湖里的水很凉。",
        "他当天就回了信。",
        "这个问题有两种解决办法。",
        "街角的商店卖旧书。",
        "请记得锁门。",
        "结果下周公布。",
        "叔叔给我们讲了一个很长的故事。",
    ),
}


def script_of(text: str) -> str:
    """Return the script of most letters, as Unicode names begin (LATIN, CJK, CYRILLIC …)."""
    letters = Counter(char for char in text[:2_000] if char.isalpha())
    counts = Counter[str]()
    for char, count in letters.items():
        counts[unicodedata.name(char, LATIN).partition(" ")[0]] += count
    kana = sum(counts.pop(name, 0) for name in _KANA)
    if kana * 4 > counts[HAN]:
        counts[JAPANESE] = kana + counts.pop(HAN, 0)
    return counts.most_common(1)[0][0] if counts else LATIN
