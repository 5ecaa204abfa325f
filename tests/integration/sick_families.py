"""The sick things of three families: MCP servers, llm plugins, and plugins of claw with tools."""

import sys
from pathlib import Path
from typing import Any

from integration.sick import SERVER, Sick

Family = tuple[dict[str, Sick], dict[str, Any], list[tuple[str, str]]]

MCP: dict[str, Sick] = {
    "dies at start": Sick("", "could not be reached: SickError: no luck today", False),
    "import error": Sick("", "could not be reached: ModuleNotFoundError", False),
    "never answers": Sick("", "no answer within 4 s", False),
    "does not end": Sick("", "no answer within 4 s", False),
    "no program": Sick("", "the program sick-nowhere is not there", False),
    "wrong version": Sick("", "could not be reached: ", False),
    "wrong handshake": Sick("", "could not be reached: the MCP SDK cannot read its answer (", False),
    "pages without end": Sick(""),
    "claims lists that it has not": Sick(""),
    "noise on stdout": Sick(""),
    "binary on stdout": Sick(""),
    "floods stderr": Sick(""),
    "says its name twice": Sick(""),
    "one bad schema": Sick("", absent=("bad",)),
    "no schema": Sick("", absent=("bare", "text", "null")),
    "huge description": Sick("", absent=("huge",)),
    "huge schema": Sick("", absent=("huge",)),
    "thousands of tools": Sick(""),
    "names of another script": Sick(""),
    "the same name twice": Sick(""),
    "a pattern without end": Sick("", "more than 1 s", arguments={"x": "a" * 40 + "!"}),
    "terminal escapes": Sick(""),
    "dies in a call": Sick("", "went away during the call; whether it was carried out is not known"),
    "sleeps in a call": Sick("", "longer than"),
    "leaves a child": Sick(""),
    "huge result": Sick("", "anvil"),
    "unknown content": Sick("", "answered: the MCP SDK cannot read its answer (content.0"),
    "no content": Sick("", "answered: the MCP SDK cannot read its answer (content"),
    "an error": Sick("", "answered: the forge is on fire"),
    "an error without form": Sick("", "answered: the MCP SDK cannot read its answer ("),
    "lone surrogates": Sick("", "answered: the MCP SDK cannot read its answer ("),
}


def server_name(fault: str) -> str:
    """``dies at start`` → ``sdies-at-start``."""
    return "s" + "".join(c if c.isalnum() else "-" for c in fault)


def mcp(root: Path) -> Family:
    """All servers in one config file."""
    servers: dict[str, Any] = {}
    for fault in MCP:
        quick = fault in ("never answers", "does not end", "sleeps in a call")
        program = [sys.executable, str(SERVER), fault]
        servers[server_name(fault)] = {
            "command": "sick-nowhere" if fault == "no program" else program[0],
            "args": program[1:],
            "connectSeconds": 4 if quick else 60,
            "timeoutSeconds": 1 if fault == "sleeps in a call" else 60,
        }
    sick = {fault: Sick(**{**vars(one), "tool": f"{server_name(fault)}__do"}) for fault, one in MCP.items()}
    return sick, {"mcpServers": servers}, []


HEAD = "import llm, os, sys, time\n"
ONE = "def do(x: str = '') -> str:\n    'Do it.'\n    BODY\n"
HOOK = "@llm.hookimpl\ndef register_tools(register):\n    register(do)\n"


def llm_code(body: str = "return '5 kg'", more: str = "", top: str = "", hook: str = "register(do)") -> str:
    """The code of an llm plugin with the tool ``do``.

    :param more: other definitions; ``hook``: what it registers.
    """
    return f"{top}\n{HEAD}{ONE.replace('BODY', body)}{more}\n{HOOK.replace('register(do)', hook)}"


def also(name: str, schema: str = "{'type': 'object'}", description: str = "'Do.'") -> str:
    """The code that registers ``do``, and a tool of another form."""
    made = f"llm.Tool(name={name}, description={description}, input_schema={schema}, implementation=do)"
    return f"register(do); register({made})"


