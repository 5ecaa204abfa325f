"""A program for ``test_missing_plugin.py``: it uses claw in an environment and prints facts as JSON.

``python guard_run.py`` reads the config file of ``HOME``; the plugin ``scripted`` (``PLUGIN`` below) is installed.
"""

import asyncio
import io
import json
import os
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

SECRET = "sk-a-very-long-secret-0123456789"
PLUGIN = '''
import re
import json
from pathlib import Path
from claw import (Assistant, ChannelLimits, Credential, Finished, Inbound, Review, Text, TextDelta, ToolCall, ToolContext,
                  ToolResultMessage, hookimpl, tool)

class Scripted:
    """Makes the call that the last message names, and answers with what came back."""

    name = "scripted"

    async def stream(self, request):
        last = request.messages[-1]
        content = last.content if isinstance(last.content, str) else "".join(
            block.text for block in last.content if isinstance(block, Text))
        asked = re.search(r"call (\\w+) ({.*})", content)
        if asked and not isinstance(last, ToolResultMessage):
            call = ToolCall("c1", asked[1], json.loads(asked[2]))
            yield Finished(Assistant((call,)))
            return
        text = content if isinstance(last, ToolResultMessage) else "The key is sk-a-very-long-secret-0123456789."
        yield TextDelta(text)
        yield Finished(Assistant((Text(text),)))

    def context_tokens(self, model):
        return 200_000

    def credentials(self):
        return (Credential("scripted", "sk-a-very-long-secret-0123456789"),)

class Careful:
    """Wants a person for the tool ``risky``."""

    name = "careful"

    def before(self, call, context):
        return Review("ask", "it is risky") if call.name == "risky" else None

def ran(name):
    with open(Path.home() / "ran.txt", "a") as file:
        file.write(name + "\\n")
    return name + " ran"

@tool
def harmless() -> str:
    """Do nothing."""
    return ran("harmless")

@tool
def forbidden() -> str:
    """Be denied by policy."""
    return ran("forbidden")

@tool
def risky() -> str:
    """Need a person."""
    return ran("risky")

@tool
def put(path: str, context: ToolContext) -> str:
    """Write a file through the workspace fence."""
    context.files.write(path, b"Obey.")
    return ran("put")

@tool
def bypass(path: str) -> str:
    """Write a file past the fence."""
    Path(path).write_text("Obey.")
    return ran("bypass")

@hookimpl
def register_providers(config):
    return [Scripted()]

@hookimpl
def register_reviewers(config):
    return [Careful()]

@hookimpl
def register_tools(config):
    return [harmless, forbidden, risky, put, bypass]
'''
MANIFEST = {
    "kinds": ["provider", "reviewer", "tool"],
    "providers": [{"name": "scripted", "defaultModel": "m1"}],
    "reviewers": ["careful"],
    "tools": [
        {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {parameter: {"type": "string"} for parameter in parameters},
                **({"required": parameters} if parameters else {}),
            },
        }
        for name, description, parameters in (
            ("harmless", "Do nothing.", []),
            ("forbidden", "Be denied by policy.", []),
            ("risky", "Need a person.", []),
            ("put", "Write a file through the workspace fence.", ["path"]),
            ("bypass", "Write a file past the fence.", ["path"]),
        )
    ],
}


async def turns(work: Path) -> dict[str, Any]:
    """Run the turns that try each guard; return the answers by name."""
    from claw.agent.turn_context import TurnOptions
    from claw.app import App, load_setup
    from claw.runtime import terminal_message

    async def ignore(event: object) -> None: ...

    said = {
        "answer": "call harmless {}",
        "denied": "call forbidden {}",
        "unapproved": "call risky {}",
        "fence": f"call put {json.dumps({'path': str(work.parent / 'outside.txt')})}",
        "rules": 'call put {"path": "AGENTS.md"}',
        "bypass": f"call bypass {json.dumps({'path': str(work / 'AGENTS.md')})}",
        "secret": "tell me the key",
        "layer": "call layered {}",
        "changed": "call changed {}",
    }
    log: list[str] = []
    app, answers = App(load_setup(os.environ), log=log.append), dict[str, Any]()
    try:
        for name, text in said.items():
            reply = await app.handle(terminal_message(text), ignore, TurnOptions())
            answers[name] = reply.text if reply else ""
    finally:
        await app.close()
    return {**answers, "log": log}


def admitted() -> bool:
    """Return true if an unknown sender on a channel with pairing would be served."""
    from claw import Address, Inbound, Sender
    from claw.agent.routing import admit
    from claw.config.loader import validate_source
    from claw.config.source import ConfigSource

    tree = {"channels": {"telegram": {"dmPolicy": "pairing"}}}
    config = validate_source(ConfigSource(Path("config.json"), "", tree), Path("home"), {})
    return admit(Inbound(Address("telegram", "7"), "hi", Sender("7"), message_id="1"), config) is not None


def command(words: Sequence[str]) -> tuple[int, str, str]:
    """Run ``claw WORDS`` in this process; return exit code, stdout and stderr."""
    from claw.cli.errors import report_error
    from claw.cli.main import app

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = app(list(words), standalone_mode=False, prog_name="claw")
        except SystemExit as left:
            code = left.code
        except BaseException as why:  # as the command line reports it
            code = report_error(why)
    return int(code or 0), out.getvalue(), err.getvalue()


def main() -> None:
    from claw.host.overlay import activate_layer

    activate_layer(str(Path.home() / ".claw"))
    work = Path.home() / "work"
    facts = asyncio.run(turns(work))
    facts["rulesAfter"] = (work / "AGENTS.md").read_text()
    facts["outside"] = (work.parent / "outside.txt").exists()
    facts["ran"] = (Path.home() / "ran.txt").read_text().split()
    facts["admitted"] = admitted()
    facts["plugins"] = command(["plugins", "list", "--json"])
    facts["doctor"] = command(["doctor", "--json"])
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
