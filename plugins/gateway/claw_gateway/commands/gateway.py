"""``claw gateway``: run it, start and stop it in the background, show its status, install it as a service."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from claw import ClawError, ConfigError, __version__, t
from claw.runtime import SYSTEM_CLOCK, AsJson, document, home_of, home_problem, table, with_label

if TYPE_CHECKING:
    from claw_gateway.process.status import GatewayStatus

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Run and control the gateway process.")
SETTLE_SECONDS = 2.0
"""Longest wait of ``claw gateway start`` for its channels to be up or to fail."""
Safe = Annotated[
    bool | None,
    typer.Option(
        "--safe/--no-safe",
        help="Only claw's own plugins, or all; default: only its own after three crashes in ten minutes.",
    ),
]


@app.command()
def run(
    safe: Safe = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing once it is ready.")] = False,
) -> None:
    """Serve the channels of this home until Ctrl-C or SIGTERM; a second one ends it at once. SIGHUP reads the config."""
    began = SYSTEM_CLOCK.monotonic()
    from claw.runtime import report_error

    from claw_gateway.process.reload import last_good_hint
    from claw_gateway.process.run import run_gateway

    try:
        code = run_gateway(safe=safe, quiet=quiet, began=began)
    except ConfigError as wrong:
        code = report_error(wrong)
        if back := last_good_hint(home_of(os.environ)):
            typer.echo(f"claw: {back}", err=True)
    raise typer.Exit(code=code)


@app.command()
def start(safe: Safe = None, as_json: AsJson = False) -> None:
    """Start the gateway in the background, and wait until it is ready."""
    raise typer.Exit(code=_start(safe, as_json))


@app.command()
def stop(
    now: Annotated[
        bool, typer.Option("--now", help="Kill the process; the next start continues interrupted turns.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Stop the gateway. Running turns finish, or continue at the next start."""
    pid, text = _stop(now)
    if as_json:
        document("gateway-stopped", {"pid": pid, "killed": bool(pid and now)})
    else:
        typer.echo(text)


@app.command()
def restart(safe: Safe = None, as_json: AsJson = False) -> None:
    """Stop the gateway and start it in the background; running turns continue. An invalid config stops nothing."""
    _check_startable(safe)
    stopped, text = _stop(now=False)
    if not as_json:
        typer.echo(text)
    raise typer.Exit(code=_start(safe, as_json, stopped))


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show the state of the gateway. Exit code 1: no gateway runs, or it hangs."""
    from claw_gateway.process.status import read_status

    home = home_of(os.environ)
    seen = read_status(home)
    facts = gateway_data(seen)
    if as_json:
        document("gateway-status", {"home": str(home), **facts, "shortages": shortages(home, facts)})
    else:
        for line in [*status_lines(seen), *shortages(home, facts)]:
            typer.echo(line)
        if channels := facts["channels"]:
            from claw_gateway.commands.channel_table import channel_table

            table(*channel_table(channels, seen.now))
    raise typer.Exit(code=0 if seen.pid and not is_hung(seen) else 1)


@app.command()
def install(
    only_print: Annotated[bool, typer.Option("--print", help="Print the file, write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Install the gateway as a service of this system: a systemd user unit, or a launchd agent on macOS."""
    from claw_gateway.process.service import SystemService, indented_lines

    service = SystemService(home_of(os.environ), os.environ)
    if only_print and not as_json:
        typer.echo(service.text, nl=False)
        return
    new = not only_print and service.install()
    if as_json:
        body = {"file": str(service.path), "text": service.text, "written": new}
        document("gateway-service", body | {"commands": list(service.commands)})
        return
    typer.echo(t("written: {path}", path=service.path) if new else t("up to date: {path}", path=service.path))
    typer.echo(t("to start it now and at every boot:"))
    typer.echo(indented_lines(service.commands))


def _check_startable(safe: bool | None) -> None:
    """Check that a start would accept the file, while there is a running gateway that could go on.

    :raises ClawError: a start would be refused.
    """
    from claw.runtime import load_setup, require_plugins

    from claw_gateway.process.safe_mode import safe_mode
    from claw_gateway.process.status import read_status

    if read_status(home_of(os.environ)).pid is None:
        return
    try:
        setup = load_setup()
        require_plugins((safe_mode(setup) if safe else setup).plugin_states)
    except ClawError:
        typer.echo(
            t("nothing was stopped, because a gateway would not start with this configuration"), err=True
        )
        raise


