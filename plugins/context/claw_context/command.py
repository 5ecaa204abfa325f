"""``claw sessions compact``: replace the older part of a conversation by a summary now."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from claw import UsageError, nearest, t
from claw.runtime import (
    App,
    AsJson,
    Route,
    TurnOptions,
    document,
    load_setup,
    open_turn,
    resolve_turn,
    terminal_message,
)

if TYPE_CHECKING:
    from claw_context.compaction import CompactionResult


def compact(
    key: Annotated[str, typer.Argument(help="A session key, or its end (main).")],
    focus: Annotated[str, typer.Option(help="Topic that the summary must keep.")] = "",
    as_json: AsJson = False,
) -> None:
    """Have the older part of a conversation summarised; the newest part, and the lines on disk, stay as they are."""
    name, done = asyncio.run(_compact_now(key, focus))
    if as_json:
        before, after = done.tokens if done else (None, None)
        details = done.record.details if done else {}
        document(
            "session-compact",
            {
                "key": name,
                "compacted": done is not None,
                "tokensBefore": before,
                "tokensAfter": after,
                **details,
            },
        )
    else:
        typer.echo(done.description if done else t("there is nothing to compact in this conversation yet"))


async def _compact_now(name: str, focus: str) -> "tuple[str, CompactionResult | None]":
    from claw_context.compaction import compact_session

    async with App(load_setup()) as app:
        agents = dict(app.database.read("SELECT key, agent FROM sessions"))
        key = find_key(agents, name)
        route = Route(agents[key], key, owner=True, chat_type="direct")
        context = await resolve_turn(terminal_message(""), route, app.runtime, TurnOptions())
        async with open_turn(context) as turn:
            return key, await compact_session(turn, app.config.settings.models.aliases, focus)


def find_key(keys: Iterable[str], name: str) -> str:
    """Return the session key with this name, or with this end.

    :raises UsageError: none or several match; the nearest key is named.
    """
    known = list(keys)
    fitting = [key for key in known if key == name] or [
        key for key in known if key.endswith(f":{name.lower()}")
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        some = [*fitting[:5]]
        raise UsageError(
            "{name} matches several conversations: {keys}", fix="Give the full name", name=name, keys=some
        )
    if not known:
        raise UsageError("there is no conversation {name}, and no other one yet", name=name)
    raise UsageError(
        "there is no conversation {name}",
        fix="did you mean {near}? claw sessions list shows them all",
        name=name,
        near=nearest(name, known) or known[0],
    )
