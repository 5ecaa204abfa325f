"""``claw sessions compact``: replace the older part of a conversation by a summary now."""

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import typer
from claw import UsageError, t
from claw.runtime import AsJson, document, home_of
from claw_sessions.index import CURRENT, SessionFile, find_session, list_sessions

if TYPE_CHECKING:
    from claw_context.compaction import CompactionResult


def compact(
    key: Annotated[str, typer.Argument(help="A session key, its end (main), or the name of a file.")],
    focus: Annotated[str, typer.Option(help="What the summary should keep above all.")] = "",
    as_json: AsJson = False,
) -> None:
    """Have the older part of a conversation summarised; the newest part, and the lines on disk, stay as they are."""
    kept = find_session(list_sessions(home_of(os.environ)), key)
    if kept.state != CURRENT or not kept.key:
        raise UsageError("{name} is archived: only an active conversation can be compacted", name=kept.name)
    done = asyncio.run(_compact_now(kept, focus))
    if as_json:
        before, after = done.tokens if done else (None, None)
        details = done.record.details if done else {}
        document(
            "session-compact",
            {
                "key": kept.key,
                "compacted": done is not None,
                "tokensBefore": before,
                "tokensAfter": after,
                **details,
            },
        )
    else:
        typer.echo(done.description if done else t("there is nothing to compact in this conversation yet"))


async def _compact_now(kept: SessionFile, focus: str) -> "CompactionResult | None":
    from claw.runtime import App, Route, TurnOptions, load_setup, open_turn, resolve_turn, terminal_message

    from claw_context.compaction import compact_session

    async with App(load_setup()) as app:
        route = Route(kept.agent, kept.key, owner=True, chat_type="direct")
        inbound = terminal_message("")
        context = await resolve_turn(inbound, route, app.runtime, TurnOptions())
        async with open_turn(app.runtime, inbound, context) as turn:
            return await compact_session(turn, app.config.settings.models.aliases, focus)
