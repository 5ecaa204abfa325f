"""``claw usage``: tokens and cost of model calls, by day, agent, model, session, plugin, job or purpose."""

import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from claw import CallAccount, ClawError, UsageError, t
from claw.runtime import AsJson, document, home_of, on_terminal, table
from claw_config_sdk import open_state, parse_time

if TYPE_CHECKING:
    from claw_budgets.caps import Amount, SpendingCap
    from claw_budgets.ledger import UsageSum

_BAR_CELLS = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"


def usage(
    by: Annotated[
        str, typer.Option(help="day, agent, model, session, plugin, job or purpose (answer, summary …).")
    ] = "day",
    since: Annotated[
        str, typer.Option(help="How far back: 12h, 7d, 4w, or a time such as 2026-03-01.")
    ] = "30d",
    as_json: AsJson = False,
) -> None:
    """Show the tokens and cost of model calls. The calls of a running turn are counted when it has ended."""
    from claw_budgets.ledger import GROUPINGS, UsageLedger

    if by not in GROUPINGS:
        raise UsageError("there is no grouping {name}", fix="groups: {names}", name=by, names=[*GROUPINGS])
    start = parse_time(since, time.time())
    rows: list[UsageSum] = []
    total: list[UsageSum] = []
    caps: list[tuple[SpendingCap, Amount]] = []
    with open_state(home_of(os.environ)) as database:
        if database:
            ledger = UsageLedger(database)
            rows, total, caps = ledger.sums(by, start), ledger.sums(since=start), _daily_caps(ledger)
    if as_json:
        document("usage", {
            "by": by, "since": datetime.fromtimestamp(start).astimezone().isoformat(timespec="seconds"),
            "rows": [{"name": one.name, **_sum_data(one)} for one in rows],
            "total": _sum_data(total[0]) if total else {}, "budgets": [_cap_data(*cap) for cap in caps],
        })  # fmt: skip
        return
    if not total:
        typer.echo(t("no model call is recorded since {time}", time=_day(start)))
    else:
        _show(by, rows, total[0], start)
    for cap, spent in caps:
        typer.echo(_cap_line(cap, spent))


def _show(by: str, rows: "Sequence[UsageSum]", total: "UsageSum", start: float) -> None:
    from claw_budgets.middleware import cost_of

    columns, lines = usage_table(by, rows, chart=on_terminal() and len(rows) > 1)
    table(columns, lines)
    sys.stdout.flush()
    text = t(
        "since {time}: {calls:call|calls}, {tokens:token|tokens}, {cost}",
        time=_day(start), calls=f"{total.calls:,}", tokens=f"{total.usage.total or 0:,}", cost=cost_of([total]),
    )  # fmt: skip
    if total.guessed:
        text += t(
            "; {count} of them estimated: the call was stopped, or the service did not report usage",
            count=total.guessed,
        )
    typer.echo(text)


def usage_table(by: str, rows: "Sequence[UsageSum]", chart: bool) -> tuple[list[str], list[list[str]]]:
    """Return the heads of the columns, and a line for each sum: days in order, all else the dearest first.

    :param chart: add a bar to each line, of its cost, or of its tokens when nothing has a price.
    """
    from claw_budgets.middleware import cost_of

    heads = {
        "day": t("day"), "agent": t("agent"), "model": t("model"), "session": t("session"),
        "plugin": t("plugin"), "job": t("job"), "purpose": t("purpose"),
    }  # fmt: skip
    if by != "day":
        rows = sorted(rows, key=lambda one: (-one.nanos, -(one.usage.total or 0), one.name))
    priced = any(one.nanos for one in rows)
    sizes = [one.nanos if priced else one.usage.total or 0 for one in rows]
    columns = [heads[by], t("calls"), t("read"), t("from cache"), t("written"), t("cost")]
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
    """Draw ``size`` relative to ``largest``, in eighths of a cell; a size above zero always shows."""
    eighths = round(8 * _BAR_CELLS * size / largest) if largest else 0
    eighths = max(eighths, 1) if size else 0
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _daily_caps(ledger: Any) -> "list[tuple[SpendingCap, Amount]]":
    """Return the daily caps, with what is spent under them; none when the file cannot be read."""
    from claw.runtime import load_setup

    from claw_budgets.middleware import caps_of
    from claw_budgets.settings import Budgets

    try:
        caps = caps_of(load_setup().config.section("budgets", Budgets).root)
    except ClawError as why:
        typer.echo(str(why), err=True)
        return []
    return [(cap, ledger.spent(cap, CallAccount())[0]) for cap in caps if cap.per == "day"]


def _cap_data(cap: "SpendingCap", spent: "Amount") -> dict[str, Any]:
    return {
        "name": cap.name, "per": cap.per, "usd": _usd(cap.nanos), "tokens": cap.tokens, "usedUsd": _usd(spent.nanos),
        "usedTokens": spent.tokens,
    }  # fmt: skip


def _cap_line(cap: "SpendingCap", spent: "Amount") -> str:
    from claw_budgets.middleware import describe_use

    return t("budget {name} today: {used}", name=cap.name, used=describe_use(cap, spent))


def _sum_data(one: "UsageSum") -> dict[str, Any]:
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
