"""The JSON Schema of the config file, for editors: the settings of core and of the installed plugins."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from claw.runtime import AGENT_KEYS, Manifest, Settings
from claw_config_sdk import section_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_schema(manifests: Iterable[Manifest], owned: Mapping[str, Any]) -> dict[str, Any]:
    """Build the whole schema, draft 2020-12.

    :param owned: key that a plugin owns → function that returns its pydantic model, or None.
    :param manifests: of each installed plugin; no plugin is imported. A ``config_schema`` describes the plugin's own
        section: its channel's, else its provider's, else ``plugins.entries.ID.config``.
    """
    whole: dict[str, Any] = {"$schema": DIALECT, **section_schema(Settings)}
    whole["title"] = "claw config"
    sections, top = whole["$defs"], whole["properties"]
    add_owned_schemas(whole, owned)
    of_plugins = {key.removeprefix("agents.") for key in owned if key.startswith("agents.")}
    for key in sorted((AGENT_KEYS | of_plugins) & sections["AgentSettings"]["properties"].keys()):
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
                _add_section(top[key], name, sections, own)
        if manifest.has_own_section:
            _add_plugin(manifest.id, sections, own)
    return whole


def add_owned_schemas(whole: dict[str, Any], owned: Mapping[str, Any]) -> None:
    """Add the schemas of the keys that plugins own to that of the settings. What core describes already stays."""
    for key, model_of in owned.items():
        own: dict[str, Any] = section_schema(model_of()) if model_of else {}
        whole["$defs"] |= own.pop("$defs", {})
        first, *steps = key.split(".")
        holders: list[dict[str, Any] | None] = [whole]
        if first == "agents":
            holders = [whole["$defs"]["AgentSettings"], whole["$defs"]["AgentEntry"]]
        else:
            steps = [first, *steps]
        for step in steps[:-1]:
            holders = [each and _described(whole, each.get("properties", {}).get(step)) for each in holders]
        for holder in holders:
            if holder is not None:
                holder.setdefault("properties", {}).setdefault(steps[-1], own)


def _described(whole: dict[str, Any], place: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the section that a property refers to; None when there is none."""
    names = [part["$ref"] for part in (place, *place.get("anyOf", ())) if "$ref" in part] if place else []
    section: dict[str, Any] | None = whole["$defs"][names[0].rsplit("/", 1)[-1]] if names else place
    return section


def _add_section(holder: dict[str, Any], name: str, sections: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Add the schema of ``channels.NAME`` or ``providers.NAME``: the keys of core and of the plugin together."""
    base = sections[holder["additionalProperties"]["$ref"].rsplit("/", 1)[-1]]
    joined = copy.deepcopy(dict(own)) | {"type": "object"}
    joined["properties"] = base["properties"] | dict(own.get("properties", {}))
    holder.setdefault("properties", {})[name] = joined


def _add_plugin(plugin: str, sections: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Add the schema of ``plugins.entries.ID``, whose ``config`` is the plugin's."""
    entries = sections["PluginsSettings"]["properties"]["entries"]
    entry = copy.deepcopy(sections["PluginEntry"])
    meaning = entry["properties"]["config"]["description"]
    entry["properties"]["config"] = {"description": meaning, **copy.deepcopy(dict(own))}
    entries.setdefault("properties", {})[plugin] = entry
