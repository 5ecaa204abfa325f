"""Each mistake of a person, a service, a disk or a third-party plugin ends in one clear message and an exit code.

The real command line, in processes of its own. 0 ok, 1 failure, 2 usage, 3 config, 4 required plugin, 130 interrupted.
"""

import asyncio
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from claw_config_sdk import Lock
from claw_testing.services import AnthropicService, OpenAIService, ServiceReply
from third_party import Machine, Said, installed, plugin_code

PAGE = b"<!doctype html><html><title>Welcome to nginx</title></html>"
HANZI = re.compile("[\u4e00-\u9fff]")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.fixture(scope="module")
def _talked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    machine = Machine(tmp_path_factory.mktemp("talked"))
    assert machine.claw("chat", "hello").code == 0
    return machine.home


@pytest.fixture
def past(machine: Machine, _talked: Path) -> bytes:
    """The machine has talked before: what its session file holds."""
    shutil.rmtree(machine.home)
    shutil.copytree(_talked, machine.home)
    held = machine.session.read_bytes()
    assert held.count(b"\n") == 3
    return held


def refused(said: Said, code: int, *words: str) -> None:
    """One line that says all of ``words``, and the exit code."""
    line = said.line
    assert said.code == code, line
    assert line.startswith("claw: ")
    assert [word for word in words if word not in line] == [], line


class TestHome:
    @pytest.mark.parametrize("words", ["chat hi", "plugins list", "status", "doctor", "sessions list"])
    def test_a_relative_one_is_in_the_folder_of_the_person(self, machine: Machine, words: str) -> None:
        said = machine.claw(*words.split(), home=Path("here"))

        assert (said.code, said.err) == (0, "")
        assert [path.name for path in machine.workspace.iterdir()] in ([], ["here"])

    @pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.write_text("no lock at all [")])
    def test_a_lock_that_cannot_be_read_is_named_with_the_way_out(self, machine: Machine, make: Any) -> None:
        lock = machine.home / "pylock.toml"
        make(lock)
        for words in (("chat", "hi"), ("plugins", "list"), ("doctor",)):
            refused(
                machine.claw(*words), 1, str(lock), "the lock cannot be used", "remove it and write a new one"
            )
        shutil.rmtree(lock) if lock.is_dir() else lock.unlink()
        assert machine.claw("plugins", "lock").code == 0

    def test_a_file_in_its_way_is_named(self, machine: Machine) -> None:
        file = machine.root / "file"
        file.write_text("not a folder")
        for words in (("chat", "hi"), ("tools", "list")):
            refused(
                machine.claw(*words, home=file / "home"),
                1,
                str(file),
                "in the place of a folder",
                "CLAW_HOME",
            )
        refused(machine.claw("chat", "hi", home=file), 3, str(file), "Not a directory", "CLAW_HOME")

    def test_one_that_may_not_be_read_or_written_is_named(self, machine: Machine) -> None:
        machine.home.chmod(0o000)
        for words in (("chat", "hi"), ("plugins", "list")):
            refused(machine.claw(*words, plain=True), 3, str(machine.home), "Permission denied", "CLAW_HOME")
        machine.home.chmod(0o500)
        refused(
            machine.claw("chat", "hi", plain=True), 1, str(machine.home), "Permission denied", "CLAW_HOME"
        )
        machine.home.chmod(0o700)

    def test_a_config_file_that_may_not_be_read_is_named(self, machine: Machine) -> None:
        machine.configured("locale: en\n")
        (machine.home / "config.yaml").chmod(0o000)
        refused(machine.claw("chat", "hi", plain=True), 3, "config.yaml: cannot be read (Permission denied)")


