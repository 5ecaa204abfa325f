"""``claw plugins install|uninstall|update|enable|disable|lock|sync|verify``: change, lock and verify the set
of plugins."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import invalidate_caches
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import ClawError, UsageError, t
from claw.runtime import (
    EDITABLE_FILE,
    IDLE,
    LOADED,
    AsJson,
    PluginState,
    document,
    home_of,
    installed_plugins,
    normalise_distribution,
    plugin_states,
    table,
    unknown_plugin_error,
    use_configured_locale,
    with_label,
)
from claw_config_sdk import file_of
from claw_tool_sdk import pip_command

from claw_admin.doctor.probe import probe_plugin, record_health
from claw_admin.plugin_manager import lock as lock_file
from claw_admin.plugin_manager.contents import parts_of_plugins, require_use
from claw_admin.plugin_manager.environment import current_environment
from claw_admin.plugin_manager.new_plugins import new_plugin_data, new_plugin_lines, part_lines
from claw_admin.plugin_manager.pip import Pip, parse_requirement
from claw_admin.plugin_manager.plan import InstallPlan
from claw_admin.plugin_manager.transaction import (
    STEPS,
    LayerStore,
    plan_install,
    plan_sync,
    plan_uninstall,
    plan_update,
)

app = typer.Typer(add_completion=False)
JsonAlone = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout; needs --yes or --dry-run.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes, and make none.")]
Staged = Annotated[bool, typer.Option("--staged", help="Use it from the next start of the gateway on.")]
FromSource = Annotated[bool, typer.Option("--from-source", help="Allow builds from source.")]
Plugin = Annotated[str, typer.Argument(help="Plugin id.")]


@app.command()
def install(
    what: Annotated[list[str] | None, typer.Argument(help="Name, name==version, path, wheel, git+https://…")] = None,
    editable: Annotated[list[str] | None, typer.Option("--editable", "-e", help="A folder, used in place.")] = None,
    from_source: FromSource = False, staged: Staged = False, yes: Yes = False, dry_run: DryRun = False,
    as_json: JsonAlone = False,
) -> None:  # fmt: skip
    """Install plugins beside claw, not into its environment. The changes are shown first."""
    wanted = [
        *map(parse_requirement, what or ()),
        *(parse_requirement(folder, editable=True) for folder in editable or ()),
    ]
    if not wanted:
        raise UsageError("no package was given", fix="claw plugins install NAME")
    _change(
        lambda layers, pip: plan_install(layers, pip, wanted, from_source=from_source),
        _Options(staged, yes, dry_run, as_json),
    )


@app.command()
def uninstall(
    plugins: Annotated[list[str], typer.Argument(help="Plugin ids or distributions.")],
    staged: Staged = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: JsonAlone = False,
) -> None:
    """Uninstall plugins, and the packages that only they needed."""
    names = _distributions(plugins)
    _change(lambda layers, pip: plan_uninstall(layers, names), _Options(staged, yes, dry_run, as_json))


@app.command()
def update(
    plugins: Annotated[list[str] | None, typer.Argument(help="Plugin ids or distributions; none: all.")] = None,
    from_source: FromSource = False, staged: Staged = False, yes: Yes = False, dry_run: DryRun = False,
    as_json: JsonAlone = False,
) -> None:  # fmt: skip
    """Update plugins that claw installed to their newest compatible releases."""
    names = _distributions(plugins or ())
    _change(
        lambda layers, pip: plan_update(layers, pip, names, from_source=from_source),
        _Options(staged, yes, dry_run, as_json),
    )


@app.command()
def sync(
    frozen: Annotated[bool, typer.Option("--frozen", help="Exactly what the lock says.")] = False,
    staged: Staged = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: JsonAlone = False,
) -> None:
    """Reinstall the plugins for this claw and this Python; with --frozen exactly as in pylock.toml."""
    options = _Options(staged, yes, dry_run, as_json)
    if frozen:
        pins = lock_file.read_lock(_home())
        _change(lambda layers, pip: plan_sync(layers, pins), options)
    else:
        _change(plan_update, options)


@app.command()
def lock(
    accept: Annotated[bool, typer.Option("--accept", help="Accept changed files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write pylock.toml: the installed packages, with hashes. From then on a changed plugin is disabled."""
    layers, found = LayerStore(_home()), installed_plugins()
    changed = lock_file.find_damages(found, layers.home)
    if changed and not accept:
        raise ClawError(
            "{file} was changed after installation",
            fix="claw plugins verify lists all changes; --accept accepts them",
            file=changed[0].file,
        )
    path = lock_file.write_lock(layers.home, layers.pins, found, changed)
    if as_json:
        document("lock", {"file": str(path), "packages": [pin.name for pin in layers.pins]})
        return
    text = "{file} lists {count:package|packages} and {plugins:plugin|plugins}"
    typer.echo(t(text, file=path, count=len(layers.pins), plugins=len(found)))


