"""States of services, files and turns × the surfaces that speak of them: no cell calls something sound that is not."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from claw.storage.database import Database
from claw_budgets.ledger import UsageLedger
from integration.surfaces import (
    CHANNELS,
    DOCTOR,
    LISTED,
    START,
    STATUS,
    STATUS_OF_CHANNELS,
    TURNS,
    USAGE,
    VALIDATE,
    Cell,
    Forked,
    World,
    cell,
    machine_in,
    may,
    server,  # noqa: F401 - a fixture
    wrong_cells,
)

MODEL = {"agents": {"defaults": {"model": "openai/gpt-4.1"}}}
KEY = {"providers": {"openai": {"apiKey": "k"}}, **MODEL}
NO_KEY = {"providers": {"openai": {}}, **MODEL}
STUCK = "turns list --stuck"
TOKEN = "abcdefghijklmnop1234"


def at(address: str) -> dict[str, Any]:
    """The config of a model service at that address."""
    return {"providers": {"openai": {"apiKey": "k", "baseUrl": address}}, **MODEL}


def listening(machine: Forked) -> int:
    """A port at which something listens that never answers."""
    taken = machine.open.enter_context(socket.create_server(("127.0.0.1", 0)))
    return int(taken.getsockname()[1])


def port_taken(machine: Forked) -> None:
    gateway = {"port": listening(machine), "auth": {"token": TOKEN}}
    machine.write({"channels": {"http": {}}, "gateway": gateway, **KEY})


def port_free(machine: Forked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        gateway = {"port": free.getsockname()[1], "auth": {"token": TOKEN}}
    machine.write({"channels": {"http": {}}, "gateway": gateway, **KEY})


WITHOUT_SDK = """
import sys

class Hiding:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] == "mcp" else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Hiding, sys.meta_path)
"""


def sdk_missing(machine: Forked) -> None:
    (machine.path[0] / "sitecustomize.py").write_text(WITHOUT_SDK)


def sdk_broken(machine: Forked) -> None:
    (machine.path[0] / "mcp.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')"
    )


MCP_SERVER = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    result = {}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def server_repaired(machine: Forked) -> None:
    """The program of the server is there since a start failed without it, and the operator says so."""
    assert re.search(NOT_THERE, machine.claw("status").err + machine.claw(*DOCTOR.split()).out)
    program = machine.root / "server"
    program.write_text(f"#!{sys.executable}{MCP_SERVER}")
    program.chmod(0o700)
    machine.claw("mcp", "refresh")


def server_gone(machine: Forked) -> None:
    """The program of the server was removed after its tools became known, and a call found that."""
    server_repaired(machine)
    (machine.root / "server").unlink()
    machine.claw("tools", "call", "one__do")


def corrupt_database(machine: Forked) -> None:
    (machine.home / "state.db").write_bytes(b"no database " * 100)
    (machine.home / "state.db").chmod(0o600)


def torn_session(machine: Forked) -> None:
    machine.claw("chat", "hello")
    machine.session.write_bytes(machine.session.read_bytes()[:-20])


def turn_under_way(machine: Forked) -> None:
    machine.write(at(f"http://127.0.0.1:{listening(machine)}/v1"))
    machine.begin("chat", "hello")
    until = time.monotonic() + 20
    while "running" not in machine.claw(*TURNS.split()).out:
        assert time.monotonic() < until, "no turn began"


def budget_used_up(machine: Forked) -> None:
    """A call of this minute took all tokens of the day."""
    database = Database(machine.home / "state.db")
    UsageLedger(database)
    row = (
        int(time.time() * 1000),
        1,
        "default",
        "openai/gpt-4.1",
        "",
        "",
        "t",
        "",
        "",
        "answer",
        50_000,
        50_000,
        0,
        0,
    )
    database.write(
        "INSERT INTO spending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 'done')", *row
    )
    database.close()


def turn_interrupted(machine: Forked) -> None:
    turn_under_way(machine)
    machine.open.close()


TOY = {"agents": {"defaults": {"model": "toy/m"}}}
NO_FILE = "providers.openai.apiKey: the secret file /no/such cannot be read"
LAMP = """
from claw import hookimpl

@hookimpl
def register_providers(config):
    raise RuntimeError("no lamp")
