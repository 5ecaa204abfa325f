"""The config as passed to a plugin: its own sections, the whole settings, an HTTP client and a state folder."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from claw.config.loader import Config
from claw.config.paths import Path as KeyPath, format_key, value_at
from claw.config.values import secret_values
from claw.contracts.errors import ClawError
from claw.storage.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx2

    from claw.config.models import Settings
    from claw.storage.database import Database

M = TypeVar("M", bound=BaseModel)


class PluginConfig:
    """The config as passed to one plugin.

    :param http: returns the client for an address that the operator configured.
    :param state_dir: the plugin's own folder; the plugin creates it before its first write.
    :param database: ``state.db`` as this process has it open; None = :attr:`database` opens it.
    :ivar chat_menu: returns name, summary in the language in use, and arguments of each chat command, for the menu of a
        chat service. It loads the plugins that bring commands: call it in a thread, once all plugins were called.
    :ivar clock: the clock of this process.
    :ivar shared: objects that the hooks of this plugin share, by names of its own; empty for each new configuration.
    :ivar learn_secrets: masks further secrets, which the plugin has read, in all that claw prints, logs and stores.
    :ivar faults: the reasons why parts of this plugin cannot be used, each with a fix. A hook adds to it; every
        command that shows plugins prints the first one, and the plugin stays in use.
    :ivar contributions: returns the contributions of the loaded plugins to a hook that this plugin specifies, each as
        (plugin id, object); it raises ``UsageError`` for any other hook. Complete once all plugins were called: call it
        while you run, not in a hook.
    """

    def __init__(
        self,
        config: Config,
        plugin_id: str,
        http: Callable[..., "httpx2.AsyncClient"],
        state_dir: Path,
        database: "Database | None" = None,
        clock: Clock = SYSTEM_CLOCK,
        learn_secrets: Callable[[Iterable[str]], None] = lambda secrets: None,
    ) -> None:
        self.learn_secrets = learn_secrets
        self._config, self._http, self._database, self.clock = config, http, database, clock
        self.plugin_id, self.state_dir = plugin_id, state_dir
        self.shared: dict[Any, Any] = {}
        self.chat_menu: Callable[[], Sequence[tuple[str, str, str]]] = tuple
        self.faults: list[ClawError] = []
        self.contributions: Callable[[str], tuple[tuple[str, Any], ...]] = lambda hook: ()

    @property
    def settings(self) -> "Settings":
        """The settings of the whole file."""
        return self._config.settings

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that claw was started with."""
        return self._config.environ

    @property
    def home(self) -> Path:
        """``CLAW_HOME``."""
        return self._config.home

    @property
    def database(self) -> "Database":
        """``state.db``. A plugin declares its tables (``tables``) before it uses them."""
        if self._database is None:
            from claw.storage.database import Database

            self._database = Database(self._config.home / "state.db", self.clock)
        return self._database

    def channel(self, name: str, model: type[M]) -> M | None:
        """Read ``channels.NAME`` as ``model``; None when it is absent or disabled.

        :raises ConfigError: a key in it is wrong.
        """
        section = self.tree("channels", name)
        if section is None or (isinstance(section, Mapping) and section.get("enabled") is False):
            return None
        return self.read(("channels", name), model, section)

    def provider(self, name: str, model: type[M]) -> M:
        """Read ``providers.NAME`` as ``model``; all defaults when it is absent.

        :raises ConfigError: a key in it is wrong, or a required one is missing.
        """
        return self.read(("providers", name), model, self.tree("providers", name) or {})

    def plugin(self, model: type[M]) -> M:
        """Read ``plugins.entries.ID.config`` as ``model``; all defaults when it is absent.

        :raises ConfigError: a key in it is wrong, or a required one is missing.
        """
        path = ("plugins", "entries", self.plugin_id, "config")
        return self.read(path, model, self.tree(*path) or {})

    def section(self, key: str, model: type[M]) -> M:
        """Read a key of the file that this plugin owns (``configKeys`` of its manifest): ``models.cooldowns``.

        :returns: all defaults when the file does not have the key.
        :raises ConfigError: a key in it is wrong, or a required one is missing.
        """
        return self._config.section(key, model)

    def agent_sections(self, key: str, model: type[M]) -> dict[str, M]:
        """Read a key below each agent, which this plugin owns as ``agents.KEY``: agent id → its section.

        :returns: of the agents that have one, their own or that of the defaults; a section of an agent replaces the same
            section of the defaults.
        :raises ConfigError: a key in it is wrong, or a required one is missing.
        """
        return self._config.agent_sections(key, model)

    def http(
        self,
        base_url: str,
        *,
        apart: bool = False,
        transport: "Callable[[SSLContext], httpx2.AsyncBaseTransport] | None" = None,
    ) -> "httpx2.AsyncClient":
        """Return a client for ``base_url``; all plugins share one TLS context.

        :param apart: create a client with its own connections, for a call that waits long; the caller closes it.
        :param transport: makes the connections from the shared TLS context (``claw_http_sdk`` has some, which limit
            what is read of an error response and explain TLS failures); None = a new connection for each request.
        """
        return self._http(base_url, apart=apart, transport=transport)

    def tree(self, *path: str | int) -> Any:
        """Return a part of the file as written, short forms moved to their full path; None when it is absent."""
        return value_at(self._config.layout.tree, path)

    def key_of(self, *path: str | int) -> str:
        """Return the key of a part of the file as it is written, for an error: ``mcpServers`` for its full path."""
        return format_key(self._config.layout.as_written(path))

    def read(self, path: KeyPath, model: type[M], tree: Any) -> M:
        """Read ``tree``, the part of the file at ``path``, as ``model``.

        :raises ConfigError: a key in it is wrong, or a required one is missing.
        """
        read = self._config.sections.read(model, tree, path)
        if secrets := tuple(secret_values(read)):
            self.learn_secrets(secrets)
        return read
