"""The check of session files for ``claw doctor``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from claw import DiagnosticContext, Finding, t

from claw_sessions.session_file import parse_session


class DamagedSessions:
    """The diagnostic that finds session files with lines that cannot be read."""

    name = "sessions"

    def check(self, context: DiagnosticContext) -> Sequence[Finding]:
        """Report each damaged file, with its bad lines."""
        return [*_damages(context.setup.config.home)]


def _damages(home: Path) -> Iterator[Finding]:
    for path in sorted(home.glob("agents/*/sessions/*.jsonl")):
        try:
            reading = parse_session(path.read_bytes())
        except OSError as refused:
            yield Finding(str(path), "session", t("cannot be read: {why}", why=refused.strerror))
            continue
        fix = t("the next message repairs it and keeps a copy of the damaged file beside it")
        if reading.reason:
            yield Finding(str(path), "session", t("is damaged: {why}", why=reading.reason), fix)
        elif reading.bad_lines:
            lines = [*reading.bad_lines]
            yield Finding(str(path), "session", t("is damaged: line {lines}", lines=lines), fix)
