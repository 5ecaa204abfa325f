"""Discovery: the plugin states of this home, from the scan and the config file, by ``state.decide_states``.

Commands that only list and processes that run turns both use it, so they cannot disagree. Nothing heavy is
imported: no pydantic, no plugin.
"""

import contextlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from claw import __version__, i18n
from claw.config.paths import format_key, line_of, normalise_layout
from claw.config.source import ConfigSource, read_home, substitute_all, unreadable_home
from claw.config.summary import ConfigOutline, PluginKeys, outline_config, schema_violations
from claw.contracts.errors import ClawError, ConfigError, PluginError
from claw.host import manifest, state
from claw.host.health import PluginHealth
from claw.host.manifest import FILE_NAME, InstalledPlugin, declared_channels, short_forms
from claw.host.state import PluginState, choose_default_model


def home_of(environ: Mapping[str, str]) -> Path:
    """Return ``CLAW_HOME``, else ``~/.claw``, as an absolute path."""
    named = environ.get("CLAW_HOME", "").strip()
    home = Path(named).expanduser() if named else Path(environ.get("HOME") or Path.home()) / ".claw"
    return home.absolute()


def plugin_states(
    environ: Mapping[str, str] = os.environ, read: ConfigSource | None = None
) -> tuple[PluginState, ...]:
    """Return every installed plugin with its state, in order of id.

    :param read: the config file; None = read that of the home, and switch to its language.
    :raises ConfigError: the file cannot be read at all; a file that is only partly wrong does not stop a
        list.
    """
    home = home_of(environ)
    if read is None:
        read = read_home(home)
        _use_locale(read.tree)
    return states_of(installed_plugins(home), environ, read)


def use_configured_locale(environ: Mapping[str, str]) -> None:
    """Switch to the language that the file names, if there is a readable file."""
    with contextlib.suppress(ClawError):
        _use_locale(read_home(home_of(environ)).tree)


def _use_locale(raw: Mapping[str, Any]) -> None:
    if isinstance(language := raw.get("locale"), str):
        i18n.use_language(language)


def states_of(
    found: Sequence[InstalledPlugin],
    environ: Mapping[str, str],
    read: ConfigSource = ConfigSource(),  # noqa: B008 - frozen
    models: Sequence[str] = (),
) -> tuple[PluginState, ...]:
    """Return the plugin states of ``found`` under a config file, or without one.

    :param models: further models that this process may call, as ``provider/model``.
    """
    home = home_of(environ)
    found = _with_integrity(found, home)
    wanted = outline_config(read.tree, short_forms(found))
    used = (*providers_used(wanted, found, environ), *(model.partition("/")[0] for model in models))
    states = state.decide_states(found, wanted, used, _section_errors(found, wanted, environ, read))
    health, now = PluginHealth(home / "plugins"), time.time()
    failures, none, judged = health.failures(), ("", ""), list[PluginState]()
    for one in states:
        recorded = replace(one, sound=health.sound.get(one.id, ""), graded=health.grades.get(one.id, none))
        judged.append(state.with_failures(recorded, failures.get(one.id, ()), now))
    return tuple(state.with_needs(judged))


def plugin_keys(plugin_states: Sequence[PluginState]) -> PluginKeys:
    """Return what these plugins add to the config file."""
    found = [one.found for one in plugin_states]
    return PluginKeys(state.owned_models(plugin_states), declared_channels(found), short_forms(found))


def _with_integrity(found: Sequence[InstalledPlugin], home: Path) -> Sequence[InstalledPlugin]:
    """Add a fault to each plugin whose files changed, if there is a lock file."""
    try:
        if not (home / "pylock.toml").exists():
            return found
    except OSError as cause:
        raise unreadable_home(home, cause) from cause
    from claw.host.integrity import quarantine_changed

    return quarantine_changed(found, home)


