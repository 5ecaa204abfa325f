"""Generate the pages that come from the code: ``python docs/make.py``. tests/integration/test_docs.py checks
that they match.
"""

import ast
import dataclasses
import inspect
import json
import re
import runpy
import textwrap
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import claw
import claw_channel_sdk
import claw_http
import claw_memory
import claw_tool_sdk
import msgspec
import pytest_claw
from claw.config.models import Settings
from claw.contracts import channel, diagnostics, events, extensions, prompt, provider, tool
from claw.host import hookspecs
from claw.host.discovery import states_of
from claw.host.manifest import (
    API_VERSION,
    FILE_NAME,
    ChannelDeclaration,
    InstalledPlugin,
    Manifest,
    ManifestPart,
    ProviderDeclaration,
    ToolDeclaration,
    installed_plugins,
    parse_manifest,
)
from claw.host.state import owned_models
from claw.policy.catalog import CORE_TOOLS
from claw_admin.config_file.schema import add_owned_schemas
from claw_admin.plugin_index.index_format import encode_index, index_of
from claw_config_sdk import section_schema
from pytest_claw.channel_base import WITHOUT

HERE = Path(__file__).parent
PUBLIC = {name: module for module in (claw_channel_sdk, claw_tool_sdk, claw) for name in module.__all__}
"""Public name of a class of the contracts → where authors import it."""


HOOKS = {
    name: hook
    for name, hook in vars(hookspecs).items()
    if inspect.isfunction(hook) and hasattr(hook, "claw_spec")
}
EXAMPLES = sorted((HERE.parent / "examples").glob("*/claw_plugin_*/__init__.py"))


def hooks() -> str:
    """Return the list of all hooks, and the hooks that claw's own plugins specify."""
    parts = [
        "# Hooks\n",
        _as_markdown(inspect.getdoc(hookspecs) or ""),
        "",
        "| hook | purpose |",
        "| --- | --- |",
    ]
    for name, hook in HOOKS.items():
        summary = (inspect.getdoc(hook) or "").partition("\n\n")[0]
        parts.append(f"| [`{name}`](hooks/{_page_of(name)}) | {_as_markdown(' '.join(summary.split()))} |")
    parts += ["\n## Hooks of plugins\n", "They are asked while the plugin that specifies them is loaded."]
    for specs in (claw_http.hookspecs, claw_memory.hookspecs):
        for name, hook in vars(specs).items():
            if inspect.isfunction(hook) and hasattr(hook, "claw_spec"):
                parts += [f"\n### `{name}(config)`\n", _as_markdown(inspect.getdoc(hook) or "")]
    return "\n".join(parts).rstrip() + "\n"


def hook_page(name: str) -> str:
    """Return the manual of one hook: its docstring, the protocol of its objects, an example, and its test suite."""
    hook = HOOKS[name]
    given = ", ".join(inspect.signature(hook).parameters)
    parts = [f"# `{name}({given})`\n", _as_markdown(inspect.getdoc(hook) or "")]
    if contract := _contract_of(hook):
        parts += ["\n## The objects\n", f"```python\n{contract}\n```"]
    emitted = " ".join(vars(events)) if name == "register_observers" else ""
    if types := _types_of(f"{contract}\n{inspect.getdoc(hook)}\n{emitted}"):
        parts.append("\n## Types that they use\n\nImport them from `claw`.\n")
        parts += [f"```python\n{source}\n```\n" for source in types]
    for path in EXAMPLES:
        if code := _example_of(name, path):
            folder = path.parents[1].name
            parts += [
                f"\n## Example\n\nFrom [`examples/{folder}`](../../examples/{folder}), a package with tests:\n"
            ]
            parts += [f"```python\n{code}\n```"]
            break
    if suite := pytest_claw.SUITE_OF_HOOK.get(name):
        checks = [test for test in dir(getattr(pytest_claw, suite)) if test.startswith("test_")]
        parts += [f"\n## Tests\n\n`{suite}` of [pytest-claw](../../plugins/pytest-claw/README.md) checks:\n"]
        parts += [f"- {test.removeprefix('test_').replace('_', ' ')}" for test in checks]
    return "\n".join(parts).rstrip() + "\n"


