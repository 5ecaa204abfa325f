"""``claw completion``: commands of plugins, sub-commands, options and values, in real shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from third_party import Machine

CONFIG = """\
agents: {list: [{id: home}, {id: work, model: openai/gpt-x}]}
models: {aliases: {fast: openai/gpt-y}}
channels: {telegram: {enabled: false}}
"""
CASES = {
    "": {"chat", "memory", "skills", "mcp", "local", "llm-bridge", "plugins", "help"},
    "plugins ": {"list", "info", "install", "verify", "doctor", "new"},
    "memory search --": {"--agent", "--max", "--json", "--help"},
    "chat --agent ": {"home", "work"},
    "models use ": {"openai/gpt-x", "fast"},
    "tools explain ": {"exec", "memory_search"},
    "plugins disable ": {"skills", "telegram"},
    "route explain --channel ": {"terminal", "telegram", "discord"},
    "sessions export --to ": {"md", "html", "json"},
    "completion ": {"bash", "zsh", "fish"},
    "auth add ": {"openai", "anthropic"},
    "config get ": {"agents.list", "models.aliases.fast"},
}
BASH = """\
{script}
COMP_WORDS=({words} "{last}"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _claw; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# bashcompinit of zsh runs the function with arrays as in ksh
ZSH = """\
autoload -Uz compinit; compinit -u -D
{script}
emulate -L sh; setopt ksharrays
compgen() {{ print -l -- ${{(f)"$(bashcompgen "$@")"}} }}
bashcompgen() {{ shift; local word; for word in $(print -r -- "$1"); do print -r -- "$word"; done }}
setopt shwordsplit
COMP_WORDS=({words} "{last}"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _claw; print -l -- "${{COMPREPLY[@]}}"
"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": "{script}\ncomplete -C'{line}' | string split -f1 \\t\n"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("completion"))
    machine.configured(CONFIG)
    return machine


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_options_and_values(shell: str, machine: Machine) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    written = machine.claw("completion", shell)
    assert (written.code, written.err) == (0, "")
    environ = {
        **machine.command()["env"],
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    for typed, wanted in CASES.items():
        *words, last = f"claw {typed}".split(" ")
        code = SHELLS[shell].format(
            script=written.out, words=" ".join(words), last=last, line=f"claw {typed}"
        )
        done = subprocess.run([shell, "-c", code], env=environ, capture_output=True, text=True, timeout=60)
        assert wanted <= set(done.stdout.split()), (typed, done.stdout, done.stderr)


def test_names_are_listed_without_the_import_of_a_plugin(machine: Machine) -> None:
    script = (
        "import sys, atexit; sys.argv = ['claw', 'completion', 'names', 'tools']\n"
        "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n"
        "from claw.__main__ import main; main()"
    )
    command = machine.command()
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=command["env"]
    )
    modules = done.stderr.split()
    ours = {name.partition(".")[0] for name in modules if name.startswith("claw_")}
    assert ours == {"claw_admin"}
    assert not {"rich", "jsonschema", "httpx2"} & {name.partition(".")[0] for name in modules}
    assert len(modules) <= 360, len(modules)


def test_a_wrong_config_file_completes_less_and_says_nothing(machine: Machine) -> None:
    machine.configured("agents: [")
    try:
        said = machine.claw("completion", "names", "agents")
        assert (said.code, said.out, said.err) == (0, "default\n", "")
    finally:
        machine.configured(CONFIG)


def test_help_lists_the_commands_of_plugins(machine: Machine) -> None:
    shown = machine.claw("--help").out
    assert {"memory", "skills", "mcp", "local", "llm-bridge"} <= set(shown.split())
