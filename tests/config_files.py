"""Config files of tests, read and validated."""

from collections.abc import Mapping
from pathlib import Path

from claw.config.loader import Config, validate_source
from claw.config.source import ConfigSource, read_home
from claw.config.summary import PluginKeys
from claw.host.discovery import plugin_keys, plugin_states


def load_config(home: Path, environ: Mapping[str, str], *, plugins: bool = False) -> Config:
    """Return the config of a home.

    :param plugins: the keys of the installed plugins are known.
    """
    read = read_home(home)
    return validate_source(read, home, environ, keys_of_plugins(home, read) if plugins else PluginKeys())


def keys_of_plugins(home: Path | str, read: ConfigSource) -> PluginKeys:
    """Return the keys of the installed plugins under a config file."""
    return plugin_keys(plugin_states({"CLAW_HOME": str(home)}, read))
