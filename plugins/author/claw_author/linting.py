"""Portability rules of a manifest. Pure."""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from claw import t
from claw.runtime import Manifest
from claw.testing import tool_faults

KINDS = {
    "channel": "channels", "provider": "providers", "tool": "tools", "section": "prompt_sections",
    "sandbox": "sandboxes", "reviewer": "reviewers", "filter": "filters", "observer": "observers", "store": "stores",
    "command": "commands",
}  # fmt: skip
_ID = re.compile(r"[a-z][a-z0-9-]{0,63}")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_RANGE = re.compile(r"\s*([<>]=?|[=!]=)\s*\d+(\.\d+)?\s*(,\s*([<>]=?|[=!]=)\s*\d+(\.\d+)?\s*)*")


@dataclass(frozen=True, slots=True)
class ManifestFinding:
    """One problem to fix.

    :param rule: id, manifest, env, name, description, anthropic, openai-strict, gemini or price.
    :param where: the tool, or the field of the manifest.
    """

    rule: str
    where: str
    problem: str

    def as_data(self) -> dict[str, str]:
        """Return it for ``--json``."""
        return asdict(self)


def findings(manifest: Manifest) -> Iterator[ManifestFinding]:
    """Yield the problems of a manifest, its tools last."""
    if not _ID.fullmatch(manifest.id):
        yield ManifestFinding("id", "id", t("lower-case letters, digits and hyphens, a letter first"))
    for field in ("name", "description"):
        if not getattr(manifest, field).strip():
            yield ManifestFinding("manifest", field, t("it is empty, and the list of plugins shows it"))
    if not _RANGE.fullmatch(manifest.api):
        yield ManifestFinding(
            "manifest",
            "api",
            t("{range} is no range such as {example}", range=repr(manifest.api), example="'>=1,<2'"),
        )
    for kind, field in KINDS.items():
        if getattr(manifest, field) and kind not in manifest.kinds:
            yield ManifestFinding(
                "manifest",
                "kinds",
                t("it has {field}, and {kind} is not among its kinds", field=field, kind=kind),
            )
    variables = [*manifest.env, *(name for line in manifest.providers for name in line.env)]
    for name in dict.fromkeys(variables):
        if not _VARIABLE.fullmatch(name):
            yield ManifestFinding(
                "env", name, t("an environment variable is upper-case letters, digits and _")
            )
    for tool in manifest.tools:
        for fault in tool_faults(tool):
            yield ManifestFinding(fault.rule, tool.name, fault.problem)
