"""The vectors of an index in memory, and a nearest-neighbour search that compares all of them with numpy."""

from collections.abc import Sequence
from typing import Any

from claw_memory.index import Index
from claw_memory.script import LATIN, script_of

_SPARE_ROWS = 4096
# with this many texts of a script, their mean counts as much as that of the sample sentences
_TEXTS_FOR_SURE = 20


def packed(vectors: Any) -> list[bytes]:
    """Encode vectors for storage: length 1, two bytes a number."""
    import numpy as np

    return [row.astype("<f2").tobytes() for row in _unit(np.asarray(vectors, dtype=np.float32))]


class Vectors:
    """The vectors of one index, updated before each query."""

    def __init__(self) -> None:
        self._state: tuple[int, ...] = ()
        self._pieces: Any = None  # ids
        self._scripts: Any = None
        self._rows: Any = None  # at least as many as pieces
        self._centres: dict[str, Any] = {}
        self._scales: Any = None  # 1 / length of each row after its centre is subtracted
        self._shifts: Any = None  # index into _centres for each row

    def nearest(self, index: Index, question: str, vector: Any, most: int) -> list[tuple[int, float]]:
        """Return the nearest chunks, best first, with their similarity.

        :param vector: of the question.
        :returns: cosines after the mean of all texts of a script is subtracted: about 0 for unrelated texts.
        """
        import numpy as np

        self._refresh(index)
        count = len(self._pieces)
        asked = _unit(np.asarray(vector, dtype=np.float32)[None, :])[0]
        if not count or self._rows.shape[1] != asked.shape[0]:
            return []
        turned = asked - self._centre(script_of(question))
        turned /= max(float(np.linalg.norm(turned)), 1e-12)
        offsets = np.array([centre @ turned for centre in self._centres.values()], dtype=np.float32)
        near = (self._rows[:count] @ turned - offsets[self._shifts]) * self._scales
        best = np.argpartition(-near, most)[:most] if most < count else np.arange(count)
        order = best[np.argsort(-near[best], kind="stable")]
        return [(int(self._pieces[at]), float(near[at])) for at in order]

    def _centre(self, script: str) -> Any:
        return self._centres.get(script, self._centres[LATIN])

    def _refresh(self, index: Index) -> None:
        import numpy as np

        state = index.state()
        if state == self._state and self._pieces is not None:
            return
        known: Sequence[int] = [] if self._pieces is None or state[:1] != self._state[:1] else self._pieces
        rows = index.with_vector()
        now = np.array([piece for piece, _ in rows], dtype=np.int64)
        scripts = dict(rows)
        old = np.array(known, dtype=np.int64)
        stays = np.isin(old, now, assume_unique=True)
        new = now[~np.isin(now, old, assume_unique=True)]
        held = self._rows[: len(old)][stays] if len(old) and not stays.all() else self._rows
        self._rows = self._with(index, held, int(stays.sum()), new.tolist())
        self._pieces = np.concatenate([old[stays], new])
        self._scripts = np.array([scripts[piece] for piece in self._pieces.tolist()])
        self._find_centres(index)
        self._state = state

    def _with(self, index: Index, rows: Any, kept: int, new: list[int]) -> Any:
        """Return the first ``kept`` rows followed by those of the new chunks, with spare capacity."""
        import numpy as np

        places = {piece: kept + at for at, piece in enumerate(new)}
        fits = rows is not None and len(rows) >= kept + len(new)
        if fits:
            rows[kept : kept + len(new)] = 0
        for piece, data in index.vectors(new):
            row = np.frombuffer(data, dtype="<f2")
            if not fits or rows.shape[1] != len(row):
                wider = np.zeros((kept + len(new) + _SPARE_ROWS, len(row)), dtype=np.float32)
                if kept and rows.shape[1] == len(row):
                    wider[:kept] = rows[:kept]
                rows, fits = wider, True
            rows[places[piece]] = row
        return rows if fits else np.zeros((kept + len(new), 0), dtype=np.float32)

    def _find_centres(self, index: Index) -> None:
        """Compute the mean vector of the texts of each script."""
        import numpy as np

        rows = self._rows[: len(self._pieces)]
        usual = {
            script: np.frombuffer(data, dtype="<f2").astype(np.float32) for script, data in index.centres()
        }
        scripts = list(dict.fromkeys([LATIN, *usual, *self._scripts.tolist()]))
        nowhere = np.zeros(rows.shape[1], dtype=np.float32)
        before = np.array([usual.get(script, usual.get(LATIN, nowhere)) for script in scripts])
        belongs = np.array([self._scripts == script for script in scripts], dtype=np.float32)
        sums, counts = belongs @ rows, belongs.sum(axis=1, keepdims=True)
        centres = (sums + _TEXTS_FOR_SURE * before) / (counts + _TEXTS_FOR_SURE)
        self._centres = dict(zip(scripts, centres, strict=True))
        self._shifts = belongs.argmax(axis=0)
        toward = (rows @ centres.T)[np.arange(len(rows)), self._shifts]
        lengths = 1 - 2 * toward + (centres * centres).sum(axis=1)[self._shifts]
        self._scales = (1 / np.sqrt(np.maximum(lengths, 1e-6))).astype(np.float32)


def _unit(rows: Any) -> Any:
    import numpy as np

    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
