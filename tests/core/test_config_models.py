"""The file as settings: agents over their defaults, short forms and spellings, secrets, errors and warnings."""

import json
from pathlib import Path
from typing import Any

import pytest
from claw import Secret
from claw.config.agents import AgentSettings
from claw.config.channels import ChannelConfig
from claw.config.errors import ConfigErrors
from claw.config.loader import Config
from claw.config.models import ProviderConfig, Settings
from claw.config.paths import AGENT_KEYS, camel_case
from claw.config.plugin_view import PluginConfig
from claw.config.summary import outline_config
from claw.contracts.errors import ConfigError, UsageError
from claw.host.manifest import installed_plugins
from claw_admin.config_checks.file_warnings import file_warnings
from claw_channel_sdk import read_accounts
from claw_context.settings import CompactionSettings
from claw_gateway.planned_settings import Heartbeat
from claw_memory.settings import MemorySearch
from claw_skills.settings import SkillSettings
from config_files import keys_of_plugins, load_config
from hypothesis import given, strategies as st

NUMBERS = st.dictionaries(
    st.sampled_from(["contextTokens", "maxTokens", "maxTurns", "historyLimit"]), st.integers(1000, 9999)
)
KEYS = sorted(
    {field.alias or name for name, field in Settings.model_fields.items()} | AGENT_KEYS | {"telegram"}
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda below: (
        st.lists(below, max_size=2)
        | st.dictionaries(
            st.sampled_from(["allow", "entries", "model", "list", "id"]) | st.text(max_size=4), below
        )
    ),
    max_leaves=5,
)

SEEDS = """\
agents:
  defaults:
    model: anthropic/claude-opus-4-6
    thinkingDefault: low
    workspace: ~/workspace
    tools: {profile: full}
  list:
  - id: default
    default: true
    name: Main Assistant
  - id: code-reviewer
    model: {primary: anthropic/claude-sonnet-4-5, fallbacks: [openai/gpt-4o]}
    tools: {profile: coding}
    skills: [git, code-review]
  - id: research
    workspaceDir: ~/projects
    skills:
      allow: [arxiv]
"""


def given_file(home: Path, text: str | dict[str, Any], environ: dict[str, str] | None = None) -> Config:
    path = home / ("config.yaml" if isinstance(text, str) else "config.json")
    path.write_text(text if isinstance(text, str) else json.dumps(text, indent=1), encoding="utf-8")
    return load_config(home, {"HOME": "/home/me"} | (environ or {}), plugins=True)


