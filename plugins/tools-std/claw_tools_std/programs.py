"""The command lines that may start, by ``tools.exec``: a decision over words, made before anything runs.

As shipped (mode ``ask``) a person is asked about every command, unless it runs in a sandbox or the file has a list.

In ``allowlist`` mode a line is parsed into plain commands, which ``|``, ``&&``, ``||`` and ``;`` may join. A
single one is started without a shell; each of several must be allowed by itself. These may run:

- :data:`READERS`, which only read, and only files of this agent: a word that names something outside of the
  workspace is refused, and so is an option that would write or start another program.
- ``tools.exec.allow``: a bare name (found on PATH), a pattern over the resolved path when it has a slash, or
  ``{"argv": [...]}`` for one exact command; only the last may start another program. **A script may do whatever this
  user may do**: an interpreter on the list is trusted with everything, a sandbox confines it.
- ``tools.exec.safeBins``: programs that filter what is piped into them and are given no file.

``tools.exec.ask`` says when a person is asked: about what is not allowed so (``on-miss``), about everything
(``always``), or about nothing (``off``).
"""

import glob
import hashlib
import os
import posixpath
import re
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from claw import ToolContext, ToolError, t
from claw_tool_sdk import is_decided_by_words, split_commands, split_single_command

from claw_tools_std.allowed import INTERPRETERS, is_trusted, refusal
from claw_tools_std.launchers import FRONTS, wrapped_command
from claw_tools_std.readers import READERS, check_reader
from claw_tools_std.settings import ExecSettings