class TestConfig:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", ["config.yaml: the file is empty", "Write a key"]),
            ("tools: [read\nagents: {{{\n", ["config.yaml:"]),
            ("tools: \x00\n", ["config.yaml", "character", "Delete it"]),
            ("- read\n", ["config.yaml:1", "must be an object", "agents"]),
            ("tools:\n  alow: [read]\n", ["config.yaml:2: tools.alow:", "not a known key", "mean allow?"]),
            ("tools:\n  profile: codng\n", ["config.yaml:2: tools.profile:", "codng", "mean coding?"]),
        ],
        ids=["empty", "garbled", "not-text", "a-list", "key", "word"],
    )
    def test_a_wrong_file_is_reported_with_line_key_and_fix(
        self, machine: Machine, past: bytes, text: str, words: list[str]
    ) -> None:
        machine.configured(text)
        refused(machine.claw("chat", "hi"), 3, *words)
        assert machine.session.read_bytes() == past

    def test_every_command_says_the_same(self, machine: Machine) -> None:
        (machine.home / "config.yaml").mkdir()
        for words in (
            ("chat", "hi"),
            ("plugins", "list"),
            ("config", "set", "tools.deny", "[x]"),
            ("status",),
        ):
            refused(
                machine.claw(*words), 3, "config.yaml: is a folder, not a file", "Put a config file there"
            )

    def test_of_two_files_none_is_chosen(self, machine: Machine) -> None:
        machine.configured("locale: en\n")
        machine.configured("{}", "config.json")
        refused(
            machine.claw("plugins", "list"), 3, "two config files: config.yaml and config.json", "Keep one"
        )

    @pytest.mark.parametrize("text", ["logging: {", "a: [1", "\t- x"])
    def test_the_list_of_plugins_without_it_is_one_document_that_has_the_error(
        self, machine: Machine, text: str
    ) -> None:
        machine.configured(text)
        said = machine.claw("plugins", "list", "--json")
        listed = json.loads(said.out)
        assert said.code == 3 and listed["plugins"]
        assert set(listed["error"]) == {"problem", "where", "fix"}
        assert listed["error"]["problem"] in said.err and "config.yaml" in listed["error"]["where"]

    def test_a_value_that_would_break_it_is_not_set(self, machine: Machine) -> None:
        machine.configured("# mine\ntools:\n  profile: coding\n")
        refused(machine.claw("config", "set", "tools.profile", "codng"), 3, "tools.profile", "mean coding?")
        refused(machine.claw("config", "set", "toolz.deny", "[x]"), 3, "toolz", "mean tools?")
        assert (machine.home / "config.yaml").read_text() == "# mine\ntools:\n  profile: coding\n"

    def test_what_nobody_supplies_is_reported_once_each_and_stops_nothing(self, machine: Machine) -> None:
        machine.configured(
            "channels:\n  telgram: {}\ntools:\n  alsoAllow: [raed]\nplugins:\n  entries:\n    tools-st: {}\n"
            "providers:\n  ollama: {baseUrl: 'http://127.0.0.1:9'}\n"
        )
        said = machine.claw("chat", "hello")
        assert said.code == 0 and said.out
        lines = said.err.splitlines()
        assert [line.split(": ")[2] for line in lines] == [
            "channels.telgram",
            "plugins.entries.tools-st",
            "tools.alsoAllow[0]",
        ]
        assert "config.yaml:2" in lines[0] and "tools-std?" in lines[1] and "read?" in lines[2]


