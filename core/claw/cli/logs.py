"""``claw logs``: what the gateway wrote down, and with ``-f`` what it writes."""

import json
import os
import sys
import time
from contextlib import closing
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any

import typer

from claw.cli.show import document, on_terminal
from claw.clock import seconds_in
from claw.errors import UsageError
from claw.survey import home_of
from claw.words import say

app = typer.Typer(add_completion=False)
_PAUSE_SECONDS = 0.2
_LEVELS = ("debug", "info", "warning", "error", "critical")


@app.command()
def logs(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    level: Annotated[str, typer.Option(help="This one and graver: debug, info, warning, error.")] = "debug",
    channel: Annotated[str, typer.Option(help="Only of this channel: NAME or NAME/ACCOUNT.")] = "",
    since: Annotated[
        str, typer.Option(help="How far back: 90s, 10m, 2h, 1d, or a time such as 2026-03-01T12:00.")
    ] = "",
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, help="How many; default 100, with --since all.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document; with -f one JSON object a line.")
    ] = False,
) -> None:
    """Show the log of the gateway, the newest line last."""
    from claw.gateway.logs import FILE, level_of
    from claw.gateway.reading import Filter, Reader

    if level not in _LEVELS:
        near = "".join(get_close_matches(level.lower(), _LEVELS, 1, 0.5))
        fix = "did you mean {near}?" if near else ""
        known = ", ".join(_LEVELS)
        raise UsageError(
            "{word} is none of {known}", where="--level", fix=fix, word=level, known=known, near=near
        )
    path = home_of(os.environ) / "logs" / FILE
    wanted = Filter(level_of(level), channel, moment(since, time.time()) if since else 0.0)
    with closing(Reader(path)) as reader:
        newest = reader.newest(wanted, lines if lines is not None else None if since else 100)
        if as_json and not follow:
            document("logs", {"file": str(path), "lines": newest})
            return
        if not newest and not follow:
            there = path.exists() and path.stat().st_size
            told = "no line of {path} fits" if there else "nothing is written in {path}"
            typer.echo(say(told, path=path), err=True)
        for fields in newest:
            _show(fields, as_json)
        while follow:
            for fields in reader.more(wanted):
                _show(fields, as_json)
            sys.stdout.flush()
            time.sleep(_PAUSE_SECONDS)


def moment(text: str, now: float) -> float:
    """``10m`` ago, or a time in ISO form, as seconds since 1970.

    :raises UsageError: it is neither.
    """
    if (ago := seconds_in(text)) is not None:
        return now - ago
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except ValueError:
        problem, fix = "{text} is neither a time nor how long ago", "Write 10m, 2h, 1d, or 2026-03-01T12:00"
        raise UsageError(problem, where="--since", fix=fix, text=text) from None


def _show(fields: dict[str, Any], as_json: bool) -> None:
    from claw.gateway.logs import for_people

    today = datetime.now().date()
    for_eyes = partial(for_people, colour=on_terminal(), today=today)
    sys.stdout.write((json.dumps(fields, ensure_ascii=False) if as_json else for_eyes(fields)) + "\n")
