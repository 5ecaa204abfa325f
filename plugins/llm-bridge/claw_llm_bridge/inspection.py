"""Inspection of llm plugins; the only module that imports ``llm``. As a program it lists all installed ones.

As a program it reads one JSON document from stdin (``path``: the import path; ``toolboxes``: constructor
arguments; ``skip``: names to leave out) and writes one JSON line for each plugin, before and after its import,
so that a plugin that crashes the process is known by name.

Facts from llm 0.36 (``llm.get_tools``, ``llm.Toolbox``): a plugin is an entry point of the group ``llm``; its
hook ``register_tools(register)`` registers functions, ``llm.Tool`` objects and ``llm.Toolbox`` classes.
"""

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

GROUP = "llm"


def plugins() -> list[EntryPoint]:
    """Return every installed llm plugin, in order of distribution; import none."""
    found = [entry for entry in entry_points(group=GROUP) if entry.dist is not None]
    return sorted(found, key=lambda entry: (entry.dist.name if entry.dist else "", entry.name))


def brings_tools(entry: EntryPoint) -> bool:
    """Return true if its source has the hook for tools. Most llm plugins provide models, and are never
    imported here.
    """
    found = find_spec(entry.module.partition(".")[0])
    if found is None:
        return True  # importing it will report what is missing
    folders = [Path(folder) for folder in found.submodule_search_locations or ()]
    files = [file for folder in folders for file in folder.rglob("*.py")] or [Path(found.origin or "")]
    return any(b"register_tools" in file.read_bytes() for file in files if file.is_file())


def registered(entry: EntryPoint) -> list[Any]:
    """Return the objects that the plugin registers: ``llm.Tool`` and ``llm.Toolbox``. Imports it, and
    ``llm``.

    :raises Exception: whatever the plugin raises.
    """
    import llm
    import llm.plugins

    registered: list[Any] = []

    def register(thing: Any, name: str | None = None) -> None:
        if inspect.isclass(thing) or isinstance(thing, llm.Tool):
            if name or inspect.isclass(thing):
                thing.name = name or thing.__name__
            registered.append(thing)
        else:
            registered.append(llm.Tool.function(thing, name=name))

    # Call this plugin alone: llm itself imports all of them, and stops at the first bad one.
    manager, plugin = llm.plugins.pm, entry.load()
    if not manager.is_registered(plugin):
        if manager.has_plugin(entry.name):
            manager.unregister(name=entry.name)
        manager.register(plugin, name=entry.name)  # the name that llm gives it: it loads no plugin twice
    others = [one for one in manager.get_plugins() if one is not plugin]
    manager.subset_hook_caller("register_tools", remove_plugins=others)(register=register)
    return registered


def needed(box: type) -> list[str]:
    """Return the required constructor arguments of a toolbox."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = list(inspect.signature(box).parameters.values())
    return [p.name for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]


def opened(box: type, arguments: Mapping[str, Any]) -> Any:
    """Return a toolbox, created and prepared."""
    instance = box(**arguments)
    instance.prepare()
    return instance


def describe_tools(entry: EntryPoint, toolboxes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the tools of a plugin, as plain data."""
    tools: list[dict[str, Any]] = []
    lacking: dict[str, list[str]] = {}
    unopened: dict[str, str] = {}
    for thing in registered(entry):
        if not inspect.isclass(thing):
            tools.append(_line(thing, "", thing.implementation))
            continue
        box = str(thing.name)  # type: ignore[attr-defined]
        arguments = toolboxes.get(box, {})
        if missing := [name for name in needed(thing) if name not in arguments]:
            lacking[box] = missing
            continue
        try:
            tools += [_line(one, box, one.implementation) for one in opened(thing, arguments).tools()]
        except Exception as why:  # noqa: BLE001 - third-party code: the other tools of the plugin stay
            unopened[box] = f"{type(why).__name__}: {why}"
    return {"tools": tools, "lacking": lacking, "unopened": unopened}


def _line(one: Any, box: str, implementation: Callable[..., Any] | None) -> dict[str, Any]:
    text = one.description or (inspect.getdoc(implementation) if implementation else "") or one.name
    schema = {"type": "object", "properties": {}, **one.input_schema}
    return {"name": one.name, "box": box, "description": inspect.cleandoc(text), "parameters": schema}


def _lines(asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in plugins():
        assert entry.dist is not None
        whose = {
            "name": entry.dist.name,
            "version": entry.dist.version,
            "entry": entry.name,
            "value": entry.value,
        }
        if [entry.dist.name, entry.name] in asked["skip"] or not brings_tools(entry):
            continue
        yield {"starts": whose}
        try:
            yield whose | describe_tools(entry, asked["toolboxes"])
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as why:  # noqa: BLE001 - third-party code
            yield whose | {"why": f"{type(why).__name__}: {why}", "absent": isinstance(why, ImportError)}


def main() -> None:
    """Report every plugin. Discard what plugins print."""
    asked = json.load(sys.stdin)
    sys.path[:] = asked["path"]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    for line in _lines(asked):
        out.write(json.dumps(line, default=repr) + "\n")
        out.flush()
    out.close()
    os._exit(0)  # do not wait for threads that a plugin left behind


if __name__ == "__main__":
    main()