class TestUsage:
    def test_a_wrong_word_gets_the_nearest_right_one(self, machine: Machine) -> None:
        refused(machine.claw("chta", "hi"), 2, "unknown command chta", "claw chat?")
        refused(machine.claw("plugins", "lst"), 2, "unknown command plugins lst", "claw plugins list?")
        refused(
            machine.claw("plugins", "info", "tool-std"), 2, "plugin tool-std is not installed", "tools-std?"
        )
        refused(
            machine.claw("chat", "--agent", "defalt", "hi"), 2, "there is no agent defalt", "mean default?"
        )
        explained = machine.claw("tools", "explain", "raed")
        assert explained.code == 1 and "did you mean read?" in explained.out and explained.err == ""

    def test_what_is_not_there_is_named(self, machine: Machine, past: bytes) -> None:
        refused(
            machine.claw("chat", "--session", "agent:coder:main", "hi"),
            2,
            "there is no agent coder",
            "default",
        )
        refused(machine.claw("chat", "--workspace", "/no/such", "hi"), 2, "--workspace", "/no/such")
        refused(machine.claw("chat", stdin=" \n"), 2, "nothing to say", "claw chat 'your message'")
        assert machine.session.read_bytes() == past

    def test_without_a_command_the_help_is_shown_and_nothing_else(self, machine: Machine) -> None:
        said = machine.claw()
        assert (said.code, said.err) == (2, "") and "tools" in said.out

    def test_a_tool_that_was_asked_for_and_denied_stops_the_turn_with_the_key(
        self, machine: Machine, past: bytes
    ) -> None:
        machine.configured("tools:\n  deny: [exec]\n")
        refused(
            machine.claw("chat", "--tool-choice", "exec", "hi"),
            2,
            "exec",
            "tools.deny",
            "claw tools explain exec",
        )
        refused(machine.claw("chat", "--tool-choice", "raed", "hi"), 2, "raed", "claw tools explain raed")
        assert machine.session.read_bytes().startswith(past)

    @pytest.mark.parametrize("choice", ["required", "session_status"])
    async def test_a_tool_that_was_asked_for_and_is_not_called_is_an_error(
        self, machine: Machine, choice: str
    ) -> None:
        async with OpenAIService(["I would rather talk.", "Really."]) as model:
            machine.configured(
                f"agents: {{defaults: {{model: openai/m}}}}\n"
                f"providers: {{openai: {{baseUrl: '{model.url}', apiKey: sk-of-this-test}}}}\n"
            )
            said = await asyncio.to_thread(machine.claw, "chat", "--tool-choice", choice, "hi")
        assert said.code == 1
        assert "did not call the tool that was asked for" in said.err and choice in said.err
        assert "Traceback" not in said.err
        assert (
            "I would rather talk." in machine.session.read_text() and "Really." in machine.session.read_text()
        )

    def test_arguments_that_are_no_object_are_shown_how_to_write(self, machine: Machine) -> None:
        for text in ("{", "[]"):
            said = machine.claw("tools", "call", "read", "--args", text)
            refused(said, 2, "--args is not a JSON object", """--args '{"key": "value"}'""")


class TestModel:
    def test_one_that_is_not_there_is_named_with_what_to_do(self, machine: Machine, past: bytes) -> None:
        refused(
            machine.claw("chat", "--model", "nope/x", "hi"),
            2,
            "unknown model nope/x",
            "no plugin provides nope",
        )
        refused(
            machine.claw("chat", "--model", "gpt-4o", "hi"),
            2,
            "unknown model gpt-4o",
            "write it as provider/model",
        )
        refused(
            machine.claw("chat", "--model", "anthropic/claude-x", "hi"),
            1,
            "anthropic has no API key",
            "claw auth add anthropic",
            "ANTHROPIC_API_KEY",
        )
        assert machine.session.read_bytes().startswith(past)
        assert machine.claw("chat", "hello").code == 0, "and the conversation goes on"

    def test_a_closed_port_is_reported_with_the_key_of_the_address(
        self, machine: Machine, past: bytes
    ) -> None:
        with socket.socket() as taken:  # and not listened to: nobody else gets it meanwhile
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            machine.configured(
                f"providers:\n  openai: {{baseUrl: 'http://127.0.0.1:{port}', apiKey: sk-0123456789}}\n"
            )
            said = machine.claw("chat", "--model", "openai/gpt-4o", "hi")
        refused(said, 1, "openai/gpt-4o", "connection", "providers.openai.baseUrl")
        assert machine.session.read_bytes().startswith(past)

    @pytest.mark.parametrize(
        ("service", "reply", "words"),
        [
            (
                AnthropicService,
                ServiceReply(body=PAGE, content_type="text/html"),
                ["web page", "providers.anthropic.baseUrl"],
            ),
            (OpenAIService, ServiceReply(body=PAGE, content_type="text/html"), ["web page", "providers.openai.baseUrl"]),
            (
                OpenAIService,
                ServiceReply(status=502, body=PAGE, content_type="text/html"),
                ["failed (HTTP 502)", "fallbacks"],
            ),
            (AnthropicService, ServiceReply(status=401), ["rejected the key", "providers.anthropic.apiKey"]),
            (OpenAIService, ServiceReply(status=429), ["rate limiting", "try again later", "fallbacks"]),
            (OpenAIService, ServiceReply(status=500), ["the service failed", "try again later", "fallbacks"]),
            (
                OpenAIService,
                ServiceReply(delay_seconds=4),
                ["did not finish its answer within 1 s", "openai.timeoutSeconds"],
            ),
        ],
        ids=["page", "page-openai", "gateway-page", "401", "429", "500", "silence"],
    )  # fmt: skip
    async def test_a_service_that_fails_is_reported_with_what_to_do(
        self, machine: Machine, past: bytes, service: type, reply: ServiceReply, words: list[str]
    ) -> None:
        name = "anthropic" if service is AnthropicService else "openai"
        seconds = 1 if reply.delay_seconds else 30
        async with service(lambda request: reply) as there:
            section = {"baseUrl": there.url, "apiKey": "sk-0123456789abcdef", "timeoutSeconds": seconds}
            machine.configured(json.dumps({"providers": {name: section}, "models": {"wait": "off"}}))
            said = await asyncio.to_thread(machine.claw, "chat", "--model", f"{name}/model-x", "hi")
        refused(said, 1, f"{name}/model-x", *words)
        assert "sk-0123456789abcdef" not in said.out + said.err
        assert machine.session.read_bytes().startswith(past)


