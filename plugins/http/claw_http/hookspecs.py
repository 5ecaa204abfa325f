"""The hook that this plugin specifies: routes on the gateway's listener."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from claw import hookspec

if TYPE_CHECKING:
    from claw import PluginConfig
    from claw_channel_sdk import WebRoute


@hookspec
def register_routes(config: "PluginConfig") -> "Iterable[WebRoute]":  # type: ignore[empty-body]
    """Contribute paths on the gateway's listener that this plugin serves, a webhook for example.

    Asked once, at start, of every loaded plugin; served while the channel ``http`` runs. The gateway's token does not
    guard these routes: each one authenticates its callers, in ``admit`` by the head alone or in ``answer`` by the body.
    A handler that raises is answered with status 500 and no details; the log names its plugin.

    :param config: the file as the answering plugin may see it: the same object as for its other hooks.
    :returns: routes; a path of claw's own, or of an earlier plugin, is skipped, and the log names both.

    .. versionadded:: 0.1
    """
