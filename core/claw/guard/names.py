"""Names: any text as a file name that stays in its folder."""

import hashlib
import re
from pathlib import Path

# Lower case only: two ids that differ in case must stay two files where the file system folds case.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
_UNSAFE = re.compile(r"[^a-z0-9_-]+")


def safe_name(text: str) -> str:
    """A file name for ``text``: always the same one, never another text's, without slash or dot-dot.

    A plain text (``[a-z0-9_-]``, up to 80 characters) is its own name; any other becomes a readable part, a dot and 32
    hex digits of its SHA-256. A plain name holds no dot, so the two kinds never meet.
    """
    if _PLAIN.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    readable = _UNSAFE.sub("-", text.lower())[:40].strip("-")
    return f"{readable or 'x'}.{digest}"


def session_file(folder: Path, session_id: str) -> Path:
    """Where the transcript of ``session_id`` lies: a file directly in ``folder``, whatever the id says."""
    return folder / f"{safe_name(session_id)}.jsonl"