class TestPlugin:
    def test_each_bad_one_is_reported_in_a_line_and_the_others_go_on(self, machine: Machine) -> None:
        tools = {"kinds": ["tool"], "tools": [{"name": "paint"}]}
        schema = {
            "type": "object",
            "properties": {"colour": {"enum": ["red"]}},
            "additionalProperties": False,
        }
        third_party = machine.root / "third-party"
        for plugin, code, manifest in (
            ("raises", "raise RuntimeError('boom')", None),
            ("leaves", "raise SystemExit(3)", None),
            ("interrupts", "raise KeyboardInterrupt", None),
            ("hooked", "from claw import hookimpl\n@hookimpl\ndef register_tools(config): exit(4)", None),
            ("garbled", plugin_code("lost"), "{"),
            ("painter", plugin_code("paint"), {**tools, "configSchema": schema}),
            ("one", plugin_code("acme"), None),
            ("two", plugin_code("acme"), None),
            ("usurper", plugin_code("read"), None),
        ):
            installed(third_party, plugin, code, manifest)
        machine.path = [third_party]
        machine.configured("plugins:\n  entries:\n    painter:\n      config: {color: red}\n")
        said = machine.claw("chat", "hello")
        assert said.code == 0 and said.out and "Traceback" not in said.err, said
        lines = {re.findall(r"plugin ([\w-]+)", line)[0]: line for line in said.err.splitlines()}
        assert sorted(lines) == [
            "garbled",
            "hooked",
            "interrupts",
            "leaves",
            "painter",
            "raises",
            "two",
            "usurper",
        ]
        assert len(said.err.splitlines()) == len(lines)
        assert "at import: RuntimeError: boom" in lines["raises"] and "SystemExit: 3" in lines["leaves"]
        assert "at import: KeyboardInterrupt" in lines["interrupts"] and "at register" in lines["hooked"]
        assert "manifest is not JSON" in lines["garbled"] and "update the plugin" in lines["garbled"]
        assert "config.yaml:4: plugins.entries.painter.config.color: is not a known key" in lines["painter"]
        assert "mean colour?" in lines["painter"]
        assert "acme" in lines["two"] and "plugin one" in lines["two"]
        assert "read" in lines["usurper"] and "tools-std" in lines["usurper"]

        listed = {
            row["id"]: row for row in json.loads(machine.claw("plugins", "list", "--json").out)["plugins"]
        }
        assert [listed[id]["state"] for id in ("garbled", "painter", "one")] == [
            "quarantined",
            "quarantined",
            "loaded",
        ]
        assert listed["painter"]["stage"] == "config" and "config.yaml:4" in listed["painter"]["why"]

        hint = lines["raises"].partition("disable it: claw ")[2]
        assert machine.claw(*hint.split()).code == 0
        assert "plugin raises" not in machine.claw("tools", "list").err

    def test_a_tool_that_fails_hangs_or_is_not_there_is_an_error_and_no_more(self, machine: Machine) -> None:
        third_party = machine.root / "third-party"
        declared = {"kinds": ["tool"], "tools": [{"name": "ghost"}]}
        nothing = "from claw import hookimpl\n@hookimpl\ndef register_tools(config): return []"
        installed(third_party, "liar", nothing, declared)
        installed(
            third_party,
            "broken",
            "raise RuntimeError('boom')",
            {"kinds": ["tool"], "tools": [{"name": "late"}]},
        )
        installed(third_party, "angry", plugin_code("rage", "raise RuntimeError('no mood')"))
        installed(third_party, "quitter", plugin_code("quit", "raise SystemExit(3)"))
        installed(
            third_party,
            "sleeper",
            plugin_code("sleep", "import time; time.sleep(600)", "timeout_seconds=0.3"),
        )
        machine.path = [third_party]
        for tool, words in (
            ("ghost", ["plugin liar", "its manifest lists the tool ghost", "its code does not provide"]),
            (
                "late",
                ["plugin broken (import)", "RuntimeError: boom", "plugins.entries.broken.enabled false"],
            ),
            ("rage", ["no mood", "plugin angry"]),
            ("quit", ["SystemExit: 3", "plugin quitter"]),
            ("sleep", ["sleep took longer than 0.3 s"]),
        ):
            said = machine.claw("tools", "call", tool)
            assert said.code == 1, said.err
            assert [word for word in words if word not in said.err] == [], said.err
            assert "Traceback" not in said.err

    def test_a_required_one_stops_the_start_with_4(self, machine: Machine, past: bytes) -> None:
        machine.configured("plugins: {entries: {acme: {required: true}}}\n")
        refused(machine.claw("chat", "hi"), 4, "plugin acme", "required", "not installed", "provides acme")
        code = "raise RuntimeError('boom')"
        tool = {"kinds": ["tool"], "tools": [{"name": "paint"}]}
        for name, manifest in (("plain", None), ("declared", tool), ("garbled", "{")):
            machine.path = [installed(machine.root / name, "acme", code, manifest)]
            words = ["not JSON"] if name == "garbled" else ["RuntimeError: boom", "update or uninstall"]
            refused(machine.claw("chat", "hi"), 4, "plugin acme", "required", *words)
        assert machine.session.read_bytes() == past

    def test_one_without_a_manifest_works(self, machine: Machine) -> None:
        machine.path = [installed(machine.root / "third-party", "acme", plugin_code("status"))]
        assert machine.claw("tools", "call", "status") == Said(0, "fine\n", "")
        assert "it has no manifest" in machine.claw("plugins", "list").out


