"""``claw sessions compact``: the older part of a conversation becomes a summary now."""

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import typer

from claw.cli.options import AsJson
from claw.cli.show import document
from claw.conversations.kept import CURRENT, Kept, conversations, named
from claw.errors import UsageError
from claw.survey import home_of
from claw.words import say

if TYPE_CHECKING:
    from claw.abridging import Shortened


def compact(
    key: Annotated[str, typer.Argument(help="A session key, its end (main), or the name of a file.")],
    focus: Annotated[str, typer.Option(help="What the summary should keep above all.")] = "",
    as_json: AsJson = False,
) -> None:
    """Have the older part of a conversation summarised; the newest part, and the lines on disk, stay as they are."""
    kept = named(conversations(home_of(os.environ)), key)
    if kept.state != CURRENT or not kept.key:
        raise UsageError(
            "{name} was set aside: only a conversation that goes on is made shorter", name=kept.name
        )
    done = asyncio.run(_compacted(kept, focus))
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
        typer.echo(done.said if done else say("there is nothing to make shorter in this conversation yet"))


async def _compacted(kept: Kept, focus: str) -> "Shortened | None":
    from claw.abridging import compact as shorten
    from claw.app import App, from_terminal, look_round
    from claw.route import Route
    from claw.stage import Wish, set_stage

    async with App(look_round()) as app:
        route = Route(kept.agent, kept.key, owner=True, chat_type="direct")
        stage = await set_stage(from_terminal(""), route, app.rooms, Wish())
        return await shorten(stage, app.rooms, focus)
