"""The fields of a table's rows, and a row that records which of them an adapter reads."""

from collections.abc import Iterable, Iterator
from typing import Any

ABOUT_THE_ROW = {"id", "set", "class", "why", "note", "rule"}
"""Fields for the reader of a table; they are neither input nor outcome."""
NESTED = {"input", "expect", "extra"}
"""Fields whose own keys are fields of the table too; other values are data, given on whole."""


def fields_of(row: dict[str, Any], above: str = "") -> Iterator[str]:
    """Yield the fields of a row: ``input``, ``input.text`` …"""
    for key, value in row.items():
        if not above and key in ABOUT_THE_ROW:
            continue
        yield above + key
        if key in NESTED and isinstance(value, dict):
            yield from fields_of(value, f"{above}{key}.")


class RecordedRow(dict[str, Any]):
    """A row (or a part of one) that notes each field that is read.

    :ivar read: the fields read so far, shared by all parts of the row.
    """

    def __init__(self, row: dict[str, Any], read: set[str], above: str = "") -> None:
        super().__init__(
            (key, RecordedRow(value, read, f"{above}{key}."))
            if key in NESTED and isinstance(value, dict)
            else (key, value)
            for key, value in row.items()
        )
        self.read, self._above = read, above

    def _note(self, keys: Iterable[str]) -> None:
        self.read.update(self._above + key for key in keys)

    def __getitem__(self, key: str) -> Any:
        self._note([key])
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, and note that its field was read."""
        self._note([key])
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self._note([str(key)])
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._note(super().keys())
        return super().__iter__()

    def __eq__(self, other: object) -> bool:
        self._note(super().keys())
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def items(self) -> Any:
        """Return the items, and note that all fields were read."""
        self._note(super().keys())
        return super().items()

    def values(self) -> Any:
        """Return the values, and note that all fields were read."""
        self._note(super().keys())
        return super().values()

    def pop(self, key: str, *default: Any) -> Any:
        """Take a value out, and note that its field was read."""
        self._note([key])
        return super().pop(key, *default)
