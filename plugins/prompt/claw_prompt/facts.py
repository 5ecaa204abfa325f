"""The facts that the standard sections need beside those of the turn: context files, the machine, the working tree."""

import os
import socket
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from claw import PromptFacts

from claw_prompt.context_files import ContextFiles, git_root

_cached_git_root = cache(git_root)


class TurnFacts:
    """The facts of each turn, with the context files of every agent and workspace kept until they change."""

    def __init__(self) -> None:
        self._machine = _machine()
        self._files: dict[tuple[str, Path, bool], ContextFiles] = {}
        self._warnings: list[str] = []

    def prepare(self, facts: PromptFacts) -> PromptFacts:
        """Return the facts with the context files, the machine and the repository."""
        files = self._files_of(facts).load(facts.is_private)
        warnings = tuple(self._warnings)
        self._warnings.clear()
        runtime = {**facts.runtime, **self._machine, "repo": _cached_git_root(facts.workspace)}
        return replace(facts, context_files=files, runtime=runtime, warnings=warnings)

    def _files_of(self, facts: PromptFacts) -> ContextFiles:
        agent, settings = facts.agent, facts.agent.settings
        key = agent.id, facts.workspace, facts.own_workspace
        if key not in self._files:
            self._files[key] = ContextFiles(
                agent.dir / "agent",
                facts.workspace,
                facts.own_workspace,
                settings.bootstrap_max_chars,
                settings.bootstrap_total_max_chars,
                self._warnings.append,
            )
        return self._files[key]


def _machine() -> dict[str, str]:
    system = os.uname()
    return {
        "host": socket.gethostname(),
        "os": f"{system.sysname} ({system.machine})",
        "python": ".".join(map(str, sys.version_info[:3])),
        "shell": Path(os.environ.get("SHELL", "")).name,
    }
