"""``claw logs``: the lines of the gateway's log, and with ``-f`` each new one."""

import json
import os
import sys
import time
from contextlib import closing
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer
from claw import UsageError, nearest, t
from claw.runtime import document, home_of, on_terminal
from claw_config_sdk import parse_time

app = typer.Typer(add_completion=False)
_PAUSE_SECONDS = 0.2
_LEVELS = ("debug", "info", "warning", "error", "critical")


@app.command()
def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow new lines until Ctrl-C.")] = False,
    level: Annotated[str, typer.Option(help="Minimum level: debug, info, warning, error.")] = "debug",
    channel: Annotated[str, typer.Option(help="Only of this channel: NAME or NAME/ACCOUNT.")] = "",
    since: Annotated[
        str, typer.Option(help="How far back: 90s, 10m, 2h, 1d, or a time such as 2026-03-01T12:00.")
    ] = "",
    lines: Annotated[
        int | None,
        typer.Option("--lines", "-n", min=0, help="Lines at most; default 100, with --since all."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document; with -f one JSON object a line.")
    ] = False,
) -> None:
    """Show the log of the gateway, the newest line last."""
    from claw_gateway.process.log_reader import LogFilter, LogReader
    from claw_gateway.process.logs import FILE, level_number

    if level not in _LEVELS:
        near = nearest(level, _LEVELS, 0.5)
        fix = "did you mean {near}?" if near else ""
        known = [*_LEVELS]
        raise UsageError(
            "{word} is not one of: {known}", where="--level", fix=fix, word=level, known=known, near=near
        )
    path = home_of(os.environ) / "logs" / FILE
    wanted = LogFilter(level_number(level), channel, parse_time(since, time.time()) if since else 0.0)
    with closing(LogReader(path)) as reader:
        newest = reader.newest(wanted, lines if lines is not None else None if since else 100)
        if as_json and not follow:
            document("logs", {"file": str(path), "lines": newest})
            return
        if not newest and not follow:
            has_lines = path.exists() and path.stat().st_size
            template = "no line of {path} matches" if has_lines else "{path} is empty"
            typer.echo(t(template, path=path))
        for fields in newest:
            _show(fields, as_json)
        while follow:
            for fields in reader.new_lines(wanted):
                _show(fields, as_json)
            sys.stdout.flush()
            time.sleep(_PAUSE_SECONDS)


def _show(fields: dict[str, Any], as_json: bool) -> None:
    from claw_gateway.process.logs import format_line

    today = datetime.now().date()
    formatted = partial(format_line, colour=on_terminal(), today=today)
    sys.stdout.write((json.dumps(fields, ensure_ascii=False) if as_json else formatted(fields)) + "\n")
