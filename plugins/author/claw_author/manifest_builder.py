"""The manifest from the code: fields that follow from the code, and the rest as the author wrote it. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from claw import t
from claw.runtime import ChannelDeclaration, Manifest, ProviderDeclaration, ToolDeclaration

BY_HAND = ("name", "description", "api", "mcp_servers", "requires", "env", "capabilities", "schema")
ANY_ENDPOINT = "*"


def build_manifest(fields: Mapping[str, Any], before: Manifest | None, description: str) -> Manifest:
    """Return the updated manifest.

    :param fields: of ``registrations_of``.
    :param before: the existing manifest; its hand-written fields, the environment variables and default
        models of
        its providers, and a schema that does not follow from the code or that has a ``$comment`` (it is
        written by hand),
        are kept.
    :param description: of the project, when the manifest has none.
    """
    manifest = msgspec.convert(fields, Manifest)
    if before is None:
        named = manifest.id.replace("-", " ").capitalize()
        return msgspec.structs.replace(manifest, name=named, description=description)
    kept: dict[str, Any] = {field: getattr(before, field) for field in BY_HAND}
    # Written by hand: no hook answers with them.
    kept["config_keys"], kept["config_models"] = before.config_keys, before.config_models
    kept["short_keys"] = before.short_keys
    kept["standard"], kept["operator"] = before.standard, before.operator
    kept["config_checks"] = before.config_checks
    if isinstance(before.commands, dict):  # with summaries
        kept["commands"] = {name: before.commands.get(name, "") for name in manifest.commands}
    if isinstance(before.channels, dict):  # with the shapes of their ids
        kept["channels"] = {
            name: before.channels.get(name, ChannelDeclaration()) for name in manifest.channels
        }
    if manifest.config_schema is None or "$comment" in (before.config_schema or {}):
        kept["config_schema"] = before.config_schema
    lines = {line.name: line for line in before.providers}
    providers = [lines.get(line.name, line) for line in manifest.providers]
    known = {line.name for line in providers}
    providers += [line for name, line in lines.items() if name == ANY_ENDPOINT and name not in known]
    return msgspec.structs.replace(manifest, **kept, providers=tuple(providers))


def manifest_text(manifest: Manifest) -> str:
    """Return the text of the file: defaults left out, indented by two blanks."""
    return json.dumps(manifest_as_data(manifest), ensure_ascii=False, indent=2) + "\n"


def manifest_as_data(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as plain data, defaults left out."""
    tree = _without_defaults(manifest, Manifest(id=""), keep=("api", "kinds"))
    if isinstance(manifest.channels, dict):
        none = ChannelDeclaration()
        tree["channels"] = {
            name: _without_defaults(line, none, ()) for name, line in manifest.channels.items()
        }
    if manifest.tools:
        tree["tools"] = [_tool_line(line) for line in manifest.tools]
    if manifest.providers:
        none_ = ProviderDeclaration(name="")
        tree["providers"] = [_without_defaults(line, none_, keep=()) for line in manifest.providers]
    return tree


def _tool_line(tool: ToolDeclaration) -> dict[str, Any]:
    line = _without_defaults(tool, ToolDeclaration(name=""), keep=("description", "effects"))
    forms = {name: _tool_line(form) for name, form in tool.without.items()}
    return line | ({"without": forms} if forms else {})


def differences(built: Manifest, found: Manifest) -> Iterator[str]:
    """Yield the fields in which two manifests differ; of tools, which and how."""
    ours, theirs = manifest_as_data(built), manifest_as_data(found)
    for field in dict.fromkeys([*ours, *theirs]):
        if field == "tools" or ours.get(field) == theirs.get(field):
            continue
        if field == "kinds" and sorted(built.kinds) == sorted(found.kinds):
            continue
        if field == "configSchema" and _meaning(ours.get(field)) == _meaning(theirs.get(field)):
            continue
        yield field
    code = {tool.name: tool for tool in built.tools}
    file = {tool.name: tool for tool in found.tools}
    for name in dict.fromkeys([*code, *file]):
        if name not in file or name not in code:
            is_code = name in code
            yield (
                t("tools: {name} is only in the code", name=name)
                if is_code
                else t("tools: {name} is only in the manifest", name=name)
            )
        elif code[name] != file[name]:
            fields = [
                f
                for f in ToolDeclaration.__struct_fields__
                if getattr(code[name], f) != getattr(file[name], f)
            ]
            yield f"tools: {name}: {', '.join(fields)}"
    if list(code) != list(file) and sorted(code) == sorted(file):
        yield t("tools: another order")


def _meaning(schema: Any) -> Any:
    """Return a schema without its descriptions."""
    if isinstance(schema, list):
        return [_meaning(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _meaning(inner) for name, inner in value.items()}
        if key == "properties"
        else _meaning(value)
        for key, value in schema.items()
        if key not in ("title", "description")
    }


def _without_defaults(part: msgspec.Struct, empty: msgspec.Struct, keep: tuple[str, ...]) -> dict[str, Any]:
    tree, defaults = msgspec.to_builtins(part), msgspec.to_builtins(empty)
    return {
        key: value
        for key, value in tree.items()
        if key in ("id", "name", *keep) or value != defaults.get(key)
    }
