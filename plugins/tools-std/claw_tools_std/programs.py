"""Which command line may start, by ``tools.exec``: a decision over words, made before anything runs.

In ``allowlist`` mode a line is split into plain words and started without a shell. Two kinds of programs may run:

- :data:`READERS`, which only look, and only at files of this agent: a word that names something outside of the fence is
  refused, and so is an option that would write or start another program.
- ``tools.exec.allow``: a bare name (found on PATH), a pattern over the resolved path when it has a slash, or
  ``{"argv": [...]}`` for one exact command. While that key is not written it holds :data:`SCRIPTS`, so that an agent can
  run what it wrote. **A script may do whatever this user may do**: ``allow: []`` takes that away, a sandbox walls it in.

``tools.exec.ask`` says when a person is asked: about what is not allowed so (``on-miss``), about everything (``always``),
or about nothing (``off``).
"""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from claw import ToolContext, ToolError, split_plain

READERS = frozenset({
    "basename", "cat", "cmp", "comm", "cut", "date", "df", "diff", "dirname", "du", "echo", "expr", "false", "file",
    "find", "grep", "head", "id", "join", "ls", "md5sum", "nl", "od", "paste", "printf", "pwd", "realpath", "rg", "seq",
    "sha1sum", "sha256sum", "sort", "stat", "tail", "tr", "tree", "true", "uname", "uniq", "uptime", "wc", "which",
    "whoami",
})  # fmt: skip
SCRIPTS = ("python3", "python")

_NAMED = re.compile(r"[^\s;|&<>()'\"`]+")  # what in a line for a shell may name a file
_INTERPRETERS = re.compile(
    r"python[\d.]*|pypy[\d.]*|node(js)?|deno|bun|perl[\d.]*|ruby[\d.]*|php[\d.]*|lua[\d.]*|(ba|da|z|k|fi)?sh"
)
# Readers whose words are no paths.
_WORDS_ONLY = frozenset({"basename", "dirname", "echo", "expr", "false", "printf", "seq", "tr", "true"})
# Long options that only look, of any reader. Others are refused, abbreviated ones too: GNU programs understand those.
_LONG_OPTIONS = frozenset(
    [
        "--after-context",
        "--all",
        "--almost-all",
        "--before-context",
        "--brief",
        "--bytes",
        "--color",
        "--colour",
        "--context",
        "--count",
        "--exclude",
        "--exclude-dir",
        "--extended-regexp",
        "--files",
        "--files-with-matches",
        "--files-without-match",
        "--fixed-strings",
        "--glob",
        "--help",
        "--hidden",
        "--human-readable",
        "--iglob",
        "--ignore-case",
        "--include",
        "--invert-match",
        "--iso-8601",
        "--line-number",
        "--lines",
        "--max-count",
        "--max-depth",
        "--no-filename",
        "--no-heading",
        "--no-ignore",
        "--null",
        "--numeric-sort",
        "--only-matching",
        "--recursive",
        "--reverse",
        "--sort",
        "--summarize",
        "--time-style",
        "--total",
        "--type",
        "--unified",
        "--unique",
        "--utc",
        "--version",
        "--with-filename",
        "--word-regexp",
        "--words",
    ]
)
# Short options by which a reader writes, sets, starts a program, follows links, or reads the names of further files.
_SHORT_OPTIONS = {
    "date": re.compile(r"-[a-zA-Z]*[sf].*"),
    "diff": re.compile(r"-[a-zA-Z]*[rl].*"),
    "du": re.compile(r"-[a-zA-Z]*[LDH].*"),
    "file": re.compile(r"-[a-zA-Z]*[CzZfmLE].*"),
    "find": re.compile(r"-(exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls|files0-from|follow|L|H)"),
    "grep": re.compile(r"-[a-zA-Z]*R.*"),
    "rg": re.compile(r"-[a-zA-Z]*[Lz].*"),
    "sort": re.compile(r"-[a-zA-Z]*[oT].*"),
    "tree": re.compile(r"-[a-zA-Z]*[olR].*"),
}


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


