"""``session.keep`` in the config file."""

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