_NAMED = re.compile(r"[^\s;|&<>()'\"`]+")  # parts of a shell line that may name a file
_PARTS = re.compile(r"[=,:@]")
_IN_FOLDER = re.compile(r"^\$(PWD|\{PWD\})/")
_PATTERN = re.compile(r"[*?\[]")
MOST_NAMED = 500
"""Words of a line, and matches of a pattern, that an approval binds by their content; others by their text."""
MOST_FOLDERS = 8
MOST_STEPS, MOST_WORDS = 100, 2000
"""Commands and words of a line that is judged by a list: each word may cost a search on the disk."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """The command to start: its words, the resolved program, and whether that is a shell which parses the
    line.
    """

    argv: tuple[str, ...]
    program: str
    shell: bool = False


def settings_of(shared: ExecSettings, context: ToolContext) -> ExecSettings:
    """Return ``tools.exec`` for this agent: its own section when it has one, else the global one."""
    read = getattr(context.agent, "section", None)
    own: ExecSettings | None = read("tools.exec", ExecSettings) if read else None
    return own if own and own.model_fields_set else shared


def command_of(line: str, settings: Any, context: ToolContext, folder: str = ".") -> ShellCommand:
    """Return the command that ``line`` may start.

    :param folder: where it is started, as the model wrote it.
    :raises ToolError: it may not start; the text has the reason, and the key that would allow it.
    """
    mode = settings.mode_in_force(context.wrap is not None)
    if mode == "deny":
        raise ToolError(
            "commands are switched off",
            where="tools.exec.mode",
            fix="An operator can set it to allowlist or full",
        )
    if mode == "ask":
        raise ToolError(
            "a person must allow each command, and no person can be asked here",
            where="tools.exec.mode",
            fix="An operator can list commands in tools.exec.allow; read, ls, grep and find need no command",
        )
    if mode == "full":
        return _through_shell(line, context)
    steps = split_commands(line)
    words = sum(len(step.words) for step in steps)
    if len(steps) > MOST_STEPS or words > MOST_WORDS:
        raise ToolError(
            "{steps} commands with {words} words are too many for one line without approval; at most {most}",
            fix="Write a script with write, and run that",
            steps=len(steps),
            words=words,
            most=f"{MOST_STEPS}, {MOST_WORDS}",
        )
    started = [_checked_words(step.words, settings, context, folder) for step in steps]
    if len(steps) == 1:
        return ShellCommand((steps[0].words[0], *started[0][1:]), started[0][0])
    # a shell line with exactly these words, quoted so that the shell expands nothing
    joined = (f"{shlex.join(words)} {step.then}" for words, step in zip(started, steps, strict=True))
    return _through_shell(" ".join(joined).rstrip(), context)


def _checked_words(words: Sequence[str], settings: Any, context: ToolContext, folder: str) -> tuple[str, ...]:
    """Return the words of one command that needs no approval, each program by its path.

    :raises ToolError: it needs approval.
    """
    placed = _with_paths(words, context)
    refused = refusal(words, settings, lambda word: os.path.realpath(_resolved(word, context)))
    if refused:
        if words[0] not in READERS or not is_trusted(os.path.realpath(placed[0]), settings):
            raise refused
        check_reader(words, context, folder)
    elif settings.strict_inline_eval and INTERPRETERS.fullmatch(Path(placed[0]).name) and len(words) > 1:
        _check_script(words[1], context, folder)
    return placed


def _with_paths(words: Sequence[str], context: ToolContext) -> tuple[str, ...]:
    """Return the words with paths for the program and for each program that it wraps."""
    program = _resolved(words[0], context)
    inner = wrapped_command(words) if {Path(program).name, Path(program).resolve().name} & FRONTS else ()
    between = words[1 : len(words) - len(inner)]
    return (program, *between, *(_with_paths(inner, context) if inner else ()))


def asked_for(line: str, context: ToolContext) -> ShellCommand:
    """Return the command that ``line`` would start if a person allowed it: plain words directly, anything
    else by a shell.

    :raises ToolError: no approval can allow it: a missing program, one in the workspace, or characters that no
        line may have.
    """
    try:
        words = split_single_command(line)
    except ToolError:
        if not line.strip() or any(ord(char) < 0x20 and char not in "\n\t" for char in line):
            raise
        return _through_shell(line, context)
    return ShellCommand(tuple(words), _resolved(words[0], context))


def _through_shell(line: str, context: ToolContext) -> ShellCommand:
    shell = shutil.which("bash", path=_path(context.environment)) or "/bin/sh"
    return ShellCommand((shell, "-c", line), shell, shell=True)


def command_digest(command: ShellCommand, folder: Path, environment: Mapping[str, str]) -> str:
    """Return a digest of all that decides what a start does: words, environment, resolved folder, program and
    named files.

    Files count by path, inode and content, so that replacing any of them changes the digest.
    """
    where = os.stat(folder)
    words = _named(command, folder)
    if command.shell:  # any word of the line may name a program
        words += [found for word in words if (found := shutil.which(word, path=_path(environment)))]
    parts: list[Any] = [
        command.argv,
        os.path.realpath(folder),
        where.st_dev,
        where.st_ino,
        sorted(environment.items()),
        _identity(Path(command.program)),
        *(_identity(folder / word) for word in words),
    ]
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _named(command: ShellCommand, folder: Path) -> list[str]:
    """Return what may be a path in a command: its words and their parts, what patterns match, all of it also below each
    folder that is named.
    """
    words: list[str] = list(command.argv[1:])
    if command.shell:
        line = command.argv[-1]
        words = [*_NAMED.findall(line), *_NAMED.findall(line.replace("\\", ""))]
    parts = [
        part for word in words for part in (*_PARTS.split(word), word[2:] if word[:1] == "-" else "") if part
    ]
    names = list(dict.fromkeys([*words, *(_IN_FOLDER.sub("", part) for part in parts)]))[:MOST_NAMED]
    found = [one for name in names if _PATTERN.search(name) for one in _matches(name, folder)]
    folders = [name for name in names if os.path.isdir(folder / name)][:MOST_FOLDERS]
    return names + found + [os.path.join(one, name) for one in folders for name in names]


def _matches(pattern: str, folder: Path) -> list[str]:
    return sorted(islice(glob.iglob(pattern, root_dir=folder), MOST_NAMED))


def unbound(command: ShellCommand) -> str:
    """Return a note for the person if a command may obey files that :func:`command_digest` does not know; else empty."""
    try:
        steps = split_commands(command.argv[-1]) if command.shell else ()
    except ToolError:
        return t("files that it reads without naming them are not bound")
    commands = [step.words for step in steps] or [(command.program, *command.argv[1:])]
    is_bound = all(map(is_decided_by_words, commands))
    return "" if is_bound else t("files that it reads without naming them are not bound")


def _identity(path: Path) -> tuple[Any, ...]:
    try:
        real = os.path.realpath(path)
        status = os.stat(real)
        if not stat.S_ISREG(status.st_mode):
            return real, status.st_dev, status.st_ino
        with open(real, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return (str(path),)
    return real, status.st_dev, status.st_ino, content


def _resolved(word: str, context: ToolContext) -> str:
    """Return the path of a program. A file found inside the workspace belongs to the agent and is no
    program.
    """
    found = (
        word
        if word.startswith("/")
        else shutil.which(word, path=_path(context.environment))
        if "/" not in word
        else None
    )
    if found is None or not Path(found).is_file():
        fix = "Give the folder as workdir instead" if word == "cd" else ""
        raise ToolError("there is no program {program} on this machine", fix=fix, program=word)
    if Path(found).resolve().is_relative_to(Path(context.files.workspace).resolve()):
        raise ToolError("{program} lies in the workspace and is not run as a program", program=word)
    return found


def _check_script(script: str, context: ToolContext, folder: str) -> None:
    """Refuse a script that this agent may not read."""
    if not script.startswith("-") and context.files.stat(posixpath.join(folder, script)).kind != "file":
        raise ToolError("{script} is no file", script=script)


def _path(environment: Mapping[str, str]) -> str:
    """Return PATH without relative folders, so that the current folder cannot supply a program."""
    folders = environment.get("PATH", "").split(":")
    return ":".join(folder for folder in folders if folder.startswith("/")) or "/usr/local/bin:/usr/bin:/bin"