class TestPast:
    def test_a_session_that_another_process_holds_is_refused_with_its_pid(
        self, machine: Machine, past: bytes
    ) -> None:
        lock = Lock(machine.session.with_name(machine.session.name + ".lock"))
        lock.take()
        try:
            refused(machine.claw("chat", "hi"), 1, f"process {os.getpid()}", "--session NAME")
        finally:
            lock.close()
        assert machine.session.read_bytes() == past

    def test_a_torn_line_costs_itself_and_is_reported(self, machine: Machine, past: bytes) -> None:
        machine.session.write_bytes(past + b'{"type":"message","id":"4')
        said = machine.claw("chat", "hello")
        assert said.code == 0 and "1 damaged line" in said.line and ".bak." in said.line
        assert machine.session.read_bytes().startswith(past)

    def test_a_file_of_another_kind_is_renamed_and_reported(self, machine: Machine, past: bytes) -> None:
        machine.session.write_bytes(b"not a session\n")
        said = machine.claw("chat", "hello")
        assert said.code == 0 and "was moved to" in said.line
        [aside] = machine.home.glob("agents/*/sessions/*.bad.*")
        assert aside.read_bytes() == b"not a session\n"

    def test_a_state_that_is_no_database_is_renamed_and_the_session_found_again(
        self, machine: Machine, past: bytes
    ) -> None:
        for file in machine.home.glob("state.db*"):
            file.unlink()
        (machine.home / "state.db").write_bytes(b"no database " * 100)
        said = machine.claw("chat", "hello")
        assert said.code == 0 and "state.db is not a database and was moved to" in said.line
        assert machine.session.read_bytes().startswith(past)


