"""Keys of the config file that a plugin owns: checked by the model that its manifest names, and read by the plugin."""

import json
import sys
from pathlib import Path

import pytest
from claw.config.errors import ConfigErrors
from claw.config.loader import Config, validate_source
from claw.config.source import ConfigSource, parse_config
from claw.config.summary import PluginKeys, outline_config
from claw.contracts.errors import ConfigError
from claw.host.manifest import InstalledPlugin, parse_manifest
from claw.host.state import config_key_errors, decide_states, owned_models
from claw_admin.config_checks.file_warnings import file_warnings
from claw_admin.config_file.schema import config_schema
from claw_config_sdk import set_value

MODELS = """
from claw import Section
from claw.runtime import Duration, section_default
from pydantic import Field, RootModel

class Wind(Section):
    knots: int = Field(5, ge=0)
    every: Duration = 60.0

class Weather(Section):
    city: str = "Bern"
    wind: Wind = section_default()

    def odd_keys(self, agents):
        if self.city == "Atlantis":
            yield ("city",), "{city} is under water", "Move", {"city": self.city}

class Umbrella(Section):
    size: int = 1
"""


@pytest.fixture
def weather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstalledPlugin:
    """A plugin of a third party with the keys ``weather`` and, for each agent, ``umbrella``."""
    package = tmp_path / "site" / "acme_weather"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "settings.py").write_text(MODELS)
    monkeypatch.syspath_prepend(str(package.parent))
    for name in [name for name in sys.modules if name.startswith("acme_weather")]:
        monkeypatch.delitem(sys.modules, name)
    return owner()


def owner(weather: str = "acme_weather.settings:Weather") -> InstalledPlugin:
    manifest = {
        "id": "weather",
        "kinds": ["reviewer"],
        "configKeys": ["weather", "agents.umbrella"],
        "configModels": {"weather": weather, "agents.umbrella": "acme_weather.settings:Umbrella"},
    }
    return InstalledPlugin(
        "weather",
        "acme_weather",
        "acme-weather",
        "1",
        manifest=parse_manifest(json.dumps(manifest), "weather"),
    )


def read(text: str, *found: InstalledPlugin, seconds: float = 20) -> Config:
    tree, lines = parse_config(text)
    states = decide_states(found, outline_config(tree), ())
    owners = PluginKeys(owned_models(states, seconds))
    return validate_source(ConfigSource(None, text, tree, lines), Path("/home"), {}, owners)


def test_a_key_of_a_plugin_is_checked_by_its_model_and_read_with_its_defaults(
    weather: InstalledPlugin,
) -> None:
    from acme_weather.settings import Weather

    config = read("weather: {wind: {every: 2m}}", weather)

    found = config.section("weather", Weather)
    assert (found.city, found.wind.every, found.wind.knots) == ("Bern", 120.0, 5)
    assert read("locale: en", weather).section("weather", Weather) == Weather()


