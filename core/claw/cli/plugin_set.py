"""``claw plugins install|uninstall|update|enable|disable|lock|sync|verify``: the set of plugins, changed and held."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from claw.cli.config import file_of
from claw.cli.options import AsJson
from claw.cli.plugin_list import no_plugin
from claw.cli.show import document, table
from claw.errors import ClawError, UsageError
from claw.lifecycle import lock as lock_file
from claw.lifecycle.change import STEPS, Layers, plan_exactly, plan_install, plan_uninstall, plan_update
from claw.lifecycle.environment import here, pip_command
from claw.lifecycle.installer import Pip, wish
from claw.lifecycle.integrity import damages
from claw.lifecycle.layer import EDITABLE
from claw.lifecycle.names import plain
from claw.lifecycle.plan import Plan
from claw.manifest import scan
from claw.survey import home_of, speak, standings
from claw.words import say

app = typer.Typer(add_completion=False)
JsonAlone = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; needs --yes.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")]
Staged = Annotated[bool, typer.Option("--staged", help="Use it from the next start of the gateway on.")]
FromSource = Annotated[bool, typer.Option("--from-source", help="Packages of the index may be built here.")]
Plugin = Annotated[str, typer.Argument(help="Plugin id.")]


@app.command()
def install(
    what: Annotated[list[str] | None, typer.Argument(help="Name, name==version, path, wheel, git+https://…")] = None,
    editable: Annotated[list[str] | None, typer.Option("--editable", "-e", help="A folder, used in place.")] = None,
    from_source: FromSource = False, staged: Staged = False, yes: Yes = False, as_json: JsonAlone = False,
) -> None:  # fmt: skip
    """Install plugins beside claw, not into its environment. What would change is shown first."""
    wishes = [*map(wish, what or ()), *(wish(folder, editable=True) for folder in editable or ())]
    if not wishes:
        raise UsageError("nothing to install is named", fix="claw plugins install NAME")
    _change(
        lambda layers, pip: plan_install(layers, pip, wishes, from_source=from_source), staged, yes, as_json
    )


@app.command()
def uninstall(
    plugins: Annotated[list[str], typer.Argument(help="Plugin ids or distributions.")],
    staged: Staged = False, yes: Yes = False, as_json: JsonAlone = False,
) -> None:  # fmt: skip
    """Take plugins out, and what only they needed."""
    names = _distributions(plugins)
    _change(lambda layers, pip: plan_uninstall(layers, names), staged, yes, as_json)


@app.command()
def update(
    plugins: Annotated[list[str] | None, typer.Argument(help="Plugin ids or distributions; none: all.")] = None,
    from_source: FromSource = False, staged: Staged = False, yes: Yes = False, as_json: JsonAlone = False,
) -> None:  # fmt: skip
    """Bring plugins that claw installed to their newest releases that fit this claw."""
    names = _distributions(plugins or ())
    _change(
        lambda layers, pip: plan_update(layers, pip, names, from_source=from_source), staged, yes, as_json
    )


@app.command()
def sync(
    frozen: Annotated[bool, typer.Option("--frozen", help="Exactly what the lock says.")] = False,
    staged: Staged = False, yes: Yes = False, as_json: JsonAlone = False,
) -> None:  # fmt: skip
    """Build the set anew for this claw and this Python; with --frozen exactly as pylock.toml has it."""
    if frozen:
        pins = lock_file.read(_home())
        _change(lambda layers, pip: plan_exactly(layers, pins), staged, yes, as_json)
    else:
        _change(plan_update, staged, yes, as_json)


@app.command()
def lock(
    accept: Annotated[
        bool, typer.Option("--accept", help="Files that were changed may stay as they are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write pylock.toml: what is installed now, with hashes. From then on a changed plugin is set aside."""
    layers, found = Layers(_home()), scan()
    changed = damages(found, layers.home)
    if changed and not accept:
        raise ClawError(
            "{file} is not as it was installed", fix="claw plugins verify shows all; --accept takes it as it is",
            file=changed[0].file,
        )  # fmt: skip
    path = lock_file.write(layers.home, layers.pins, found, changed)
    if as_json:
        document("lock", {"file": str(path), "packages": [pin.name for pin in layers.pins]})
        return
    text = "{file} holds {count:package|packages} and {plugins:plugin|plugins}"
    typer.echo(say(text, file=path, count=len(layers.pins), plugins=len(found)))


@app.command()
def verify(as_json: AsJson = False) -> None:
    """Read every file of every plugin and compare it with what was installed. Exit code 1: one is another."""
    found = scan()
    bad = damages(found, _home())
    if as_json:
        rows = [{"distribution": one.distribution, "file": str(one.file), "why": one.why} for one in bad]
        document("damages", {"plugins": len(found), "damages": rows})
    else:
        for one in bad:
            typer.echo(f"{one.distribution}: {one.file}: {one.why}")
        if not bad:
            typer.echo(
                say("{count:plugin is as it was|plugins are as they were} installed", count=len(found))
            )
    raise typer.Exit(code=1 if bad else 0)


