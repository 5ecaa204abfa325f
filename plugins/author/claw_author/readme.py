"""Check that a README works: its Python programs run, its settings are valid, and its ``claw`` commands exist."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from claw import t

SECONDS = 60
_BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^>]*? -->\n+)?^```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```[ \t]*$", re.S | re.M
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SECRET = "000001:" + "a" * 35
"""The value of each variable of a block, behind a digit of its own. It has the form of a Telegram token too."""
_END = re.compile(r"[|&;<>]+")


def readme_problems(file: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what does not work in a README, with its line. A block after ``<!-- not run: REASON -->`` is left out.

    :param environ: an environment in which the plugin is found.
    """
    if not file.is_file():
        yield t("there is no {file}", file=file.name)
        return
    text = file.read_text(encoding="utf-8", errors="replace")
    for block in _BLOCK.finditer(text):
        check = _CHECKS.get(block["kind"])
        if check and not block["skip"]:
            line = text.count("\n", 0, block.start("text")) + 1
            with tempfile.TemporaryDirectory(prefix="claw-grade-") as place:
                home = {**environ, "CLAW_HOME": str(Path(place, "home"))}
                for problem in check(block["text"], Path(place), home):
                    yield f"{file.name}:{line}: {problem}"


def _python(text: str, place: Path, environ: Mapping[str, str]) -> Iterator[str]:
    program = place / "program.py"
    program.write_text(text, encoding="utf-8")
    yield from _run([sys.executable, str(program)], place, environ)


def _yaml(text: str, place: Path, environ: Mapping[str, str]) -> Iterator[str]:
    home = Path(environ["CLAW_HOME"])
    home.mkdir()
    (home / "config.yaml").write_text(text, encoding="utf-8")
    known = {name: f"{at}{_SECRET}" for at, name in enumerate(_VARIABLE.findall(text), 1)}
    yield from _run([sys.executable, "-m", "claw", "config", "validate"], place, {**known, **environ})


def _commands(text: str, place: Path, environ: Mapping[str, str]) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        words = _claw_words(line)
        if words:
            at = words.index("--") if "--" in words else len(words)
            shown = [
                *words[:at],
                "--help",
                *words[at:],
            ]  # click reads it first, after it has parsed the options
            yield from _run([sys.executable, "-m", "claw", *shown], place, environ)


def _claw_words(line: str) -> list[str]:
    """Return the arguments of a command line that runs ``claw``; none for others."""
    command = line.removeprefix("$ ").strip()
    if not command.startswith("claw "):
        return []
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return []
    ends = [at for at, word in enumerate(words) if _END.match(word)]
    return words[1 : ends[0] if ends else len(words)]


def _run(command: list[str], place: Path, environ: Mapping[str, str]) -> Iterator[str]:
    try:
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            cwd=place, env={**os.environ, **environ}, timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        yield t("it did not end within {seconds} s", seconds=SECONDS)
        return
    if done.returncode:
        lines = [line.strip() for line in (done.stderr.strip() or done.stdout.strip()).splitlines()]
        yield (lines[-1] if lines else t("the process ended with code {code}", code=done.returncode))[:300]


_CHECKS = {
    "python": _python, "yaml": _yaml, "sh": _commands, "console": _commands, "bash": _commands,
}  # fmt: skip
