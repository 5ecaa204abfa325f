"""Generate the pages that come from the code: ``python docs/make.py``. tests/integration/test_docs.py checks
that they match.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import claw_http
import claw_memory
import msgspec
from claw.config.models import Settings
from claw.host import hookspecs
from claw.host.manifest import (
    API_VERSION,
    FILE_NAME,
    Manifest,
    ManifestPart,
    ProviderDeclaration,
    ToolDeclaration,
)

HERE = Path(__file__).parent


def hooks() -> str:
    """Return every hook with its signature and its docstring."""
    parts = ["# Hooks\n", inspect.getdoc(hookspecs) or "", "", *_hooks_of(hookspecs, "##")]
    parts += ["\n## Hooks of plugins\n", "They are asked while the plugin that specifies them is loaded."]
    parts += [*_hooks_of(claw_http.hookspecs, "###"), *_hooks_of(claw_memory.hookspecs, "###")]
    return "\n".join(parts).rstrip() + "\n"


def _hooks_of(specs: ModuleType, head: str) -> Iterator[str]:
    for name, hook in vars(specs).items():
        if inspect.isfunction(hook) and hasattr(hook, "claw_spec"):
            given = ", ".join(inspect.signature(hook).parameters)
            yield f"\n{head} `{name}({given})`\n"
            yield _as_list(inspect.getdoc(hook) or "")


def _as_list(doc: str) -> str:
    """Return a docstring as Markdown: its fields become a list."""
    doc = re.sub(r"^:param (\w+):", r"- *\1*:", doc, flags=re.M)
    doc = re.sub(r"^:returns:", "- *answers with*:", doc, flags=re.M)
    doc = re.sub(r"^:raises (\w+):", r"- *raises `\1`*:", doc, flags=re.M)
    return re.sub(r"^\.\. versionadded:: (.*)$", r"Since \1.", doc, flags=re.M)


def settings() -> str:
    """Return every key of the config file, with its type, default and meaning."""
    schema = Settings.model_json_schema(by_alias=True)
    rows = [
        "# Settings",
        "",
        "One file, `config.yaml` or `config.json` in `CLAW_HOME` (default `~/.claw`). `claw config schema` prints the",
        "JSON Schema for your editor, with the sections of the plugins that are installed. `[]` stands for an index or",
        "an id, `NAME` for a name of your choice. Durations are written `30m`, sizes `2mb`, secrets `${VARIABLE}`.",
        "",
        "| key | holds | default | meaning |",
        "| --- | --- | --- | --- |",
    ]
    return "\n".join([*rows, *_rows("", schema, schema.get("$defs", {}), ())]) + "\n"


def manifest() -> str:
    """Return every field of the manifest, with its type, default and meaning."""
    api = ".".join(map(str, API_VERSION))
    parts = [
        "# Manifest",
        "",
        f"`{FILE_NAME}` is a file inside the import package and the wheel of a plugin. It lists the",
        "plugin's contents, so that claw can list, check and explain them without importing the plugin.",
        f"The plugin API of this claw is {api}.",
        "`claw plugins build` writes it from the code, `claw plugins build --check` compares it with the code, and",
        "`claw plugins info ID` shows it.",
        "",
        "Only `id` is required. An unknown field, or a value of a wrong type, quarantines the plugin,",
        "and the message names the field. The [plugin guide](plugins.md#the-manifest) has a complete example.",
    ]
    for title, part in (
        ("The file", Manifest),
        ("A line of `tools`", ToolDeclaration),
        ("A line of `providers`", ProviderDeclaration),
    ):
        parts += ["", f"## {title}", "", "| field | holds | default | meaning |", "| --- | --- | --- | --- |"]
        parts += _fields(part)
    return "\n".join(parts) + "\n"


def _fields(part: type[ManifestPart]) -> list[str]:
    told = dict(re.findall(r":param (\w+): (.*?)(?=\n:param|\Z)", inspect.getdoc(part) or "", re.S))
    rows = []
    for field in msgspec.structs.fields(part):
        default = "**required**" if field.required else ""
        if field.default not in (msgspec.NODEFAULT, None, "", (), {}):
            default = f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"
        meaning = " ".join(told[field.name].replace("``", "`").split())
        rows.append(f"| `{field.encode_name}` | {_of_json(field.type)} | {default} | {meaning} |")
    return rows


def _of_json(kind: Any) -> str:
    """Return the JSON name of a Python type."""
    given = get_args(kind)
    if get_origin(kind) is Literal:
        return ", ".join(given)
    if get_origin(kind) is tuple:
        return f"list of {_of_json(given[0])}"
    if get_origin(kind) is not None and type(None) in given:
        return _of_json(given[0])
    words = {bool: "true or false", float: "number", ToolDeclaration: "[lines](#a-line-of-tools)"}
    words[ProviderDeclaration] = "[lines](#a-line-of-providers)"
    return words.get(kind, "object" if dict in (kind, get_origin(kind)) else "text")


def _rows(prefix: str, node: dict[str, Any], defs: dict[str, Any], inside: tuple[str, ...]) -> list[str]:
    rows: list[str] = []
    for name, value in node.get("properties", {}).items():
        key = f"{prefix}.{name}" if prefix else name
        body, ref = _resolved(value, defs)
        holds = _holds(body)
        meaning = " ".join(str(value.get("description") or body.get("description") or "").split()).replace(
            "|", "\\|"
        )
        default = value.get("default")
        shown = "" if default in (None, [], {}, "") or isinstance(default, dict) else f"`{default}`"
        rows.append(f"| `{key}` | {holds} | {shown} | {meaning} |")
        if ref in inside:
            continue
        deeper = (*inside, ref) if ref else inside
        if body.get("properties"):
            rows += _rows(key, body, defs, deeper)
        elif isinstance(body.get("items"), dict):
            item, item_ref = _resolved(body["items"], defs)
            if item.get("properties") and item_ref not in deeper:
                rows += _rows(f"{key}[]", item, defs, (*deeper, item_ref))
        elif isinstance(body.get("additionalProperties"), dict):
            item, item_ref = _resolved(body["additionalProperties"], defs)
            if item.get("properties") and item_ref not in deeper:
                rows += _rows(f"{key}.NAME", item, defs, (*deeper, item_ref))
    return rows


def _resolved(value: dict[str, Any], defs: dict[str, Any]) -> tuple[dict[str, Any], str]:
    for option in (value, *value.get("anyOf", []), *value.get("allOf", [])):
        if ref := option.get("$ref"):
            name = ref.rpartition("/")[2]
            return defs.get(name, {}), name
    options = [option for option in value.get("anyOf", []) if option.get("type") != "null"]
    return (options[0], "") if len(options) == 1 else (value, "")


def _holds(body: dict[str, Any]) -> str:
    if "enum" in body:
        return ", ".join(str(word) for word in body["enum"])
    if "const" in body:
        return str(body["const"])
    if "anyOf" in body:
        return " or ".join(dict.fromkeys(_holds(o) for o in body["anyOf"] if o.get("type") != "null"))
    kind = body.get("type", "anything")
    words = {"object": "section", "array": "list", "string": "text", "boolean": "true or false"}
    return words.get(kind, str(kind)) if isinstance(kind, str) else "anything"


PAGES = {"hooks.md": hooks, "manifest.md": manifest, "settings.md": settings}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (HERE / page).write_text(write(), encoding="utf-8")
