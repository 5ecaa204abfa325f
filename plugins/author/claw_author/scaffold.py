"""A new plugin as files: text from templates, names filled in. Pure, except for reading the templates."""

import re
from collections.abc import Iterator
from importlib.resources import files as resources
from importlib.resources.abc import Traversable

from claw import UsageError, nearest

KINDS = ("tool", "channel", "provider", "section", "reviewer", "middleware", "service")
EFFECTS = ("none", "idempotent", "once")
_LIBRARIES = {"channel": ("claw-channel-sdk",), "provider": ("claw-http-sdk", "claw-provider-sdk")}
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def plugin_of(name: str) -> str:
    """Return the plugin id for an author's name: ``claw-plugin-weather`` and ``weather`` are both
    ``weather``.

    :raises UsageError: no id can be made of it.
    """
    plugin = name.strip().lower().replace("_", "-").removeprefix("claw-plugin-")
    if not _NAME.fullmatch(plugin) or len(plugin) > 40:
        raise UsageError(
            "{name} cannot be the id of a plugin",
            fix="use lower-case letters, digits and single hyphens, a letter first, at most 40",
            name=repr(name),
        )
    return plugin


def files(plugin: str, kind: str, effects: str = "none") -> dict[str, str]:
    """Return path → text of everything but the manifest, which is built from the code.

    :param effects: that its tool declares.
    :raises UsageError: an unknown kind, or unknown effects.
    """
    _require_one_of(kind, KINDS, "--kind")
    _require_one_of(effects, EFFECTS, "--effects")
    snake = plugin.replace("-", "_")
    names = {
        "plugin": plugin,
        "snake": snake,
        "package": f"claw_plugin_{snake}",
        "kind": kind,
        "effects": effects,
        "title": plugin.replace("-", " ").capitalize(),
        "Class": "".join(part.title() for part in plugin.split("-")),
        "VARIABLE": snake.upper(),
        "dependencies": ", ".join(f'"{name}"' for name in ("claw-core", *_LIBRARIES.get(kind, ()))),
    }
    templates = resources("claw_author") / "templates"
    written = {}
    for folder in (templates / "every", templates / kind):
        for path, file in _walk(folder, ""):
            written[_filled(path.removesuffix(".tmpl").replace("dot-", "."), names)] = _filled(
                file.read_text(encoding="utf-8"), names
            )
    return written


def _require_one_of(word: str, known: tuple[str, ...], where: str) -> None:
    if word not in known:
        near = nearest(word, known)
        fix = "did you mean {near}?" if near else ""
        raise UsageError(
            "{word} is not one of: {known}",
            where=where,
            fix=fix,
            word=word,
            known=[*known],
            near=near,
        )


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        here = f"{path}/{entry.name}".lstrip("/")
        if entry.is_dir():
            yield from _walk(entry, here)
        else:
            yield here, entry


def _filled(text: str, names: dict[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda match: names.get(match[1], match[0]), text)