def testing() -> str:
    """Return the list of test suites, with what each one needs."""
    rows = [
        "# Testing your plugin\n",
        "[pytest-claw](../plugins/pytest-claw/README.md) has a test suite for the objects of each hook. Install it in",
        "the environment of your tests, subclass a suite, and give it the object to test. It needs no asyncio plugin.\n",
        "```python\nfrom pytest_claw import ReviewerSuite\n\nfrom claw_plugin_acme import Careful\n\n",
        "class TestCareful(ReviewerSuite):\n    def make(self, folder):\n        return Careful()\n```\n",
        "`make(folder)` returns a new object whose state belongs into `folder`; a second call with the same folder is",
        "a restart.\n",
        "| hook | suite | tests | you give |",
        "| --- | --- | --- | --- |",
    ]
    for hook in HOOKS:
        if name := pytest_claw.SUITE_OF_HOOK.get(hook):
            suite = getattr(pytest_claw, name)
            count = sum(test.startswith("test_") for test in dir(suite))
            given = "`make(folder)`" if hasattr(suite, "make") else f"`{_GIVEN[name]}`"
            rows.append(f"| [`{hook}`](hooks/{_page_of(hook)}) | `{name}` | {count} | {given} |")
    rows += [_OF_LESS]
    rows += [f"| `{word}` | {lacks} |" for word, lacks in WITHOUT.items()]
    return "\n".join([*rows, _OF_YOUR_OWN]) + "\n"


_OF_LESS = """
Each page of a hook lists the checks of its suite. `claw.testing` runs a whole claw with fakes:
[plugin guide](plugins.md#testing).

## A service that has less

`ChannelSuite.without` names what your service lacks; the tests that need it are skipped, or ask for less. A service like
IRC, or MQTT with QoS 0, has `without = ("ids", "redelivery", "answers")`. The channel still gives each inbound message an
id of its own, and hands a refused one in again.

| word | the service lacks |
| --- | --- |"""
_OF_YOUR_OWN = """
## A protocol of your own

`ProviderSuite` plays answers of services that speak HTTP with server-sent events. For another protocol, or a model in
this process, subclass `OwnProtocolSuite`: it asks what holds for any answer.

```python
from pytest_claw import OwnProtocolSuite

from claw_plugin_acme import Acme


class TestAcme(OwnProtocolSuite):
    model = "acme-1"

    def make(self, folder):
        return Acme()
```

For a fake of your service, override `provider(folder)`: an async context manager that starts it and yields the
provider."""


_GIVEN = {
    "ChannelSuite": "place()",
    "ProviderSuite": "plugin, name, service",
    "SectionSuite": "section",
    "ToolSuite": "tool, sample",
}


def _page_of(hook: str) -> str:
    return f"{hook.removeprefix('register_').replace('_', '-')}.md"


def _contract_of(hook: Callable[..., Any]) -> str:
    """Return the sources of the classes that a hook's objects may have."""
    kinds = re.search(r"\[([\w.| ]+)\]$", str(hook.__annotations__.get("return")))
    modules = (extensions, channel, diagnostics, provider, tool, prompt)
    sources = []
    for kind in re.findall(r"\w+(?= \||$)", kinds[1]) if kinds else ():
        named = [getattr(module, kind) for module in modules if hasattr(module, kind)]
        sources += [inspect.getsource(one).rstrip() for one in named[:1]]
    return "\n\n\n".join(sources)


def _types_of(text: str) -> list[str]:
    """Return the sources of the public classes that a page names, and of those that these name, by name."""
    found: dict[str, str] = {}
    for _ in range(2):
        named = set(re.findall(r"\b[A-Z][A-Za-z]+\b", "\n".join((text, *found.values()))))
        for name in named & PUBLIC.keys() - found.keys():
            kind = getattr(PUBLIC[name], name)
            is_data = inspect.isclass(kind) and (
                dataclasses.is_dataclass(kind) or getattr(kind, "_is_protocol", False)
            )
            if is_data and f"class {name}" not in text:
                found[name] = textwrap.dedent(inspect.getsource(kind)).rstrip()
    return [source for _, source in sorted(found.items())]


