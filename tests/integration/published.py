"""Trial of one published package, as a person would do it: install, look, call a tool, take a turn, uninstall.

``published.json`` lists the packages, ``published_outcomes.json`` holds what came of each on the day of its ``date``;
``page`` is the page of the manual about both.
"""

import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).with_name("published.json")
OUTCOMES = Path(__file__).with_name("published_outcomes.json")
SECONDS = 180
"""Time limit of one command."""
TOOLBOXES = "plugins.entries.llm-bridge.config.toolboxes"
ANSWER = {"results": [{"title": "Anvils", "url": "http://127.0.0.1/anvils", "content": "the anvil"}]}
SPEC = {
    "openapi": "3.0.0",
    "info": {"title": "Shop", "version": "1"},
    "paths": {"/anvils": {"get": {"operationId": "list_anvils", "summary": "List anvils."}}},
}


@dataclass(frozen=True)
class Package:
    """One published package.

    :param kind: ``llm``: a package with tools for llm; ``mcp``: an MCP server of PyPI; ``npm``: one of npm.
    :param arguments: of the program of an MCP server.
    :param toolboxes: constructor arguments, by toolbox; ``{home}`` and ``{url}`` are filled in.
    :param environ: variables to set beside them.
    :param call: ``tool``, ``args`` and ``says``, a part of the answer; None: no call that harms nothing is possible here.
    :param needs: what a useful answer needs that a trial has not; then ``says`` is how the package asks for it.
    """

    name: str
    version: str
    kind: str = "llm"
    arguments: tuple[str, ...] = ()
    toolboxes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    call: Mapping[str, Any] | None = None
    needs: str = ""
    sample: bool = False


@dataclass(frozen=True)
class Outcome:
    """Outcome of a trial.

    :param result: ``works``, ``needs`` (it works once it has what ``why`` names), ``not installed`` or ``fails``.
    :param why: for the last three: the reason, in claw's words.
    :param tools: the number of its tools.
    """

    name: str
    version: str
    result: str
    why: str = ""
    tools: int = 0


def packages() -> list[Package]:
    """Return the packages to try."""
    return [Package(**line) for line in json.loads(PACKAGES.read_text("utf-8"))]


_WORDS = {
    "llm": "Packages for llm (`claw plugins install PACKAGE`)",
    "mcp": "MCP servers of PyPI (`claw mcp install NAME PACKAGE`)",
    "npm": "MCP servers of npm (`claw mcp add NAME -- npx -y PACKAGE`)",
    "works": "works",
    "needs": "works; it needs: ",
    "not installed": "is not installed: ",
    "fails": "does not work: ",
}


def page() -> str:
    """Return the page of the manual about the packages that were tried, and what came of each."""
    recorded = json.loads(OUTCOMES.read_text("utf-8"))
    outcomes = {one["name"]: Outcome(**one) for one in recorded["outcomes"]}
    lines = [
        "# Packages of other people that were tried\n",
        f"On {recorded['date']} each was installed, listed, explained, called, present in a turn, and removed, as a",
        "person does it. `python3 run.py test --full -m index tests/integration/test_published_packages.py` tries all",
        "again. What a package needs was not there, and its answer said so. A later release may do better.",
    ]
    for kind in ("llm", "mcp", "npm"):
        lines += [f"\n## {_WORDS[kind]}\n", "| package | tools | result |", "| --- | --- | --- |"]
        for one in (outcomes[package.name] for package in packages() if package.kind == kind):
            lines.append(f"| {one.name} {one.version} | {one.tools or ''} | {_WORDS[one.result]}{one.why} |")
    return "\n".join(lines) + "\n"


class Stopped(Exception):
    """The end of a trial before its last step."""

    def __init__(self, result: str, why: str) -> None:
        super().__init__(why)
        self.result, self.why = result, why


