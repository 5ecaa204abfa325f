"""``claw completion SHELL``: a script that completes commands and options. claw does not run when TAB is
pressed."""

from typing import Annotated, Any

import typer
from claw import ClawError, UsageError

_BASH = """\
_claw() {{
  local words="{top}"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
      *) words="" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _claw claw
"""
_HINTS = {
    "bash": '# eval "$(claw completion bash)" in ~/.bashrc',
    "zsh": '# eval "$(claw completion zsh)" in ~/.zshrc',
    "fish": "# claw completion fish > ~/.config/fish/completions/claw.fish",
}


def completion(
    context: typer.Context, shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")]
) -> None:
    """Print the completion script of SHELL; its first line says where it goes."""
    if shell not in _HINTS:
        shells = ", ".join(_HINTS)
        raise UsageError(
            "no completion for {shell}", fix="Choose one of {shells}", shell=shell, shells=shells
        )
    typer.echo(f"{_HINTS[shell]}\n{script(shell, command_words(context.find_root()))}", nl=False)


def command_words(root: Any) -> dict[str, list[str]]:
    """Return every command and the words that may follow it: its sub-commands, or its options.

    :param root: the context of ``claw`` itself.
    """
    group = root.command
    return {name: _words(group.get_command(root, name)) for name in group.list_commands(root)}


def _words(lazy: Any) -> list[str]:
    try:
        command = lazy.load()
    except ClawError:  # its plugin is not in use, or does not load
        return []
    below = getattr(command, "commands", None)
    if below:
        return sorted(below)
    return sorted(option for each in command.params for option in each.opts if option.startswith("--"))


def script(shell: str, words: dict[str, list[str]]) -> str:
    """Build the script (pure)."""
    if shell == "fish":
        top = [f"complete -c claw -f -n __fish_use_subcommand -a '{' '.join(words)}'"]
        return "\n".join(top + [_fish(name, below) for name, below in words.items() if below]) + "\n"
    cases = "\n".join(f'      {name}) words="{" ".join(below)}" ;;' for name, below in words.items())
    bash = _BASH.format(top=" ".join(words), cases=cases)
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash}" if shell == "zsh" else bash


def _fish(name: str, below: list[str]) -> str:
    return f"complete -c claw -f -n '__fish_seen_subcommand_from {name}' -a '{' '.join(below)}'"
