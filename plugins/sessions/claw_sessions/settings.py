"""``session.keep`` in the config file."""

from collections.abc import Iterator
from typing import Any

from claw import Section
from claw.runtime import Duration, Size
from pydantic import Field


class Retention(Section):
    """Compression and removal of conversations that were reset or deleted. By default they are kept as they are."""

    compress_after: Duration = Field(0.0, ge=0, description="Age at which one is compressed; off: never.")
    remove_after: Duration = Field(0.0, ge=0, description="Age at which one is removed for good; off: never.")
    max_size: Size | None = Field(
        None, description="Of all of them together: beyond it the oldest are removed for good."
    )

    def odd_keys(self, agents: Any) -> Iterator[tuple[tuple[str, ...], str, str, dict[str, object]]]:
        """Yield a warning if conversations are removed before they would be compressed."""
        if 0 < self.remove_after <= self.compress_after:
            problem = "it has no effect: conversations are removed before"
            yield ("compressAfter",), problem, "Write a shorter time than removeAfter", {}
