"""The names that a shell completes: agents, models, tools, plugins, channels, providers.

They come from the config file as written and from manifests: a wrong file, or a plugin that fails, completes less.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from claw import ClawError
from claw.runtime import TERMINAL, find_config, home_of, installed_plugins, outline_config, read_config

KIND_OF = {
    "--agent": "$agents", "--model": "$models", "--channel": "$channels", "--fallback": "$models",
    "auth add provider": "$providers", "auth order provider": "$providers", "auth remove provider": "$providers",
    "completion shell": "bash zsh fish", "config get key": "$keys", "config set key": "$keys",
    "config unset key": "$keys", "doctor channel": "$channels", "init --provider": "$providers",
    "init provider": "$providers", "models probe model": "$models", "models use model": "$models",
    "plugins check plugin": "$plugins", "plugins disable plugin": "$plugins", "plugins doctor plugin": "$plugins",
    "plugins enable plugin": "$plugins", "plugins info plugin": "$plugins", "plugins retry plugins": "$plugins",
    "plugins uninstall plugins": "$plugins", "plugins update plugins": "$plugins", "tools call name": "$tools",
    "tools explain name": "$tools",
}  # fmt: skip
"""Option, or command and parameter → the kind of its value, or the values."""


def _tree() -> Mapping[str, Any]:
    try:
        path = find_config(home_of(os.environ))
        return read_config(path).tree if path else {}
    except ClawError:
        return {}


def _section(tree: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        below = tree.get(name)
        tree = below if isinstance(below, Mapping) else {}
    return tree


def _manifest_names(field: str) -> Iterator[str]:
    for plugin in installed_plugins():
        for one in getattr(plugin.manifest, field, ()):
            name = str(getattr(one, "name", one))
            if name != "*":
                yield name


def _agents() -> Iterator[str]:
    listed = _section(_tree(), "agents").get("list")
    ids = [str(one["id"]) for one in listed or () if isinstance(one, Mapping) and one.get("id")]
    yield from ids or ("default",)


def _models() -> Iterator[str]:
    tree = _tree()
    yield from outline_config(tree).models
    yield from map(str, _section(tree, "models", "aliases"))


def _keys(tree: Mapping[str, Any] | None = None, above: str = "") -> Iterator[str]:
    for name, value in (_tree() if tree is None else tree).items():
        if isinstance(value, Mapping) and value:
            yield from _keys(value, f"{above}{name}.")
        else:
            yield f"{above}{name}"


NAMES: dict[str, Callable[[], Iterator[str]]] = {
    "agents": _agents,
    "channels": lambda: iter([TERMINAL, *_section(_tree(), "channels"), *_manifest_names("channels")]),
    "keys": _keys,
    "models": _models,
    "plugins": lambda: (one.id for one in installed_plugins()),
    "providers": lambda: iter([*_section(_tree(), "providers"), *_manifest_names("providers")]),
    "tools": lambda: _manifest_names("tools"),
}
"""Kind of name → its names."""
