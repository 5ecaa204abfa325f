"""The page "When something is wrong" shows what claw says: each example runs, in the situation that it names."""

import json
import os
import re
import shlex
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from claw.host.health import HUNG, LoadFailure, PluginHealth
from core.source import ROOT
from integration import disks
from integration.confinement import can_mount
from integration.surfaces import Forked, World, machine_in, server  # noqa: F401 - a fixture
from integration.test_manual import Example, examples
from third_party import installed

PAGE = "when-something-is-wrong.md"
SERVICE = "https://models.example"
CLASSES = ("The config file", "Models", "Channels and people", "Plugins", "The disk", "Commands")


def answers(status: int, body: dict[str, Any] | str) -> Callable[[Forked], None]:
    """Return the step that puts a service which answers so to everything in the place of ``SERVICE``."""
    text = body if isinstance(body, str) else json.dumps(body)

    def serve(machine: Forked) -> None:
        class Service(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(status)
                self.send_header("content-type", "text/html" if text.startswith("<") else "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST

            def log_message(self, *parts: Any) -> None:
                pass

        service = machine.open.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Service))
        Thread(target=service.serve_forever, daemon=True).start()
        machine.open.callback(service.shutdown)
        address = f"http://127.0.0.1:{service.server_port}"
        machine.environ["SERVICE"] = address
        file = machine.home / "config.yaml"
        file.write_text(file.read_text().replace(SERVICE, address))

    return serve


def serving(step: Callable[[Forked], None]) -> Callable[[Forked], None]:
    """Return the step, and after it the start of a gateway."""

    def start(machine: Forked) -> None:
        step(machine)
        machine.claw("gateway", "start")
        machine.open.callback(machine.claw, "gateway", "stop")

    return start


def plugin_that_fails(machine: Forked) -> None:
    installed(machine.path[0], "lamp", "raise RuntimeError('no lamp is connected')", {"kinds": ["tool"]})
    machine.claw("tools", "list")


def plugin_that_hung(machine: Forked) -> None:
    installed(machine.path[0], "lamp", "", {"kinds": ["tool"]})
    why = "it did not come back within 10 s"
    PluginHealth(machine.home / "plugins").record(LoadFailure("lamp", HUNG, "register", why))


SITUATIONS: dict[str, Callable[[Forked], None]] = {
    "the service refuses the key": answers(
        401, {"error": {"message": "Incorrect API key provided: sk-wrong.", "code": "invalid_api_key"}}
    ),
    "the account has no credit": answers(
        429, {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota"}}
    ),
    "the service does not know the model": answers(
        404, {"error": {"message": "The model gpt-9 does not exist.", "code": "model_not_found"}}
    ),
    "a proxy answers": answers(200, "<html><body>Please log in to the network</body></html>"),
    "a gateway runs, and the service knows no such bot": serving(
        answers(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
    ),
    "the plugin lamp fails": plugin_that_fails,
    "the plugin lamp hung": plugin_that_hung,
    "the disk is full": disks.full_disk,
    "the home is read only": disks.read_only_folder,
    "the quota is used up": disks.used_up_quota,
    "another program writes": disks.written_by_another_program,
    "pages of state.db are damaged": disks.damaged_pages,
    "state.db belongs to another user": disks.state_of_another,
}
NEEDS = {
    "the disk is full": (can_mount(), "this kernel lets no process mount"),
    "state.db belongs to another user": (os.geteuid() == 0, "only root gives a file to another user"),
}


def case(example: Example) -> Any:
    can, why = NEEDS.get(example.config.situation, (True, ""))
    return pytest.param(example, marks=[] if can else pytest.mark.skip(reason=why), id=str(example))


@pytest.mark.parametrize("example", [case(example) for example in examples(PAGE)])
def test_claw_says_what_is_wrong_as_the_page_on_it_shows(
    example: Example,
    tmp_path: Path,
    server: Any,  # noqa: F811
) -> None:
    machine = machine_in(World({}, before=()), tmp_path, server)
    machine.environ = {"COLUMNS": "200"}
    machine.configured(example.config.text)
    if example.config.situation:
        SITUATIONS[example.config.situation](machine)
    assert example.commands, "an example shows what comes out"
    for command, shown in example.commands:
        said = machine.claw(*shlex.split(command)[1:])
        output = (said.out + said.err).replace(str(machine.home), "~/.claw")
        output = output.replace(machine.environ.get("SERVICE", SERVICE), SERVICE).replace(
            "stranger_lamp", "acme_lamp"
        )
        output = re.sub(r"\(\d\d:\d\d\)", "(18:33)", output)
        lines = [line.strip() for line in output.splitlines()]
        assert [line for line in shown if line not in lines] == [], f"{command}\n{output}"
    machine.open.close()


def test_the_page_has_an_example_of_each_class_of_fault() -> None:
    text = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    chapters = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.S | re.M))

    assert [name for name in CLASSES if "$ claw " not in chapters.get(name, "")] == []
    assert {example.config.situation for example in examples(PAGE)} - {""} == SITUATIONS.keys()