def command_of(line: str, settings: Any, context: ToolContext) -> Command:
    """The command that ``line`` may start.

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
    words = split_plain(line)
    program = _resolved(words[0], settings, context)
    if not _allowed(words, program, settings):
        if words[0] not in READERS:
            raise ToolError(
                "{program} is not among the programs that may run",
                where="tools.exec.allow",
                fix="An operator can add {program} there; these run already: {known}",
                program=words[0],
                known=", ".join(sorted({*READERS, *_names(settings)})),
            )
        _check_reader(words, context)
    if settings.strict_inline_eval and _INTERPRETERS.fullmatch(Path(program).name):
        _check_script(words, context)
    return Command(tuple(words), program)


def asked_for(line: str, settings: Any, context: ToolContext) -> Command:
    """What ``line`` would start if a person allowed it: plain words as they are, anything else through a shell.

    :raises ToolError: nobody can allow it: no such program, one of the workspace, or letters no line may hold.
    """
    try:
        words = split_plain(line)
    except ToolError:
        if not line.strip() or any(ord(letter) < 0x20 and letter not in "\n\t" for letter in line):
            raise
        return _through_shell(line, context)
    return Command(tuple(words), _resolved(words[0], settings, context))


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


def _names(settings: Any) -> Sequence[Any]:
    allow = settings.allow if "allow" in settings.model_fields_set else SCRIPTS
    return [entry for entry in allow if isinstance(entry, str)]


def _allowed(words: list[str], program: str, settings: Any) -> bool:
    exact = (entry.get("argv") for entry in settings.allow if isinstance(entry, Mapping))
    if words in [list(argv) for argv in exact if argv]:
        return True
    real = str(Path(program).resolve())
    for name in _names(settings):
        if "/" not in name and name == words[0]:
            return True
        if "/" in name and real.count("/") == name.count("/") and fnmatchcase(real, name):
            return True
    return False


def _resolved(word: str, settings: Any, context: ToolContext) -> str:
    """Where a program lies. Found inside the workspace it is a file of the agent's, not a program."""
    found = (
        word
        if word.startswith("/")
        else shutil.which(word, path=_path(context.environment))
        if "/" not in word
        else None
    )
    if found is None or not Path(found).is_file():
        raise ToolError("there is no program {program} on this machine", program=word)
    folder = Path(found).resolve().parent
    if folder.is_relative_to(Path(context.files.workspace).resolve()):
        raise ToolError("{program} lies in the workspace and is not run as a program", program=word)
    if settings.trusted_dirs and not any(folder.is_relative_to(each) for each in settings.trusted_dirs):
        raise ToolError(
            "{program} is not in a trusted folder",
            where="tools.exec.trustedDirs",
            program=found,
            fix="An operator can add {folder}",
            folder=folder,
        )
    return found


def _check_reader(words: list[str], context: ToolContext) -> None:
    """Hold a reader to what it is for: looking, inside the fence."""
    name, refused = words[0], _SHORT_OPTIONS.get(words[0])
    for word in words[1:]:
        long = word.startswith("--") and word != "--" and word.partition("=")[0] not in _LONG_OPTIONS
        if name not in _WORDS_ONLY and (long or (refused and refused.fullmatch(word))):
            raise ToolError(
                "{program} {option} may do more than look",
                where="tools.exec.allow",
                fix="Leave it out; or an operator can add {program} there",
                program=name,
                option=word,
            )
    for path in _paths(words):
        _check_inside(name, path, context)
    if name == "uniq" and len([word for word in words[1:] if not word.startswith("-")]) > 1:
        raise ToolError("uniq with two files writes the second one", where="tools.exec.allow")


def _paths(words: list[str]) -> list[str]:
    """What in the words of a reader may be a path: operands, and values of options."""
    name, rest = words[0], words[1:]
    if name in _WORDS_ONLY:
        return []
    if name in ("grep", "rg") and not any(re.fullmatch(r"--.+|-[A-Za-z0-9]*[ef].*", word) for word in rest):
        pattern = next(
            (word for word in rest if not word.startswith("-")), None
        )  # the first operand is no file
        rest = [word for word in rest if word is not pattern]
    found = []
    for word in rest:
        if not word.startswith("-"):
            found.append(word)
        elif not (
            name in ("cut", "join", "paste", "sort") and re.match(r"-[dt]", word)
        ):  # a delimiter may be a slash
            found += [word.partition("=")[2], "" if word.startswith("--") else word[2:]]
    return [path for path in found if path]


def _check_inside(program: str, path: str, context: ToolContext) -> None:
    """Refuse a word that names something outside of the fence, by ``..``, from the root, or through a link."""
    try:
        context.files.stat(path)
    except ToolError:
        leads_out = path.startswith(("/", "~")) or ".." in path.split("/")
        if leads_out or (Path(context.files.workspace) / path).exists():
            raise ToolError(
                "{program} may only look at files of this agent, and {path} is none",
                program=program,
                path=path,
            ) from None


def _check_script(words: list[str], context: ToolContext) -> None:
    """An interpreter runs a script file of the workspace, not program text from the command line."""
    script = words[1] if len(words) > 1 else ""
    if script in ("--version", "-V", "-v") and len(words) == 2:
        return
    if not script or script.startswith("-"):
        raise ToolError(
            "{program} must be followed by a script file; program text and options before it are refused",
            where="tools.exec.strictInlineEval",
            fix="Write the script with write, then run {program} FILE",
            program=words[0],
        )
    if context.files.stat(script).kind != "file":
        raise ToolError("{script} is no file", script=script)


def _path(environment: Mapping[str, str]) -> str:
    """PATH without relative folders: what lies in the folder we are in decides nothing."""
    folders = environment.get("PATH", "").split(":")
    return ":".join(folder for folder in folders if folder.startswith("/")) or "/usr/local/bin:/usr/bin:/bin"