"""
LAMP_MANIFEST = {
    "name": "Lamp", "description": "A model.", "api": ">=1,<2", "kinds": ["provider"],
    "providers": [{"name": "lamp", "env": [], "defaultModel": "m"}],
}  # fmt: skip
EXPIRED_TOKEN = (
    "providers.openai: its key work cannot be used: it expired on 1970-01-01.*claw auth add openai"
)
EXPIRED_LOGIN = (
    "providers.openai: its key work cannot be used: it has expired and could not be renewed.*Log in again"
)
NO_API_KEY = r"providers.openai: it has no API key.*export OPENAI_API_KEY=…"


def key_refused(machine: Forked) -> None:
    refused = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(401)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(refused).encode())

        def log_message(self, *parts: Any) -> None:
            pass

    service = machine.open.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Service))
    Thread(target=service.serve_forever, daemon=True).start()
    machine.open.callback(service.shutdown)
    machine.write(at(f"http://127.0.0.1:{service.server_port}/v1"))


def with_key(**entry: Any) -> Callable[[Forked], None]:
    """Return the step that stores a key of the agent."""

    def store(machine: Forked) -> None:
        path = machine.home / "agents" / "default" / "auth-profiles.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"version": 1, "profiles": {"openai": {"work": entry}}}))
        path.chmod(0o600)

    return store


SYSTEMCTL = """#!/bin/sh
case "$*" in
  *MainPID*) echo 0 ;;
esac
"""


def service_installed(machine: Forked) -> None:
    """A service file is there, and a service manager that runs nothing."""
    port_free(machine)
    tools = machine.root / "bin"
    tools.mkdir()
    (tools / "systemctl").write_text(SYSTEMCTL)
    (tools / "systemctl").chmod(0o755)
    machine.environ = {"PATH": f"{tools}:{os.defpath}"}
    assert machine.claw("gateway", "install").code == 0


def gateway_beside_its_service(machine: Forked) -> None:
    service_installed(machine)
    machine.begin("gateway", "run")
    until = time.monotonic() + 30
    while " up " not in machine.claw("gateway", "status").out:
        assert time.monotonic() < until, "no gateway began"


FAKE_TELEGRAM = """
import asyncio
from claw_telegram.fake import FakeTelegram

async def serve():
    async with FakeTelegram() as service:
        print(service.token, service.url, flush=True)
        await asyncio.sleep(600)

