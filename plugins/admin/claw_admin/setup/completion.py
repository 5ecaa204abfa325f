"""``claw completion SHELL``: a script that completes commands, options and values.

The script holds all commands and options. Only for names that change (agents, models, plugins …) TAB runs claw, which
then reads the config file and the manifests and imports no plugin.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from claw import ClawError, UsageError

from claw_admin.setup.completion_names import KIND_OF, NAMES

_HINTS = {
    "bash": '# eval "$(claw completion bash)" in ~/.bashrc',
    "zsh": '# eval "$(claw completion zsh)" in ~/.zshrc, after compinit',
    "fish": "# claw completion fish > ~/.config/fish/completions/claw.fish",
}
_BASH = """\
_claw_words() {{
  case "$1" in
{words}
  esac
}}
_claw_values() {{
  case "$1" in
{values}
  esac
}}
_claw() {{
  local at="" i words
  for ((i = 1; i < COMP_CWORD; i++)); do
    case " $(_claw_words "$at") " in
      *" ${{COMP_WORDS[i]}} "*) [[ ${{COMP_WORDS[i]}} == -* ]] || at="${{at:+$at }}${{COMP_WORDS[i]}}" ;;
    esac
  done
  words="$(_claw_values "$at ${{COMP_WORDS[COMP_CWORD-1]}}")"
  [ -n "$words" ] || words="$(_claw_words "$at") $(_claw_values "$at")"
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _claw claw
"""
_FISH = """\
function __claw_at
  set -l at
  for word in (commandline -opc)[2..-1]
    contains -- (string join ' ' $at $word) {paths}; and set at $at $word
  end
  test (string join ' ' -- $at | string collect --allow-empty) = "$argv"
end
complete -c claw -f
"""


@dataclass
class CompletionTable:
    """The words that may follow each command.

    :ivar words: command (the words behind ``claw``; empty = claw itself) → its sub-commands, or its options.
    :ivar values: command and option, or command alone for its arguments → a list of values, or the kind of name
        (``$agents``) that ``claw completion names`` lists.
    """

    words: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)


def completion(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")],
    kind: Annotated[str, typer.Argument(hidden=True)] = "",
) -> None:
    """Print the completion script of SHELL; its first line says where it goes."""
    if shell == "names" and kind in NAMES:  # the script asks for them
        typer.echo(" ".join(sorted(set(NAMES[kind]()))))
        return
    if shell not in _HINTS:
        shells = [*_HINTS]
        raise UsageError(
            "no completion for {shell}", fix="Choose one of {shells}", shell=shell, shells=shells
        )
    typer.echo(f"{_HINTS[shell]}\n{script(shell, completion_table(context.find_root()))}", nl=False)


def completion_table(root: Any) -> CompletionTable:
    """Return every command that is installed, with its options and values.

    :param root: the context of ``claw`` itself.
    """
    table = CompletionTable()
    _add(table, root.command, "", root)
    return table


def _add(table: CompletionTable, lazy: Any, path: str, parent: Any) -> None:
    try:
        command = lazy.load() if hasattr(lazy, "load") else lazy
    except ClawError:  # its plugin is not in use, or does not load
        table.words[path] = []
        return
    context = typer.Context(command, info_name=path, parent=parent)
    if hasattr(command, "list_commands"):
        table.words[path] = command.list_commands(context)
        for name in table.words[path]:
            _add(table, command.get_command(context, name), f"{path} {name}".lstrip(), context)
        return
    options = [one for one in command.get_params(context) if one.param_type_name == "option"]
    table.words[path] = sorted(
        word for one in options for word in (*one.opts, *one.secondary_opts) if word[:2] == "--"
    )
    for one in command.get_params(context):
        place = f"{path} {one.opts[0]}" if one in options else path
        known = KIND_OF.get(f"{path} {one.name}") or KIND_OF.get(one.opts[0])
        if one.type_descriptor.is_choice:
            table.values[place] = " ".join(map(str, one.type_descriptor.choices))
        elif known:
            table.values[place] = known


def script(shell: str, table: CompletionTable) -> str:
    """Build the script (pure)."""
    if shell == "fish":
        paths = " ".join(f"'{path}'" for path in table.words if path)
        return _FISH.format(paths=paths) + "\n".join(_fish_lines(table)) + "\n"
    words = "\n".join(f'    "{path}") echo "{" ".join(below)}" ;;' for path, below in table.words.items())
    values = "\n".join(f'    "{place}") {_shell_command(value)} ;;' for place, value in table.values.items())
    bash = _BASH.format(words=words, values=values)
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash}" if shell == "zsh" else bash


def _shell_command(value: str) -> str:
    """Return the command that prints the words of a value."""
    return f"claw completion names {value[1:]} 2>/dev/null" if value[0] == "$" else f'echo "{value}"'


def _fish_lines(table: CompletionTable) -> Iterator[str]:
    for path, below in table.words.items():
        at = f"complete -c claw -n '__claw_at {path}'"
        plain = [word for word in below if word[:2] != "--"]
        if plain:
            yield f"{at} -a '{' '.join(plain)}'"
        if path in table.values:
            yield f"{at} -a '{_fish_value(table.values[path])}'"
        for option in below:
            if option[:2] == "--":
                value = table.values.get(f"{path} {option}")
                yield f"{at} -l {option[2:]}" + (f" -x -a '{_fish_value(value)}'" if value else "")


def _fish_value(value: str) -> str:
    return f'({_shell_command(value)} | string split " ")' if value[0] == "$" else value
