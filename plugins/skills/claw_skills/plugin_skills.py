"""Skills that plugins ship: folders ``skills/NAME`` of their packages, listed by their manifests. Nothing is imported."""

from collections.abc import Iterable

from claw import ClawError, PluginConfig
from claw.runtime import PluginState, plugin_states

from claw_skills.skill_index import SkillFolder


def shipped_folders(states: Iterable[PluginState]) -> tuple[SkillFolder, ...]:
    """Return the folders of skills of the plugins that may be used, in the order of ``states``."""
    return tuple(
        SkillFolder(f"plugin:{one.id}", folder / "skills", folder, one.found.declares.skills)
        for one in states
        if one.is_usable and (folder := one.found.folder) and one.found.declares.skills
    )


def installed_folders(config: PluginConfig) -> tuple[SkillFolder, ...]:
    """Return the folders of skills of the installed plugins, as their states are now. Where the config file cannot be
    read, because somebody is changing it, there is none until it is loaded again.
    """
    try:
        return shipped_folders(plugin_states({**config.environ, "CLAW_HOME": str(config.home)}))
    except ClawError:
        return ()
