"""Conformance tests of the commands that a plugin adds to ``claw``."""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from pytest_claw.hook import HookSuite

WRONG_OPTION = "--an-option-that-no-command-has"


class CommandSuite(HookSuite):
    """The promises of commands. ``make`` returns the plugin: the module with ``register_commands``.

    :cvar commands: the words behind ``claw``, as the manifest lists them; by default read from the manifest in the
        package of the module.
    :cvar prints_json: command → arguments with which it ends well and prints one JSON document.
    """

    members = ("register_commands",)
    is_named = False
    commands: Sequence[str] = ()
    prints_json: Mapping[str, Sequence[str]] = {}

    def test_it_brings_each_command_of_its_manifest(self, subject: Any) -> None:
        names = self.declared(subject)
        assert names, "the manifest lists no commands"
        added = typer.main.get_group(_app(subject)).commands
        missing = [name for name in names if name not in added]
        assert missing == [], "the manifest lists these commands, and register_commands does not add them"

    def test_help_describes_each_command(self, subject: Any) -> None:
        for path, summary in self.leaves(subject):
            done = _run(subject, path, "--help")
            assert done.exit_code == 0, f"claw {' '.join(path)} --help: {done.output}"
            assert summary.strip(), f"claw {' '.join(path)} has no docstring: its help says nothing"

    def test_an_unknown_option_is_a_usage_error(self, subject: Any) -> None:
        for path, _ in self.leaves(subject):
            done = _run(subject, path, WRONG_OPTION)
            words = " ".join(path)
            assert done.exit_code == 2, (
                f"claw {words} {WRONG_OPTION} ends with {done.exit_code}: {done.output}"
            )

    def test_json_is_one_document(self, subject: Any) -> None:
        for path, _ in self.leaves(subject):
            words = " ".join(path)
            if words not in self.prints_json:
                continue
            done = _run(subject, path, *self.prints_json[words])
            assert done.exit_code == 0, f"claw {words}: {done.output} {done.exception!r}"
            try:
                json.loads(done.stdout)
            except ValueError as error:
                pytest.fail(f"claw {words} does not print one JSON document ({error}): {done.stdout!r}")

    def declared(self, plugin: Any) -> list[str]:
        """Return the commands of the manifest."""
        if self.commands:
            return list(self.commands)
        manifest = json.loads((resources.files(plugin) / "claw-plugin.json").read_text())
        return list(manifest.get("commands", ()))

    def leaves(self, plugin: Any) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the path of each command that is no group, and its help."""
        commands = typer.main.get_group(_app(plugin)).commands
        for name in self.declared(plugin):
            if name in commands:
                yield from _leaves_of((name,), commands[name])


def _app(plugin: Any) -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.callback()(lambda: None)  # so that it stays a group when it holds one command
    plugin.register_commands(app)
    return app


def _run(plugin: Any, path: Sequence[str], *arguments: str) -> Result:
    return CliRunner().invoke(_app(plugin), [*path, *arguments])


def _leaves_of(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    if not hasattr(command, "commands"):
        yield path, command.help or ""
        return
    for name, part in command.commands.items():
        yield from _leaves_of((*path, name), part)