class Trial:
    """A home of its own for one package, and the commands that are typed there.

    :param claw: the program.
    :param seed: a home to start with, which has llm in its layer: pip then resolves in seconds; None = an empty one.
    :param links: folders with wheels of ours.
    :param url: of a service of this machine that answers like a search engine, a Datasette and an OpenAPI service.
    """

    def __init__(self, claw: Path, home: Path, links: list[str], url: str, seed: Path | None = None) -> None:
        self._claw, self._home, self._url = claw, home, url
        home.mkdir(parents=True)
        if seed:
            shutil.copytree(seed / ".claw" / "plugins.d", home / ".claw" / "plugins.d", symlinks=True)
        (home / "note.txt").write_text("the anvil\n")
        sqlite3.connect(home / "things.db").close()
        keys = home / ".config" / "io.datasette.llm" / "keys.json"  # as `llm keys set` writes them
        keys.parent.mkdir(parents=True)
        keys.write_text(json.dumps({"searxng_url": url}))
        (home / "skills" / "forging").mkdir(parents=True)
        (home / "skills" / "forging" / "SKILL.md").write_text(
            "---\nname: forging\ndescription: How to forge an anvil.\n---\nHeat it.\n"
        )
        self._environ = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
        self._environ["PIP_CACHE_DIR"] = str(home.parent / "pip-cache")
        self._environ["PIP_FIND_LINKS"] = " ".join(links)
        self.steps: list[dict[str, Any]] = []

    def install(self, *names: str) -> None:
        """Install packages, as a home to start others with."""
        self._said("plugins", "install", *names, "--yes")

    def run(self, package: Package) -> Outcome:
        """Return what came of a package."""
        self._environ |= {name: self._filled(value) for name, value in package.environ.items()}
        tools: list[str] = []
        try:
            way = self._llm if package.kind == "llm" else self._mcp
            why = way(package, tools)
            if self._is_running():
                raise Stopped("fails", "a process of it is left")
        except Stopped as end:
            self._home.with_name(f"{self._home.name}.log").write_text(json.dumps(self.steps, indent=1))
            return Outcome(package.name, package.version, end.result, end.why, len(tools))
        return Outcome(package.name, package.version, "needs" if why else "works", why, len(tools))

    def _llm(self, package: Package, tools: list[str]) -> str:
        pin = f"{package.name}=={package.version}"
        plan = self._json("plugins", "install", pin, "--dry-run", wrong="not installed")
        if plan["done"] or package.name not in {one["name"] for one in plan["changes"]}:
            raise Stopped("fails", "claw plugins install --dry-run does not show it")
        self._said("plugins", "install", pin, "--yes", wrong="not installed")
        self._said("plugins", "list")
        self._said("plugins", "info", package.name)
        self._said("config", "set", "tools.alsoAllow[]", "llm-bridge")
        for box, arguments in package.toolboxes.items():
            for name, value in arguments.items():
                self._said("config", "set", f"{TOOLBOXES}.{box}.{name}", self._filled(value))
        rows = {row["name"]: row for row in self._json("llm-bridge", "list")["plugins"]}
        row = rows.get(package.name, {"tools": [], "why": "claw llm-bridge list does not name it"})
        tools += row["tools"]
        if not tools:
            result = "needs" if package.needs and "need settings" in row["why"] else "fails"
            raise Stopped(result, re.sub(r" \(/[^)]*\)", "", row["why"]))
        why = self._use(package, tools)
        self._said("plugins", "uninstall", package.name, "--yes")
        if left := set(tools) & self._names():
            raise Stopped("fails", f"after it was uninstalled there is still {min(left)}")
        return why

    def _mcp(self, package: Package, tools: list[str]) -> str:
        pin, arguments = f"{package.name}=={package.version}", [*map(self._filled, package.arguments)]
        words = ["mcp", "install", "tried", pin, "--yes", *(["--", *arguments] if package.arguments else [])]
        if package.kind == "npm":
            words = [
                "mcp",
                "add",
                "tried",
                "--",
                "npx",
                "-y",
                f"{package.name}@{package.version}",
                *arguments,
            ]
        done, hint = self._step(*words), ""
        for command in re.findall(
            r"^\s*run: (.+)$", done.stderr, re.M
        ):  # what claw prints is what a person types
            program, *rest = shlex.split(command)
            hint = hint or (shlex.join(rest[rest.index("install") :]) if "install" in rest else "")
            done = self._step(*rest) if program == "claw" else self._run([program, *rest])
        [row] = self._json("mcp", "list")["servers"] or [{"tools": []}]
        tools += row["tools"]
        if done.returncode:
            raise Stopped("fails" if "where" in row else "not installed", _sentence(done.stderr))
        if not tools:
            raise Stopped("fails", "it has no tools")
        why = self._use(package, tools)
        self._said("mcp", "remove", "tried")
        if left := set(tools) & self._names():
            raise Stopped("fails", f"after it was removed there is still {min(left)}")
        return why or (hint and f"the command that claw prints: pip {hint}")

    def _use(self, package: Package, tools: list[str]) -> str:
        """List, explain and call its tools, and take a turn; return what it needs."""
        if missing := set(tools) - self._names():
            raise Stopped("fails", f"claw tools list does not have {min(missing)}")
        call = package.call or {"tool": tools[0]}
        self._said("tools", "explain", call["tool"])
        if package.call:
            arguments = {name: self._value(value) for name, value in call.get("args", {}).items()}
            done = self._step("tools", "call", call["tool"], "--args", json.dumps(arguments))
            if call["says"] not in done.stdout + done.stderr or "Traceback" in done.stderr:
                raise Stopped("fails", _sentence(done.stderr or done.stdout))
        if not self._said("chat", "what time is it?").strip():
            raise Stopped("fails", "a turn has no answer")
        return package.needs

    def _is_running(self) -> bool:
        """Return true if a process with the home of this trial lives, of claw or of the package."""
        own = f"HOME={self._home}".encode()
        for process in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if own in process.read_bytes().split(b"\0"):
                    return True
        return False

    def _names(self) -> set[str]:
        return {tool["name"] for tool in self._json("tools", "list")["tools"]}

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(one) for one in value]
        return self._filled(value) if isinstance(value, str) else value

    def _filled(self, text: str) -> str:
        return text.replace("{home}", str(self._home)).replace("{url}", self._url)

    def _json(self, *words: str, wrong: str = "fails") -> Any:
        return json.loads(self._said(*words, "--json", wrong=wrong))

    def _said(self, *words: str, wrong: str = "fails") -> str:
        done = self._step(*words)
        if done.returncode:
            raise Stopped(wrong, _sentence(done.stderr or done.stdout))
        return str(done.stdout)

    def _step(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self._run([str(self._claw), *words])

    def _run(self, command: list[str]) -> "subprocess.CompletedProcess[str]":
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                env=self._environ,
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise Stopped("fails", f"{' '.join(command[:3])} does not end within {SECONDS} s") from None
        self.steps.append({"words": command, "code": done.returncode, "out": done.stdout, "err": done.stderr})
        return done


def _sentence(text: str) -> str:
    """Return claw's sentence: no command to type, and no line of somebody else's output."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("claw: ")] or lines[:1]
    return re.sub(r" \(/[^)]*\)", "", own[-1].removeprefix("claw: ")) if own else ""


class _Service(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        answers: dict[str, Any] = {"/openapi.json": SPEC, "/search": ANSWER, "/shop.json": [{"kg": 5}]}
        body = json.dumps(answers.get(path, {"anvils": 3})).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, *said: object) -> None:
        pass


@contextmanager
def service() -> Iterator[str]:
    """Serve on a port of this machine what the packages ask for; the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
