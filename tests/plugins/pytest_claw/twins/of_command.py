"""Sound commands, and for each promise a twin that breaks it and no other."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from pytest_claw import CommandSuite


class Greeter:
    """Adds ``claw greet``."""

    def register_commands(self, app: typer.Typer) -> None:
        @app.command("greet")
        def greet() -> None:
            """Print a greeting."""
            typer.echo(json.dumps({"greeting": "good day"}))


class TestSound(CommandSuite):
    kind: type[Any] = Greeter
    breaks = ""
    commands = ("greet",)
    prints_json: Mapping[str, Sequence[str]] = {"greet": ()}

    def make(self, folder: Path) -> Any:
        return self.kind()


class Misplaced(Greeter):
    position = "first"


class TestHasNoSoundPosition(TestSound):
    kind, breaks = Misplaced, "test_it_has_the_members_of_its_hook"


class TestMissesACommand(TestSound):
    commands, breaks = ("greet", "part"), "test_it_brings_each_command_of_its_manifest"


class Silent:
    """Adds a command without a docstring."""

    def register_commands(self, app: typer.Typer) -> None:
        @app.command("greet")
        def greet() -> None:
            typer.echo(json.dumps({"greeting": "good day"}))


class TestHasNoHelp(TestSound):
    kind, breaks = Silent, "test_help_describes_each_command"


class Lenient:
    """Adds a command that takes any option."""

    def register_commands(self, app: typer.Typer) -> None:
        @app.command("greet", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
        def greet() -> None:
            """Print a greeting."""
            typer.echo(json.dumps({"greeting": "good day"}))


class TestTakesAnyOption(TestSound):
    kind, breaks = Lenient, "test_an_unknown_option_is_a_usage_error"


class Chatty:
    """Adds a command that prints a line before its document."""

    def register_commands(self, app: typer.Typer) -> None:
        @app.command("greet")
        def greet() -> None:
            """Print a greeting."""
            typer.echo("one moment")
            typer.echo(json.dumps({"greeting": "good day"}))


class TestPrintsMoreThanJson(TestSound):
    kind, breaks = Chatty, "test_json_is_one_document"