SHED = """
class Shed(llm.Toolbox):
    def __init__(self, path='/nowhere/x'):
        open(path)
    def tidy(self) -> str:
        'Tidy.'
"""
MANY = also("f't{n}'").replace("; ", "\n    for n in range(3000): ")
LLM: dict[str, Sick] = {
    "import-error": Sick("", "ModuleNotFoundError: No module named", False, llm_code(top="import no_such_library")),
    "exit": Sick("", "SystemExit: 3", False, llm_code(top="raise SystemExit(3)")),
    "syntax": Sick("", "SyntaxError", False, "def register_tools(:"),
    "ends-the-process": Sick("", "it ends the process that imports it", False, llm_code(top="import os; os._exit(3)")),
    "interrupt": Sick("", "it ends the process that imports it", False, llm_code(top="raise KeyboardInterrupt")),
    "hook-raises": Sick("", "ZeroDivisionError", False, llm_code(hook="1 / 0")),
    "toolbox": Sick("", code=llm_code(more=SHED, hook="register(do); register(Shed)")),
    "bad-schema": Sick("", absent=("bad",), code=llm_code(hook=also("'bad'", "{'type': 'array'}"))),
    "huge-description": Sick("", absent=("huge",), code=llm_code(hook=also("'huge'", description="'Think. ' * 50000"))),
    "many-tools": Sick("", code=llm_code(hook=MANY)),
    "other-script": Sick("", code=llm_code(hook="register(do); register(do, name='工具')")),
    "prints": Sick("", code=llm_code(top="print('noise')")),
    "raises": Sick("", "ValueError: no luck (llm plugin", code=llm_code("raise ValueError('no luck')")),
    "interrupts": Sick("", "KeyboardInterrupt", code=llm_code("raise KeyboardInterrupt")),
    "exits": Sick("", "SystemExit", code=llm_code("sys.exit(3)")),
    "sleeps": Sick("", "longer than", code=llm_code("time.sleep(30)")),
    "object": Sick("", "object", code=llm_code("return object()")),
    "huge-result": Sick("", "anvil", code=llm_code("return 'anvil ' * 800_000")),
    "recursion": Sick("", "RecursionError", code=llm_code("return do(x)")),
}  # fmt: skip


def llm(root: Path) -> Family:
    """All plugins on one import path."""
    site = root / "site"
    for fault, one in LLM.items():
        module = f"llm_tools_{fault.replace('-', '_')}"
        info = site / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(one.code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: llm-tools-{fault}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[llm]\n{module} = {module}\n")
    sick = {
        fault: Sick(**{**vars(one), "tool": f"{fault.replace('-', '_')}__do"}) for fault, one in LLM.items()
    }
    config = {"timeoutSeconds": 2}
    entries = {"llm-bridge": {"config": config}}
    return sick, {"tools": {"alsoAllow": ["llm-bridge"]}, "plugins": {"entries": entries}}, []


TOOL = """
import asyncio, json, os, sys, time
from claw import Tool, ToolResult, hookimpl
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}

async def run(arguments, context):
    RUN

def made(name, description="Do it.", schema=SCHEMA):
    return Tool(name, description, schema, run, timeout_seconds=1)

@hookimpl
def register_tools(config):
    HOOK
    return [made(NAME), *[MORE]]
"""


def code(run: str = "return '5 kg'", more: str = "", hook: str = "pass", name: str = "") -> str:
    """The code of a plugin with one tool and ``more``."""
    text = TOOL.replace("RUN", run).replace("HOOK", hook).replace("MORE", more)
    return text.replace("NAME", name or "'TOOL'")


PLUGINS: dict[str, Sick] = {
    "bad-schema": Sick("", absent=("bad",), code=code(more="made('bad', schema={'type': 'array'})")),
    "huge-description": Sick("", absent=("huge",), code=code(more="made('huge', 'Think. ' * 50000)")),
    "huge-schema": Sick("", absent=("wide",), code=code(more="made('wide', schema={'title': 'x' * 90000})")),
    "not-json": Sick("", absent=("odd",), code=code(more="made('odd', schema={'type': 'object', 'default': {1}})")),
    "many-tools": Sick("", "it brings 3001 tools, and 500", False, code(more="*(made(f't{n}') for n in range(3000))")),
    "core-name": Sick("", code=code(more="made('read')")),
    "other-script": Sick("", "a tool is named", False, code(more="made('工具')")),
    "interrupts": Sick("", "KeyboardInterrupt", code=code("raise KeyboardInterrupt")),
    "exits": Sick("", "SystemExit", code=code("sys.exit(3)")),
    "cancels": Sick("", "CancelledError", code=code("raise asyncio.CancelledError")),
    "sleeps": Sick("", "longer than", code=code("await asyncio.sleep(30)")),
    "nothing": Sick("", "returned NoneType", code=code("return None")),
    "object": Sick("", "returned object", code=code("return object()")),
    "recursion": Sick("", "recursion depth exceeded", code=code("return await run(arguments, context)")),
    "huge-result": Sick("", "anvil", code=code("return 'anvil ' * 800_000")),
    "surrogate": Sick("", code=code("return '5 kg \\ud800'")),
    "patches-json": Sick("", code=code(hook="json.dumps = lambda *a, **k: 1 / 0")),
    "clears-path": Sick("", code=code(hook="sys.path.clear(); os.chdir('/')")),
}  # fmt: skip


def plugins(root: Path) -> Family:
    """All plugins on one import path."""
    sick, found = {}, []
    for fault, one in PLUGINS.items():
        tool, package = f"{fault.replace('-', '_')}_do", f"sick_{fault.replace('-', '_')}"
        folder = root / "site" / package
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(one.code.replace("TOOL", tool))
        sick[fault] = Sick(**{**vars(one), "tool": tool})
        found.append((fault, package))
    return sick, {}, found


FAMILIES = {"mcp": mcp, "llm": llm, "plugins": plugins}
