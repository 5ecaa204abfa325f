"""The accounts of the file, with the state of the plugin that provides each channel."""

import pytest
from claw.config.models import Settings
from claw.host.manifest import InstalledPlugin, Manifest
from claw.host.state import PluginState
from claw_gateway.process.report import configured_accounts

ACME = InstalledPlugin("acme", "claw_acme", "claw-acme", "1")
LISTED = InstalledPlugin(
    "other", "claw_other", "claw-other", "1", manifest=Manifest("other", channels=("other",))
)


def rows(*states):
    settings = Settings.model_validate({"channels": {"acme": {}}})
    return list(configured_accounts(settings, states))


@pytest.mark.parametrize(
    ("state", "why", "fix"),
    [
        ("blocked", "it is in plugins.deny", "remove it from plugins.deny"),
        ("quarantined", "ImportError: no lib", "update or uninstall claw-acme"),
    ],
)
def test_a_plugin_without_manifest_that_is_not_loaded_is_named(state, why, fix):
    [row] = rows(PluginState(ACME, state, why, fix=fix), PluginState(LISTED, "loaded"))
    assert row["state"] == "absent"
    assert row["why"] == "no plugin that loads provides it; not loaded: acme"
    assert row["fix"] == f"{why}. {fix}"


@pytest.mark.parametrize(
    "state", [PluginState(ACME, "loaded"), PluginState(LISTED, "blocked", "it is in plugins.deny")]
)
def test_a_channel_of_no_installed_plugin_is_called_that(state):
    [row] = rows(state)
    assert row["why"] == "no installed plugin provides it"
