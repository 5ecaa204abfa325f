"""List what a plugin registers, in a separate process: ``python -m claw_author.registrations ROOT PACKAGE ID ANSWER``.

The result is written to the file ANSWER, since a plugin may print anything. All effects of the plugin end with the
process.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from claw import ClawError, t
from claw.runtime import HOOKS, check_answers, hook_problems, tool_line
from claw.testing import contributed, plugin_config
from claw_config_sdk import section_schema

from claw_author.project import MANIFEST

SECONDS = 60
Problem = tuple[str, dict[str, Any]]
"""An English template and its values; the caller formats it in the language in use."""
_LISTED = {
    "register_prompt_sections": "prompt_sections",
    "register_sandboxes": "sandboxes",
    "register_reviewers": "reviewers",
    "register_filters": "filters",
    "register_observers": "observers",
}


def registrations_of(root: Path, package: str, plugin: str) -> dict[str, Any]:
    """Return what the code of ``package`` registers, as fields of a manifest; providers by name only.

    ``problems`` among them is no field: what is wrong with its hooks.

    :raises ClawError: it cannot be imported or called; the error has its last output.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "claw_author.registrations", str(root), package, plugin, str(answer)]
        try:
            done = subprocess.run(
                command,
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise ClawError(
                "the package {package} did not come back within {seconds} s", package=package, seconds=SECONDS
            ) from None
        if done.returncode or not answer.exists():
            why = _last_error(done.stderr) or t("it ended without an answer")
            raise ClawError("the package {package} cannot be asked: {why}", package=package, why=why)
        fields: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        fields["problems"] = [t(template, **values) for template, values in fields["problems"]]
        return fields


def _last_error(output: str) -> str:
    """Return the exception that ends the output of a process, in one line; empty when there is none."""
    lines = output.rstrip().splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    return " ".join(" ".join(lines[frames[-1] + 1 :] if frames else lines[-1:]).split())


class RecordingConfig:
    """The config of an empty file that records which sections are read, and by which model."""

    def __init__(self, plugin: str) -> None:
        self._config = plugin_config({}, plugin)
        self.channels: dict[str, Any] = {}
        self.providers: dict[str, Any] = {}
        self.own: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)

    def channel(self, name: str, model: Any) -> Any:
        """Return ``channels.NAME`` with only the required values."""
        self.channels[name] = model
        return _least(model)

    def record_accounts(
        self, name: str, model: Any, *credentials: str, ready: Callable[[str, Any], object] | None = None
    ) -> dict[str, Any]:
        """Return ``channels.NAME`` with only the required values and credentials."""
        self.channels[name] = model
        least = _least(model, **dict.fromkeys(credentials, "x" * 7))
        if ready:
            ready("default", least)
        return {"default": least}

    def provider(self, name: str, model: Any) -> Any:
        """Return ``providers.NAME`` with only the required values."""
        self.providers[name] = model
        return _least(model)

    def plugin(self, model: Any) -> Any:
        """Return ``plugins.entries.ID.config`` with only the required values."""
        self.own = model
        return _least(model)

    @property
    def schema(self) -> dict[str, Any] | None:
        """JSON Schema of the plugin's own section."""
        for model in (*self.channels.values(), *self.providers.values(), self.own):
            if model is not None:
                schema = section_schema(model)
                inlined: dict[str, Any] = _inlined(schema, schema.pop("$defs", {}))
                return inlined
        return None


def collect_registrations(package: str, plugin: str) -> dict[str, Any]:
    """Return the fields of the manifest that follow from the code."""
    module, config = import_module(package), RecordingConfig(plugin)
    wrong: dict[str, Problem] = {}
    hooks = {hook: _checked(hook, getattr(module, hook), wrong) for hook in HOOKS if hasattr(module, hook)}
    answers = contributed(SimpleNamespace(**hooks), config)  # type: ignore[arg-type]  it quacks
    wrong |= {hook: problem for hook, things in answers.items() if (problem := _wrong_answer(hook, things))}
    answers = {hook: things for hook, things in answers.items() if hook not in wrong}
    shipped = shipped_parts(Path(module.__file__ or "").parent)
    without_code = [
        kind for kind, field in (("skill", "skills"), ("mcp-server", "mcpServers")) if shipped[field]
    ]
    given_twice = _given_twice(answers.get("register_tools", ()))
    problems = [*_problems(module, without_code), *wrong.values(), *given_twice]
    fields: dict[str, Any] = {"id": plugin, "problems": problems}
    kinds = [one.kind for hook, one in HOOKS.items() if hook in answers]
    fields["tools"] = [tool_line(tool) for tool in answers.get("register_tools", ())]
    fields["channels"] = [channel.name for channel in answers.get("register_channels", ())]
    fields["providers"] = [{"name": one.name} for one in answers.get("register_providers", ())]
    for hook, field in _LISTED.items():
        fields[_camel(field)] = [_name(thing) for thing in answers.get(hook, ())]
    if commands := _commands(module):
        kinds.append("command")
    fields |= {"kinds": [*kinds, *without_code], "commands": commands, "skills": shipped["skills"]}
    if schema := config.schema:
        fields["configSchema"] = schema
    return fields


