"""``claw plugins bisect -- COMMAND``: find the plugin that makes a command fail, by halving the third-party plugins.

Each run has a copy of the home, with a config file that disables a part of the plugins: no file of the user changes.
"""

import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from claw import UsageError, t
from claw.runtime import (
    IDLE,
    LAYERS_FOLDER,
    LOADED,
    AsJson,
    document,
    home_of,
    plugin_states,
    read_config,
    replace_file,
)
from claw_config_sdk import file_of

SECONDS = 300.0
_LEFT_OUT = ("agents", "workspace-*", "logs", "*.lock", "gateway.*", "state.db*")
"""Parts of a home that a copy does without: conversations and state belong to the user."""


def bisect(
    command: Annotated[list[str], typer.Argument(help="The command that fails, behind --.")],
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, help="A run that takes longer has failed.")
    ] = SECONDS,
    as_json: AsJson = False,
) -> None:
    """Find the plugin that makes COMMAND fail, by running it with parts of the third-party plugins.

    Each run has a copy of the home without conversations. Exit 1 when a plugin is found.
    """
    suspects = [
        one.id
        for one in plugin_states()
        if not one.found.is_first_party and (one.without_failure or one).state in (LOADED, IDLE)
    ]
    runs = 0

    def fails(enabled: Sequence[str]) -> bool:
        nonlocal runs
        runs += 1
        failed = run_fails(command, [id for id in suspects if id not in enabled], os.environ, seconds)
        verdict = t("it fails") if failed else t("it does not fail")
        line = t(
            "run {run}, {count:plugin|plugins}: {verdict}", run=runs, count=len(enabled), verdict=verdict
        )
        typer.echo(line, err=True)
        return failed

    culprit = find_culprit(suspects, fails)
    if as_json:
        document("plugins-bisect", {"plugin": culprit, "runs": runs, "suspects": suspects})
    elif culprit:
        fix = t("claw plugins disable {id}", id=culprit)
        typer.echo(t("plugin {id} makes it fail; to go on without it: {fix}", id=culprit, fix=fix))
    elif suspects and not fails(suspects):
        typer.echo(t("the command does not fail with every plugin enabled: there is nothing to find"))
    else:
        typer.echo(t("no single third-party plugin makes it fail"))
    raise typer.Exit(code=1 if culprit else 0)


def find_culprit(suspects: Sequence[str], fails: Callable[[Sequence[str]], bool]) -> str:
    """Return the one plugin without which the command does not fail; empty when there is none.

    It takes at most ⌈log2(n)⌉ + 1 runs (2 for one suspect): one for each halving, and one that tells the culprit from a
    command that fails without any plugin, or only with several.

    :param fails: runs the command with these plugins and none of the other suspects.
    """
    left, proven, passed = list(suspects), False, False
    while len(left) > 1:
        half = left[: len(left) // 2]
        proven = fails(half)
        passed = passed or not proven
        left = half if proven else left[len(half) :]
    if not left or not (proven or fails(left)):
        return ""
    return left[0] if passed or not fails(()) else ""


def run_fails(
    command: Sequence[str], disabled: Sequence[str], environ: Mapping[str, str], seconds: float
) -> bool:
    """Run a command of claw, or any other, in a copy of the home; return true if it fails or takes too long."""
    words = [sys.executable, "-m", "claw", *command[1:]] if command[0] == "claw" else list(command)
    with tempfile.TemporaryDirectory(prefix="claw-bisect-") as folder:
        home = Path(folder, "home")
        _copy_home(home, disabled, environ)
        try:
            done = subprocess.run(
                words, env={**environ, "CLAW_HOME": str(home)}, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return True
        except OSError as why:
            raise UsageError("{command} cannot be run: {why}", command=words[0], why=why.strerror) from None
    return done.returncode != 0


def _copy_home(target: Path, disabled: Sequence[str], environ: Mapping[str, str]) -> None:
    home, file = home_of(environ), file_of(environ)
    if home.is_dir():
        shutil.copytree(home, target, ignore=shutil.ignore_patterns(*_LEFT_OUT, LAYERS_FOLDER))
    target.mkdir(mode=0o700, exist_ok=True)
    if (home / LAYERS_FOLDER).exists():
        (target / LAYERS_FOLDER).symlink_to((home / LAYERS_FOLDER).resolve())
    tree = copy.deepcopy(dict(read_config(file).tree)) if file.exists() else {}
    entries = tree.setdefault("plugins", {}).setdefault("entries", {})
    for id in disabled:
        entries[id] = {**(entries.get(id) or {}), "enabled": False}
    replace_file(target / file.name, json.dumps(tree).encode())  # JSON is YAML too
