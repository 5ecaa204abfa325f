"""``mcpServers``: the config key that MCP clients share."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from claw import ConfigError, Secret, Section
from claw.runtime import validation_error
from pydantic import AfterValidator, AliasChoices, Field, PrivateAttr, model_validator

Transport = Literal["stdio", "http", "streamable-http", "streamable_http", "streamableHttp", "sse"]
"""The values of ``type``, as MCP clients write them: all with ``http`` mean streamable HTTP."""


class OAuthSettings(Section):
    """The client at a server that does not register clients by itself."""

    client_id: str | None = Field(None, description="Id of the client that you registered for claw.")
    client_secret: Secret | None = Field(None, description="Its secret, if it has one.")
    redirect_port: int | None = Field(
        None, ge=1, le=65535, description="Port of its redirect address, http://127.0.0.1:PORT/callback."
    )


class ServerSettings(Section):
    """One server: a program that speaks over its pipes (``command``), or an address (``url``): of streamable HTTP, or
    of the older HTTP with SSE.
    """

    type: Transport | None = Field(
        None,
        validation_alias=AliasChoices("type", "transport"),
        description="sse for a server of HTTP with SSE; not needed otherwise. transport is read too.",
    )
    command: str | None = Field(None, description="The program; found on PATH, or beside claw.")
    args: tuple[str, ...] = Field((), description="Arguments of the program.")
    env: dict[str, Secret] = Field(
        {}, description="Variables for the program, beside the harmless ones it gets anyway."
    )
    env_allow: tuple[str, ...] = Field((), description="Names of claw's own variables that it may see.")
    cwd: str | None = Field(None, description="Its working folder; absent = a folder of this plugin.")
    url: str | None = Field(None, description="Address of a server of streamable HTTP, or of HTTP with SSE.")
    headers: dict[str, Secret] = Field({}, description="Sent with each request.")
    oauth: OAuthSettings = Field(
        OAuthSettings(), description="For a login (claw mcp login) without a registration."
    )
    timeout_seconds: float = Field(
        60,
        gt=0,
        validation_alias=AliasChoices("timeoutSeconds", "timeout_seconds", "timeout"),
        description="Longest call of a tool, in seconds; timeout is read too.",
    )
    connect_seconds: float = Field(20, gt=0, description="How long connecting may take.")
    sampling: Literal["ask"] | bool = Field(
        False, description="It may ask your models, within the budgets; ask: each time with your approval."
    )
    sampling_calls: int = Field(
        5, ge=1, le=100, description="How many model calls one call of a tool may cause."
    )
    roots: tuple[str, ...] = Field(
        (), description="Folders that it is told of; workspace = the folder of the agent that calls it."
    )
    disabled: bool = Field(False, description="true: the server is not used.")
    optional: bool = Field(False, description="Its tools stand only when an allow list names them.")
    owner_only: bool = Field(False, description="Its tools are for owners.")
    _section: str = PrivateAttr("mcpServers")  # the key of all servers, as written
    _plugin: str = PrivateAttr("")
    _identity: tuple[Any, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise validation_error(
                "a server has either a command (and args) or a url", "Write one of the two"
            )
        if self.url and urlsplit(self.url).scheme not in ("http", "https"):
            raise validation_error("the url of a server begins with http:// or https://", "Correct it")
        if self.type and (self.type == "stdio") != bool(self.command):
            problem, fix = (
                "{transport} does not fit: the server has a {what}",
                "Leave it out: command or url says it",
            )
            what = "command" if self.command else "url"
            raise validation_error(problem, fix, at=("type",), transport=self.type, what=what)
        return self

    @property
    def plugin(self) -> str:
        """The plugin that ships it; empty for a server of the config file."""
        return self._plugin

    def shipped_by(self, plugin: str, written: dict[str, Any]) -> Self:
        """Return this server as one that a plugin ships: the operator allows each of its tools, and it may ask no models
        and is told of no folders, which its manifest cannot grant.

        :param written: as its manifest has it, so that an update, which moves the package, does not make it another one.
        """
        found = self.model_copy(update={"optional": True, "sampling": False, "roots": ()})
        found._plugin = plugin
        found._identity = (plugin, written.get("command"), written.get("args", []), written.get("url"))
        return found

    @property
    def identity(self) -> list[Any]:
        """The program or address that the operator approved; another one is another server."""
        own = [self.command, *self.args] if self.command else [self.url]
        return list(self._identity) or own

    @property
    def has_own_authorization(self) -> bool:
        """True if the operator configured the header Authorization: no login is used then."""
        return any(name.lower() == "authorization" for name in self.headers)

    @property
    def folder(self) -> Path | None:
        """The configured working folder, perhaps not there; ``~user`` of no user is left as it is."""
        return Path(os.path.expanduser(self.cwd)) if self.cwd else None

    def config_fault(self, name: str) -> ConfigError | None:
        """Return the error of a working folder or a program that is not there; None when both are.

        :param name: of this server.
        """
        if self.folder and not os.path.isdir(self.folder):  # Path.is_dir raises, e.g. PermissionError
            fix = "Create it (mkdir -p {path}), or correct the key"
            return ConfigError(
                f"{self._section}.{name}.cwd", "there is no folder {path}", fix, path=self.folder
            )
        if self.command and not self._plugin and not find_program(self.command, os.environ.get("PATH", "")):
            fix = "Install it, or write its full path as command"
            key, problem = f"{self._section}.{name}.command", "the program {command} is not there"
            return ConfigError(key, problem, fix, command=self.command)
        return None

    @property
    def lacks_secret(self) -> bool:
        """True if a variable or a file of its secrets is not there, which claw says of the config file itself."""
        return any(secret.missing for secret in (*self.env.values(), *self.headers.values()))

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every secret value that it gets, for masking."""
        secrets = (*self.env.values(), *self.headers.values(), self.oauth.client_secret)
        return tuple(secret.reveal() for secret in secrets if secret and not secret.missing)


def find_program(command: str, path: str) -> str | None:
    """Return the path of a program: on ``PATH``, else beside the Python that claw runs in; None when it is not there."""
    command = os.path.expanduser(command)
    found = shutil.which(command, path=path)
    if not found and os.sep not in command:
        found = shutil.which(command, path=str(Path(sys.executable).parent))
    return found


NAME_RULE = "letters, digits, - and single _, at most 32, for its tools are NAME__tool"


def is_name(text: str) -> bool:
    """Return true if a server may have this name."""
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", text)) and "__" not in text


def _names(servers: dict[str, ServerSettings]) -> dict[str, ServerSettings]:
    for name in servers:
        if not is_name(name):
            raise ValueError(f"{name!r} is no name for a server: {NAME_RULE}")
    return servers


class McpSettings(Section):
    """``plugins.entries.mcp.config``; ``mcpServers`` may stand at the top of the file too."""

    mcp_servers: Annotated[dict[str, ServerSettings], AfterValidator(_names)] = Field(
        {}, description="Servers, by a name of yours: their tools are NAME__tool."
    )
    first_connect_seconds: float = Field(
        5,
        ge=0,
        le=8,
        description="What a start may wait for servers whose tools are not known yet; 0 = never.",
    )

    @property
    def servers(self) -> dict[str, ServerSettings]:
        """The enabled servers."""
        return {name: server for name, server in self.mcp_servers.items() if not server.disabled}

    @property
    def config_faults(self) -> dict[str, ConfigError]:
        """The enabled servers whose working folder or program is not there, and the errors that say so."""
        faults = {name: server.config_fault(name) for name, server in self.servers.items()}
        return {name: fault for name, fault in faults.items() if fault}
