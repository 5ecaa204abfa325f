"""What a plugin sees of the config: its own sections, the whole settings, and ways to the network and the disk."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from claw.config.loaded import Config, validate
from claw.config.names import Path as KeyPath, value_at
from claw.errors import ConfigError

if TYPE_CHECKING:
    import httpx2

    from claw.config.settings import Settings

M = TypeVar("M", bound=BaseModel)
P = TypeVar("P")
Answers = Callable[[str], tuple[tuple[str, Any], ...]]


def _nobody_answers(hook: str) -> tuple[tuple[str, Any], ...]:
    return ()


class PluginConfig:
    """The file as one plugin may see it.

    :param http: makes (or finds) the client for an address that the operator wrote.
    :param state_dir: the plugin's own folder; the plugin makes it before it first writes.
    :ivar unready: accounts that cannot start, by channel and account, and why.
    :ivar unusable: providers of several that have a wrong key, and which.
    """

    def __init__(
        self, config: Config, plugin_id: str, http: Callable[..., "httpx2.AsyncClient"], state_dir: Path
    ) -> None:
        self._config, self._http = config, http
        self.plugin_id, self.state_dir = plugin_id, state_dir
        self._answers: Answers = _nobody_answers
        self.unready: dict[tuple[str, str], ConfigError] = {}
        self.unusable: dict[str, ConfigError] = {}

    @property
    def settings(self) -> "Settings":
        """The whole file."""
        return self._config.settings

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment claw was started with."""
        return self._config.environ

    def channel(self, name: str, model: type[M]) -> M | None:
        """``channels.NAME`` as ``model``; None when it is absent or switched off.

        :raises ConfigError: a key in it is wrong.
        """
        section = self._section(("channels", name))
        if section is None or (isinstance(section, Mapping) and section.get("enabled") is False):
            return None
        return self._read(("channels", name), section, model)

    def accounts(
        self, name: str, model: type[M], *credentials: str, ready: Callable[[str, M], object] | None = None
    ) -> dict[str, M]:
        """``channels.NAME`` once for each account: the keys of ``accounts.ACC`` stand in place of the section's own.

        The section itself is the account ``default`` when it has one of the keys ``credentials``, or names no accounts.
        An account with ``enabled: false`` is left out. So is one with a wrong key, beside one that is right: the house
        then shows it as failed, with the reason, and the others go on.

        :param credentials: keys, in camelCase, of which an account of its own has at least one.
        :param ready: asked with each account and its settings; raises ConfigError when something is missing.
        :raises ConfigError: a key of the section is wrong, or no account can start.
        """
        section = self._section(("channels", name))
        if self.channel(name, model) is None or not isinstance(section, Mapping):
            return {}
        shared = {to_camel(key): value for key, value in section.items() if key != "accounts"}
        entries = section.get("accounts") or {}
        found: dict[str, tuple[KeyPath, dict[str, Any]]] = {}
        if not entries or shared.keys() & set(credentials):
            found["default"] = ("channels", name), shared
        for account, entry in entries.items():
            own = {to_camel(key): value for key, value in entry.items()}
            found[str(account)] = ("channels", name, "accounts", str(account)), {**shared, **own}
        sound: dict[str, M] = {}
        for account, (path, tree) in found.items():
            if tree.get("enabled") is False:
                continue
            try:
                settings = self._read(path, tree, model)
                if ready:
                    ready(account, settings)
                sound[account] = settings
            except ConfigError as why:
                self.unready[name, account] = why
        if not sound:
            for (channel, _), first in self.unready.items():
                if channel == name:
                    raise first
        return sound

    def provider(self, name: str, model: type[M]) -> M:
        """``providers.NAME`` as ``model``; all defaults when it is absent.

        :raises ConfigError: a key in it is wrong, or a required one is missing.
        """
        return self._read(("providers", name), self._section(("providers", name)) or {}, model)

    def each_provider(self, names: Iterable[str], begin: Callable[[str], P | None]) -> Iterator[P]:
        """What ``begin`` makes of each of several providers; None is left out.

        So is one with a wrong key: who asks for it is told the key, and the others are there.
        """
        for name in names:
            try:
                if (made := begin(name)) is not None:
                    yield made
            except ConfigError as why:
                self.unusable[name] = why

    def plugin(self, model: type[M]) -> M:
        """``plugins.entries.ID.config`` as ``model``; all defaults when it is absent.

        :raises ConfigError: a key in it is wrong, or a required one is missing.
        """
        path = ("plugins", "entries", self.plugin_id, "config")
        return self._read(path, self._section(path) or {}, model)

    def answers(self, hook: str) -> tuple[tuple[str, Any], ...]:
        """What the loaded plugins answered to a hook that this plugin specifies: pairs of plugin id and thing.

        Complete once all plugins were asked: read it while you run, not in a hook.

        :raises UsageError: this plugin specifies no such hook.
        """
        return self._answers(hook)

    def asking(self, answers: Answers) -> "PluginConfig":
        """The same view, for a plugin whose own hooks are answered by ``answers``."""
        view = copy(self)
        view._answers = answers
        return view

    def http(self, base_url: str, *, apart: bool = False) -> "httpx2.AsyncClient":
        """A client for ``base_url``; all plugins share one TLS context.

        :param apart: one with connections of its own, for a call that waits long; who asks for it closes it.
        """
        return self._http(base_url, apart=True) if apart else self._http(base_url)

    def _section(self, path: KeyPath) -> Any:
        return value_at(self._config.layout.tree, path)

    def _read(self, path: KeyPath, section: Any, model: type[M]) -> M:
        config = self._config
        return validate(model, section, config.teller, home=config.home, environ=config.environ, base=path)
