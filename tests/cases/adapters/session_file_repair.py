"""session_file_repair: the text of a session file → what is left of it once it was opened."""

import json
from pathlib import Path
from typing import Any

from claw.record import read
from claw.session import Sessions
from claw.store import Database

FUNCTIONS = ("claw.session:Sessions.open", "claw.record:read")


async def check(case: dict[str, Any], tmp_path: Path) -> None:
    before = case["input"]["file_text"].encode()
    reading = read(before)
    sessions = Sessions(tmp_path, Database(tmp_path / "state.db"))
    sessions.point("agent:a:main", "a", "s1")
    path = sessions.path_of("a", "s1")
    path.parent.mkdir(parents=True)
    path.write_bytes(before)

    session = await sessions.open("agent:a:main", "a")

    after = path.read_bytes()
    repaired = bool(session.notices)
    sessions.close()
    sessions.database.close()
    found = {
        "reason": reading.reason or None,
        "dropped_lines": len(reading.bad_lines),
        "repaired": repaired,
        "file_changed": after != before,
        "ends_with_newline": after.endswith(b"\n"),
        "surviving_ids": [json.loads(line)["id"] for line in after.split(b"\n") if line.strip()],
    }
    answers = [case["expect"], *case.get("also_ok", [])]
    assert any(all(found[key] == value for key, value in answer.items()) for answer in answers), found
    if reading.reason:
        assert [record.id for record in session.entries] == []
        aside = list(path.parent.glob("*.bad.*"))
        assert [file.read_bytes() for file in aside] == ([before] if before.strip() else [])
