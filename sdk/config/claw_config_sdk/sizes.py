"""Sizes in the config file: a number of bytes, or a text with a unit."""

import re
from typing import Annotated, Any

from claw.runtime import validation_error
from pydantic import BeforeValidator, WithJsonSchema

_SIZES = {"": 1, "b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3}


def _size(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?b?)", str(value).strip().lower())
    unit = match[2] + ("b" if match[2] and not match[2].endswith("b") else "") if match else ""
    if isinstance(value, str) and match:
        return int(float(match[1]) * _SIZES[unit])
    raise validation_error("is not a size", "Write a number of bytes, or one with its unit: 500kb, 2mb")


Size = Annotated[
    int, BeforeValidator(_size), WithJsonSchema({"type": ["string", "integer"], "examples": ["2mb", "500kb"]})
]
"""Bytes; written ``2mb`` or as a number."""
