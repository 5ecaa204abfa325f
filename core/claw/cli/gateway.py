"""``claw gateway``: run it, start and stop it in the background, say how it is doing, make it a service."""

import os
from typing import Annotated, Any

import typer

from claw import __version__
from claw.cli.options import AsJson
from claw.cli.show import document, table
from claw.clock import SYSTEM
from claw.errors import ClawError, ConfigError
from claw.survey import home_of
from claw.words import say

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The process that serves your channels.")
Safe = Annotated[
    bool | None,
    typer.Option(
        "--safe/--no-safe",
        help="Only claw's own plugins, or all; default: its own alone after three deaths in ten minutes.",
    ),
]


@app.command()
def run(
    safe: Safe = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing here once it is ready.")] = False,
) -> None:
    """Serve the channels of this home until Ctrl-C or SIGTERM; a second one ends it at once. SIGHUP reads the config."""
    began = SYSTEM.monotonic()
    from claw.cli.ending import tell
    from claw.gateway.process import run_gateway
    from claw.gateway.reload import way_back

    try:
        code = run_gateway(safe=safe, quiet=quiet, began=began)
    except ConfigError as wrong:
        code = tell(wrong)
        if back := way_back(home_of(os.environ)):
            typer.echo(f"claw: {back}", err=True)
    raise typer.Exit(code=code)


@app.command()
def start(safe: Safe = None) -> None:
    """Start it in the background, and wait until it is ready."""
    raise typer.Exit(code=_start(safe))


@app.command()
def stop(
    now: Annotated[
        bool, typer.Option("--now", help="Kill it; the next start takes up what was under way.")
    ] = False,
) -> None:
    """Stop it; what is under way is finished or parked."""
    _stop(now)


@app.command()
def restart(safe: Safe = None) -> None:
    """Stop it, and start it in the background; what was under way goes on. A wrong config file stops nothing."""
    _would_start(safe)
    _stop(now=False)
    raise typer.Exit(code=_start(safe))


@app.command()
def status(as_json: AsJson = False) -> None:
    """Say how it is doing; exit 1 when none runs, or when it hangs."""
    from claw.gateway.status import look

    home = home_of(os.environ)
    seen = look(home)
    if as_json:
        document("gateway-status", {"home": str(home), **facts_of(seen)})
    else:
        for line in lines_of(seen):
            typer.echo(line)
        if channels := facts_of(seen)["channels"]:
            from claw.cli.channels import rows_of

            table(*rows_of(channels, seen.now))
    raise typer.Exit(code=0 if seen.pid and not is_stuck(seen) else 1)


@app.command()
def install(
    only_print: Annotated[bool, typer.Option("--print", help="Print the file, write nothing.")] = False,
) -> None:
    """Make it a service of this system: a systemd user unit, or a launchd agent on macOS."""
    from claw.gateway.service import Service, shown

    service = Service(home_of(os.environ), os.environ)
    if only_print:
        typer.echo(service.text, nl=False)
        return
    new = service.install()
    typer.echo(
        say("written: {path}", path=service.path)
        if new
        else say("is as it should be: {path}", path=service.path)
    )
    typer.echo(say("to start it now and from now on:"))
    typer.echo(shown(service.commands))


def _would_start(safe: bool | None) -> None:
    """Hold the file against what a start would say, while there is a gateway that could go on.

    :raises ClawError: it would be refused.
    """
    from claw.app import look_round
    from claw.gateway.reload import guarded
    from claw.gateway.status import look
    from claw.standing import refuse_missing

    if look(home_of(os.environ)).pid is None:
        return
    try:
        house = look_round()
        refuse_missing((guarded(house) if safe else house).standings)
    except ClawError:
        typer.echo(say("nothing was stopped: a gateway would not start with this"), err=True)
        raise


def _start(safe: bool | None) -> int:
    from claw.gateway.control import start as started

    words = () if safe is None else ("--safe" if safe else "--no-safe",)
    done = started(home_of(os.environ), os.environ, words)
    if done.pid is None:
        typer.echo(done.said, err=True)
    elif done.before:
        typer.echo(say("a gateway runs already: process {pid}", pid=done.pid))
    else:
        typer.echo(say("the gateway is ready: process {pid}", pid=done.pid))
        for line in _next_steps():
            typer.echo(line, err=True)
    return done.code


