"""Which command line may start, by ``tools.exec``: a decision over words, made before anything runs.

In ``allowlist`` mode a line is read into plain commands, which ``|``, ``&&``, ``||`` and ``;`` may join. A single one is
started without a shell; each of several must be allowed by itself. These may run:

- :data:`READERS`, which only look, and only at files of this agent: a word that names something outside of the fence is
  refused, and so is an option that would write or start another program.
- ``tools.exec.allow``: a bare name (found on PATH), a pattern over the resolved path when it has a slash, or
  ``{"argv": [...]}`` for one exact command; only the last may start another program. While that key is not written it
  holds ``python3`` and ``python``, so that an agent can run what it wrote. **A script may do whatever this user may
  do**: ``allow: []`` takes that away, a sandbox walls it in.
- ``tools.exec.safeBins``: programs that filter what is piped into them and are given no file.

``tools.exec.ask`` says when a person is asked: about what is not allowed so (``on-miss``), about everything (``always``),
or about nothing (``off``).
"""

import hashlib
import os
import posixpath
import re
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claw import ToolContext, ToolError, split_plain, split_steps

from claw_tools_std.allowed import INTERPRETERS, is_trusted, refusal
from claw_tools_std.readers import READERS, check_reader
from claw_tools_std.starters import FRONTS, behind

_NAMED = re.compile(r"[^\s;|&<>()'\"`]+")  # what in a line for a shell may name a file


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: the words, the program they resolve to, and whether that is a shell which reads the line."""

    argv: tuple[str, ...]
    program: str
    shell: bool = False


def settings_of(house: Any, context: ToolContext) -> Any:
    """``tools.exec`` for this agent: its own section when it has written one, else the house's."""
    own = getattr(getattr(context.agent, "settings", None), "tools", None)
    settings = own if own is not None and "exec" in own.model_fields_set else house
    return settings.exec


def command_of(line: str, settings: Any, context: ToolContext, folder: str = ".") -> Command:
    """The command that ``line`` may start.

    :param folder: where it is started, as the model wrote it.
    :raises ToolError: it may not; the text says why, and which key would let it.
    """
    if settings.mode == "deny":
        raise ToolError(
            "commands are switched off",
            where="tools.exec.mode",
            fix="An operator can set it to allowlist or full",
        )
    if settings.mode == "full":
        return _through_shell(line, context)
    steps = split_steps(line)
    started = [_passed(step.words, settings, context, folder) for step in steps]
    if len(steps) == 1:
        return Command((steps[0].words[0], *started[0][1:]), started[0][0])
    # a line for a shell that holds these words and nothing that it could read otherwise
    joined = (f"{shlex.join(words)} {step.then}" for words, step in zip(started, steps, strict=True))
    return _through_shell(" ".join(joined).rstrip(), context)


def _passed(words: Sequence[str], settings: Any, context: ToolContext, folder: str) -> tuple[str, ...]:
    """The words of one command that nobody must be asked about, each program by its path.

    :raises ToolError: somebody must.
    """
    placed = _placed(words, context)
    refused = refusal(words, settings, lambda word: os.path.realpath(_resolved(word, context)))
    if refused:
        if words[0] not in READERS or not is_trusted(os.path.realpath(placed[0]), settings):
            raise refused
        check_reader(words, context, folder)
    elif settings.strict_inline_eval and INTERPRETERS.fullmatch(Path(placed[0]).name) and len(words) > 1:
        _check_script(words[1], context, folder)
    return placed


def _placed(words: Sequence[str], context: ToolContext) -> tuple[str, ...]:
    """The words with a path for the program, and for each that it only stands in front of."""
    program = _resolved(words[0], context)
    inner = behind(words) if {Path(program).name, Path(program).resolve().name} & FRONTS else ()
    between = words[1 : len(words) - len(inner)]
    return (program, *between, *(_placed(inner, context) if inner else ()))


def asked_for(line: str, context: ToolContext) -> Command:
    """What ``line`` would start if a person allowed it: plain words as they are, anything else through a shell.

    :raises ToolError: nobody can allow it: no such program, one of the workspace, or letters no line may hold.
    """
    try:
        words = split_plain(line)
    except ToolError:
        if not line.strip() or any(ord(letter) < 0x20 and letter not in "\n\t" for letter in line):
            raise
        return _through_shell(line, context)
    return Command(tuple(words), _resolved(words[0], context))


def _through_shell(line: str, context: ToolContext) -> Command:
    shell = shutil.which("bash", path=_path(context.environment)) or "/bin/sh"
    return Command((shell, "-c", line), shell, shell=True)


def seal(command: Command, folder: Path, environment: Mapping[str, str]) -> str:
    """One name for all that decides what a start does: words, environment, the true folder, program and named files.

    Files are known by their place, their inode and their bytes, so that a swap of any of them is another name.
    """
    where = os.stat(folder)
    words: list[str] = list(command.argv[1:])
    if command.shell:  # any word of the line may name a program
        words = _NAMED.findall(command.argv[-1])
        words += [found for word in words if (found := shutil.which(word, path=_path(environment)))]
    parts: list[Any] = [
        command.argv, os.path.realpath(folder), where.st_dev, where.st_ino, sorted(environment.items()),
        _identity(Path(command.program)), *(_identity(folder / word) for word in words),
    ]  # fmt: skip
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


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
    """Where a program lies. Found inside the workspace it is a file of the agent's, not a program."""
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
    """What an interpreter runs is a script file that this agent may read."""
    if not script.startswith("-") and context.files.stat(posixpath.join(folder, script)).kind != "file":
        raise ToolError("{script} is no file", script=script)


def _path(environment: Mapping[str, str]) -> str:
    """PATH without relative folders: what lies in the folder we are in decides nothing."""
    folders = environment.get("PATH", "").split(":")
    return ":".join(folder for folder in folders if folder.startswith("/")) or "/usr/local/bin:/usr/bin:/bin"
