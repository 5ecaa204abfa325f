"""The imports of this repository that break a rule."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache

import claw
from claw import runtime
from core.source import CORE, Source, layers, plugin_packages, public_modules, sources

OUTSIDE = ("", "__main__")  # the package itself and the start of the process import what they start
SAME_LAYER = {"runtime": "app", "terminal": "app", "testing": "app"}
TIERS = {"claw": public_modules(claw), "claw.runtime": public_modules(runtime)}
"""The modules behind the public names."""
LIBRARIES = {
    "claw_channel_sdk",
    "claw_config_sdk",
    "claw_http_sdk",
    "claw_provider_sdk",
    "claw_testing",
    "claw_tool_sdk",
}
"""Packages whose top-level names any plugin may import, beside ``claw``, ``claw.runtime`` and ``claw.testing``."""

Edge = tuple[str, str]


@cache
def core_files() -> tuple[Source, ...]:
    return tuple(sources(CORE))


@cache
def plugin_files() -> tuple[Source, ...]:
    return tuple(source for package in plugin_packages() for source in sources(package))


@cache
def modules() -> frozenset[str]:
    return frozenset(source.module for source in (*core_files(), *plugin_files()))


def edges(source: Source) -> Iterator[Edge]:
    """The modules of this repository that a file imports, and what it wrote: ``claw`` for a public name of claw."""
    for node in ast.walk(source.tree):
        yield from edges_of(node)


def edges_of(node: ast.AST) -> Iterator[Edge]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name in modules():
                yield alias.name, alias.name
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            if alias.name in TIERS.get(node.module, {}):
                yield TIERS[node.module][alias.name], node.module
            elif full in modules():
                yield full, full
            elif node.module in modules():
                yield node.module, node.module


def layer_of(module: str) -> int:
    package = module.split(".")[1]
    return layers()[SAME_LAYER.get(package, package)]


def upward() -> set[Edge]:
    """Imports within core that point to a higher layer."""
    return {
        (source.module, target)
        for source in core_files()
        if source.package not in OUTSIDE
        for target, _ in edges(source)
        if target.startswith("claw.") and target.split(".")[1] not in OUTSIDE
        if layer_of(target) > layer_of(source.module)
    }


def to_plugins() -> set[Edge]:
    """Imports of plugins and libraries by core."""
    return {
        (source.module, target)
        for source in core_files()
        for target, _ in edges(source)
        if target.startswith("claw_")
    }


def private() -> set[Edge]:
    """Imports by plugins and libraries of what is not public: modules of core, and other plugins."""
    return {
        (source.module, target)
        for source in plugin_files()
        for target, written in edges(source)
        if target.split(".")[0] != source.module.split(".")[0]
        if written not in ("claw", "claw.runtime", "claw.testing") and written not in LIBRARIES
    }


def circular() -> set[Edge]:
    """Imports that are part of a circle: within one package of core, and within one plugin or library."""
    within_core = {
        source.module: {target for target, _ in edges(source) if _part(target) == _part(source.module)}
        for source in core_files()
    }
    at_run_time = {source.module: set(run_time_imports(source)) for source in plugin_files()}
    return _circles(within_core) | _circles(at_run_time)


def _part(module: str) -> list[str]:
    return module.split(".")[:2]


def run_time_imports(source: Source) -> Iterator[str]:
    """The imports of a file, at its top and in functions, without those for the type checker."""
    for_types = {
        id(inner)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for line in node.body
        for inner in ast.walk(line)
    }
    for node in ast.walk(source.tree):
        if id(node) not in for_types:
            yield from (target for target, _ in edges_of(node))


def _circles(graph: Mapping[str, set[str]]) -> set[Edge]:
    left = {name: (below & graph.keys()) - {name} for name, below in graph.items()}
    while free := [name for name, below in left.items() if not below & left.keys()]:
        left = {name: below for name, below in left.items() if name not in free}
    while free := [name for name in left if not any(name in below for below in left.values())]:
        left = {name: below for name, below in left.items() if name not in free}
    return {(name, target) for name, below in left.items() for target in below & left.keys()}


def broken() -> set[Edge]:
    """Every import that breaks a rule."""
    return upward() | to_plugins() | private() | circular()
