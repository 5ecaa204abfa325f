"""``claw usage``: what model calls took and cost, by day, agent, model, session, plugin, job or purpose."""

import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from claw.cli.logs import moment
from claw.cli.options import AsJson
from claw.cli.show import document, on_terminal, table
from claw.errors import UsageError
from claw.survey import home_of, state_of
from claw.words import say

if TYPE_CHECKING:
    from claw.caps import Amount, Cap
    from claw.spending import Sum

app = typer.Typer(add_completion=False)
_BAR_CELLS = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"


@app.command()
def usage(
    by: Annotated[
        str, typer.Option(help="day, agent, model, session, plugin, job or purpose (answer, summary …).")
    ] = "day",
    since: Annotated[
        str, typer.Option(help="How far back: 12h, 7d, 4w, or a time such as 2026-03-01.")
    ] = "30d",
    as_json: AsJson = False,
) -> None:
    """What model calls took and cost. Calls of a turn that runs are counted when it has ended."""
    from claw.spending import BY, Book

    if by not in BY:
        raise UsageError("there is no group {name}", fix="groups: {names}", name=by, names=", ".join(BY))
    start = moment(since, time.time())
    rows: list[Sum] = []
    total: list[Sum] = []
    caps: list[tuple[Cap, Amount]] = []
    with state_of(home_of(os.environ)) as database:
        if database:
            book = Book(database)
            rows, total, caps = book.sums(by, start), book.sums(since=start), _caps(book)
    if as_json:
        document("usage", {
            "by": by, "since": datetime.fromtimestamp(start).astimezone().isoformat(timespec="seconds"),
            "rows": [{"name": one.name, **_plain(one)} for one in rows],
            "total": _plain(total[0]) if total else {}, "budgets": [_standing(*cap) for cap in caps],
        })  # fmt: skip
        return
    if not total:
        typer.echo(say("no model call is recorded since {time}", time=_day(start)), err=True)
    else:
        _show(by, rows, total[0], start)
    for cap, spent in caps:
        typer.echo(_told(cap, spent))


def _show(by: str, rows: "Sequence[Sum]", total: "Sum", start: float) -> None:
    from claw.meter import cost_of

    columns, lines = rows_of(by, rows, chart=on_terminal() and len(rows) > 1)
    table(columns, lines)
    sys.stdout.flush()
    told = say(
        "since {time}: {calls:call|calls}, {tokens:token|tokens}, {cost}",
        time=_day(start), calls=f"{total.calls:,}", tokens=f"{total.usage.total or 0:,}", cost=cost_of([total]),
    )  # fmt: skip
    if total.guessed:
        told += say("; {count} of them by estimate: the service did not say", count=total.guessed)
    typer.echo(told)


def rows_of(by: str, rows: "Sequence[Sum]", chart: bool) -> tuple[list[str], list[list[str]]]:
    """The heads of the columns, and a line for each sum: days in order, all else the dearest first.

    :param chart: with a bar behind each line, of its cost, or of its tokens when nothing has a price.
    """
    from claw.meter import cost_of

    heads = {
        "day": say("day"), "agent": say("agent"), "model": say("model"), "session": say("session"),
        "plugin": say("plugin"), "job": say("job"), "purpose": say("purpose"),
    }  # fmt: skip
    if by != "day":
        rows = sorted(rows, key=lambda one: (-one.nanos, -(one.usage.total or 0), one.name))
    priced = any(one.nanos for one in rows)
    sizes = [one.nanos if priced else one.usage.total or 0 for one in rows]
    columns = [heads[by], say("calls"), say("read"), say("from cache"), say("written"), say("cost")]
    lines = [
        [
            one.name or "-", f"{one.calls:,}", f"{(one.usage.input or 0) + (one.usage.cache_write or 0):,}",
            f"{one.usage.cache_read or 0:,}", f"{one.usage.output or 0:,}", cost_of([one]),
            *([bar(size, max(sizes))] if chart else []),
        ]
        for one, size in zip(rows, sizes, strict=True)
    ]  # fmt: skip
    return [*columns, *([""] if chart else [])], lines


def bar(size: int, largest: int) -> str:
    """``size`` beside ``largest``, in eighths of a cell; something is always to be seen of what is not nothing."""
    eighths = round(8 * _BAR_CELLS * size / largest) if largest else 0
    eighths = max(eighths, 1) if size else 0
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _caps(book: Any) -> "list[tuple[Cap, Amount]]":
    """The caps that count a day, with what is spent under them; none when the file cannot be read."""
    from claw.app import look_round
    from claw.caps import Bill
    from claw.errors import ClawError
    from claw.meter import caps_of

    try:
        caps = caps_of(look_round().config.settings)
    except ClawError as why:
        typer.echo(str(why), err=True)
        return []
    return [(cap, book.spent(cap, Bill())[0]) for cap in caps if cap.per == "day"]


def _standing(cap: "Cap", spent: "Amount") -> dict[str, Any]:
    return {
        "name": cap.name, "per": cap.per, "usd": _usd(cap.nanos), "tokens": cap.tokens, "usedUsd": _usd(spent.nanos),
        "usedTokens": spent.tokens,
    }  # fmt: skip


def _told(cap: "Cap", spent: "Amount") -> str:
    from claw.meter import dollars

    parts = []
    if cap.nanos is not None:
        percent = round(100 * (spent.nanos or 0) / cap.nanos)
        parts.append(
            say(
                "{used} of {most} ({percent} %)",
                used=dollars(spent.nanos),
                most=dollars(cap.nanos),
                percent=percent,
            )
        )
    if cap.tokens is not None:
        used, most, percent = f"{spent.tokens:,}", f"{cap.tokens:,}", round(100 * spent.tokens / cap.tokens)
        parts.append(say("{used} of {most} tokens ({percent} %)", used=used, most=most, percent=percent))
    return say("budget {name} today: {used}", name=cap.name, used=", ".join(parts))


def _plain(one: "Sum") -> dict[str, Any]:
    used = one.usage
    return {
        "calls": one.calls, "input": used.input, "output": used.output, "cacheRead": used.cache_read,
        "cacheWrite": used.cache_write, "total": used.total, "usd": _usd(one.nanos), "unpriced": one.unpriced,
        "estimated": one.guessed,
    }  # fmt: skip


def _usd(nanos: int | None) -> float | None:
    return None if nanos is None else nanos / 1_000_000_000


def _day(moment_: float) -> str:
    return datetime.fromtimestamp(moment_).astimezone().strftime("%Y-%m-%d %H:%M")
