"""manifest: what a plugin says of itself without being imported."""

import contextlib
import json
import sys
from pathlib import Path

import pytest
from claw.contracts.errors import PluginError
from claw.host.manifest import InstalledPlugin, api_matches, find_plugin, parse_manifest
from hypothesis import given, strategies as st

MANIFEST = {
    "id": "acme",
    "name": "Acme",
    "api": ">=1,<2",
    "kinds": ["tool"],
    "tools": [
        {"name": "acme_status", "description": "How it is doing.", "optional": True, "ownerOnly": True}
    ],
    "providers": [{"name": "acme", "env": ["ACME_KEY"], "defaultModel": "big"}],
}


def a_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, manifest: str | None, name: str = "acme_plugin"
) -> InstalledPlugin:
    package = folder / name
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported to be inspected')")
    if manifest is not None:
        (package / "claw-plugin.json").write_text(manifest, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    return find_plugin("acme", name, "claw-plugin-acme", "1.0")


def test_a_plugin_is_read_without_being_imported(tmp_path, monkeypatch):
    found = a_package(tmp_path, monkeypatch, json.dumps(MANIFEST))

    assert found.manifest is not None
    assert found.manifest.tools[0].name == "acme_status"
    assert found.manifest.tools[0].optional
    assert found.manifest.tools[0].owner_only
    assert found.manifest.providers[0].default_model == "big"
    assert "acme_plugin" not in sys.modules


def test_a_plugin_without_manifest_is_found_all_the_same(tmp_path, monkeypatch):
    found = a_package(tmp_path, monkeypatch, None)

    assert found.manifest is None
    assert found.fault is None


def test_a_plugin_may_be_a_single_module(tmp_path, monkeypatch):
    (tmp_path / "acme_alone.py").write_text("raise SystemExit('imported to be inspected')")
    monkeypatch.syspath_prepend(str(tmp_path))

    found = find_plugin("acme", "acme_alone")

    assert (found.fault, found.manifest, found.folder) == (None, None, None)


def test_a_package_that_is_gone_is_a_fault_with_a_name():
    found = find_plugin("acme", "no_such_package_anywhere")

    assert found.fault is not None
    assert "no_such_package_anywhere" in str(found.fault)
    assert "plugin acme" in str(found.fault)


@pytest.mark.parametrize(
    ("manifest", "names"),
    [
        ("{", "not JSON"),
        ("[]", "`object`"),
        (json.dumps({**MANIFEST, "id": "other"}), "other"),
        (json.dumps({**MANIFEST, "toolz": []}), "toolz"),
        (json.dumps({**MANIFEST, "kinds": "tool"}), "kinds"),
        (json.dumps({**MANIFEST, "kinds": ["toool"]}), "toool"),
        (json.dumps({**MANIFEST, "tools": [{}]}), "tools"),
        (json.dumps({**MANIFEST, "tools": [7]}), "tools"),
        (json.dumps({**MANIFEST, "configSchema": "x"}), "configSchema"),
        (json.dumps({**MANIFEST, "description": 3}), "description"),
    ],
)
def test_a_wrong_manifest_is_a_fault_that_names_the_field(tmp_path, monkeypatch, manifest, names):
    found = a_package(tmp_path, monkeypatch, manifest)

    assert found.fault is not None
    assert names in str(found.fault)


@pytest.mark.parametrize(
    ("api", "admitted"),
    [
        (">=1,<2", True),
        (">=1", True),
        ("==1", True),
        (">=2", False),
        ("<1", False),
        ("!=1", False),
        ("", False),
        ("1.*", False),
    ],
)
def test_an_api_range_admits_this_claw_or_not(api, admitted):
    assert api_matches(api) is admitted


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_whatever_is_in_a_manifest_only_a_plugin_error_comes_out(tree):
    for text in (json.dumps(tree), json.dumps({"id": "acme", "tools": tree, "kinds": ["tool"]})):
        with contextlib.suppress(PluginError):
            parse_manifest(text, "acme")