def refusal(home: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        given_file(home, text)
    return caught.value


class TestAgents:
    def test_without_a_file_there_is_one_agent_and_everything_is_at_its_default(self, tmp_path: Path) -> None:
        config = load_config(tmp_path / "nowhere", {})
        assert config.agent_ids == ("default",)
        agent = config.agent()
        assert (agent.id, agent.key, agent.key_of("tools")) == (
            "default",
            "agents.defaults",
            "agents.defaults.tools",
        )
        assert agent.workspace == tmp_path / "nowhere" / "workspace-default"
        assert not agent.has_configured_workspace

    def test_a_section_the_agent_names_replaces_the_defaults_section_whole(self, tmp_path: Path) -> None:
        config = given_file(tmp_path, SEEDS)
        agent = config.agent("code-reviewer")
        assert agent.settings.tools is not None and agent.settings.tools.profile == "coding"
        assert agent.settings.model is not None and agent.settings.model.fallbacks == ("openai/gpt-4o",)
        assert agent.settings.thinking_default == "low"
        assert agent.section("skills", SkillSettings).allow == ("git", "code-review")
        assert config.agent("research").section("skills", SkillSettings).allow == ("arxiv",)

    def test_a_key_in_force_is_named_where_it_was_written(self, tmp_path: Path) -> None:
        config = given_file(tmp_path, SEEDS)
        assert config.agent("code-reviewer").key_of("tools") == "agents.list[1].tools"
        assert config.agent("research").key_of("tools") == "agents.defaults.tools"
        assert config.line("agents.list[1].tools.profile") == 13
        assert config.line("agents.list[code-reviewer].tools.deny") == 13
        assert config.line("gateway.port") is None

    def test_agents_work_in_folders_of_their_own(self, tmp_path: Path) -> None:
        config = given_file(tmp_path, SEEDS)
        assert config.agent().workspace == Path("/home/me/workspace")
        assert config.agent("code-reviewer").workspace == tmp_path / "workspace-code-reviewer"
        assert config.agent("research").workspace == Path("/home/me/projects")
        assert [config.agent(id).has_configured_workspace for id in config.agent_ids] == [True, False, True]

    @pytest.mark.parametrize(
        ("listed", "default"),
        [
            ([], "default"),
            ([{"id": "a"}, {"id": "b"}], "a"),
            ([{"id": "a"}, {"id": "b", "default": True}], "b"),
        ],
    )
    def test_the_default_agent_is_the_marked_one_else_the_first(
        self, tmp_path: Path, listed: list[dict[str, object]], default: str
    ) -> None:
        config = given_file(tmp_path, {"agents": {"list": listed}})
        assert config.agent().id == default
        assert config.agent("main").id == default

    def test_main_is_an_agent_of_its_own_when_it_is_listed(self, tmp_path: Path) -> None:
        config = given_file(tmp_path, {"agents": {"list": [{"id": "a"}, {"id": "main"}]}})
        assert config.agent("main").id == "main"

    def test_an_unknown_agent_gets_the_nearest_name(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="Did you mean code-reviewer"):
            given_file(tmp_path, SEEDS).agent("code-reviewr")

    def test_entries_are_read_as_the_list(self, tmp_path: Path) -> None:
        config = given_file(
            tmp_path, {"agents": {"entries": {"a": {"name": "A"}, "b": {"tools": {"deny": ["exec"]}}}}}
        )
        assert config.agent_ids == ("a", "b")
        assert config.agent("b").key_of("tools") == "agents.entries.b.tools"
        assert config.line("agents.list[1].tools") == 8

    @given(NUMBERS, NUMBERS)
    def test_an_agent_is_its_own_keys_over_the_defaults(
        self, defaults: dict[str, int], own: dict[str, int]
    ) -> None:
        tree = {"agents": {"defaults": defaults, "list": [{"id": "a", **own}]}}
        from claw.config.loader import validate_source
        from claw.config.source import ConfigSource

        config = validate_source(ConfigSource(Path("config.json"), "", tree), Path("home"), {})
        merged = AgentSettings.model_validate(defaults | own)
        assert config.agent().settings.model_dump() == merged.model_dump()


class TestLayout:
    def test_every_short_key_is_a_key_of_the_agent_defaults(self) -> None:
        known = {field.alias for field in AgentSettings.model_fields.values()} | {"workspaceDir"}
        manifests = [one.manifest for one in installed_plugins() if one.manifest]
        known |= {key.removeprefix("agents.") for each in manifests for key in each.config_keys}
        assert known >= AGENT_KEYS

    def test_a_channel_at_the_top_is_read_below_channels_and_reported_as_written(
        self, tmp_path: Path
    ) -> None:
        config = given_file(
            tmp_path, "telegram:\n  groups:\n  - chatId: '-100'\n    tools: {allow: [read, write]}\n"
        )
        group = config.settings.channels["telegram"].groups["-100"]
        assert group.tools is not None and group.tools.allow == ("read", "write")
        assert config.line("channels.telegram.groups") == 2
        error = refusal(tmp_path, "telegram:\n  dmPolicy: everyone\n")
        assert (error.key, error.line) == ("telegram.dmPolicy", 2)

    def test_a_key_of_the_defaults_at_the_top_is_reported_as_written(self, tmp_path: Path) -> None:
        config = given_file(
            tmp_path, "subagents: {maxSpawnDepth: 3}\nsandbox: {mode: all, tools: {deny: [gateway]}}\n"
        )
        assert config.agent().settings.subagents.max_spawn_depth == 3
        assert config.agent().key_of("sandbox") == "sandbox"
        assert refusal(tmp_path, "sandbox:\n  mod: all\n").key == "sandbox.mod"

    def test_a_key_in_both_places_is_refused(self, tmp_path: Path) -> None:
        assert (
            refusal(tmp_path, "heartbeat: {every: 1h}\nagents: {defaults: {heartbeat: {every: 2h}}}\n").key
            == "heartbeat"
        )

    def test_camel_case_and_snake_case_are_the_same_key(self, tmp_path: Path) -> None:
        config = given_file(
            tmp_path, "agents: {defaults: {thinking_default: high, memory_search: {max_results: 3}}}\n"
        )
        assert config.agent().settings.thinking_default == "high"
        assert config.agent().section("memorySearch", MemorySearch).max_results == 3
        assert camel_case("dm_policy") == "dmPolicy" and camel_case("_x") == "_x"

    @pytest.mark.parametrize(
        ("written", "seconds"),
        [("30m", 1800), ("1h30m", 5400), ("off", 0), ("0m", 0), ("90s", 90), ("2 d", 172800)],
    )
    def test_durations_carry_their_unit(self, tmp_path: Path, written: str, seconds: int) -> None:
        config = given_file(tmp_path, f"heartbeat: {{every: {written}}}\n")
        assert config.agent().section("heartbeat", Heartbeat).every == seconds

    @pytest.mark.parametrize("written", ["30", "half an hour", "-5m", "true", "1h 30"])
    def test_a_duration_without_a_unit_is_refused_with_an_example(self, tmp_path: Path, written: str) -> None:
        assert "30m" in str(refusal(tmp_path, f"heartbeat: {{every: {written}}}\n"))

    @pytest.mark.parametrize(
        ("written", "size"), [("2mb", 2 * 1024**2), ("500kb", 512_000), ("100", 100), ("1 gb", 1024**3)]
    )
    def test_sizes_may_carry_a_unit(self, tmp_path: Path, written: str, size: int) -> None:
        config = given_file(
            tmp_path, f"compaction: {{memoryFlush: {{forceFlushTranscriptBytes: {written}}}}}\n"
        )
        assert (
            config.agent().section("compaction", CompactionSettings).memory_flush.force_flush_transcript_bytes
            == size
        )

    @pytest.mark.parametrize(
        "text", ["gateway: {port: true}", "contextTokens: true", "agents: {defaults: {maxTurns: false}}"]
    )
    def test_true_is_no_number(self, tmp_path: Path, text: str) -> None:
        assert "must be a number" in str(refusal(tmp_path, text))

    def test_the_name_of_a_model_has_no_blanks_around_it(self, tmp_path: Path) -> None:
        config = given_file(tmp_path, "model: {primary: ' openai/gpt-4.1 ', fallbacks: [' openai/gpt-4o']}\n")
        model = config.agent().settings.model
        assert model is not None
        assert (model.primary, model.fallbacks) == ("openai/gpt-4.1", ("openai/gpt-4o",))

    def test_an_empty_name_of_a_model_is_refused(self, tmp_path: Path) -> None:
        error = refusal(tmp_path, "agents:\n  defaults:\n    model: ''\n")
        assert error.line == 3 and "is empty" in str(error)

    @pytest.mark.parametrize("name", ["month", "Weekly"])
    def test_a_budget_that_is_named_after_a_period_says_its_own(self, tmp_path: Path, name: str) -> None:
        assert "per day" in str(refusal(tmp_path, f"budgets: {{{name}: {{usd: 5}}}}\n"))
        given_file(tmp_path, f"budgets: {{{name}: {{usd: 5, per: day}}}}\n")

    def test_only_a_star_may_be_without_its_list(self, tmp_path: Path) -> None:
        assert given_file(tmp_path, "tools: {allow: '*'}\n").settings.tools.allow == ("*",)
        error = refusal(tmp_path, "tools: {allow: read}\n")
        assert "[read]" in str(error)

    def test_allow_beside_also_allow_is_refused_with_both_ways_out(self, tmp_path: Path) -> None:
        error = refusal(tmp_path, "tools:\n  allow: [read]\n  alsoAllow: [exec]\n")
        assert error.line == 3
        assert "into allow" in error.fix and "remove allow so that" in error.fix
        given_file(tmp_path, "tools: {allow: [], alsoAllow: [exec]}\n")


class TestSecrets:
    def test_a_secret_is_never_shown_and_is_read_when_asked(self, tmp_path: Path) -> None:
        (tmp_path / "key.txt").write_text("from-file\n")
        text = (
            "providers:\n  a: {apiKey: plain}\n  b: {apiKey: '${KEY}'}\n  c: {apiKey: {env: KEY}}\n"
            "  d: {apiKey: {file: key.txt}}\n"
        )
        config = given_file(tmp_path, text, {"KEY": "from-env"})
        keys = {name: provider.api_key for name, provider in config.settings.providers.items()}
        assert {name: key.reveal() for name, key in keys.items() if key} == {
            "a": "plain", "b": "from-env", "c": "from-env", "d": "from-file",
        }  # fmt: skip
        shown = f"{keys} {config.settings} {config} {config.settings.model_dump_json()}"
        for secret in ("plain", "from-env", "from-file"):
            assert f"'{secret}'" not in shown.replace(repr(config.raw), "")

    def test_a_variable_that_is_not_set_warns_once_and_the_key_counts_as_absent(self, tmp_path: Path) -> None:
        config = given_file(tmp_path, "providers: {a: {apiKey: '${NOPE}'}, b: {apiKey: {env: NOPE}}}\n")
        assert [warning.key for warning in file_warnings(config)] == [
            "providers.a.apiKey",
            "providers.b.apiKey",
        ]
        for name in "ab":
            key = config.settings.providers[name].api_key
            assert key is not None and not key
            with pytest.raises(ConfigError, match="NOPE"):
                key.reveal()

    def test_prose_keeps_its_dollar_signs(self, tmp_path: Path) -> None:
        config = given_file(tmp_path, "systemPrompt: 'use ${HOME} in scripts'\nworkspace: ${HOME}/w\n")
        assert config.agent().settings.system_prompt == "use ${HOME} in scripts"
        assert config.agent().workspace == Path("/home/me/w")

    @pytest.mark.parametrize("key", ["apiKey", "baseUrl", "authOrder"])
    def test_an_error_never_shows_a_value_of_the_environment(self, tmp_path: Path, key: str) -> None:
        with pytest.raises(ConfigError) as caught:
            given_file(tmp_path, f"providers: {{a: {{{key}: {{x: '${{KEY}}'}}}}}}\n", {"KEY": "sesame"})
        assert "sesame" not in str(caught.value)

    def test_a_word_from_a_variable_is_reported_as_it_was_written(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"\$\{KEY\} is not a known value here") as caught:
            given_file(tmp_path, "tools: {profile: '${KEY}'}\n", {"KEY": "sesame"})
        assert "sesame" not in str(caught.value)

    @given(st.text(min_size=1))
    def test_no_text_shows_in_a_secret(self, text: str) -> None:
        assert repr(Secret(text)) in ("Secret(******)", "Secret()")
        assert Secret(text).reveal() == text


class TestErrors:
    def test_all_errors_are_reported_at_once_in_the_order_of_the_file(self, tmp_path: Path) -> None:
        error = refusal(
            tmp_path, "gateway:\n  port: x\nagents:\n  list:\n  - id: a\n    toolz: {}\n  - name: B\n"
        )
        assert isinstance(error, ConfigErrors)
        assert [each.key for each in error.errors] == [
            "gateway.port",
            "agents.list[0].toolz",
            "agents.list[1].id",
        ]
        assert error.key == "gateway.port"
        assert str(error).count("\n") == 3
        assert "config.yaml:6: agents.list[0].toolz (a): is not a known key. Did you mean tools?" in str(
            error
        )

    @pytest.mark.parametrize(
        ("text", "key", "near"),
        [
            ("gatway: {port: 1}\n", "gatway", "gateway"),
            ("tools: {alowe: []}\n", "tools.alowe", "allow"),
            ("agents: {default: {}}\n", "agents.default", "defaults"),
            (
                "agents: {defaults: {contextPrunning: {}}}\n",
                "agents.defaults.contextPrunning",
                "contextPruning",
            ),
            ("tools: {byProvider: {openai: {dany: []}}}\n", "tools.byProvider.openai.dany", "deny"),
            ("tools: {byProvider: {a.b: {dany: []}}}\n", 'tools.byProvider["a.b"].dany', "deny"),
            ("telegram: {groups: {'-1': {tools: {dney: [a]}}}}\n", "telegram.groups.-1.tools.dney", "deny"),
            ("plugins: {entries: {x: {enabeld: true}}}\n", "plugins.entries.x.enabeld", "enabled"),
            ("cron: {jobs: [{id: a, promt: x}]}\n", "cron.jobs[0].promt", "prompt"),
            ("tools: {profile: minimum}\n", "tools.profile", "minimal"),
        ],
    )
    def test_the_nearest_name_is_suggested(self, tmp_path: Path, text: str, key: str, near: str) -> None:
        error = refusal(tmp_path, text)
        assert error.key == key
        assert f"Did you mean {near}?" in error.fix

    def test_a_group_written_neither_way_shows_both(self, tmp_path: Path) -> None:
        error = refusal(tmp_path, "telegram: {groups: {chatId: '-1'}}\n")
        assert error.key == "telegram.groups"
        assert "list" in str(error) and "map" in str(error)

    @given(VALUES, st.sampled_from(KEYS))
    def test_any_value_at_any_key_is_taken_or_refused_in_words(self, value: object, key: str) -> None:
        from claw.config.loader import validate_source
        from claw.config.source import ConfigSource

        message = ""
        try:
            read = ConfigSource(Path("config.json"), "", {key: value})
            validate_source(read, Path("home"), {}, keys_of_plugins("home", read))
        except ConfigError as refused:
            message = str(refused)
        assert key in message or not message
        assert "pydantic" not in message
        assert "Input should" not in message


class TestReferences:
    def test_an_agent_that_a_binding_names_must_be_there(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, "bindings: [{agentId: nobody}]\n").key == "bindings[0].agentId"


class TestPlugins:
    class Channel(ChannelConfig):
        token: Secret
        poll_seconds: int = 25

    class Service(ProviderConfig):
        region: str = "eu"

    def view(self, config: Config) -> PluginConfig:
        def no_network(url: str) -> Any:
            raise AssertionError(url)

        return PluginConfig(config, "demo", no_network, config.home / "plugins" / "demo")

    def test_a_plugin_reads_its_sections_as_models_of_its_own(self, tmp_path: Path) -> None:
        config = given_file(tmp_path, "telegram: {token: '${T}', pollSeconds: 3}\n", {"T": "secret"})
        view = self.view(config)
        channel = view.channel("telegram", self.Channel)
        assert channel is not None
        assert (channel.token.reveal(), channel.poll_seconds) == ("secret", 3)
        assert view.channel("discord", self.Channel) is None
        assert view.provider("service", self.Service).region == "eu"

    def test_a_channel_that_is_switched_off_is_absent(self, tmp_path: Path) -> None:
        config = given_file(tmp_path, "channels: {telegram: {enabled: false}}\n")
        assert self.view(config).channel("telegram", self.Channel) is None

    def test_each_account_of_a_channel_lays_its_keys_over_the_sections(self, tmp_path: Path) -> None:
        text = (
            "telegram: {token: a, pollSeconds: 3, accounts: "
            "{work: {token: b}, slow: {poll_seconds: 9}, gone: {enabled: false}}}\n"
        )
        seen = read_accounts(self.view(given_file(tmp_path, text)), "telegram", self.Channel, "token").ready
        values = {name: (one.token.reveal(), one.poll_seconds) for name, one in seen.items()}
        assert values == {"default": ("a", 3), "work": ("b", 3), "slow": ("a", 9)}

    def test_a_section_without_credentials_of_its_own_only_shares_its_keys(self, tmp_path: Path) -> None:
        text = "demo: {region: us, accounts: {work: {token: b}}}\n"

        class Optional(ChannelConfig):
            token: Secret | None = None
            region: str = "eu"

        view = self.view(given_file(tmp_path, "channels: {" + text.strip() + "}\n"))
        accounts = read_accounts(view, "demo", Optional, "token").ready
        assert {name: one.region for name, one in accounts.items()} == {"work": "us"}

    def test_an_account_that_cannot_start_is_left_out_with_its_reason_while_another_one_can(
        self, tmp_path: Path
    ) -> None:
        text = "telegram: {token: a, accounts: {typo: {tokn: b}, early: {token: b}, work: {token: c}}}\n"
        view = self.view(given_file(tmp_path, text))

        def ready(account: str, settings: ChannelConfig) -> None:
            if account == "early":
                raise ConfigError("telegram.accounts.early.token", "is too young", "Wait a day")

        accounts = read_accounts(view, "telegram", self.Channel, "token", ready=ready)
        assert list(accounts.ready) == ["default", "work"]
        assert {(one.name, one.account): one.error.key for one in accounts.failed} == {
            ("telegram", "typo"): "telegram.accounts.typo.tokn",
            ("telegram", "early"): "telegram.accounts.early.token",
        }

    def test_no_account_that_can_start_is_an_error(self, tmp_path: Path) -> None:
        text = "telegram: {accounts: {one: {dmPolcy: open}, two: {pol: 3}}}\n"
        with pytest.raises(ConfigError, match=r"accounts\.one\.dmPolcy"):
            read_accounts(self.view(given_file(tmp_path, text)), "telegram", ChannelConfig)

    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ("telegram: {token: x, poll: 3}\n", "telegram.poll"),
            ("channels: {telegram: {pollSeconds: 3}}\n", "channels.telegram.token"),
            ("channels: {telegram: {token: x, dmPolicy: open}}\n", "channels.telegram.allowFrom"),
        ],
    )
    def test_an_error_in_a_plugins_section_names_the_dotted_key(
        self, tmp_path: Path, text: str, key: str
    ) -> None:
        view = self.view(given_file(tmp_path, text))
        with pytest.raises(ConfigError) as caught:
            view.channel("telegram", self.Channel)
        assert caught.value.key == key

    def test_nobody_may_write_by_default(self) -> None:
        channel = ChannelConfig()
        assert (channel.dm_policy, channel.allow_from, channel.groups) == ("pairing", (), {})


class TestOutline:
    def test_it_reports_what_the_file_could_need_without_judging_it(self) -> None:
        wanted = outline_config(
            {
                "plugins": {"allow": ["a"], "entries": {"a": {"enabled": False}, "b": 3}},
                "telegram": {"groups": []},
                "channels": {"discord": {"enabled": False}},
                "providers": {"own": {}},
                "agents": {"defaults": {"model": {"primary": "fast"}}, "list": [{"model": "openai/gpt-4o"}]},
                "heartbeat": {"model": "anthropic/haiku"},
                "models": {"aliases": {"fast": "local/smollm"}},
                "memorySearch": {"model": "voyage/x"},
            }
        )
        assert wanted.allow == ("a",)
        assert wanted.entries == {"a": {"enabled": False}}
        assert wanted.channels == {"telegram"}
        assert wanted.providers == {"own", "openai", "anthropic", "local"}

    @given(st.dictionaries(st.sampled_from(KEYS), VALUES))
    def test_no_tree_is_too_strange_for_it(self, tree: dict[str, object]) -> None:
        outline_config(tree)