def _next_steps() -> list[str]:
    """What a person may have to do once a gateway is ready: for channels that cannot be served, for who may write."""
    from claw.app import look_round
    from claw.gateway.process import no_channel
    from claw.gateway.status import look
    from claw.kit import channel_key

    house, told = look_round(), facts_of(look(home_of(os.environ)))["channels"]
    failed = [one for one in told if one["state"] == "failed"]
    lines = [f"{channel_key(one['channel'], one['account'])}: {one['detail']}" for one in failed]
    served = dict.fromkeys(one["channel"] for one in told if one["state"] != "failed")
    sections = {name: house.config.settings.channels.get(name) for name in served}
    shy = [
        name for name, one in sections.items() if one and one.dm_policy == "pairing" and not one.allow_from
    ]
    if shy:
        hint = say("who writes there gets a code; claw pairing approve CODE lets them in")
        lines.append(f"{', '.join(shy)}: {hint}")
    return lines or ([] if told else [no_channel(house)])


def _stop(now: bool) -> None:
    from claw.gateway.control import stop as stopped

    pid = stopped(home_of(os.environ), os.environ, now=now)
    if pid is None:
        typer.echo(say("no gateway runs in {home}", home=home_of(os.environ)))
    elif now:
        typer.echo(say("killed: process {pid}", pid=pid))
    else:
        typer.echo(say("stopped: process {pid}", pid=pid))


def is_stuck(seen: Any) -> bool:
    """Whether the running gateway has not been heard of for too long.

    :param seen: ``claw.gateway.status.Seen``.
    """
    from claw.gateway.status import STALE_SECONDS

    return bool(seen.quiet_seconds > STALE_SECONDS)


def facts_of(seen: Any) -> dict[str, Any]:
    """How the gateway is doing, as plain data; of one that does not run, how the last one ended.

    :param seen: ``claw.gateway.status.Seen``.
    """
    told, last = seen.told, seen.run
    body = told.body if told else {}
    facts: dict[str, Any] = {
        "running": seen.pid is not None,
        "pid": seen.pid,
        "state": told.state if told else None,
        "host": told.host if told else None,
        "version": body.get("version"),
        "startedAt": told.started_at if told else None,
        "quietSeconds": round(seen.quiet_seconds, 1) if told else None,
        "stuck": is_stuck(seen),
        "safe": bool(body.get("safe")),
        "config": body.get("config"),
        "turns": {name: body.get(name, 0) for name in ("running", "waiting", "owed")},
        "channels": body.get("channels", []),
        "last": None,
    }
    if seen.pid is None and last is not None:
        facts["last"] = {
            "pid": last.pid, "state": last.state, "clean": not last.unclean, "seenAt": last.seen_at,
            "error": last.body.get("error", ""),
        }  # fmt: skip
    return facts


def summary(seen: Any) -> str:
    """The first line of all that is said of a gateway."""
    from claw.gateway.status import time_of

    told = seen.told
    if seen.pid is None:
        return say("not running")
    if told is None:
        return say("process {pid} holds the home, and has not said anything yet", pid=seen.pid)
    if is_stuck(seen):
        return say(
            "process {pid} hangs, or cannot write to its home: its last sign of life is of {time}",
            pid=seen.pid,
            time=time_of(told.seen_at),
        )
    return say(
        "{state}, process {pid}, since {time}",
        state=say(told.state),
        pid=seen.pid,
        time=time_of(told.started_at),
    )


def lines_of(seen: Any) -> list[str]:
    """What ``claw gateway status`` says before its table."""
    from claw.gateway.status import time_of

    facts, lines = facts_of(seen), [f"{say('gateway')}: {summary(seen)}"]
    if (last := facts["last"]) and last["error"]:
        lines.append(
            say("the last one ended at {time}: {error}", time=time_of(last["seenAt"]), error=last["error"])
        )
    elif last and not last["clean"]:
        lines.append(say("the last one (process {pid}) did not end in good order; it was last seen at {time}",
                         pid=last["pid"], time=time_of(last["seenAt"])))  # fmt: skip
    if seen.pid is None:
        lines.append(say("claw gateway start starts it"))
    if seen.elsewhere:
        lines.append(say("it runs on {host}", host=facts["host"]))
    if facts["version"] not in (None, __version__):
        told = "it is claw {version}, and claw {now} is installed; claw gateway restart takes that up"
        lines.append(say(told, version=facts["version"], now=__version__))
    if facts["safe"]:
        lines.append(
            say("safe mode: only claw's own plugins are used; claw gateway restart tries the others again")
        )
    if problem := (facts["config"] or {}).get("problem"):
        lines.append(problem)
    if seen.told:
        lines.append(
            say("turns: {running} running, {waiting} waiting, {owed:reply|replies} owed", **facts["turns"])
        )
    return lines