def _start(safe: bool | None, as_json: bool, stopped: int | None = None) -> int:
    """Start a gateway and report it; return the exit code.

    :param stopped: the process that a restart has ended.
    """
    from claw_gateway.process.control import start_gateway

    words = () if safe is None else ("--safe" if safe else "--no-safe",)
    result = start_gateway(home_of(os.environ), os.environ, words)
    if as_json:
        body = {
            "pid": result.pid,
            "alreadyRunning": result.already_running,
            "stoppedPid": stopped,
            "output": result.output,
        }
        channels = _settled_channels() if result.pid else []
        document("gateway-started", body | {"notes": _next_steps(channels) if result.pid else []})
    elif result.pid is None:
        typer.echo(result.output, err=True)
    elif result.already_running:
        typer.echo(t("a gateway is already running: process {pid}", pid=result.pid))
    else:
        channels = _settled_channels()
        ready = "the gateway is ready: process {pid}"
        if _serves_nobody(channels):
            ready = "the gateway runs, and none of its channels works: process {pid}"
        typer.echo(t(ready, pid=result.pid))
        for line in _next_steps(channels):
            typer.echo(line, err=True)
    if result.pid and not result.already_running and _serves_nobody(channels):
        return 1
    return result.exit_code


def _serves_nobody(channels: Sequence[Mapping[str, Any]]) -> bool:
    """Return true if there are channels and all of them failed."""
    return bool(channels) and all(one["state"] == "failed" for one in channels)


