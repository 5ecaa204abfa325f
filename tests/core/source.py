"""Reading the source of core, libraries and plugins as trees, for the tests that hold the design."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import claw

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "claw"
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
SPLIT_OFF = (
    *("claw_admin", "claw_approvals", "claw_budgets", "claw_channel_sdk", "claw_config_sdk"),
    *("claw_context", "claw_gateway"),
    *("claw_http_sdk", "claw_models", "claw_prompted_tools"),
    *("claw_provider_sdk", "claw_sessions", "claw_testing", "claw_tool_sdk"),
)
"""Packages that were part of core: the tests hold for them what they hold for core."""


@dataclass(frozen=True)
class Source:
    """One file: its path, its dotted module name, its syntax tree."""

    path: Path
    module: str

    @property
    def tree(self) -> ast.Module:
        return parsed(self.path)

    @property
    def package(self) -> str:
        """The package of a module: ``claw.config.loader`` → ``config``, ``claw.app`` → ``app``, ``claw`` → empty."""
        return self.module.partition(".")[2].partition(".")[0]

    def __str__(self) -> str:
        return self.module


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def public_modules(package: ModuleType) -> dict[str, str]:
    """Public name → the module that defines it, for ``claw`` or ``claw.runtime``."""
    stub = parsed(Path(str(package.__file__)).with_suffix(".pyi"))
    froms = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {name.asname: str(node.module) for node in froms for name in node.names if name.asname}


def sources(package: Path) -> list[Source]:
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        found.append(Source(path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)))
    return found


def plugin_packages() -> list[Path]:
    """The import packages of all plugins and libraries of this repository."""
    found = [*ROOT.glob("plugins/*/*/__init__.py"), *ROOT.glob("sdk/*/*/__init__.py")]
    return sorted(path.parent for path in found)


def split_off() -> list[Source]:
    """The files of the packages in ``SPLIT_OFF``."""
    return [
        source for package in plugin_packages() if package.name in SPLIT_OFF for source in sources(package)
    ]


def imports(source: Source) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, at its top or inside a function, with the line.

    ``from claw import tool`` is an import of the module that the public name lives in.
    """
    package = source.module.split(".") if source.path.name == "__init__.py" else source.module.split(".")[:-1]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                if module == "claw":
                    yield public_modules(claw).get(alias.name, f"claw.{alias.name}"), node.lineno
                else:
                    yield module, node.lineno


def layers() -> dict[str, int]:
    """The layers of core, lowest first: package → number, read from the docstring of ``claw``."""
    names = re.findall(r"^    (\w+)  ", claw.__doc__ or "", re.M)
    return {name: number for number, name in enumerate(names)}


def code_lines(path: Path) -> int:
    """Count the lines with code: no blank lines, no comments, no docstrings."""
    text = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parsed(path)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def members() -> list[Path]:
    """The folders of all distributions: core first, then libraries and plugins."""
    found = [
        path.parent for pattern in ("sdk/*", "plugins/*") for path in ROOT.glob(f"{pattern}/pyproject.toml")
    ]
    return [ROOT / "core", *sorted(found)]


def with_core(*names: str) -> list[Path]:
    """The folders of core, its extra ``standard`` and these members, and of every member of ours that they depend on."""
    folders = {
        re.sub(r"[-_.]+", "-", tomllib.loads(path.read_text())["project"]["name"]): path.parent
        for path in (
            ROOT / "core/pyproject.toml",
            *ROOT.glob("sdk/*/pyproject.toml"),
            *ROOT.glob("plugins/*/pyproject.toml"),
        )
    }
    found, waiting = list[Path](), ["claw-core", *names]
    while waiting:
        folder = folders.get(waiting.pop())
        if folder is None or folder in found:
            continue
        found.append(folder)
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        standard = project.get("optional-dependencies", {}).get("standard", [])
        waiting += [re.split(r"[ \[<>=!~;]", line)[0] for line in (*project["dependencies"], *standard)]
    return found