@app.command()
def enable(plugin: Plugin) -> None:
    """Let a plugin take part again."""
    _switch(plugin, on=True)


@app.command()
def disable(plugin: Plugin) -> None:
    """Keep a plugin installed and out of use."""
    _switch(plugin, on=False)


def _switch(plugin: str, *, on: bool) -> None:
    from claw.config import edit
    from claw.config.source import read
    from claw.deaths import Deaths

    known = [one.id for one in scan()]
    if plugin not in known:
        raise no_plugin(plugin, known)
    if on:
        Deaths(_home() / "plugins").forgive(plugin)
    file = file_of(os.environ)
    edit.set_value(file, f"plugins.entries.{plugin}.enabled", on, os.environ)
    listed = read(file).tree.get("plugins", {})
    if on and plugin in (denied := listed.get("deny") or []):
        edit.set_value(file, "plugins.deny", [word for word in denied if word != plugin], os.environ)
    if on and isinstance(allowed := listed.get("allow"), list) and plugin not in allowed:
        edit.set_value(file, "plugins.allow[]", plugin, os.environ)
    state = next(one for one in standings() if one.id == plugin)
    typer.echo(f"{plugin}: {say(state.state)}" + (f" ({state.why})" if state.why else ""))


def _home() -> Path:
    return home_of(os.environ)


def _distributions(plugins: Sequence[str]) -> list[str]:
    """Plain names of distributions, for plugin ids or such names."""
    by_id = {one.id: plain(one.distribution) for one in scan()}
    return [by_id.get(name, plain(name)) for name in plugins]


def _change(make: Callable[[Layers, Pip], Plan], staged: bool, yes: bool, as_json: bool) -> None:
    """Plan, show, ask, do, and say how what is new stands."""
    if not yes and (as_json or not sys.stdin.isatty()):
        raise UsageError("nobody is here to be asked", fix="add --yes")
    speak(os.environ)
    with _Bar() as bar:
        layers = Layers(_home(), staged=staged, step=bar)
        pip = Pip(pip_command(), os.environ, bar.said)
        before = layers.folder
        with layers.changing():
            plan = make(layers, pip).mended(layers.damaged())
            with bar.paused():
                agreed = _agreed(plan, layers, yes, as_json)
            built = layers.carry_out(plan, pip) if agreed else None
    if as_json:
        document("plan", described(plan, layers, done=built is not None, staged=staged))
    elif built is not None:
        _tell_done(plan, before, built, staged)


def described(plan: Plan, layers: Layers, *, done: bool, staged: bool) -> dict[str, Any]:
    """A plan as plain data, for ``--json``."""
    rows = [{"name": one.name, "old": one.old, "new": one.new} for one in plan.changes]
    return {
        "changes": rows, "done": done, "staged": staged, "folder": str(layers.folder or ""), "environment": here().said
    }  # fmt: skip


def _agreed(plan: Plan, layers: Layers, yes: bool, as_json: bool) -> bool:
    """Show what would change; whether to do it."""
    if not plan.fetched and plan.new == plan.old:
        if not as_json:
            typer.echo(say("nothing to do"))
        return False
    if not as_json:
        typer.echo(
            say("environment: {said}; plugins go to {folder}", said=here().said, folder=layers.root), err=True
        )
        rows = [[one.name, one.old or "-", one.new or "-"] for one in plan.changes]
        table([say("package"), say("now"), say("then")], rows)
        sys.stdout.flush()
    return yes or typer.confirm(say("Go on?"), default=True)


def _tell_done(plan: Plan, before: Path | None, built: Path, staged: bool) -> None:
    if staged:
        typer.echo(say("done; it is used from the next start of the gateway on"))
        return
    if before and str(before) in sys.path:
        sys.path.remove(str(before))
    sys.path += [str(built), *(built / EDITABLE).read_text(encoding="utf-8").splitlines()]
    fresh = {change.name for change in plan.changes if change.new}
    for one in standings():
        if plain(one.found.distribution) in fresh:
            why = f" ({one.why})" if one.why else ""
            typer.echo(f"{one.id} {one.found.version}: {say(one.state)}{why}")
            if one.mend:
                typer.echo(f"  {one.mend}")
    typer.echo(say("done"))


class _Bar:
    """Progress on stderr, on a terminal only: one pace for each step, the latest word of pip beside it."""

    def __init__(self) -> None:
        self._drawn: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[said]}"),
            )
            self._drawn = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._drawn.add_task("", total=2 * len(STEPS), said="")

    def __enter__(self) -> "_Bar":
        if self._drawn:
            self._drawn.start()
        return self

    def __exit__(self, *why: object) -> None:
        if self._drawn:
            self._drawn.stop()

    def __call__(self, name: str) -> None:
        if self._drawn:
            self._drawn.update(self._task, advance=1, description=say(name.partition(":")[0]))

    def said(self, line: str) -> None:
        """A line of pip."""
        if self._drawn:
            width = max(shutil.get_terminal_size().columns - 60, 10)
            self._drawn.update(self._task, said=line[:width])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While somebody is asked."""
        self.__exit__()
        yield
        self.__enter__()
