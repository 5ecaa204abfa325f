"""Write the pages that come from the code: ``python docs/make.py``. tests/house/test_docs.py holds them to it."""

import inspect
from pathlib import Path
from typing import Any

from claw import hookspecs
from claw.config.settings import Settings

HERE = Path(__file__).parent


def hooks() -> str:
    """Every hook with its signature and its docstring."""
    parts = ["# Hooks\n", inspect.getdoc(hookspecs) or "", ""]
    for name, hook in vars(hookspecs).items():
        if inspect.isfunction(hook) and hasattr(hook, "claw_spec"):
            given = ", ".join(inspect.signature(hook).parameters)
            parts += [f"\n## `{name}({given})`\n", inspect.getdoc(hook) or ""]
    return "\n".join(parts).rstrip() + "\n"


def settings() -> str:
    """Every key of the file, with what it holds, its default and its meaning."""
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


def _rows(prefix: str, node: dict[str, Any], defs: dict[str, Any], inside: tuple[str, ...]) -> list[str]:
    rows: list[str] = []
    for name, value in node.get("properties", {}).items():
        key = f"{prefix}.{name}" if prefix else name
        body, ref = _resolved(value, defs)
        holds = _holds(body)
        meaning = " ".join(str(value.get("description") or body.get("description") or "").split()).replace("|", "\\|")
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


PAGES = {"hooks.md": hooks, "settings.md": settings}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (HERE / page).write_text(write(), encoding="utf-8")
