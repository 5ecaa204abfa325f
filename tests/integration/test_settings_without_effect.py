"""Settings that can have no effect are named by ``config validate`` and ``doctor``, each with its place."""

from pathlib import Path

import pytest
from third_party import Machine

FILE = """
providers:
  openai: {apiKey: sk-abcdefgh, models: {"": {contextTokens: 1000}, gpt-4o: {contextTokens: 1000}}}
prompt:
  docsPath: DOCS
gateway: {auth: {token: 3f9c0d6be1a84c55a7d2}}
channels:
  http: {hosts: HOSTS}
"""
USELESS = ["https://a.example.com", "a b", "", "ok.example.com:80", "[::1]", "*.example.com", "a/b"]
USEFUL = ["claw.example.com", "CLAW", "192.0.2.7", "2001:db8::7"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.mark.parametrize("words", ["config validate", "doctor"])
def test_a_model_without_a_name_a_folder_that_is_not_there_and_useless_hosts_are_named(
    words: str, machine: Machine
) -> None:
    machine.configured(FILE.replace("DOCS", "/no/such/folder").replace("HOSTS", str(USELESS + USEFUL)))
    done = machine.claw(*words.split())
    said = done.out + done.err
    assert 'yaml:3: providers.openai.models[""]: it has no effect: the name of the model is empty' in said
    assert "yaml:5: prompt.docsPath: /no/such/folder does not exist" in said
    named = [index for index in range(len(USELESS + USEFUL)) if f"channels.http.hosts[{index}]: " in said]
    assert named == list(range(len(USELESS)))


@pytest.mark.parametrize("docs", ["https://docs.example.com/claw", "HOME", "~"])
def test_what_is_there_is_not_named(docs: str, machine: Machine) -> None:
    text = FILE.replace("DOCS", docs.replace("HOME", str(machine.root))).replace("HOSTS", str(USEFUL))
    machine.configured(text.replace('"": {contextTokens: 1000}, ', ""))
    said = machine.claw("config", "validate")
    assert "warning" not in said.out + said.err, said
