"""``files`` with limits → the files as they go into the prompt."""

from pathlib import Path
from typing import Any

from claw import ContextFile
from claw_prompt.budget import fit_context_files

FUNCTIONS = ("claw_prompt.budget:fit_context_files",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    files = [ContextFile(file["path"], _text(file)) for file in given["files"]]

    kept = fit_context_files(files, given.get("max_chars", 20_000), given.get("total_max_chars", 150_000))

    texts = {file.path: file.text or "" for file in files}
    assert any(_fits(wanted["files"], kept, texts) for wanted in (case["expect"], *case.get("also_ok", ())))


def _text(file: dict[str, Any]) -> str | None:
    if file.get("missing"):
        return None
    return str(file["text"]) if "text" in file else str(file["fill"]) * int(file["chars"])


def _fits(wanted: list[dict[str, Any]], kept: tuple[ContextFile, ...], texts: dict[str, str]) -> bool:
    return len(wanted) == len(kept) and all(
        _same(want, have, texts[have.path]) for want, have in zip(wanted, kept, strict=True)
    )


def _same(want: dict[str, Any], have: ContextFile, text: str) -> bool:
    shown = have.text or ""
    return (
        want["path"] == have.path
        and want["missing"] == (have.state == "missing")
        and want["truncated"] == (have.state == "cut")
        and want.get("chars", len(shown)) == len(shown)
        and shown.startswith(text[: want.get("head_chars", 0)])
        and shown.endswith(text.rstrip()[len(text.rstrip()) - want.get("tail_chars", 0) :])
        and len(shown) <= want.get("chars_at_most", len(shown))
        and (have.state != "cut" or "chars_at_most" not in want or shown[0] == text[0])
    )
