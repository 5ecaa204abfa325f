"""The channels that go on when the config file changes: those of which nothing that they read has changed."""

from collections.abc import Iterator

from claw import Channel
from claw.runtime import App, Contribution, values_at
from claw_channel_sdk import UnavailableChannel


def kept_channels(old: App, new: App) -> dict[str, Contribution[Channel]]:
    """Return the channels of ``new``, each as in ``old`` when nothing that it reads has changed."""
    before, after = old.registry.channels, new.registry.channels
    settings = old.config.settings, new.config.settings
    entries = settings[0].plugins.entries, settings[1].plugins.entries
    same = {
        key
        for key, one in after.items()
        if key in before
        and before[key].plugin == one.plugin
        and not isinstance(before[key].value, UnavailableChannel)
        and settings[0].channels.get(one.value.name) == settings[1].channels.get(one.value.name)
    }
    renewed = {id for id in {*entries[0], *entries[1]} if entries[0].get(id) != entries[1].get(id)}
    renewed |= _with_changed_keys(old, new)
    changed = renewed | {one.plugin for key, one in {**before, **after}.items() if key not in same}
    for _ in (groups := [*_linked(old), *_linked(new)]):  # links can be chained
        for group in groups:
            if group & changed:
                changed, renewed = changed | group, renewed | group
    return {
        key: before[key] if key in same and one.plugin not in renewed else one for key, one in after.items()
    }


def _linked(app: App) -> Iterator[frozenset[str]]:
    """Yield groups of plugins that change together: one that specifies a hook, and those that answer it. They share
    objects, such as routes of the HTTP listener."""
    for hook, plugin in app.host.specified.items():
        yield frozenset({plugin, *(one.plugin for one in app.host.answers_to(hook))})


def _with_changed_keys(old: App, new: App) -> set[str]:
    """Return the ids of plugins of which a key of the file has changed that they own beside their sections."""
    trees = old.config.layout.tree, new.config.layout.tree
    return {
        one.id
        for one in new.host.plugin_states
        for key in (one.found.manifest.config_keys if one.found.manifest else ())
        if [*values_at(trees[0], key)] != [*values_at(trees[1], key)]
    }
