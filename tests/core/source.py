"""Reading the source of core and the plugins as a tree, for the tests that keep the plan true."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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


@dataclass(frozen=True)
class Source:
    """One file: where it is, its dotted module name, its syntax tree."""

    path: Path
    module: str

    @property
    def tree(self) -> ast.Module:
        return parsed(self.path)

    @property
    def room(self) -> str:
        """``claw.config.load`` is of the room ``config``; empty for ``claw`` itself."""
        return self.module.partition(".")[2].partition(".")[0]

    def __str__(self) -> str:
        return self.module


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def sources(package: Path) -> list[Source]:
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        found.append(Source(path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)))
    return found


def plugin_packages() -> list[Path]:
    return sorted(path.parent for path in ROOT.glob("plugins/*/*/__init__.py"))


def imports(source: Source) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, at its top or inside a function, with the line.

    ``from claw import tool`` is an import of the room that the public name lives in.
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
                    yield f"claw.{claw._ROOMS.get(alias.name, alias.name)}", node.lineno
                else:
                    yield module, node.lineno


def floors() -> dict[str, int]:
    """The plan of the house: room → floor, read from the docstring of ``claw``."""
    plan = {}
    for line in (claw.__doc__ or "").splitlines():
        if match := re.match(r"    (\d+) +(\S.*)$", line):
            rooms = re.split(r"\s{3,}", match[2])[0]
            plan |= {room: int(match[1]) for room in rooms.split("  ")}
    return plan


def code_lines(path: Path) -> int:
    """Lines with code: no blank lines, no comments, no docstrings."""
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
