"""The facts that the standard sections need beside those of the turn: settings, context files, the machine, the working
tree."""

import hashlib
import hmac
import os
import socket
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from claw import ConfigError, PromptFacts
from claw.runtime import Agent, Settings

from claw_prompt.context_files import ContextFiles, git_root

_cached_git_root = cache(git_root)


class TurnFacts:
    """The facts of each turn, with the context files of every agent and workspace kept until they change."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._machine = settings, _machine()
        self._files: dict[tuple[str, Path, bool], ContextFiles] = {}
        self._warnings: list[str] = []

    def prepare(self, facts: PromptFacts) -> PromptFacts:
        """Return the facts with the settings, the context files, the machine and the repository."""
        settings, files = self._settings, self._files_of(facts).load(facts.is_private)
        owners = self._owners_of(facts.agent)
        warnings = tuple(self._warnings)
        self._warnings.clear()
        runtime = {**facts.runtime, **self._machine, "repo": _cached_git_root(facts.workspace)}
        return replace(
            facts,
            zone=facts.agent.settings.user_timezone or "",
            owners=owners,
            silent_token=settings.messages.silent_token,
            model_aliases=tuple(settings.models.aliases.items()),
            docs=settings.prompt.docs_path or "",
            context_files=files,
            runtime=runtime,
            warnings=warnings,
        )

    def _owners_of(self, agent: Agent) -> tuple[str, ...]:
        """Return the owners as the prompt names them; none, with a warning, when the key of the hashes cannot be read."""
        identity = agent.settings.identity
        secret = identity.owner_display_secret
        try:
            key = secret.reveal() if secret else ""
        except ConfigError as why:
            self._warnings.append(str(why.under(f"{agent.key_of('identity')}.ownerDisplaySecret")))
            return ()
        return tuple(owner_hash(owner, key) for owner in (*self._settings.owners, *identity.owner_numbers))

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


def owner_hash(owner_id: str, secret: str = "") -> str:
    """Return the name of an owner in prompts: 12 hex digits that do not reveal the id.

    :param secret: key of the digest (HMAC-SHA-256), against guessing of ids; blank = plain SHA-256.
    """
    key, text = secret.strip().encode(), owner_id.encode("utf-8", "surrogatepass")
    digest = hmac.new(key, text, hashlib.sha256) if key else hashlib.sha256(text)
    return digest.hexdigest()[:12]


def _machine() -> dict[str, str]:
    system = os.uname()
    return {
        "host": socket.gethostname(),
        "os": f"{system.sysname} ({system.machine})",
        "python": ".".join(map(str, sys.version_info[:3])),
        "shell": Path(os.environ.get("SHELL", "")).name,
    }
