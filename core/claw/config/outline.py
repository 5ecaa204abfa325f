"""The file at a glance, for commands that must be quick: what it could need, without judging it. No pydantic here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from claw.config.layout import arrange

ANY_ENDPOINT = "*"
"""In a manifest's ``providers``: this plugin serves every ``providers.NAME`` with a ``baseUrl`` that nobody else does."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the file mentions.

    :param allow: ``plugins.allow``; None = no such list.
    :param entries: ``plugins.entries``, as written.
    :param channels: names with a section that is not switched off.
    :param providers: names with a section, and those that a model names.
    :param models: every model that is named anywhere, as written.
    :param opt_ins: every entry of a tool allow list anywhere, lower-case.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    channels: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()
    opt_ins: frozenset[str] = frozenset()


def outline(raw: Mapping[str, Any]) -> Wanted:
    """Read what matters of the raw tree; what has the wrong shape counts as absent."""
    tree = arrange(raw).tree
    plugins = _mapping(tree.get("plugins"))
    aliases = _mapping(_mapping(tree.get("models")).get("aliases"))
    models = tuple(dict.fromkeys(str(aliases.get(name, name)) for name in _models(tree)))
    named = {model.split("/", 1)[0] for model in models if "/" in model}
    return Wanted(
        allow=_names(plugins["allow"]) if isinstance(plugins.get("allow"), list) else None,
        deny=_names(plugins.get("deny")),
        entries={
            id: entry for id, entry in _mapping(plugins.get("entries")).items() if isinstance(entry, Mapping)
        },
        channels=frozenset(
            name
            for name, section in _mapping(tree.get("channels")).items()
            if _mapping(section).get("enabled", True)
        ),
        providers=frozenset(_mapping(tree.get("providers"))) | named,
        models=models,
        opt_ins=frozenset(_allowed(tree)),
    )


def _allowed(tree: Any) -> Iterator[str]:
    """Every entry of an ``allow`` or ``alsoAllow`` below any ``tools``."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            if name in ("allow", "alsoAllow", "also_allow"):
                yield from (word.strip().lower() for word in _names(value))
            elif name != "plugins":
                yield from _allowed(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _allowed(value)


def _models(tree: Any, chosen: bool = False) -> Iterator[str]:
    """Every text at or below a key ``model``, and every alias; what plugins read for themselves does not count."""
    if isinstance(tree, str):
        if chosen:
            yield tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            if key not in ("plugins", "channels", "providers", "memorySearch", "memory_search"):
                yield from _models(value, chosen or key in ("model", "aliases"))
    elif isinstance(tree, list):
        for value in tree:
            yield from _models(value, chosen)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()