def shipped_parts(package: Path) -> dict[str, Any]:
    """Return the parts of a package that are used without its code: ``skills``, the names of its folders with a
    ``SKILL.md``, and ``mcpServers``, as its manifest has them.
    """
    skills = sorted(file.parent.name for file in package.glob("skills/*/SKILL.md"))
    try:
        manifest = json.loads((package / MANIFEST).read_bytes())
    except (OSError, ValueError):
        manifest = {}
    servers = manifest.get("mcpServers") if isinstance(manifest, dict) else None
    return {"skills": skills, "mcpServers": servers or {}}


def _problems(module: Any, kinds: Sequence[str]) -> list[Problem]:
    """Return what is wrong with the hooks of the package."""
    try:
        found = hook_problems(module, kinds=(*kinds,))
    except ClawError as why:
        found = [why]
    return [(template, values) for template, _, values in (one.parts for one in found)]


def _given_twice(tools: Sequence[Any]) -> list[Problem]:
    """Return the problem of each name that belongs to more than one tool."""
    count = Counter(tool.name for tool in tools)
    template = "its code provides the tool {tool} more than once; only one is used"
    return [(template, {"tool": name}) for name, times in count.items() if times > 1]


def _checked(hook: str, function: Callable[..., Any], wrong: dict[str, Problem]) -> Callable[..., Any]:
    """Return the hook such that an answer that is no list is recorded in ``wrong`` instead of raising later."""

    @wraps(function)
    def call(**given: Any) -> Any:
        answer = function(**given)
        if answer is None or isinstance(answer, Iterable):
            return answer
        values = {"hook": hook, "kind": type(answer).__name__, "wanted": _wanted(hook)}
        wrong[hook] = (
            "{hook} answered with {kind}, which is no list: it must return a list of {wanted}",
            values,
        )
        return ()

    return call


def _wanted(hook: str) -> str:
    return hook.removeprefix("register_").replace("_", " ")


def _wrong_answer(hook: str, things: list[Any]) -> Problem | None:
    """Return what is wrong with the first object that is not what the hook asks for."""
    for thing in things:
        if missing := [name for name in HOOKS[hook].members if not hasattr(thing, name)]:
            template = (
                "{hook} answered with {kind}, which has no {missing}: it must return a list of {wanted}"
            )
            kind, members = type(thing).__name__, ", ".join(missing)
            return template, {"hook": hook, "kind": kind, "missing": members, "wanted": _wanted(hook)}
    try:
        check_answers(hook, things)
    except Exception as why:  # noqa: BLE001 - the code of the plugin
        return "{why}", {"why": " ".join(str(why).split())}
    return None


def _commands(module: Any) -> list[str]:
    register = getattr(module, "register_commands", None)
    if register is None:
        return []
    import typer

    app = typer.Typer()
    register(app)
    names = [group.name for group in app.registered_groups]
    for command in app.registered_commands:  # without a name typer takes that of the function
        names.append(command.name or getattr(command.callback, "__name__", "").replace("_", "-"))
    return [str(name) for name in names if name]


def _name(thing: Any) -> str:
    return str(getattr(thing, "name", "") or type(thing).__name__)


def _least(model: Any, **more: Any) -> Any:
    schema = section_schema(model)
    return model.model_validate({**_example(schema, schema.get("$defs", {})), **more})


def _example(schema: dict[str, Any], parts: dict[str, Any]) -> Any:
    """Return a minimal value for ``schema``, as far as it can be guessed."""
    if "$ref" in schema:
        return _example(parts[schema["$ref"].rpartition("/")[2]], parts)
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        return _example(option, parts)
    match schema.get("type"):
        case "object":
            wanted = schema.get("required", ())
            return {name: _example(schema["properties"][name], parts) for name in wanted}
        case "array":
            return []
        case "boolean":
            return False
        case "integer" | "number":
            return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return "x" * schema.get("minLength", 7)


def _inlined(schema: Any, parts: dict[str, Any]) -> Any:
    """Return the schema without references, since it becomes a part of the schema of the whole file, and
    without the
    titles that pydantic makes of names.
    """
    if isinstance(schema, list):
        return [_inlined(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    here = parts[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {}
    return {
        key: {name: _inlined(inner, parts) for name, inner in value.items()}
        if key == "properties"
        else _inlined(value, parts)
        for key, value in (here | schema).items()
        if key not in ("$ref", "title")
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def main(root: str, package: str, plugin: str, answer: str) -> None:
    """Run in the separate process."""
    sys.path.insert(0, root)
    Path(answer).write_text(json.dumps(collect_registrations(package, plugin), default=str), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
