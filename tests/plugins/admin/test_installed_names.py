"""Names in the config file against the installed plugins: each unknown one with the nearest known name."""

import json
from pathlib import Path

import pytest
from claw.config.loader import Config
from claw.host.manifest import InstalledPlugin, Manifest, ProviderDeclaration
from claw_admin.config_checks.installed_warnings import InstalledNames, check_installed, installed_names
from config_files import load_config

KNOWN = InstalledNames(
    plugins=frozenset({"demo"}), channels=frozenset({"telegram"}), providers=frozenset({"openai"}),
    schemas={"demo": {"type": "object", "properties": {"size": {"type": "integer"}}, "additionalProperties": False}},
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        ("channels: {telegramm: {}}\n", "channels.telegramm", "telegram"),
        ("providers: {opnai: {}}\n", "providers.opnai", "openai"),
        ("plugins: {entries: {dmo: {}}}\n", "plugins.entries.dmo", "demo"),
        ("plugins: {deny: [dmo]}\n", "plugins.deny[0]", "demo"),
        ("plugins: {entries: {demo: {config: {sise: 1}}}}\n", "plugins.entries.demo.config.sise", "size"),
    ],
)  # fmt: skip
def test_a_name_nobody_supplies_is_warned_about(tmp_path: Path, text: str, key: str, near: str) -> None:
    (warning,) = check_installed(config_of(tmp_path, text), KNOWN)
    assert warning.key == key
    assert f"Did you mean {near}?" in warning.fix


def test_what_is_installed_is_not_warned_about(tmp_path: Path) -> None:
    text = "plugins: {entries: {demo: {config: {size: 1}}}}\n"
    assert check_installed(config_of(tmp_path, text), KNOWN) == ()


def config_of(home: Path, text: str) -> Config:
    (home / "config.yaml").write_text(text)
    return load_config(home, {}, plugins=True)


def test_a_section_that_somebody_may_serve_is_not_called_absent(tmp_path: Path) -> None:
    tree = {
        "providers": {"ollama": {"baseUrl": "http://127.0.0.1:9"}, "nobody": {}},
    }
    (tmp_path / "config.json").write_text(json.dumps(tree))
    config = load_config(tmp_path, {})
    compatible = InstalledPlugin(
        "openai", "x", "x", "1", manifest=Manifest("openai", providers=(ProviderDeclaration("*"),))
    )
    known = installed_names([compatible])
    assert [one.key for one in check_installed(config, known)] == ["providers.nobody"]
    silent = installed_names([compatible, InstalledPlugin("acme", "acme", "acme", "1")])
    assert check_installed(config, silent) == ()
