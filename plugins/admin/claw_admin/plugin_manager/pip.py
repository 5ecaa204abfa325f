"""pip wrapper: resolves requirements, fetches exact pins, and translates pip's errors."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from claw import ClawError, UsageError
from claw.runtime import SYSTEM_DISK, normalise_distribution

from claw_admin.plugin_manager.plan import Pin, pin_from_report

# Override the machine's own pip settings: no prompts, no other target.
_SETTINGS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_USER": "0",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_NO_COLOR": "1",
    "PIP_PROGRESS_BAR": "off",
}
_REMOVED_SETTINGS = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_CONSTRAINT", "PIP_REQUIREMENT")


@dataclass(frozen=True)
class PluginRequirement:
    """A requirement as a person gave it: a name with or without version, a path, a wheel, a Git URL."""

    text: str
    editable: bool = False

    @property
    def pip_arguments(self) -> tuple[str, ...]:
        """The arguments for pip's command line."""
        return ("-e", self.text) if self.editable else (self.text,)

    @property
    def name(self) -> str:
        """The normalised name of a package of the index; empty for a path or a URL."""
        found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*(?=$|[\[\s<>=!~;])", self.text)
        return normalise_distribution(found[0]) if found and not self.is_path else ""

    @property
    def distribution(self) -> str:
        """The normalised name of the distribution, from the name or the file name of a wheel; else empty."""
        file = self.text.rpartition("/")[2]
        return self.name or (normalise_distribution(file.partition("-")[0]) if file.endswith(".whl") else "")

    @property
    def is_path(self) -> bool:
        """True for a path, by pip's rule: it begins with a dot, has a separator, or the suffix of a wheel or archive."""
        looks_so = self.text.startswith(".") or os.sep in self.text or self.text.endswith((".whl", ".gz"))
        return "://" not in self.text and (self.editable or looks_so)

    def is_satisfied_by(self, pin: Pin) -> bool:
        """Return true if ``pin`` satisfies this requirement."""
        if self.name:
            return pin.name == self.name
        if self.is_path:
            return unquote(urlsplit(pin.url).path) == self.text
        return pin.source in ("git", "file") and pin.url in self.text


def parse_requirement(text: str, editable: bool = False) -> PluginRequirement:
    """Parse a requirement that a person typed.

    :raises UsageError: it is invalid, or a path that does not exist.
    """
    parsed = PluginRequirement(text, editable)
    if not parsed.is_path:
        if parsed.name or re.match(r"(git\+|https?://|file://)", text):
            return parsed
        raise UsageError(
            "{text} is not a package name", fix="give a name, a path, a wheel or git+https://...", text=text
        )
    path = Path(text).expanduser().resolve()
    if not path.exists():
        raise UsageError("{path} does not exist", fix="a package name has no /", path=path)
    return PluginRequirement(str(path), editable)


class Pip:
    """The pip of one Python.

    :param command: from ``environment.pip_command``.
    :param on_line: called with each line that pip prints, while it runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._command, self._on_line = list(command), on_line
        self._environ = {
            name: value for name, value in environ.items() if name not in _REMOVED_SETTINGS
        } | _SETTINGS

    def resolve(
        self,
        roots: Sequence[PluginRequirement],
        scratch: Path,
        *,
        fixed: Mapping[str, str],
        beside: Path | None = None,
        from_source: bool = False,
        upgrade: bool = False,
    ) -> tuple[Pin, ...]:
        """Resolve what must be installed for ``roots``, without installing.

        :param scratch: an existing folder for temporary files.
        :param fixed: name → the version it must keep.
        :param beside: a folder whose distributions count as installed.
        :raises ClawError: there is no solution; the message is pip's reason in a sentence.
        """
        report, constraints = scratch / "report.json", scratch / "constraints.txt"
        lines = [f"{name}=={version}\n" for name, version in fixed.items()]
        SYSTEM_DISK.write_note(constraints, "".join(lines).encode())
        options = ["--dry-run", "--report", str(report), "-c", str(constraints), "--retries", "2"]
        options += ["--upgrade"] if upgrade else []
        options += [] if from_source else ["--only-binary", ":all:"]
        self._run(["install", *options, *(word for root in roots for word in root.pip_arguments)], beside)
        entries: list[Any] = json.loads(report.read_bytes())["install"]
        return tuple(pin_from_report(entry) for entry in entries)

    def fetch(self, pins: Sequence[Pin], target: Path, scratch: Path) -> None:
        """Install exactly ``pins`` into the empty folder ``target``, each with its hash checked.

        :raises ClawError: a file is gone, or differs from the planned one.
        """
        wanted = scratch / "requirements.txt"
        SYSTEM_DISK.write_note(wanted, "".join(f"{pin.requirement}\n" for pin in pins).encode())
        hashed = ["--require-hashes"] if all(pin.sha256 for pin in pins) else []
        self._run(
            ["install", "--no-deps", *hashed, "--target", str(target), "--retries", "2", "-r", str(wanted)]
        )

    def install(self, words: Sequence[str]) -> None:
        """Install into the Python of this pip."""
        self._run(["install", *words])

    def _run(self, words: Sequence[str], beside: Path | None = None) -> None:
        folders = [str(beside or ""), self._environ.get("PYTHONPATH", "")]
        environ = self._environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
        output: list[str] = []
        with subprocess.Popen(
            [*self._command, *words],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                output.append(line.rstrip())
                self._on_line(line.strip())
        if process.returncode:
            raise error_from_output(output)


def error_from_output(output: Sequence[str]) -> ClawError:
    """Translate pip's output to an error for a person."""
    text = "\n".join(output)
    if re.search(r"Retrying \(|Failed to establish|ConnectionError|SSLError|ReadTimeout", text):
        return ClawError("the package index cannot be reached", fix="check the network and try again")
    if missing := re.search(r"No matching distribution found for ([^\s(]+)", text):
        versions = re.search(r"from versions: ([^)]*)\)", text)
        if versions and versions[1] not in ("none", ""):
            return ClawError(
                "the index has no release of {name} that fits here",
                fix="available: {versions}",
                name=missing[1],
                versions=versions[1],
            )
        fix = "check its name; a package that exists only as source needs --from-source"
        if missing[1].startswith("claw-core"):  # what `claw upgrade` looks for
            fix = "name a version, a wheel or a folder: claw upgrade --check --to FOLDER"
        return ClawError("the index has no package {name}", fix=fix, name=missing[1])
    if conflict := re.search(r"The conflict is caused by:\n((?:[ \t]+.*\n?)+)", text):
        why = "; ".join(line.strip() for line in conflict[1].splitlines())
        return ClawError(
            "it conflicts with what is installed: {why}",
            fix="ask for another release, or upgrade claw first",
            why=why,
        )
    if "DO NOT MATCH THE HASHES" in text:
        return ClawError(
            "a downloaded file differs from the planned or locked one",
            fix="a release was changed: find out why before you install it",
        )
    errors = [line.removeprefix("ERROR: ") for line in output if line.startswith("ERROR: ")]
    why = "; ".join([*_build_error(output), *errors] or [line for line in output if line.strip()][-3:])
    return ClawError("pip failed: {why}", fix="nothing was changed", why=why[:1000])


def _build_error(output: Sequence[str]) -> list[str]:
    """Return the last line of a build that failed, its cause; pip prints it in a frame, or above its error."""
    text = "\n".join(output)
    framed = re.search(r"\[\d+ lines? of output\]\n(.*?)\n\s*\[end of output\]", text, re.DOTALL)
    above, mark, _ = text.partition("error: subprocess-exited-with-error")
    printed = framed[1] if framed else above if mark else ""
    return [line.strip() for line in printed.splitlines() if line.strip()][-1:]
