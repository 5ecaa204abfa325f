"""The judgement of the config file that every command shows: its errors, and the warnings of core and plugins."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from claw import ConfigError, t
from claw.runtime import (
    CONFIG_FILE_NAMES,
    INCOMPATIBLE,
    LOADED,
    QUARANTINED,
    SLOTS,
    Config,
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
    errors = [*config_key_errors(setup.config, setup.plugin_states), *_slot_errors(setup.config, host)]
    warnings = [*file_warnings(setup, host.on_demand("register_diagnostics"))]
    checking = [one for one in host.plugin_states if one.found.declares.config_checks]
    if all(one.state in (QUARANTINED, INCOMPATIBLE) for one in checking):
        why = t("no plugin in use looks for settings without effect (claw-admin does)")
        fix = checking[0].fix if checking else "pip install claw-admin"
        warnings.append(setup.config.error("plugins", why, fix))
    refused = {one.where: one for one in _refused_settings(setup, host)}
    # The plugin's own error about a key takes precedence over the warning that the key cannot have an effect.
    kept = [one for one in warnings if not (one.grave and one.where in refused)]
    return errors, [*kept, *refused.values()]


def _slot_errors(config: Config, host: Host) -> Iterator[ConfigError]:
    """Yield an error for each name in ``plugins.slots`` that no plugin in use answers; it would stop a start."""
    for slot in config.settings.plugins.slots.chosen():
        host.on_demand(SLOTS[slot])
        try:
            host.chosen(slot)
        except ConfigError as wrong:
            yield config.error(wrong.key, wrong.problem, wrong.fix)


def labelled(errors: Iterable[ConfigError], warnings: Iterable[ConfigError]) -> list[tuple[str, ConfigError]]:
    """Return each finding with the word for its kind: error, problem (a setting does not work) or warning.

    :param errors: of :func:`config_findings`, as ``warnings``.
    """
    words = [(t("problem") if one.grave else t("warning"), one) for one in warnings]
    return [*((t("error"), one) for one in errors), *words]


def names_one_of(text: str, known: Iterable[ConfigError]) -> bool:
    """Return true if a text is about the key of one of these errors, however both are worded.

    :param text: the key is before its problem: ``FILE:LINE: KEY: PROBLEM``, with or without what is before the key.
    """
    text = f": {text}: "
    return any(one.key and (f": {one.key}: " in text or f": {one.key} (" in text) for one in known)


def _refused_settings(setup: Setup, host: Host) -> Iterator[ConfigError]:
    """Yield the settings that the code of a plugin refuses. None of them works."""
    wanted = outline_config(setup.config.layout.tree)
    for state in setup.plugin_states:
        if state.to_load.state == LOADED and (state.found.channels or chosen_by_file(state.id, wanted)):
            host.ask(state.id)
    for plugin, refused in host.refused.items():
        for error in refused.errors if isinstance(refused, ConfigErrors) else (refused,):
            yield _placed(error, setup.config, plugin)
    for channel in host.ordered("register_channels"):
        if isinstance(of_account := getattr(channel.value, "error", None), ConfigError):
            yield _placed(of_account, setup.config, channel.plugin)


def _placed(error: ConfigError, config: Config, plugin: str) -> ConfigError:
    """Return a plugin's error with the file and line of its key; one without a key gets the plugin's id."""
    if not error.key:
        error = error.under(plugin, error.file)
    elif not error.file:
        error = config.error(error.key, error.problem, error.fix)
    error.grave = True
    return error