@app.command()
def verify(as_json: AsJson = False) -> None:
    """Compare every file of every plugin with the installed one. Exit code 1: a file differs."""
    found = installed_plugins()
    damaged = lock_file.find_damages(found, _home())
    if as_json:
        rows = [
            {"distribution": one.distribution, "file": str(one.file), "why": one.reason} for one in damaged
        ]
        document("damages", {"plugins": len(found), "damages": rows})
    else:
        for one in damaged:
            typer.echo(f"{one.distribution}: {one.file}: {one.reason}")
        if not damaged:
            typer.echo(t("{count:plugin is|plugins are} unchanged since installation", count=len(found)))
    raise typer.Exit(code=1 if damaged else 0)


@app.command()
def enable(plugin: Plugin, as_json: AsJson = False) -> None:
    """Enable a plugin."""
    _set_enabled(plugin, as_json, on=True)


@app.command()
def disable(plugin: Plugin, as_json: AsJson = False) -> None:
    """Disable a plugin without uninstalling it."""
    _set_enabled(plugin, as_json, on=False)


def _set_enabled(plugin: str, as_json: bool, *, on: bool) -> None:
    from claw.runtime import PluginHealth, read_config
    from claw_config_sdk import set_value

    known = [one.id for one in installed_plugins()]
    if plugin not in known:
        raise unknown_plugin_error(plugin, known)
    if on:
        PluginHealth(_home() / "plugins").reset(plugin)
    file = file_of(os.environ)
    set_value(file, f"plugins.entries.{plugin}.enabled", on, os.environ)
    listed = read_config(file).tree.get("plugins", {})
    if on and plugin in (denied := listed.get("deny") or []):
        kept = [word for word in denied if word != plugin]
        set_value(file, "plugins.deny", kept, os.environ)
    if on and isinstance(allowed := listed.get("allow"), list) and plugin not in allowed:
        set_value(file, "plugins.allow[]", plugin, os.environ)
    state = next(one for one in plugin_states() if one.id == plugin)
    if as_json:
        document("plugin-state", {"plugin": plugin, "state": state.shown, "why": state.why})
    else:
        typer.echo(with_label(plugin, t(state.shown)) + (f" ({state.why})" if state.why else ""))


def _home() -> Path:
    return home_of(os.environ)


def _distributions(plugins: Sequence[str]) -> list[str]:
    """Return normalised names of distributions, for plugin ids or such names."""
    used = (one for one in installed_plugins() if not one.rival)
    by_id = {one.id: normalise_distribution(one.distribution) for one in used}
    return [by_id.get(name, normalise_distribution(name)) for name in plugins]


@dataclass(frozen=True)
class _Options:
    """The way in which a change is made."""

    staged: bool
    yes: bool
    dry_run: bool
    as_json: bool

    def __post_init__(self) -> None:
        if self.dry_run and (self.yes or self.staged):
            problem, other = "{option} has no effect with --dry-run", "--yes" if self.yes else "--staged"
            raise UsageError(problem, fix="leave one of them out", option=other)
        if not (self.yes or self.dry_run) and (self.as_json or not sys.stdin.isatty()):
            raise UsageError(
                "confirmation is needed, but there is no terminal",
                fix="add --yes to proceed without confirmation, or --dry-run to see the changes",
            )


