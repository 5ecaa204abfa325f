"""Portability rules of a manifest, and tools in code that do not declare their effects. Pure."""

import ast
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from claw import Tool, t
from claw.runtime import Manifest
from claw.testing import tool_faults

KINDS = {
    "channel": "channels", "provider": "providers", "tool": "tools", "section": "prompt_sections",
    "sandbox": "sandboxes", "reviewer": "reviewers", "filter": "filters", "observer": "observers", "store": "stores",
    "command": "commands", "skill": "skills", "mcp-server": "mcp_servers",
}  # fmt: skip
_ID = re.compile(r"[a-z][a-z0-9-]{0,63}")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_RANGE = re.compile(r"\s*([<>]=?|[=!]=)\s*\d+(\.\d+)?\s*(,\s*([<>]=?|[=!]=)\s*\d+(\.\d+)?\s*)*")


@dataclass(frozen=True, slots=True)
class ManifestFinding:
    """One problem to fix.

    :param rule: id, manifest, env, name, description, anthropic, openai-strict, gemini, price or effects.
    :param where: the tool, the field of the manifest, or the line of code.
    """

    rule: str
    where: str
    problem: str

    def as_data(self) -> dict[str, str]:
        """Return it for ``--json``."""
        return asdict(self)


def findings(manifest: Manifest) -> Iterator[ManifestFinding]:
    """Yield the problems of a manifest, its tools last."""
    if not _ID.fullmatch(manifest.id):
        yield ManifestFinding("id", "id", t("lower-case letters, digits and hyphens, a letter first"))
    for field in ("name", "description"):
        if not getattr(manifest, field).strip():
            yield ManifestFinding("manifest", field, t("it is empty, and the list of plugins shows it"))
    if not _RANGE.fullmatch(manifest.api):
        yield ManifestFinding(
            "manifest",
            "api",
            t("{range} is no range such as {example}", range=repr(manifest.api), example="'>=1,<2'"),
        )
    for kind, field in KINDS.items():
        if getattr(manifest, field) and kind not in manifest.kinds:
            yield ManifestFinding(
                "manifest",
                "kinds",
                t("it has {field}, and {kind} is not among its kinds", field=field, kind=kind),
            )
    variables = [*manifest.env, *(name for line in manifest.providers for name in line.env)]
    for name in dict.fromkeys(variables):
        if not _VARIABLE.fullmatch(name):
            yield ManifestFinding(
                "env", name, t("an environment variable is upper-case letters, digits and _")
            )
    for tool in manifest.tools:
        for fault in tool_faults(tool):
            yield ManifestFinding(fault.rule, tool.name, fault.problem)


_EFFECTS_POSITION = Tool.__match_args__.index("effects")


def undeclared_effects(code: str, name: str) -> Iterator[ManifestFinding]:
    """Yield the tools of a module that do not declare their effects: ``@tool`` and ``Tool(…)`` without ``effects``.

    :param code: the source of the module; code that does not parse has no findings here, as importing it fails.
    :param name: of its file, for the findings.
    """
    try:
        nodes = sorted(_undeclared(ast.parse(code)))
    except SyntaxError:
        return
    for line in nodes:
        problem = t(
            "a tool declares no effects, so a call that a crash cut off is not repeated: write {once}, or {none} for a "
            "tool that only reads",
            once='effects="once"',
            none='effects="none"',
        )
        yield ManifestFinding("effects", f"{name}:{line}", problem)


def _undeclared(tree: ast.Module) -> Iterator[int]:
    """Yield lines. A bare decorator is no call, so it is looked at by itself."""
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "claw"
        for alias in node.names
    }

    def called(node: ast.expr) -> str:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "claw":
            return node.attr
        return names.get(node.id, "") if isinstance(node, ast.Name) else ""

    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            if called(decorator) == "tool":
                yield decorator.lineno
        if not isinstance(node, ast.Call) or called(node.func) not in ("tool", "Tool"):
            continue
        is_named = any(keyword.arg in ("effects", None) for keyword in node.keywords)  # None: **traits
        is_spread = any(isinstance(value, ast.Starred) for value in node.args)
        if not (is_named or is_spread or len(node.args) > _EFFECTS_POSITION):
            yield node.lineno


def unannotated(tree: ast.Module, name: str) -> Iterator[str]:
    """Yield the functions of a module whose parameters or result have no annotation, each with its line."""
    methods = {id(node) for one in ast.walk(tree) if isinstance(one, ast.ClassDef) for node in one.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            plain = [*given.posonlyargs, *given.args]
            is_static = any(
                isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list
            )
            own = plain[1:] if id(node) in methods and not is_static else plain
            rest = [one for one in (given.vararg, given.kwarg) if one]
            if node.returns is None or any(
                one.annotation is None for one in (*own, *given.kwonlyargs, *rest)
            ):
                yield t(
                    "{place}: {function} is not annotated", place=f"{name}:{node.lineno}", function=node.name
                )
