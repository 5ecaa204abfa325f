"""Files of named regular expressions beside this module: one in a line, ``name: pattern``."""

import re
from functools import cache
from pathlib import Path


@cache
def patterns_of(file: str) -> dict[str, str]:
    """Return the patterns of a file by name, in their order. ``<<name>>`` stands for an earlier pattern."""
    patterns: dict[str, str] = {}
    for line in Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines():
        if line and line[0] != "#":
            name, _, pattern = line.partition(": ")
            patterns[name] = re.sub(r"<<(\w+)>>", lambda part: patterns[part[1]], pattern)
    return patterns