asyncio.run(serve())
"""


UNREACHED = "^telegram .* waiting .*Telegram cannot be reached"


def service_lost(machine: Forked) -> None:
    """The gateway received from Telegram, which cannot be reached since."""
    telegram = subprocess.Popen([sys.executable, "-c", FAKE_TELEGRAM], stdout=subprocess.PIPE, text=True)
    with telegram:
        assert telegram.stdout
        token, url = telegram.stdout.readline().split()
        channel = {"botToken": token, "apiBase": url, "allowFrom": ["42"]}
        machine.write({"channels": {"telegram": channel}, **KEY})
        machine.claw("gateway", "start")
        assert re.search("^telegram .* up ", machine.claw("channels", "status").out, re.MULTILINE)
        telegram.kill()
    until = time.monotonic() + 30
    while not re.search(UNREACHED, machine.claw("channels", "status").out, re.MULTILINE):  # at first it broke
        assert time.monotonic() < until, "the loss was not noticed"


def telegram_answers(status: int, body: str) -> Callable[[Forked], None]:
    """Return the step that starts a gateway whose Telegram answers so to everything."""

    def start(machine: Forked) -> None:
        class Service(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(status)
                self.send_header("content-type", "application/json" if body.startswith("{") else "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_POST

            def log_message(self, *parts: Any) -> None:
                pass

        service = machine.open.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Service))
        Thread(target=service.serve_forever, daemon=True).start()
        machine.open.callback(service.shutdown)
        url = f"http://127.0.0.1:{service.server_port}"
        channel = {
            "botToken": "123456789:AAH-abcdefghijklmnopqrstuvwxyz01234",
            "apiBase": url,
            "allowFrom": ["42"],
        }
        machine.write({"channels": {"telegram": channel}, **KEY})
        machine.claw("gateway", "start")

    return start


def deaf(state: str, why: str) -> dict[str, Cell]:
    """The cells of a running gateway whose Telegram channel receives nothing."""
    return {
        STATUS_OF_CHANNELS: cell(f"^telegram .* {state} .*{why}", code=1),
        "gateway status": Cell(("^gateway: ready", f"^telegram .* {state} .*{why}"), (r"\bup\b",), 0),
        STATUS: Cell(("^gateway: ready", f"^channels: 1 {state}$"), ("1 up",), 0),
        DOCTOR: cell(f"^problem: channels.telegram.*: .*{why}", code=1),
        VALIDATE: may("is valid$", code=0),
        START: may("already running", code=0),
    }


def gateway_killed(machine: Forked) -> None:
    port_free(machine)
    machine.claw("gateway", "start")
    machine.claw("gateway", "stop", "--now")


def gateway_stopped(machine: Forked) -> None:
    port_free(machine)
    machine.claw("gateway", "start")
    machine.claw("gateway", "stop")


BUDGET = {"budgets": {"all": {"tokens": 100_000}}}
NOT_AN_ADDRESS = "providers.openai.baseUrl: this is not an HTTP address"
NO_TOKEN = "channels.telegram.botToken: the bot has no token"
NO_PROGRAM = "mcpServers.one.command: the program /no/such is not there"
NOT_THERE = "mcpServers.one.command: the program \\S+/server is not there"
NO_SDK = "MCP server one could not be reached: the MCP SDK is not installed"

REMOVED = {"mcpServers": {"one": {"command": "~/server"}}, **KEY}

STATES: dict[str, World] = {
    "the provider has no key": World(
        {
            STATUS: may("^key: none$"),
            VALIDATE: cell(f"problem: .*{NO_API_KEY}", "1 setting does not work$", code=1),
            DOCTOR: Cell((f"problem: .*{NO_API_KEY}", "^1 problem found"), ("no problems found",), 1),
            START: may(f"problem: .*{NO_API_KEY}"),
            STATUS_OF_CHANNELS: may(f"problem: .*{NO_API_KEY}"),
            "chat hello": cell("openai has no API key", code=1),
            TURNS: cell("failed"),
            USAGE: may("no model call is recorded"),
        },
        config=NO_KEY,
    ),
    "a service of the operator's own has no key": World(
        {
            VALIDATE: may("problem: .*providers.toy: it has no API key", code=1),
            DOCTOR: cell("problem: .*providers.toy: it has no API key", code=1),
            "chat hello": cell("toy has no API key", code=1),
        },
        config={"providers": {"toy": {"type": "openai", "baseUrl": "https://toy.example/v1"}}, **TOY},
        before=(),
    ),
    "a service on this machine needs no key": World(
        {VALIDATE: may("is valid$", code=0), DOCTOR: may("no problems found", code=0)},
        config={"providers": {"toy": {"type": "openai", "baseUrl": "http://127.0.0.1:9/v1"}}, **TOY},
        before=(),
    ),
    "the service refused the only key at the last turn": World(
        {
            "chat hello": cell("the service rejected the key", code=1),
            TURNS: cell("failed .*the service rejected the key"),
            DOCTOR: cell("problem: providers.openai: no key works: default: the key was rejected .*models probe", code=1),
            "models status": cell("paused for .*the key was rejected", code=1),
            VALIDATE: may("is valid", code=0),
        },
        prepare=key_refused,
        before=(),
    ),
    "the only key is a token that has expired": World(
        {
            VALIDATE: may(f"problem: .*{EXPIRED_TOKEN}"),
            DOCTOR: cell(f"problem: .*{EXPIRED_TOKEN}", code=1),
            START: may(f"problem: .*{EXPIRED_TOKEN}"),
            STATUS_OF_CHANNELS: may(f"problem: .*{EXPIRED_TOKEN}"),
            STATUS: may("^key: its key work cannot be used: it expired on 1970-01-01$"),
            "models status": Cell(("work +it expired on 1970-01-01",), ("ready",), 1),
            "auth list": Cell(("work .*it expired on 1970-01-01",), ("ready",)),
            "chat hello": cell("openai: its key cannot be used: it expired on 1970-01-01. Add a new one", code=1),
            TURNS: cell("failed .*it expired on"),
        },
        config=MODEL,
        prepare=with_key(type="token", secret="t", expiresAt=1000),
        before=(),
    ),
    "the only key is a login that could not be renewed": World(
        {
            VALIDATE: may(f"problem: .*{EXPIRED_LOGIN}"),
            DOCTOR: cell(f"problem: .*{EXPIRED_LOGIN}", code=1),
            START: may(f"problem: .*{EXPIRED_LOGIN}"),
            STATUS_OF_CHANNELS: may(f"problem: .*{EXPIRED_LOGIN}"),
            STATUS: may("^key: its key work cannot be used: it has expired and could not be renewed$"),
            "models status": Cell(("work +it has expired and could not be renewed",), ("ready",), 1),
            "chat hello": cell("openai: its key cannot be used: it has expired and could not be renewed", code=1),
            TURNS: cell("failed .*it has expired"),
        },
        config=MODEL,
        prepare=with_key(type="oauth", secret="t", refresh="r", expiresAt=1000, needsLogin=True),
        before=(),
    ),
    "a token has expired, and the file has another key": World(
        {VALIDATE: may("is valid$", code=0), DOCTOR: may("no problems found", code=0), "models status": may("ready")},
        config=KEY,
        prepare=with_key(type="token", secret="t", expiresAt=1000),
        before=(),
    ),
    "the file of the key is missing": World(
        {
            VALIDATE: may(f"problem: .*{NO_FILE}"),
            DOCTOR: cell(f"problem: .*{NO_FILE}", code=1),
            START: may(f"problem: .*{NO_FILE}"),
            "models status": cell("the secret file /no/such cannot be read", code=1),
            "chat hello": cell("the secret file /no/such cannot be read", code=3),
        },
        config={"providers": {"openai": {"apiKey": {"file": "/no/such"}}}, **MODEL},
        before=(),
    ),
    "the plugin of the model is quarantined": World(
        {
            LISTED: cell("^bad .* quarantined .*no lamp"),
            "models status": Cell(("plugin bad: .*no lamp",), ("no plugin provides",), 1),
            DOCTOR: cell("problem: bad: .*no lamp", code=1),
            STATUS: cell("1 quarantined", "warning: plugin bad was disabled at register: .*no lamp"),
            START: may("plugin bad was disabled at register: .*no lamp"),
            "chat hello": cell("plugin bad was disabled at register: .*no lamp", code=1),
        },
        plugins={"bad": (LAMP, LAMP_MANIFEST)},
        config={"agents": {"defaults": {"model": "lamp/m"}}},
        before=("chat hello",),
    ),
    "the gateway was killed": World(
        {
            "gateway status": cell("^gateway: not running", "did not exit cleanly", code=1),
            STATUS: Cell(("^gateway: not running",), ("up",)),
            STATUS_OF_CHANNELS: cell("^gateway: not running", code=1),
            DOCTOR: may("^note: gateway: the last one .process .* did not exit cleanly.*claw gateway start", code=0),
        },
        prepare=gateway_killed,
        before=(),
    ),
    "the gateway was stopped": World(
        {
            "gateway status": Cell(("^gateway: not running",), ("cleanly",), 1),
            DOCTOR: Cell(("no problems found",), ("note:", "problem:"), 0),
        },
        prepare=gateway_stopped,
        before=(),
    ),
    "the service is installed, and no gateway runs": World(
        {
            "gateway status": cell("^gateway: not running", "claw gateway start", code=1),
            STATUS: Cell(("^gateway: not running",), ("up",)),
            STATUS_OF_CHANNELS: cell("^gateway: not running", code=1),
            DOCTOR: may(
                "^note: gateway: the service claw-gateway.* is installed, and no gateway runs .claw gateway start", code=0
            ),
        },
        prepare=service_installed,
        before=(),
    ),
    "the service is installed, and another process is the gateway": World(
        {
            "gateway status": may("^gateway: ready", "^http .* up ", code=0),
            DOCTOR: may(
                r"^note: gateway: process \d+ was not started by the service claw-gateway.*claw gateway restart", code=0
            ),
            START: may("already running", code=0),
        },
        prepare=gateway_beside_its_service,
        before=(),
    ),
    "the service of a channel cannot be reached any more": World(
        {
            STATUS_OF_CHANNELS: cell(UNREACHED),
            "gateway status": Cell((UNREACHED,), (r"\bup\b",)),
            STATUS: may("^channels: 1 waiting"),
            DOCTOR: may("^note: channels.telegram: Telegram cannot be reached"),
            CHANNELS: may("^telegram "),
            VALIDATE: may("is valid$", code=0),
            START: may("already running"),
        },
        prepare=service_lost,
        before=(),
    ),
    "the service of a channel knows no such token": World(
        deaf("failed", "Telegram knows no bot with this token"),
        prepare=telegram_answers(401, '{"ok": false, "error_code": 401, "description": "Unauthorized"}'),
        before=(),
    ),
    "the service of a channel finds no such bot": World(
        deaf("failed", "Telegram knows no bot with this token"),
        prepare=telegram_answers(404, '{"ok": false, "error_code": 404, "description": "Not Found"}'),
        before=(),
    ),
    "a proxy answers with a page in place of the service of a channel": World(
        deaf("waiting", "Telegram"),
        prepare=telegram_answers(200, "<html><body>Please log in to the proxy</body></html>"),
        before=(),
    ),
    "a proxy refuses what goes to the service of a channel": World(
        deaf("waiting", "Telegram"), prepare=telegram_answers(502, "<html>Bad Gateway</html>"), before=()
    ),
    "nobody configured a model": World(
        {VALIDATE: Cell(("is valid$",), ("warning",), 0), DOCTOR: Cell(("^no problems found",), ("problem:",), 0)},
        before=(),
    ),
    "the provider's address is none": World(
        {
            VALIDATE: may(f"problem: .*{NOT_AN_ADDRESS}"),
            DOCTOR: cell(f"problem: .*{NOT_AN_ADDRESS}", code=1),
            START: may(f"problem: .*{NOT_AN_ADDRESS}"),
            LISTED: may(rf"^openai .*{NOT_AN_ADDRESS}"),
            "plugins info openai": may(f"^why: .*{NOT_AN_ADDRESS}", "^stage: register$"),
            STATUS: may(f"warning: plugin openai: .*{NOT_AN_ADDRESS}"),
            "chat hello": cell(NOT_AN_ADDRESS, code=3),
            TURNS: cell("failed"),
        },
        config=at("sk-not-a-url"),
        before=(),
    ),
    "nothing listens at the provider's address, and a turn failed": World(
        {
            TURNS: cell(r"agent:default:main +failed"),
            STUCK: may("nothing is stuck", code=0),
            USAGE: may("no model call is recorded"),
            "doctor --online": cell("problem: .*the connection to the service failed", code=1),
        },
        config=at("http://127.0.0.1:9/v1"),
        before=("chat hello",),
    ),
    "the channel has no token": World(
        {
            LISTED: Cell((f"^telegram .* quarantined .*{NO_TOKEN}",), (r"^telegram +\S+ +(loaded|idle)",)),
            "plugins info telegram": Cell(("^state: quarantined$", f"^why: {NO_TOKEN}"), ("state: loaded",)),
            STATUS: cell("1 quarantined", NO_TOKEN),
            DOCTOR: cell(f"problem: .*{NO_TOKEN}", code=1),
            VALIDATE: may(f"problem: .*{NO_TOKEN}"),
            CHANNELS: cell(f"^telegram .* quarantined .*{NO_TOKEN}"),
            START: may(NO_TOKEN),
            STATUS_OF_CHANNELS: cell(f"^telegram .* failed .*{NO_TOKEN}", code=1),
        },
        config={"channels": {"telegram": {}}, **KEY},
        before=("plugins info telegram",),
    ),
    "the channel has no token, and doctor meets it first": World(
        {DOCTOR: cell(NO_TOKEN, code=1), VALIDATE: may(NO_TOKEN), STATUS: cell("1 quarantined")},
        config={"channels": {"telegram": {}}, **KEY},
        before=(),
    ),
    "the port of the channel is taken": World(
        {
            START: cell(r"^channel http failed: port \d+ of 127.0.0.1 is in use", code=1),
            STATUS_OF_CHANNELS: cell(r"^http .* failed .*is in use", code=1),
            "gateway status": Cell((r"^http .* failed .*is in use",), (r"\bup\b",)),
            STATUS: may("^channels: 1 failed"),
            DOCTOR: cell(r"problem: channels.http: port \d+ of 127.0.0.1 is in use", code=1),
        },
        prepare=port_taken,
        before=(),
    ),
    "the port of the channel is taken, and no gateway has tried it": World(
        {DOCTOR: cell(r"problem: channels.http: port \d+ of 127.0.0.1 is in use .*config set gateway.port", code=1)},
        prepare=port_taken,
        before=(),
    ),
    "a gateway listens at the port of the channel": World(
        {
            START: may("is ready"),
            DOCTOR: may("no problems found", code=0),
            STATUS_OF_CHANNELS: may("^http .* up ", code=0),
        },
        prepare=port_free,
        before=(),
    ),
    "the address of the gateway is not of this machine": World(
        {
            DOCTOR: cell("problem: gateway.bind: cannot listen on 192.0.2.1, port 18789: Cannot assign", code=1),
            START: may("^channel http failed: gateway.bind: cannot listen on 192.0.2.1, port 18789: Cannot assign"),
        },
        config={"channels": {"http": {}}, "gateway": {"bind": "192.0.2.1", "auth": {"token": TOKEN}}, **KEY},
        before=(),
    ),
    "the MCP server cannot start": World(
        {
            VALIDATE: cell(f"problem: .*{NO_PROGRAM}", code=1),
            DOCTOR: cell(f"problem: .*{NO_PROGRAM}", code=1),
            "mcp list": cell("^one  not reached yet", NO_PROGRAM),
            LISTED: may(f"^mcp .*{NO_PROGRAM}"),
            "plugins info mcp": may(f"^why: .*{NO_PROGRAM}"),
            STATUS: may(f"warning: plugin mcp: .*{NO_PROGRAM}"),
            START: may(NO_PROGRAM),
            "tools explain one__do": Cell(("not available",), (": available",), 1),
        },
        config={"mcpServers": {"one": {"command": "/no/such"}}, **KEY},
        before=(),
    ),
    "the MCP server could not start, and was repaired": World(
        {
            STATUS: Cell((), ("MCP server",)),
            LISTED: Cell((r"^mcp +\S+ +loaded",), ("MCP server",)),
            DOCTOR: may("no problems found", code=0),
            "mcp list": Cell(("^one  1 tools",), ("could not",)),
            "tools explain one__do": may(": available", code=0),
        },
        config=REMOVED,
        prepare=server_repaired,
        before=(),
    ),
    "the MCP server was removed after its tools were known": World(
        {
            "mcp list": cell("^one  1 tools", NOT_THERE),
            DOCTOR: cell(f"problem: .*{NOT_THERE}", code=1),
            LISTED: may(f"^mcp .*{NOT_THERE}"),
            STATUS: may(f"warning: plugin mcp: .*{NOT_THERE}"),
            START: may(NOT_THERE),
        },
        config=REMOVED,
        prepare=server_gone,
        before=(),
    ),
    "the MCP SDK is not installed": World(
        {
            DOCTOR: cell("problem: mcp: the MCP SDK is not installed, so no tool of one can run .*'mcp >=", code=1),
            "mcp list": cell("^one  not reached yet", "the MCP SDK is not installed, so no tool of one can run"),
            "tools explain one__do": Cell(("not available",), (": available",), 1),
            LISTED: may("^mcp .*the MCP SDK is not installed"),
            STATUS: may("warning: plugin mcp: the MCP SDK is not installed"),
            START: may("the MCP SDK is not installed"),
        },
        config={"mcpServers": {"one": {"command": "/bin/cat"}}, **KEY},
        prepare=sdk_missing,
        before=(),
    ),
    "the MCP SDK cannot be imported": World(
        {
            DOCTOR: cell(f"problem: .*{NO_SDK}", code=1),
            "mcp list": cell("^one  not reached yet", NO_SDK),
            "tools explain one__do": Cell(("not available",), (": available",), 1),
        },
        config={"mcpServers": {"one": {"command": "/bin/cat"}}, **KEY},
        prepare=sdk_broken,
        before=(),
    ),
    "state.db is no database": World(
        {
            DOCTOR: cell("problem: .*state.db: is damaged: file is not a database", code=1),
            VALIDATE: may("is valid", code=0),
            TURNS: may(r"state.db is not a database and was moved to .*state.db.bad\."),
            USAGE: may("no model call is recorded"),
            "doctor --json": may(r"state\.db\.bad\.", "was damaged and has been replaced", code=0),
        },
        config=KEY,
        prepare=corrupt_database,
        before=(),
    ),
    "state.db is no database, and usage meets it first": World(
        {USAGE: may("is not a database and was moved to"), DOCTOR: may("note: .*has been replaced")},
        config=KEY,
        prepare=corrupt_database,
        before=(),
    ),
    "state.db is no database, and a gateway meets it first": World(
        {START: may(), "logs": may("is not a database and was moved to"), DOCTOR: may("note: .*has been replaced")},
        config=KEY,
        prepare=corrupt_database,
        before=(),
    ),
    "the budget is used up": World(
        {
            USAGE: Cell(("budget all today: 100,000 of 100,000 tokens .100 %.",), ("no model call",)),
            "chat hello": cell("budget all", code=1),
            TURNS: cell("failed"),
            VALIDATE: may("is valid", code=0),
            STATUS: may(r"^budgets: all: 100,000 of 100,000 tokens .100 %.$"),
            DOCTOR: cell(
                "problem: budgets.all: it is used up today, .*100,000 of 100,000 tokens .*or wait: it resets in", code=1
            ),
        },
        config={**KEY, **BUDGET},
        prepare=budget_used_up,
        before=(),
    ),
    "so little of the budget is left that no call fits": World(
        {"chat hello": cell("budget all", code=1), DOCTOR: cell("problem: budgets.all: it is used up today", code=1)},
        config={**KEY, "budgets": {"all": {"tokens": 103_000}}},
        prepare=budget_used_up,
        before=(),
    ),
    "a part of the budget is used": World(
        {DOCTOR: may("no problems found", code=0), STATUS: may("^budgets: all: 100,000 of 200,000 tokens .50 %.$")},
        config={**KEY, "budgets": {"all": {"tokens": 200_000}}},
        prepare=budget_used_up,
        before=(),
    ),
    "the budget is smaller than any call": World(
        {
            "chat hello": cell("budget all is too small for this call", code=1),
            VALIDATE: may("problem: .*budgets.all.tokens: every model call is refused"),
            DOCTOR: cell("problem: .*budgets.all.tokens: every model call is refused", code=1),
            START: may("problem: .*budgets.all.tokens: every model call is refused"),
        },
        config={**KEY, "budgets": {"all": {"tokens": 4000, "per": "turn"}}},
        before=(),
    ),
    "a session is torn": World(
        {
            DOCTOR: cell("problem: .*jsonl: is damaged: line 2", code=1),
            "sessions list": cell("damaged lines: ", code=1),
            TURNS: cell("failed"),
            VALIDATE: cell("1 setting does not work", code=1),
        },
        config=NO_KEY,
        prepare=torn_session,
        before=(),
    ),
    "a turn is under way": World(
        {
            TURNS: cell("agent:default:main +running or interrupted"),
            STUCK: cell("running or interrupted", code=1),
            USAGE: may("no model call is recorded"),
            DOCTOR: may("no problems found", code=0),
        },
        prepare=turn_under_way,
        before=(),
    ),
    "a turn was interrupted": World(
        {TURNS: cell("agent:default:main +running or interrupted"), STUCK: may("nothing is stuck", code=0)},
        prepare=turn_interrupted,
        before=(),
    ),
    "the workspace of the second agent lies below a file": World(
        {
            VALIDATE: cell(r"error: .*agents.list\[1\].workspace \(two\): /etc/passwd is a file, not a folder", code=3),
            DOCTOR: cell(r"problem: .*agents.list\[1\].workspace", code=1),
            STATUS: Cell((r"agents.list\[1\].workspace",), ("^workspace:",), 3),
            START: Cell((r"agents.list\[1\].workspace",), ("is ready",), 3),
            "tools explain ls --agent two": Cell((r"agents.list\[1\].workspace",), (": available",), 3),
        },
        config={**KEY, "agents": {**MODEL["agents"], "list": [{"id": "a"}, {"id": "two", "workspace": "/etc/passwd/x"}]}},
        before=(),
    ),
    "the workspace of the second agent is missing, and is made when it is needed": World(
        {VALIDATE: may("is valid", code=0), DOCTOR: may("no problems found", code=0)},
        config={**KEY, "agents": {**MODEL["agents"], "list": [{"id": "a"}, {"id": "two", "workspace": "~/missing/x"}]}},
        before=(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_no_surface_says_a_wrong_word_about_a_service_a_file_or_a_turn(state, tmp_path, server):  # noqa: F811
    world = STATES[state]

    assert wrong_cells(world, machine_in(world, tmp_path, server)) == []
