"""Judgement of Bot API requests and updates by aiogram's own models, in a process of another environment.

aiogram wants an older pydantic than claw's tests have, so its environment is made apart. Run as a program, it reads
records from a file, one JSON document a line: ``[METHOD, FIELDS]`` or ``["update", UPDATE]``.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

AIOGRAM = "aiogram==3.31.0"
_MOST_SHOWN = 50


def judge_files(python: Path, files: Iterable[Path]) -> tuple[int, list[str]]:
    """Return the number of records in files, and what aiogram finds wrong in them.

    :param python: of an environment with aiogram.
    """
    words = [str(python), "-I", __file__, *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found = json.loads(done.stdout)
    return found["records"], found["wrong"]


def write_records(file: Path, requests: Iterable[tuple[str, Any]]) -> None:
    """Write records to a file."""
    with file.open("a") as lines:
        lines.writelines(json.dumps(one) + "\n" for one in requests)


def _wrong(name: str, document: Any) -> list[str]:
    import aiogram.methods
    from aiogram.types import Update
    from pydantic import BaseModel, ValidationError

    model: Any = Update if name == "update" else getattr(aiogram.methods, name[0].upper() + name[1:], None)
    if model is None:
        return [f"{name}: aiogram has no such method"]
    try:
        parsed = model.model_validate(document)
    except ValidationError as why:
        return [f"{name}: {error['loc']} {error['msg']}" for error in why.errors()]

    def unknown(of: Any, at: str) -> list[str]:
        if isinstance(of, list | tuple):
            return [one for part in of for one in unknown(part, at)]
        if not isinstance(of, BaseModel):
            return []
        found = [f"{name}: {at}{extra} is unknown" for extra in of.model_extra or {}]
        values = ((field, getattr(of, field, None)) for field in type(of).model_fields)
        return found + [one for field, value in values for one in unknown(value, f"{at}{field}.")]

    return unknown(parsed, "")


def main() -> None:
    """Judge the records of all files; print their number and what is wrong."""
    count, wrong = 0, dict[str, None]()
    for file in sys.argv[1:]:
        for line in Path(file).read_text().splitlines():
            count += 1
            name, document = json.loads(line)
            wrong |= dict.fromkeys(_wrong(name, document))
    print(json.dumps({"records": count, "wrong": list(wrong)[:_MOST_SHOWN]}))


if __name__ == "__main__":
    main()