def _example_of(hook: str, path: Path) -> str:
    """Return the part of an example that answers a hook: its function, and what that uses of the file."""
    source = path.read_text(encoding="utf-8")
    nodes = ast.parse(source).body
    defined = {name: node for node in nodes for name in _names_made(node)}
    wanted, todo = set[ast.stmt](), [hook]
    while todo:
        node = defined.get(todo.pop())
        if node is not None and node not in wanted:
            wanted.add(node)
            todo += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    if hook not in defined:
        return ""
    shown = sorted(wanted, key=lambda node: node.lineno)
    blocks = []
    for node, before in zip(shown, [None, *shown], strict=False):
        start = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", ()))])
        gap = 1 if before is None or (_is_import(node) and _is_import(before)) else 3
        blocks.append("\n" * gap + "\n".join(source.splitlines()[start - 1 : node.end_lineno]))
    return "".join(blocks).strip("\n")


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _names_made(node: ast.stmt) -> list[str]:
    """Return the names that a statement at the top of a file defines or imports."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name] if (name := getattr(node, "name", "")) else []


_FIELDS = {
    "returns": "Answers with",
    "when": "When",
    "order": "Order",
    "limits": "Limits",
    "failure": "On failure",
    "default": "Without an answer",
}


def _as_markdown(doc: str) -> str:
    """Return a docstring as Markdown: its fields become a list, an example becomes a block of code."""
    doc, _, example = doc.partition("\n\nExample::\n\n")
    doc = re.sub(r":(?:class|attr|func):`([\w.]+)`", r"`\1`", doc).replace("``", "`")
    doc = re.sub(r"^:param (\w+):", r"- **\1**:", doc, flags=re.M)
    doc = re.sub(r"^:raises (\w+):", r"- **raises `\1`**:", doc, flags=re.M)
    doc = re.sub(r"^:(\w+):", lambda field: f"- **{_FIELDS[field[1]]}**:", doc, flags=re.M)
    doc = re.sub(r"^\.\. versionadded:: (.*)$", r"Since \1.", doc, flags=re.M)
    return f"{doc}\n\n```python\n{textwrap.dedent(example).strip()}\n```" if example else doc


def settings() -> str:
    """Return every key of the config file, with its type, default and meaning."""
    states = states_of(installed_plugins(), {"CLAW_HOME": str(HERE / "no-home")})
    schema = section_schema(Settings)
    add_owned_schemas(schema, owned_models(states))
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
        ("A channel", ChannelDeclaration),
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
    if get_origin(kind) in (UnionType, Union) and type(None) not in given:
        return " or ".join(map(_of_json, given))
    if get_origin(kind) is tuple:
        return f"list of {_of_json(given[0])}"
    if get_origin(kind) is not None and type(None) in given:
        return _of_json(given[0])
    words = {bool: "true or false", float: "number", ToolDeclaration: "[lines](#a-line-of-tools)"}
    words[ProviderDeclaration] = "[lines](#a-line-of-providers)"
    if ChannelDeclaration in given:
        return "object of name and [channel](#a-channel)"
    if get_origin(kind) is dict and given[1] in words:
        return f"object of name and {words[given[1]].replace('lines', 'line')}"
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


HINTS = HERE.parent / "core/claw/config/package_hints.json"


def package_hints() -> str:
    """Return the table of what each first-party package brings, for the hints of core.

    Chat commands, and plugins that are not released, are in no manifest: they are written by hand and kept.
    """
    table = json.loads(HINTS.read_text(encoding="utf-8"))
    for file in sorted(HERE.parent.glob("plugins/*/*/claw-plugin.json")):
        manifest = json.loads(file.read_text(encoding="utf-8"))
        project = tomllib.loads((file.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        about = table.setdefault(manifest["id"], {})
        about["package"] = project["name"]
        about |= {field: sorted(manifest.get(field, ())) for field in _HINTED}
        named = {tool["name"] for tool in manifest.get("tools", ())}
        about["tools"] = sorted(named.intersection(CORE_TOOLS))
    lines = (f"  {json.dumps(id)}: {json.dumps({k: v for k, v in about.items() if v or k == 'package'})}"
             for id, about in table.items())  # fmt: skip
    return "{\n" + ",\n".join(lines) + "\n}\n"


def plugin_index() -> str:
    """Return the index of claw's own plugins and of the examples, which ``claw plugins search`` reads."""
    found = []
    for file in sorted(HERE.parent.glob("[ep]*s/*/*/claw-plugin.json")):
        project = tomllib.loads((file.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        [(id, package)] = project["entry-points"]["claw.plugins"].items()
        manifest = parse_manifest(file.read_text(encoding="utf-8"), id)
        found.append(InstalledPlugin(id, package, project["name"], project["version"], manifest=manifest))
    return encode_index(index_of(found)).decode()


_HINTED = ("commands", "configKeys", "channels", "shortKeys", "sandboxes")
PAGES = {
    "../core/claw/config/package_hints.json": package_hints,
    "../plugins/admin/claw_admin/plugin_index/plugins.json": plugin_index,
    "hooks.md": hooks,
    "manifest.md": manifest,
    "settings.md": settings,
    "testing.md": testing,
    "tried-packages.md": runpy.run_path(str(HERE.parent / "tests/integration/published.py"))["page"],
} | {f"hooks/{_page_of(name)}": partial(hook_page, name) for name in HOOKS}

if __name__ == "__main__":
    (HERE / "hooks").mkdir(exist_ok=True)
    for page, write in PAGES.items():
        (HERE / page).write_text(write(), encoding="utf-8")