def _change(make: Callable[[LayerStore, Pip], InstallPlan], options: _Options) -> None:
    """Plan a change, show it, ask, carry it out, and print what it brought."""
    use_configured_locale(os.environ)
    with _Progress() as bar:
        layers = LayerStore(_home(), staged=options.staged, step=bar)
        pip = Pip(pip_command(), os.environ, bar.show_line)
        before = layers.folder
        with layers.preview() if options.dry_run else layers.transaction():
            plan = make(layers, pip).refetching(layers.damaged_distributions())
            with bar.paused():
                confirmed = _confirmed(plan, layers, options)
            built = layers.apply(plan, pip, partial(_check_contents, plan)) if confirmed else None
    new: list[PluginState] = []
    if built is not None and not options.staged:
        _activate(before, built)
        _check_health(plan)
        new = _new_plugins(plan)
    if options.as_json:
        body = plan_data(plan, layers, done=built is not None, staged=options.staged)
        document("plan", body | {"plugins": [new_plugin_data(one) for one in new]})
    elif built is not None:
        _print_result(plan, built, new, options)


def plan_data(plan: InstallPlan, layers: LayerStore, *, done: bool, staged: bool) -> dict[str, Any]:
    """Return a plan as plain data, for ``--json``."""
    rows = [{"name": one.name, "old": one.old, "new": one.new} for one in plan.changes]
    return {
        "changes": rows,
        "done": done,
        "staged": staged,
        "folder": str(layers.folder or ""),
        "environment": current_environment().description,
    }


def _confirmed(plan: InstallPlan, layers: LayerStore, options: _Options) -> bool:
    """Show what would change; return true if it should be done."""
    if not plan.fetched and plan.new == plan.old:
        if not options.as_json:
            typer.echo(t("nothing to do"))
        return False
    if not options.as_json:
        typer.echo(
            t(
                "environment: {said}; plugins are installed into {folder}",
                said=current_environment().description,
                folder=layers.root,
            ),
            err=True,
        )
        rows = [[one.name, one.old or "-", one.new or "-"] for one in plan.changes]
        table([t("package"), t("now"), t("then")], rows)
        sys.stdout.flush()
    if options.dry_run:
        if not options.as_json:
            typer.echo(t("nothing was changed (--dry-run)"))
        return False
    return options.yes or typer.confirm(t("Go on?"), default=True)


def _check_contents(plan: InstallPlan, built: Path) -> None:
    require_use(plan, built, installed_plugins())


def _activate(before: Path | None, built: Path) -> None:
    """Use the new layer in this process."""
    if before and str(before) in sys.path:
        sys.path.remove(str(before))
    sys.path += [str(built), *(built / EDITABLE_FILE).read_text(encoding="utf-8").splitlines()]
    invalidate_caches()


def _check_health(plan: InstallPlan) -> None:
    """Load each new plugin that may be used in a process of its own, and record one that fails."""
    for one in _new_plugins(plan):
        if (one.without_failure or one).state in (LOADED, IDLE):
            record_health(one.found, probe_plugin(one.id), _home())


def _new_plugins(plan: InstallPlan) -> list[PluginState]:
    changed = {change.name for change in plan.changes if change.new}
    return [one for one in plugin_states() if normalise_distribution(one.found.distribution) in changed]


def _print_result(plan: InstallPlan, built: Path, new: Sequence[PluginState], options: _Options) -> None:
    if options.staged:
        typer.echo(t("done; it takes effect at the next start of the gateway"))
        return
    for one in new:
        typer.echo("\n".join(new_plugin_lines(one)))
    parts = parts_of_plugins(plan, built, installed_plugins())
    users = {one.id: one for one in plugin_states() if one.id in parts.values()}
    for name, plugin in parts.items():
        typer.echo("\n".join(part_lines(name, users[plugin])))
    typer.echo(t("done"))


class _Progress:
    """The progress on stderr, on a terminal only: one advance per step, pip's latest line beside it."""

    def __init__(self) -> None:
        self._progress: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[said]}"),
            )
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task("", total=2 * len(STEPS), said="")

    def __enter__(self) -> "_Progress":
        if self._progress:
            self._progress.start()
        return self

    def __exit__(self, *why: object) -> None:
        if self._progress:
            self._progress.stop()

    def __call__(self, name: str) -> None:
        if self._progress:
            self._progress.update(self._task, advance=1, description=t(name.partition(":")[0]))

    def show_line(self, line: str) -> None:
        """Show a line of pip."""
        if self._progress:
            width = max(shutil.get_terminal_size().columns - 60, 10)
            self._progress.update(self._task, said=line[:width])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the progress while the person is asked."""
        self.__exit__()
        yield
        self.__enter__()
