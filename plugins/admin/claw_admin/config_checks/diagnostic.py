"""The diagnostic of the config file, which every command that judges the file asks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from claw import ConfigError, DiagnosticContext, Finding
from claw.runtime import LOADED, PluginState, Setup, chosen_by_file, outline_config

from claw_admin.config_checks.file_warnings import file_warnings
from claw_admin.config_checks.installed_warnings import check_installed, installed_names
from claw_admin.config_checks.references import reference_warnings
from claw_admin.config_checks.tool_lists import unknown_words, unrestricted_lists


class ConfigDiagnostic:
    """Warnings about the config file: what it says and nothing obeys."""

    name = "config"
    position = 0  # before those of other plugins, as warnings about single parts

    def check(self, context: DiagnosticContext) -> Sequence[Finding]:
        """Return nothing: ``claw doctor`` shows the warnings about the file by itself."""
        return ()

    def check_config(self, setup: Setup) -> Iterator[Finding]:
        """Yield every warning."""
        for one in config_warnings(setup):
            yield Finding(one.key, "config", one.problem, one.fix, one.grave)


def config_warnings(setup: Setup) -> Iterator[ConfigError]:
    """Yield every warning about the file; words of tool lists only if all tools are known."""
    config = setup.config
    names = installed_names(setup.found)
    in_use = installed_names(one.found for one in setup.plugin_states if one.is_usable)
    names = replace(names, sandboxes=in_use.sandboxes)  # one that is off wraps no call
    yield from file_warnings(config)
    yield from check_installed(config, names)
    yield from reference_warnings(config, names, setup.plugin_states, setup.found)
    wanted = outline_config(config.layout.tree)
    unlisted = (
        [] if setup.tools is not None else [one for one in setup.plugin_states if not _lists_tools(one)]
    )
    if not any(one.found.manifest is None or chosen_by_file(one.id, wanted) for one in unlisted):
        yield from unknown_words(config, setup.facts, names.plugins | names.tools, complete=not unlisted)
    yield from unrestricted_lists(config)


def _lists_tools(state: PluginState) -> bool:
    """Return false for a plugin in use whose tools only its code knows."""
    manifest = state.found.manifest
    is_listed = manifest is not None and ("tool" not in manifest.kinds or bool(manifest.tools))
    return is_listed or state.state != LOADED
