"""JSON Schema of the file, for editors: the core's models, and what the installed plugins' manifests say."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from claw.config.layout import AGENT_KEYS
from claw.config.settings import Settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(manifests: Iterable[Any] = ()) -> dict[str, Any]:
    """The whole schema, draft 2020-12.

    :param manifests: ``claw.manifest.Manifest`` of each installed plugin; no plugin is imported. A ``config_schema``
        describes the plugin's own section: its channel's, else its provider's, else ``plugins.entries.ID.config``.
    """
    whole: dict[str, Any] = {"$schema": DIALECT, **Settings.model_json_schema(by_alias=True)}
    whole["title"] = "claw config"
    sections, top = whole["$defs"], whole["properties"]
    for key in sorted(AGENT_KEYS & sections["AgentSettings"]["properties"].keys()):
        top[key] = {"$ref": f"#/$defs/AgentSettings/properties/{key}"}
    for manifest in manifests:
        own = manifest.config_schema
        if not own:
            continue
        for key, names in (
            ("channels", manifest.channels),
            ("providers", [line.name for line in manifest.providers]),
        ):
            for name in names:
                _of_section(top[key], name, sections, own)
        if manifest.keeps_own_section:
            _of_plugin(manifest.id, sections, own)
    return whole


def _of_section(holder: dict[str, Any], name: str, sections: dict[str, Any], own: Mapping[str, Any]) -> None:
    """``channels.NAME`` or ``providers.NAME``: core's keys and the plugin's together."""
    base = sections[holder["additionalProperties"]["$ref"].rsplit("/", 1)[-1]]
    joined = copy.deepcopy(dict(own)) | {"type": "object"}
    joined["properties"] = base["properties"] | dict(own.get("properties", {}))
    holder.setdefault("properties", {})[name] = joined


def _of_plugin(plugin: str, sections: dict[str, Any], own: Mapping[str, Any]) -> None:
    """``plugins.entries.ID``: its ``config`` is the plugin's."""
    entries = sections["Plugins"]["properties"]["entries"]
    entry = copy.deepcopy(sections["PluginEntry"])
    entry["properties"]["config"] = copy.deepcopy(dict(own))
    entries.setdefault("properties", {})[plugin] = entry
