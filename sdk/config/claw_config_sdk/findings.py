"""The judgement of the config file that every command shows: its errors, and the warnings of core and plugins."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from claw import ConfigError, t
from claw.runtime import (
    CONFIG_FILE_NAMES,
    INCOMPATIBLE,
    LOADED,
    QUARANTINED,
    ConfigErrors,
    Host,
    Setup,
    chosen_by_file,
    command_host,
    config_key_errors,
    file_warnings,
    find_config,
    home_of,
    load_setup,
    outline_config,
)


def file_of(environ: Mapping[str, str]) -> Path:
    """Return the path of the config file, or of the one that would be created."""
    home = home_of(environ)
    return find_config(home) or home / CONFIG_FILE_NAMES[0]


def config_findings(home: Path, environ: Mapping[str, str]) -> tuple[list[ConfigError], list[ConfigError]]:
    """Return errors and warnings of the file in ``home``: the judgement that every command shows."""
    try:
        setup = load_setup({**environ, "CLAW_HOME": str(home)})
    except ConfigErrors as several:
        return list(several.errors), []
    except ConfigError as one:
        return [one], []
    host = command_host(setup=setup)
    errors = [*config_key_errors(setup.config, setup.plugin_states), *host.slot_errors(setup.config)]
    warnings = [*file_warnings(setup, host.on_demand("register_diagnostics"))]
    checking = [one for one in host.plugin_states if one.found.declares.config_checks]
    if all(one.state in (QUARANTINED, INCOMPATIBLE) for one in checking):
        why = t("no plugin in use looks for settings without effect (claw-admin does)")
        fix = checking[0].fix if checking else "pip install claw-admin"
        warnings.append(setup.config.error("plugins", why, fix))
    said = "\n".join(map(str, warnings))
    return errors, [*warnings, *(one for one in _refused_settings(setup, host) if one.problem not in said)]


def _refused_settings(setup: Setup, host: Host) -> Iterator[ConfigError]:
    """Yield the settings that a plugin refuses: now, or when it was last loaded."""
    wanted = outline_config(setup.config.layout.tree)
    for state in setup.plugin_states:
        if state.state == LOADED and (state.found.channels or chosen_by_file(state.id, wanted)):
            host.ask(state.id)
    known = {one.id for one in setup.plugin_states if one.state == QUARANTINED and not one.without_failure}
    for state in host.plugin_states:
        if state.state == QUARANTINED and state.stage == "config" and state.id not in known:
            yield ConfigError(state.id, "{why}", "{advice}", why=state.why, advice=state.fix)
    for channel in host.ordered("register_channels"):
        if isinstance(error := getattr(channel.value, "error", None), ConfigError):  # of one account
            yield error
