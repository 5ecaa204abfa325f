"""Judge a plugin: its manifest beside its code, and what keeps its tools from being used everywhere."""

from claw import ClawError, PluginError, UsageError, nearest, t
from claw.runtime import InstalledPlugin, Manifest, installed_plugins, parse_manifest, plugin_states

from claw_author.linting import ManifestFinding, findings, undeclared_effects
from claw_author.manifest_builder import build_manifest, differences
from claw_author.project import Project
from claw_author.registrations import registrations_of


def built_manifest(project: Project) -> Manifest:
    """Return the manifest that follows from the code.

    :raises ClawError: the code brings nothing, or has a hook that nobody asks; it is one file, without a manifest.
    """
    if not project.has_manifest:
        raise ClawError(
            "a plugin of one file has no manifest",
            where=f"{project.package}.py",
            fix="move it to {package}/__init__.py; without a manifest it is loaded at every start",
            package=project.package,
        )
    fields = registrations_of(project.root, project.package, project.plugin)
    if problems := fields.pop("problems"):
        raise ClawError(
            "no manifest is written: {problems}", where=project.package, problems="; ".join(problems)
        )
    return build_manifest(fields, written_manifest(project), project.description)


def written_manifest(project: Project) -> Manifest | None:
    """Return the manifest in its file; None when there is none.

    :raises PluginError: it is malformed.
    """
    try:
        return parse_manifest(project.manifest.read_text(encoding="utf-8"), project.plugin)
    except FileNotFoundError:
        return None


def judge_project(project: Project) -> tuple[Manifest, list[ManifestFinding]]:
    """Return the manifest that follows from the code, and what is wrong with it and with the written one.

    :raises ClawError: the code cannot be imported or asked.
    """
    broken: list[ManifestFinding] = []
    try:
        before = written_manifest(project)
    except PluginError as why:
        before, broken = None, [ManifestFinding("manifest", project.manifest.name, why.problem)]
    fields = registrations_of(project.root, project.package, project.plugin)
    broken += [ManifestFinding("hooks", project.package, problem) for problem in fields.pop("problems")]
    manifest = build_manifest(fields, before, project.description)
    file = project.manifest.name
    if before is not None:
        broken += _changes(manifest, before, file)
    elif project.has_manifest and not broken:
        missing = t("it is not there: claw plugins build writes it")
        broken.append(ManifestFinding("manifest", file, missing))
    for name, code in project.modules():
        broken += undeclared_effects(code, name)
    return manifest, [*broken, *findings(manifest)]


def installed_plugin(plugin: str) -> InstalledPlugin:
    """Return an installed plugin that can be loaded and has a manifest.

    :raises ClawError: there is none.
    """
    known = {found.id: found for found in installed_plugins() if not found.rival}
    if plugin not in known:
        near = nearest(plugin, known)
        raise UsageError(
            "{plugin} is neither a folder nor an installed plugin",
            fix="did you mean {near}?" if near else "claw plugins list shows the installed ones",
            plugin=plugin,
            near=near,
        )
    found = known[plugin]
    if found.fault:
        raise found.fault
    state = next(one for one in plugin_states() if one.id == plugin)
    if state.without_failure:
        raise PluginError(plugin, *state.fault_parts())
    if found.manifest is None:
        raise ClawError(
            "plugin {plugin} has no manifest",
            fix="its author writes one with claw plugins build",
            plugin=plugin,
        )
    return found


def judge_installed(found: InstalledPlugin) -> tuple[Manifest, list[ManifestFinding]]:
    """Return the manifest of an installed plugin, and what is wrong with it.

    :raises ClawError: the code cannot be imported or asked.
    """
    assert found.manifest is not None
    broken = list[ManifestFinding]()
    if found.folder:
        site = found.folder.parents[found.package.count(".")]
        fields, written = registrations_of(site, found.package, found.id), found.manifest
        broken = [ManifestFinding("hooks", found.package, one) for one in fields.pop("problems")]
        built = build_manifest(fields, written, written.description)
        broken += _changes(built, written, "claw-plugin.json")
    return found.manifest, [*broken, *findings(found.manifest)]


def _changes(built: Manifest, written: Manifest, file: str) -> list[ManifestFinding]:
    """Return a finding for each field of a manifest that is not as in the code."""
    lines = differences(built, written)
    return [ManifestFinding("manifest", file, t("not as in the code: {change}", change=one)) for one in lines]
