"""Check that each requested package brings something that claw uses: a plugin, or a part for an installed one."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from claw import UsageError
from claw.runtime import InstalledPlugin, dist_info_folders, normalise_distribution

from claw_admin.plugin_manager.plan import InstallPlan, requirement_name

GROUP = "claw.plugins"


def require_use(wanted: InstallPlan, built: Path, installed: Sequence[InstalledPlugin]) -> None:
    """Refuse a plan with a requested package that nothing would use.

    It is used when it, or a dependency of it, has an entry point of claw, or one of a group that an installed plugin
    names in its manifest (``capabilities.entryPoints``), or when a plugin names it among its requirements or extras.

    :param built: the folder of the new layer, not active yet.
    :raises UsageError: nothing would use it.
    """
    infos = {name: Distribution.at(path) for name, path in dist_info_folders(built).items()}
    groups = {GROUP, *_groups_in_use(installed)}
    needs = {pin.name: pin.needs for pin in wanted.new}
    known = {pin.name for pin in wanted.old}
    for pin in wanted.fetched:
        if not pin.asked or pin.name in known:
            continue
        parts = [infos[name] for name in _with_needs(pin.name, needs) if name in infos]
        if any(entry.group in groups for part in parts for entry in part.entry_points):
            continue
        if pin.name not in _named_by_plugins(installed):
            fix = "check the name; packages of plugins have an entry point in the group claw.plugins"
            if "mcp" in pin.name and any(entry.group == "console_scripts" for entry in parts[0].entry_points):
                fix = "for an MCP server: claw mcp install NAME {name}"
            problem = "{name} contains no plugin for claw, so it was not installed"
            raise UsageError(problem, fix=fix, name=pin.name)


def parts_of_plugins(
    wanted: InstallPlan, built: Path, installed: Sequence[InstalledPlugin]
) -> dict[str, str]:
    """Return the new distributions that are no plugins themselves → the id of the plugin that uses their entry points."""
    infos, used = {name: Distribution.at(path) for name, path in dist_info_folders(built).items()}, {}
    for pin in wanted.fetched:
        if pin.name in infos and (plugin := user_of(infos[pin.name], installed)):
            used[pin.name] = plugin
    return used


def user_of(part: Distribution, installed: Sequence[InstalledPlugin]) -> str:
    """Return the id of the plugin that uses the entry points of a distribution; empty: none, or it is a plugin itself."""
    groups = {entry.group for entry in part.entry_points}
    users = (one.id for one in installed if not groups.isdisjoint(_groups_in_use([one])))
    return "" if GROUP in groups else next(users, "")


def _groups_in_use(installed: Sequence[InstalledPlugin]) -> Iterator[str]:
    for one in installed:
        groups = one.manifest.capabilities.get("entryPoints", ()) if one.manifest else ()
        yield from groups if isinstance(groups, list) else ()


def _with_needs(name: str, needs: Mapping[str, Sequence[str]]) -> set[str]:
    """Return a distribution and all that it needs, directly and indirectly."""
    reached, waiting = set[str](), [name]
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting += needs.get(one, ())
    return reached


def _named_by_plugins(installed: Sequence[InstalledPlugin]) -> set[str]:
    """Return the distributions that installed plugins require, those of their extras included."""
    names = set()
    for one in installed:
        try:
            lines = distribution(one.distribution).requires or ()
        except PackageNotFoundError:
            continue
        names |= {normalise_distribution(requirement_name(line)) for line in lines}
    return names
