"""The table of the channels that the running gateway serves."""

from collections.abc import Mapping, Sequence
from typing import Any

from claw import t
from claw.runtime import printable

STATE_COLOURS = {
    "up": "green",
    "starting": "yellow",
    "waiting": "yellow",
    "failed": "red",
    "quarantined": "red",
}


def channel_table(
    channels: Sequence[Mapping[str, Any]], now: float
) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """Return the table of running channels: heads, rows, colours."""
    heads = [
        t("channel"),
        t("account"),
        t("state"),
        t("last data"),
        t("reconnects"),
        t("message"),
    ]
    rows = [
        [
            one["channel"], one["account"], t(one["state"]), format_age(one["lastFrameAt"], now), str(one["reconnects"]),
            printable(one["detail"] or _last_error(one)),
        ]
        for one in channels
    ]  # fmt: skip
    return heads, rows, {t(word): colour for word, colour in STATE_COLOURS.items()}


def _last_error(one: Mapping[str, Any]) -> str:
    """Return the last error; mark it as past when the channel is up again."""
    error: str = one["lastError"]
    return t("earlier: {why}", why=error) if error and one["state"] == "up" else error


def format_age(moment: float | None, now: float) -> str:
    """Format how long ago something was, in the largest unit that fits."""
    if moment is None:
        return t("never")
    seconds = max(0, int(now - moment))
    if seconds < 120:
        return t("{count} s ago", count=seconds)
    if seconds < 7200:
        return t("{count} min ago", count=seconds // 60)
    return t("{count} h ago", count=seconds // 3600)