class TestTerminal:
    def test_a_reader_that_leaves_is_no_failure(self, machine: Machine) -> None:
        for words in ("plugins list", "tools list --all", "config schema"):
            read, write = os.pipe()
            os.close(read)
            done = subprocess.run(
                **machine.command(*words.split()), stdout=write, stderr=subprocess.PIPE, check=False
            )
            os.close(write)
            assert (done.returncode, done.stderr) == (0, b""), words

    async def test_ctrl_c_ends_with_130_and_keeps_what_was_said(self, machine: Machine, past: bytes) -> None:
        async with OpenAIService([ServiceReply("four words of an answer", hang=True)]) as service:
            section = {"baseUrl": service.url, "apiKey": "sk-0123456789abcdef"}
            machine.configured(json.dumps({"providers": {"openai": section}}))
            command = machine.command("chat", "--model", "openai/gpt-4o", "--json", "tell me")
            pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
            process = await asyncio.create_subprocess_exec(*command.pop("args"), **command, **pipes)
            while b'"TextStreamed"' not in await asyncio.wait_for(process.stdout.readline(), 30):
                pass
            process.send_signal(signal.SIGINT)
            _, output = await asyncio.wait_for(process.communicate(), 20)
        assert (process.returncode, output.split()) == (130, [b"claw:", b"stopped"])
        assert machine.session.read_bytes().startswith(past)
        *_, asked, answer = map(json.loads, machine.session.read_text().splitlines())
        assert asked["message"]["content"][0]["text"] == "tell me"
        assert answer["message"]["stopReason"] == "aborted" and answer["message"]["content"]

    def test_no_colour_is_no_colour_also_on_a_terminal(self, machine: Machine) -> None:
        seen = {}
        for colour in ("", "1"):
            ours, theirs = pty.openpty()
            command = machine.command("plugins", "list", TERM="xterm", NO_COLOR=colour)
            assert subprocess.run(**command, stdout=theirs, stderr=theirs, check=False).returncode == 0
            seen[colour] = os.read(ours, 65536)
            os.close(ours), os.close(theirs)
        assert b"\x1b" in seen[""] and b"\x1b" not in seen["1"]


class TestChinese:
    def test_errors_explanations_and_chat_are_in_the_language_of_the_file(self, machine: Machine) -> None:
        machine.path = [installed(machine.root / "third-party", "bad", "raise RuntimeError('boom')")]
        machine.configured("locale: zh\ntools:\n  deny: [exec]\nchannels:\n  telgram: {}\n")
        english = re.compile(r"\b(is|are|was|not|there|did you|does|the)\b")
        for words, code in (
            (("chat", "你好"), 0),
            (("chat", "--agent", "nobody", "hi"), 2),
            (("chat", "--tool-choice", "exec", "hi"), 2),
            (("chat", "--model", "nope/x", "hi"), 2),
            (("chta",), 2),
            (("tools", "explain", "exec"), 1),
            (("tools", "explain", "raed"), 1),
            (("config", "validate"), 0),
            (("config", "set", "tools.profile", "codng"), 3),
        ):
            said = machine.claw(*words)
            assert said.code == code, said.err
            for line in (said.err + said.out).splitlines():
                assert HANZI.search(line) or not english.search(line), line
            assert HANZI.search(said.err + said.out)
        machine.configured("locale: zh\ntols: 1\n")
        refused(machine.claw("chat", "hi"), 3, "config.yaml:2: tols: 不是可用的键。", "tools")
