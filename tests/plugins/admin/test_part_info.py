"""``claw plugins info`` of a package that is no plugin: which plugin uses it."""

from pathlib import Path

from third_party import Machine


def test_a_package_that_a_plugin_uses_is_shown_with_that_plugin(tmp_path: Path) -> None:
    info = tmp_path / "site" / "llm_tools_things-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-tools-things\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[llm]\nthings = things\n")
    machine = Machine(tmp_path / "machine", [tmp_path / "site"])

    shown = machine.claw("plugins", "info", "llm-tools-things")
    assert "llm-tools-things 1.0: used by plugin llm-bridge, which is idle" in shown.out
    assert "claw config set 'tools.alsoAllow[]' llm-bridge" in shown.out
    assert "its commands: claw llm-bridge --help" in shown.out
    assert '"usedBy": "llm-bridge"' in machine.claw("plugins", "info", "llm-tools-things", "--json").out
    assert "plugin typer is not installed" in machine.claw("plugins", "info", "typer").line
