"""Figures of the source: sizes, names, docstrings, imports. ``python bench/structure.py [ROOT]`` prints them as a table.

``ROOT`` is a checkout of any commit, so that two commits can be compared.
"""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

QUESTIONS = re.compile(r"(what|whether|how|why|who|where)\b", re.I)
PRIVATE_WORDS = {
    "house": "program, setup", "errand": "turn", "letter": "", "lane": "", "yard": "worker",
    "stranger": "unknown sender, third party",
}  # fmt: skip
"""A word of claw's own that the figures count → the term to use instead; empty = it is an ordinary word too."""
FIELD_TERMS = ("middleware", "outbox", "backoff", "inbox")
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING),
    tokenize.ENDMARKER,
}
Trees = Mapping[Path, ast.Module]
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def parse_all(root: Path, *patterns: str) -> Trees:
    """Return path → syntax tree of the files that match; templates of new plugins are left out."""
    paths = sorted({path for pattern in patterns for path in root.glob(pattern)})
    return {path: ast.parse(path.read_text("utf-8")) for path in paths if "templates" not in path.parts}


def code_lines(path: Path, tree: ast.Module) -> int:
    """Count the lines of a file without blank lines, comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def functions(trees: Trees) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function."""
    for tree in trees.values():
        yield from (
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the named parameters, without ``self`` and ``cls``."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len([one for one in given if one.arg not in ("self", "cls")])


def docstrings(trees: Trees) -> list[str]:
    """Return the docstrings of modules, classes and functions."""
    found = (
        ast.get_docstring(node)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, Documented)
    )
    return [text for text in found if text]


def repeated_class_names(trees: Trees) -> int:
    """Count the public class names that several files define."""
    places: dict[str, int] = {}
    for tree in trees.values():
        for name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}:
            places[name] = places.get(name, 0) + (not name.startswith("_"))
    return sum(count > 1 for count in places.values())


def module_name(path: Path) -> str:
    """Return the dotted name of a file, from the first folder that is a package."""
    parts = [path.stem] if path.stem != "__init__" else []
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts)


def imports(trees: Trees) -> dict[str, set[str]]:
    """Return module → the modules of ``trees`` that it imports at run time, in functions too."""
    names = {module_name(path): tree for path, tree in trees.items()}
    graph: dict[str, set[str]] = {}
    for name, tree in names.items():
        for_types = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for line in node.body
            for inner in ast.walk(line)
        }
        nodes = [node for node in ast.walk(tree) if id(node) not in for_types]
        found = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                full = {f"{node.module}.{one.name}" for one in node.names}
                found |= (full & names.keys()) or {node.module}
        graph[name] = (found & names.keys()) - {name}
    return graph


def in_circles(graph: Mapping[str, set[str]]) -> int:
    """Count the modules that are part of a circle of imports, or between two."""
    left = dict(graph)
    while free := [name for name, below in left.items() if not below & left.keys()]:
        left = {name: below for name, below in left.items() if name not in free}
    while free := [name for name in left if not any(name in below for below in left.values())]:
        left = {name: below for name, below in left.items() if name not in free}
    return len(left)


def imports_in_functions(trees: Trees) -> int:
    """Count the import statements inside functions."""
    found = {
        id(node)
        for function in functions(trees)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return len(found)


def occurrences(trees: Trees, words: Collection[str]) -> int:
    """Count words in names, comments and texts; a plural counts too."""
    pattern = re.compile("|".join(rf"(?<![a-z]){word}s?(?![a-z])" for word in words), re.I)
    return sum(len(pattern.findall(path.read_text("utf-8"))) for path in trees)


def internal_imports(tests: Trees) -> tuple[int, int]:
    """Return the number of test files that import modules of core behind its public names, and of such statements."""
    public = ("claw", "claw.runtime", "claw.testing")
    found = [
        sum(
            isinstance(node, ast.ImportFrom)
            and (node.module or "").partition(".")[0] == "claw"
            and node.module not in public
            for node in ast.walk(tree)
        )
        for tree in tests.values()
    ]
    return sum(count > 0 for count in found), sum(found)


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """Yield measure and value."""
    core = parse_all(root, "core/claw/**/*.py")
    others = parse_all(root, "plugins/*/*/**/*.py", "sdk/*/*/**/*.py")
    whole = {**core, **others}
    tests = parse_all(root, "tests/**/*.py")
    folders: dict[Path, int] = {}
    for path in core:
        folders[path.parent] = folders.get(path.parent, 0) + 1
    yield "core: modules / code lines", f"{len(core)} / {sum(code_lines(*one) for one in core.items()):,}"
    yield "core: most modules in one folder", str(max(folders.values()))
    lines = sum(code_lines(*one) for one in others.items())
    yield "plugins and libraries: modules / code lines", f"{len(others)} / {lines:,}"
    lengths = [(one.end_lineno or one.lineno) - one.lineno + 1 for one in functions(whole)]
    yield "functions: median / most lines", f"{statistics.median(lengths):g} / {max(lengths)}"
    yield "functions with more than 7 parameters", str(sum(parameters(one) > 7 for one in functions(whole)))
    texts = docstrings(whole)
    share = 100 * sum(bool(QUESTIONS.match(text)) for text in texts) / len(texts)
    yield "docstrings that begin with a question word", f"{share:.1f} % of {len(texts):,}"
    yield "public class names with two or more meanings", str(repeated_class_names(whole))
    yield f"words of its own ({', '.join(PRIVATE_WORDS)})", str(occurrences(whole, PRIVATE_WORDS))
    yield f"terms of the field ({', '.join(FIELD_TERMS)})", str(occurrences(whole, FIELD_TERMS))
    graph = imports(core)
    fan_out, name = max((len(below), name) for name, below in graph.items())
    yield "core: most modules that one imports", f"{fan_out} ({name})"
    yield (
        "modules in a circle at run time: core / plugins",
        f"{in_circles(graph)} / {in_circles(imports(others))}",
    )
    yield (
        "imports in functions: core / plugins",
        f"{imports_in_functions(core)} / {imports_in_functions(others)}",
    )
    files, statements = internal_imports(tests)
    yield (
        "tests that import internals of core: files / statements",
        f"{files} / {statements} of {len(tests)} files",
    )


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    print("| measure | value |\n|---|---|")
    for measure, value in figures(root):
        print(f"| {measure} | {value} |")


if __name__ == "__main__":
    main()