def _section_errors(
    found: Sequence[InstalledPlugin],
    wanted: ConfigOutline,
    environ: Mapping[str, str],
    read: ConfigSource,
) -> dict[str, ConfigError]:
    """Return, for each plugin whose own section is wrong, the error of the first wrong key."""
    errors: dict[str, ConfigError] = {}
    for one in found:
        schema = one.declares.config_schema
        if schema and one.id in wanted.entries and one.declares.has_own_section:
            section = substitute_all(wanted.entries[one.id].get("config", {}), environ)
            for wrong in islice(schema_violations(section, schema), 1):
                path = ("plugins", "entries", one.id, "config", *wrong.path)
                path = normalise_layout(read.tree, short_forms(found)).as_written(path)
                key, file, line = format_key(path), str(read.path or ""), line_of(path, read.lines)
                errors[one.id] = ConfigError(
                    key, wrong.problem, wrong.fix, file=file, line=line, **wrong.values
                )
    return errors


def providers_used(
    wanted: ConfigOutline, found: Sequence[InstalledPlugin], environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the providers that a model of the configuration, or the default model, refers to."""
    models = wanted.models or (choose_default_model(found, wanted, environ),)
    return tuple(dict.fromkeys(model.partition("/")[0] for model in models))


FILE = ("cache", "plugins-index.json")
MIN_AGE_NS = 2_000_000_000
"""Age in ns. What changed less than this before the scan may change again within one tick of the file
system's clock."""

FileStamp = tuple[str, int, int]
"""A path, its modification time in ns and its size in bytes; -1 and -1 for a missing one."""


class _Index(msgspec.Struct, frozen=True):
    python: str
    claw: str
    folders: list[FileStamp]
    manifests: list[FileStamp]
    found: tuple[InstalledPlugin, ...]

    @property
    def is_valid(self) -> bool:
        """True if claw, the import path and the manifests are still those of the scan."""
        folders = [_mark_of(folder) for folder in sys.path]
        same = (self.python, self.claw, self.folders) == (sys.version, __version__, folders)
        return same and all(_mark_of(mark[0]) == mark for mark in self.manifests)


def installed_plugins(home: Path) -> tuple[InstalledPlugin, ...]:
    """Return the result of ``claw.host.manifest.installed_plugins``, from the index of ``home`` while that is valid.

    When the home is missing or cannot be written, every scan reads all manifests.
    """
    place = home.joinpath(*FILE)
    with suppress(OSError, msgspec.DecodeError):
        if (index := _decoded(place.read_bytes())).is_valid:
            return index.found
    folders = [_mark_of(folder) for folder in sys.path]
    found = manifest.installed_plugins()
    manifests = [_mark_of(str(one.folder / FILE_NAME)) for one in found if one.folder]
    newest = max((time_ns for _, time_ns, _ in (*folders, *manifests)), default=0)
    if _is_in_use(home) and newest < time.time_ns() - MIN_AGE_NS:
        _write(place, _Index(sys.version, __version__, folders, manifests, found))
    return found


def _is_in_use(home: Path) -> bool:
    """Return true for a folder with more in it than the note of a load; who reads the file reports an unreadable one."""
    with suppress(OSError):
        return any(one.name != "plugins" for one in home.iterdir())
    return False


def _mark_of(path: str) -> FileStamp:
    try:
        stat = os.stat(path or os.curdir)
    except OSError:
        return path, -1, -1
    return path, stat.st_mtime_ns, stat.st_size if os.access(path, os.R_OK) else -1


@lru_cache(maxsize=1)
def _decoded(data: bytes) -> _Index:
    """Decode an index; a process asks for it a few times, and decodes it once."""
    return msgspec.json.decode(data, type=_Index, dec_hook=_from_plain)


def _write(place: Path, index: _Index) -> None:
    from claw.storage.files import SYSTEM_DISK  # most commands only read

    with suppress(OSError, ClawError):
        SYSTEM_DISK.make_folder(place.parent)
        SYSTEM_DISK.replace(place, msgspec.json.encode(index, enc_hook=_as_plain))


def _as_plain(value: Path | PluginError) -> Any:
    if isinstance(value, PluginError):
        return value.plugin, value.stage, *value.parts
    return str(value)


def _from_plain(kind: type[Any], value: Any) -> Any:
    if kind is PluginError:
        plugin, stage, problem, fix, values = value
        return PluginError(plugin, stage, problem, fix, **values)
    return kind(value)