def _next_steps(channels: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what a person may have to do once a gateway is ready: wrong settings, channels that cannot be served,
    admission of people.

    :param channels: of :func:`gateway_data`. The reason of one that failed is not repeated as a finding about the file.
    """
    from claw.runtime import channel_key, load_setup
    from claw_config_sdk import names_one_of

    from claw_gateway.process.run import no_channel_hint

    setup = load_setup()
    failed = [
        t("channel {name} failed: {why}", name=channel_key(one["channel"], one["account"]), why=one["detail"])
        for one in channels
        if one["state"] == "failed"
    ]
    judged = _judged_config()
    lines = [with_label(kind, one) for kind, one in judged if not names_one_of("\n".join(failed), [one])]
    lines += failed
    served = dict.fromkeys(one["channel"] for one in channels if one["state"] != "failed")
    faults = (one for one in setup.plugin_states if one.stage)
    # A plugin's settings were named as a finding about the file, or as the reason of its channel.
    said = [one for _, one in judged]
    lines += [
        one.fault_line()
        for one in faults
        if not names_one_of(one.why, said) and not any(one.why in line for line in failed)
    ]
    sections = {name: setup.config.settings.channels.get(name) for name in served}
    pairing_only = [
        name for name, one in sections.items() if one and one.dm_policy == "pairing" and not one.allow_from
    ]
    if pairing_only:
        hint = t("people who write there receive a code; claw pairing approve CODE admits them")
        lines.append(with_label(", ".join(pairing_only), hint))
    return lines if channels else [*lines, no_channel_hint(setup)]


def _settled_channels() -> list[dict[str, Any]]:
    """Return the channels of the gateway that has just started, once each is up or failed, or after a short wait."""
    from claw_gateway.process.status import read_status

    until = SYSTEM_CLOCK.monotonic() + SETTLE_SECONDS
    while True:
        channels: list[dict[str, Any]] = gateway_data(read_status(home_of(os.environ)))["channels"]
        if SYSTEM_CLOCK.monotonic() > until or not any(one["state"] == "starting" for one in channels):
            return channels
        time.sleep(0.05)


def config_lines() -> list[str]:
    """Return the errors and warnings about the config file, a line each, as ``claw config validate`` prints them."""
    return [with_label(kind, one) for kind, one in _judged_config()]


def _judged_config() -> list[tuple[str, ConfigError]]:
    """Return the errors and warnings about the config file, each with the word for its kind."""
    from claw_config_sdk import config_findings, labelled

    return labelled(*config_findings(home_of(os.environ), os.environ))


def _stop(now: bool) -> tuple[int | None, str]:
    """Stop the gateway; return its process id, if one ran, and what was done."""
    from claw_gateway.process.control import stop_gateway

    pid = stop_gateway(home_of(os.environ), os.environ, now=now)
    if pid is None:
        return None, t("no gateway runs in {home}", home=home_of(os.environ))
    return pid, t("killed: process {pid}", pid=pid) if now else t("stopped: process {pid}", pid=pid)


def is_hung(seen: "GatewayStatus") -> bool:
    """Return true if the running gateway has not written its status for too long."""
    from claw_gateway.process.status import STALE_SECONDS

    return bool(seen.quiet_seconds > STALE_SECONDS)


def is_unserved(channel: Mapping[str, Any], now: float) -> bool:
    """Return true if a channel of :func:`gateway_data` receives nothing: it failed, or it waits and did not only just
    lose its connection."""
    from claw_gateway.process.status import UNSERVED_SECONDS

    waits = channel["state"] == "waiting" and now - (channel["lastFrameAt"] or 0) > UNSERVED_SECONDS
    return bool(waits or channel["state"] == "failed")


def gateway_data(seen: "GatewayStatus") -> dict[str, Any]:
    """Return the status of the gateway as plain data; when none runs, also how the last one ended."""
    run, last = seen.live_run, seen.last_run
    body = run.body if run else {}
    facts: dict[str, Any] = {
        "running": seen.pid is not None,
        "pid": seen.pid,
        "state": run.state if run else None,
        "host": run.host if run else None,
        "version": body.get("version"),
        "startedAt": run.started_at if run else None,
        "quietSeconds": round(seen.quiet_seconds, 1) if run else None,
        "stuck": is_hung(seen),
        "safe": bool(body.get("safe")),
        "config": body.get("config"),
        "files": body.get("files"),
        "turns": {name: body.get(name, 0) for name in ("running", "waiting", "owed")},
        "channels": body.get("channels", []),
        "last": None,
    }
    if seen.pid is None and last is not None:
        facts["last"] = {
            "pid": last.pid, "state": last.state, "clean": not last.ended_badly, "seenAt": last.updated_at,
            "error": last.body.get("error", ""),
        }  # fmt: skip
    return facts


def status_line(seen: "GatewayStatus") -> str:
    """Return the first line of the status."""
    from claw_gateway.process.status import local_time_of

    run = seen.live_run
    if seen.pid is None:
        return t("not running")
    if run is None:
        return t("process {pid} holds this home and has not reported its state yet", pid=seen.pid)
    if is_hung(seen):
        return t(
            "process {pid} hangs or cannot write to its home; it was last active at {time}",
            pid=seen.pid,
            time=local_time_of(run.updated_at),
        )
    return t(
        "{state}, process {pid}, since {time}",
        state=t(run.state),
        pid=seen.pid,
        time=local_time_of(run.started_at),
    )


def status_lines(seen: "GatewayStatus") -> list[str]:
    """Return the lines that ``claw gateway status`` prints before its table."""
    facts, lines = gateway_data(seen), [with_label(t("gateway"), status_line(seen))]
    if ended := how_it_ended(facts):
        lines.append(ended)
    if seen.pid is None:
        lines.append(t("claw gateway start starts it"))
    if seen.on_other_host:
        lines.append(t("it runs on {host}", host=facts["host"]))
    if facts["version"] not in (None, __version__):
        template = "it runs claw {version}, but claw {now} is installed; claw gateway restart switches to it"
        lines.append(t(template, version=facts["version"], now=__version__))
    if facts["safe"]:
        lines.append(
            t("safe mode: only claw's own plugins are used; claw gateway restart tries the others again")
        )
    if problem := (facts["config"] or {}).get("problem"):
        lines.append(problem)
    if seen.live_run:
        lines.append(
            t("turns: {running} running, {waiting} waiting, {owed:reply|replies} to send", **facts["turns"])
        )
    return lines


def shortages(home: Path, facts: Mapping[str, Any]) -> list[str]:
    """Return what the gateway lacks on this machine, as ``claw doctor`` says it: space on the disk, a home that can be
    written, descriptors.

    :param facts: of :func:`gateway_data`.
    """
    from claw_gateway.process.descriptors import file_shortage

    problem = home_problem(home) if home.is_dir() else None
    few = file_shortage(facts["files"] or {})
    return [
        *([str(problem)] if problem else []),
        *([with_label(few.about, f"{few.problem}. {few.fix}")] if few else []),
    ]


def how_it_ended(facts: Mapping[str, Any]) -> str:
    """Return how the last gateway ended badly, from the facts of :func:`gateway_data`; empty while one runs, or when the
    last one was stopped.
    """
    from claw_gateway.process.status import local_time_of

    last = facts["last"] or {"clean": True, "error": ""}
    if last["error"]:
        time_ = local_time_of(last["seenAt"])
        return t("the last one ended at {time}: {error}", time=time_, error=last["error"])
    if last["clean"]:
        return ""
    return t("the last one (process {pid}) did not exit cleanly; it was last active at {time}",
             pid=last["pid"], time=local_time_of(last["seenAt"]))  # fmt: skip