@pytest.mark.parametrize(
    ("text", "key", "line", "said"),
    [
        ("locale: en\nweather: {wind: {knots: -1}}", "weather.wind.knots", 2, "at least 0"),
        ("weather:\n  wind:\n    every: soon", "weather.wind.every", 3, "not a duration"),
        ("weather: {citty: Bern}", "weather.citty", 1, "Did you mean city?"),
        ("wether: {}", "wether", 1, "Did you mean weather?"),
        (
            "agents:\n  list:\n    - {id: a, umbrella: {size: big}}",
            "agents.list[0].umbrella.size",
            3,
            "number",
        ),
        ("agents: {defaults: {umbrela: {}}}", "agents.defaults.umbrela", 1, "Did you mean umbrella?"),
    ],
)
def test_what_is_wrong_in_it_is_reported_with_key_and_line(
    weather: InstalledPlugin, text: str, key: str, line: int, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(text, weather)
    assert (refused.value.key, refused.value.line) == (key, line)
    assert said in str(refused.value)


def test_errors_of_core_and_of_plugins_are_reported_together_in_the_order_of_the_file(
    weather: InstalledPlugin,
) -> None:
    with pytest.raises(ConfigErrors) as refused:
        read("locale: xx\nweather: {city: 3}\nowners: 5", weather)
    assert [error.key for error in refused.value.errors] == ["locale", "weather.city", "owners"]


def test_an_agent_s_own_section_replaces_that_of_the_defaults(weather: InstalledPlugin) -> None:
    from acme_weather.settings import Umbrella

    config = read(
        "agents:\n  defaults: {umbrella: {size: 2}}\n  list: [{id: a}, {id: b, umbrella: {size: 3}}]", weather
    )

    assert {id: own.size for id, own in config.agent_sections("umbrella", Umbrella).items()} == {
        "a": 2,
        "b": 3,
    }
    assert read("agents: {list: [{id: a}]}", weather).agent_sections("umbrella", Umbrella) == {}


def test_what_a_plugin_finds_odd_is_a_warning(weather: InstalledPlugin) -> None:
    [warning] = file_warnings(read("locale: en\nweather: {city: Atlantis}", weather))
    assert (warning.key, warning.line, "under water" in str(warning)) == ("weather.city", 2, True)


def test_code_of_a_plugin_that_is_not_in_use_is_not_imported_and_its_key_is_an_error(
    weather: InstalledPlugin,
) -> None:
    text = "weather: {citty: 5}\nplugins: {entries: {weather: {enabled: false}}}"

    config = read(text, weather)

    assert "acme_weather" not in sys.modules
    states = decide_states([weather], outline_config(config.raw), ())
    [error] = config_key_errors(config, states)
    assert "plugin weather is disabled" in str(error)


def test_no_code_is_imported_for_a_file_without_the_key(weather: InstalledPlugin) -> None:
    read("locale: en", weather)
    assert "acme_weather" not in sys.modules


def test_a_key_that_core_describes_stays_core_s_when_a_plugin_owns_it() -> None:
    manifest = {
        "id": "greedy",
        "kinds": ["reviewer"],
        "configKeys": ["owners", "agents.model", "messages.silentToken"],
    }
    greedy = InstalledPlugin(
        "greedy", "greedy", "greedy", "1", manifest=parse_manifest(json.dumps(manifest), "greedy")
    )
    config = read(
        "owners: ['feishu:ou_1']\nagents: {defaults: {model: a/b}}\nmessages: {silentToken: HUSH}\n", greedy
    )
    assert config.settings.owners == ("feishu:ou_1",)
    assert config.settings.agents.defaults.model.primary == "a/b"
    assert config.settings.messages.silent_token == "HUSH"
    with pytest.raises(ConfigError, match="would make everyone an owner"):
        read("owners: ['*']\n", greedy)


def test_a_key_that_no_plugin_owns_is_not_known(weather: InstalledPlugin) -> None:
    with pytest.raises(ConfigError, match="is not a known key"):
        read("weather: {}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("acme_weather.settings:Nothing", "Nothing"),
        ("acme_weather.gone:Weather", "acme_weather.gone"),
        ("subprocess:Popen", "not in its package"),
    ],
)
def test_a_model_that_cannot_be_imported_refuses_the_key_and_names_the_plugin(
    weather: InstalledPlugin, name: str, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read("locale: en\nweather: {}", owner(name))
    assert (refused.value.key, refused.value.line) == ("weather", 2)
    assert "its plugin weather cannot check it" in str(refused.value)
    assert said in str(refused.value)


def test_a_model_whose_import_hangs_refuses_the_key(weather: InstalledPlugin, tmp_path: Path) -> None:
    (tmp_path / "site" / "acme_weather" / "slow.py").write_text("import time\ntime.sleep(3)")
    with pytest.raises(ConfigError, match="cannot check it"):
        read("weather: {}", owner("acme_weather.slow:Weather"), seconds=0.1)


def test_an_edit_that_breaks_a_key_of_a_plugin_is_refused(weather: InstalledPlugin, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("weather: {city: Bern}\n")
    owners = PluginKeys(owned_models(decide_states([weather], outline_config({}), ())))

    with pytest.raises(ConfigError, match="Did you mean city"):
        set_value(file, "weather.citty", "Rome", {}, lambda source: owners)
    assert set_value(file, "weather.city", "Rome", {}, lambda source: owners)
    assert file.read_text() == "weather: {city: Rome}\n"


def test_the_schema_for_editors_holds_the_keys_of_plugins(weather: InstalledPlugin) -> None:
    whole = config_schema((), owned_models(decide_states([weather], outline_config({}), ())))

    assert whole["properties"]["weather"]["properties"]["city"]["default"] == "Bern"
    assert "umbrella" in whole["$defs"]["AgentSettings"]["properties"]
    assert "umbrella" in whole["$defs"]["AgentEntry"]["properties"]
    assert whole["$defs"]["Wind"]["properties"]["knots"]["minimum"] == 0
