"""How the installed plugins stand in this home: the scan and the file, put before ``standing.judge``.

Both the commands that only list and the processes that take turns come through here, so they cannot disagree.
Nothing heavy is imported: no pydantic, no plugin.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claw import words
from claw.config.misfit import Misfit, misfits
from claw.config.names import Path as KeyPath, dotted, line_of
from claw.config.outline import Wanted, outline
from claw.config.source import Source, find, read
from claw.config.variables import filled
from claw.errors import ClawError, ConfigError
from claw.index import scan
from claw.manifest import Found
from claw.standing import Standing, choose_model, judge

if TYPE_CHECKING:
    from claw.store import Database


def home_of(environ: Mapping[str, str]) -> Path:
    """``CLAW_HOME``, else ``~/.claw``."""
    named = environ.get("CLAW_HOME", "").strip()
    return Path(named).expanduser() if named else Path(environ.get("HOME") or Path.home()) / ".claw"


@contextlib.contextmanager
def state_of(home: Path) -> "Iterator[Database | None]":
    """The state of ``home`` while somebody looks into it; None where there is none yet, and none is made."""
    from claw.store import Database

    with contextlib.closing(Database(home / "state.db")) as database:
        yield database if database.path.is_file() else None


def standings(environ: Mapping[str, str] = os.environ) -> tuple[Standing, ...]:
    """Every installed plugin and its state, in order of id.

    :raises ConfigError: the file cannot be read at all; a file that is only partly wrong does not stop a list.
    """
    home = home_of(environ)
    path = find(home)
    source = read(path) if path else Source()
    _speak(source.tree)
    return stand(scan(home), source.tree, environ, file=str(path or ""), lines=source.lines)


def tree(environ: Mapping[str, str] = os.environ) -> Mapping[str, Any]:
    """The file as plain data, empty when there is none; from now on claw speaks the language it asks for."""
    path = find(home_of(environ))
    raw: Mapping[str, Any] = read(path).tree if path else {}
    _speak(raw)
    return raw


def speak(environ: Mapping[str, str]) -> None:
    """From now on claw speaks the language that the file asks for, when there is a file that can be read."""
    with contextlib.suppress(ClawError):
        tree(environ)


def _speak(raw: Mapping[str, Any]) -> None:
    if isinstance(language := raw.get("locale"), str):
        words.use(language)


def stand(
    found: Sequence[Found],
    raw: Mapping[str, Any],
    environ: Mapping[str, str],
    models: Sequence[str] = (),
    *,
    file: str = "",
    lines: Mapping[KeyPath, int] | None = None,
) -> tuple[Standing, ...]:
    """How ``found`` stands under the plain tree ``raw`` of the file.

    :param models: further models that this process may ask, as ``provider/model``.
    :param lines: where each key of ``file`` stands.
    """
    found = _sealed(found, home_of(environ))
    wanted = outline(raw)
    used = (*providers_used(wanted, found, environ, raw), *(model.partition("/")[0] for model in models))
    misfits = _misfits(found, wanted, environ)
    wrong = {
        id: ConfigError(
            dotted(path),
            misfit.problem,
            misfit.fix,
            file=file,
            line=line_of(path, lines or {}),
            **misfit.values,
        )
        for id, (path, misfit) in misfits.items()
    }
    return judge(found, wanted, used, wrong)


def _sealed(found: Sequence[Found], home: Path) -> Sequence[Found]:
    """Once there is a lock, a plugin whose files changed carries that as its fault."""
    if not (home / "pylock.toml").exists():
        return found
    from claw.lifecycle.integrity import sealed

    return sealed(found, home)


def _misfits(
    found: Sequence[Found], wanted: Wanted, environ: Mapping[str, str]
) -> dict[str, tuple[KeyPath, Misfit]]:
    """Of each plugin whose own section is wrong, the first wrong key."""
    first: dict[str, tuple[KeyPath, Misfit]] = {}
    for one in found:
        schema = one.manifest.config_schema if one.manifest else None
        if one.manifest and schema and one.id in wanted.entries and one.manifest.keeps_own_section:
            section = filled(wanted.entries[one.id].get("config", {}), environ)
            for misfit in misfits(section, schema):
                path = ("plugins", "entries", one.id, "config", *misfit.path)
                first.setdefault(one.id, (path, misfit))
    return first


def providers_used(
    wanted: Wanted, found: Sequence[Found], environ: Mapping[str, str], raw: Mapping[str, Any]
) -> tuple[str, ...]:
    """The providers that a model of the configuration, or the default model, refers to."""
    models = wanted.models or (choose_model(found, wanted, environ, raw),)
    return tuple(dict.fromkeys(model.partition("/")[0] for model in models))
