"""``claw auth``, ``claw models``: keys are taken unseen, listed without their secrets, tried for real, put in order."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from claw.cli.main import app
from claw.contracts.errors import ProviderError, UsageError
from claw.contracts.provider import Credential
from claw.storage.database import Database
from claw_budgets.ledger import UsageLedger
from claw_models.commands_auth import parse_login
from claw_models.key_pool import KeyPool
from claw_testing.services import OpenAIService, ServiceReply
from typer.testing import CliRunner, Result

SECRET = "sk-never-to-be-seen-0123456789"
CONFIG: dict[str, Any] = {
    "agents": {"defaults": {"model": {"primary": "openai/gpt-4o", "fallbacks": ["anthropic/claude-x"]}}},
    "models": {"aliases": {"fast": "openai/gpt-4o-mini"}},
}


def claw(*words: object, stdin: str = "") -> Result:
    return CliRunner().invoke(app, [*map(str, words)], input=stdin)


def document(*words: object) -> dict[str, Any]:
    answer = claw(*words, "--json")
    assert SECRET not in answer.output
    return {"code": answer.exit_code, **json.loads(answer.stdout)}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / ".claw"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    return folder


def write(home: Path, model: str | dict, providers: dict | None = None, **more: Any) -> None:
    tree = {"agents": {"defaults": {"model": model}}, "providers": providers or {}, **more}
    (home / "config.yaml").write_text(yaml.safe_dump(tree))


def rests(home: Path, provider: str, key: Credential, reason: str) -> None:
    database = Database(home / "state.db")
    KeyPool(database).record_failure(provider, key, "m", ProviderError("no", reason=reason))
    database.close()


def test_a_key_is_read_from_stdin_into_a_private_file_and_listed_without_its_secret(home: Path):
    added = claw("auth", "add", "openai", "--name", "work", stdin=f"{SECRET}\n")

    assert added.exit_code == 0, added.output
    file = home / "agents/default/auth-profiles.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert SECRET in file.read_text()
    assert SECRET not in added.output + claw("auth", "list").output
    [key] = document("auth", "list")["keys"]
    assert (key["provider"], key["name"], key["where"]) == ("openai", "work", "auth-profiles.json")


def test_no_key_is_taken_on_the_command_line_nor_an_empty_one_nor_for_nobody(home: Path):
    typed = claw("auth", "add", "openai", SECRET).exception
    assert isinstance(typed, UsageError) and SECRET not in str(typed) and "--name" in str(typed)
    assert claw("auth", "add", "openai", stdin="\n").exit_code != 0
    unknown = claw("auth", "add", "opnai", stdin=SECRET)
    assert "openai" in str(unknown.exception)


def test_keys_of_the_file_and_of_the_environment_are_listed_with_their_places(home: Path, monkeypatch):
    config = {**CONFIG, "providers": {"openai": {"authProfiles": [{"id": "a", "apiKey": "${NOT_SET}"}]}}}
    (home / "config.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)

    rows = {row["provider"]: row for row in document("auth", "list")["keys"]}

    assert rows["anthropic"]["where"] == "ANTHROPIC_API_KEY"
    assert rows["openai"]["where"] == "providers.openai.authProfiles[0]"
    assert "NOT_SET" in rows["openai"]["state"]


def test_a_key_is_forgotten_and_what_is_not_there_is_an_error(home: Path):
    claw("auth", "add", "openai", stdin=SECRET)

    assert claw("auth", "remove", "openai").exit_code == 0
    assert document("auth", "list")["keys"] == []
    assert claw("auth", "remove", "openai").exit_code != 0


def test_the_order_of_keys_is_the_agent_s_own(home: Path):
    for name in ("one", "two"):
        claw("auth", "add", "openai", "--name", name, stdin=f"{SECRET}-{name}")

    assert claw("auth", "order", "openai", "two", "one").stdout == "order of openai: two, one\n"
    assert document("auth", "list")["order"] == {"openai": ["two", "one"]}
    assert "no key three" in str(claw("auth", "order", "openai", "three").exception)
    assert claw("auth", "order", "openai", "--clear").stdout == "order of openai: they are used in rotation\n"


def states() -> dict[str, str | None]:
    return {key["name"]: key["state"] for key in document("auth", "list")["keys"]}


def test_a_key_that_is_added_comes_last_in_a_standing_order(home: Path):
    for name in ("one", "two"):
        claw("auth", "add", "openai", "--name", name, stdin=f"{SECRET}-{name}")
    claw("auth", "order", "openai", "one")

    added = claw("auth", "add", "openai", "--name", "three", stdin=f"{SECRET}-three")
    again = claw("auth", "add", "openai", "--name", "one", stdin=f"{SECRET}-new")

    assert "order of openai: one, three\n" in added.stdout
    assert "order of" not in again.stdout
    assert document("auth", "list")["order"] == {"openai": ["one", "three"]}


def test_a_key_that_no_order_names_is_not_ready(home: Path):
    for name in ("one", "two"):
        claw("auth", "add", "openai", "--name", name, stdin=f"{SECRET}-{name}")
    assert states() == {"one": None, "two": None}

    claw("auth", "order", "openai", "one")

    assert states() == {"one": None, "two": "not in the order"}
    rests(home, "openai", Credential("one", f"{SECRET}-one", provider="openai", owner="default"), "billing")
    [openai, _] = document("models", "status")["models"]
    assert not openai["ready"]
    assert {key["key"]: key["state"] for key in openai["keys"]}["two"] == "not in the order"


def test_an_order_of_the_file_that_does_not_name_a_new_key_is_reported(home: Path):
    keys = [{"id": "one", "apiKey": f"{SECRET}-one"}]
    write(home, "openai/gpt-4o", {"openai": {"authProfiles": keys, "authOrder": ["one"]}})

    added = claw("auth", "add", "openai", "--name", "three", stdin=f"{SECRET}-three")

    assert "claw auth order openai one three" in added.stderr
    assert states() == {"one": None, "three": "not in the order"}


def test_a_variable_that_is_not_set_here_is_kept_and_reported(home: Path, monkeypatch):
    added = claw("auth", "add", "openai", "--env", "NOT_SET_AT_ALL")

    assert added.exit_code == 0
    assert "NOT_SET_AT_ALL is not set in this environment" in added.stderr
    monkeypatch.setenv("SET_ALREADY", SECRET)
    assert claw("auth", "add", "openai", "--name", "other", "--env", "SET_ALREADY").stderr == ""
    assert states()["main"] == "the environment variable NOT_SET_AT_ALL is not set"


# --- logins


LOGIN = {"access_token": SECRET, "refresh_token": f"{SECRET}-refresh", "expires_in": 3600}


def test_a_login_that_nobody_would_renew_is_refused_with_the_way_out(home: Path):
    refused = claw("auth", "add", "openai", "--name", "work", "--type", "oauth", stdin=SECRET)

    assert isinstance(refused.exception, UsageError)
    assert "no installed plugin can refresh openai" in str(refused.exception)
    assert "claw auth add openai --name work --type token" in str(refused.exception)
    assert document("auth", "list")["keys"] == []


@pytest.fixture
def renewing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed plugin whose provider renews logins."""
    site = tmp_path / "site"
    package, metadata = site / "plugin_renewing", site / "claw_renewing-1.0.dist-info"
    package.mkdir(parents=True)
    metadata.mkdir()
    (package / "__init__.py").write_text(
        "from claw import hookimpl\nfrom claw.testing import FakeProvider\n\n\n"
        "class Renewing(FakeProvider):\n    async def refresh(self, credential):\n        return credential\n\n\n"
        "@hookimpl\ndef register_providers(config):\n    return [Renewing(name='renewing', keys=[])]\n"
    )
    manifest = {"id": "renewing", "kinds": ["provider"], "providers": [{"name": "renewing"}]}
    (package / "claw-plugin.json").write_text(json.dumps(manifest))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: claw-renewing\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[claw.plugins]\nrenewing = plugin_renewing\n")
    monkeypatch.syspath_prepend(site)


@pytest.mark.usefixtures("renewing")
def test_a_login_is_kept_with_what_renews_it_or_not_at_all(home: Path):
    add = ("auth", "add", "renewing", "--type", "oauth")

    bare = claw(*add, stdin=SECRET).exception
    assert isinstance(bare, UsageError) and "a login without a refresh token" in str(bare)
    assert SECRET not in str(bare)
    assert "renewed" in str(claw(*add, "--env", "TOKEN").exception)

    kept = claw(*add, stdin=json.dumps(LOGIN, indent=1))
    assert kept.exit_code == 0, kept.output
    tree = json.loads((home / "agents/default/auth-profiles.json").read_text())["profiles"]["renewing"]
    assert (tree["main"]["secret"], tree["main"]["refresh"]) == (SECRET, f"{SECRET}-refresh")
    assert tree["main"]["expiresAt"] > 1_700_000_000


@pytest.mark.parametrize(
    ("seconds", "good"), [(60, 60), (None, 0), (-5, 0), (float("inf"), 0), (float("nan"), 0), ("9", 0)]
)
def test_a_login_that_does_not_say_how_long_it_is_good_is_renewed_at_once(seconds: object, good: int):
    key = parse_login(json.dumps({**LOGIN, "expires_in": seconds}), "acme", "main", 1000.0)

    assert (key.kind, key.expires_at) == ("oauth", 1000.0 + good)


@pytest.mark.parametrize("text", ["", "[]", "sk-bare", "{}", '{"access_token": "x", "refresh_token": 3}'])
def test_what_is_no_login_is_refused(text: str):
    with pytest.raises(UsageError, match="refresh token"):
        parse_login(text, "acme", "main", 0.0)


def test_models_are_listed_in_the_order_they_are_asked(home: Path):
    listed = document("models", "list")

    assert [(one["model"], one["role"]) for one in listed["models"]] == [
        ("openai/gpt-4o", "primary"),
        ("anthropic/claude-x", "fallback"),
    ]
    assert listed["aliases"] == {"fast": "openai/gpt-4o-mini"}


def test_the_state_of_models_says_in_words_which_keys_rest(home: Path):
    claw("auth", "add", "openai", stdin=SECRET)
    key = Credential("main", SECRET, provider="openai", owner="default")
    for _ in range(3):
        rests(home, "openai", key, "rate_limit")

    shown = claw("models", "status")

    assert shown.exit_code == 1
    # a rest is not made longer, and some of it may have passed
    assert re.search(r"paused for (1 min|[1-5]\d s) after 3 failures: rate limit", shown.stdout)
    assert "no key" in shown.stdout
    assert document("models", "status")["ready"] is False


@pytest.mark.parametrize(
    ("section", "needs"),
    [
        ({"baseUrl": "http://127.0.0.1:9"}, False),
        ({"baseUrl": "https://models.example"}, True),
        ({"baseUrl": "https://models.example", "keyless": True}, False),
        ({"baseUrl": "http://127.0.0.1:9", "keyless": False}, True),
    ],
)
def test_a_service_on_this_machine_needs_no_key_and_any_other_does(home: Path, section: dict, needs: bool):
    agents = {"defaults": {"model": "openai/gpt-4o"}}
    (home / "config.yaml").write_text(yaml.safe_dump({"agents": agents, "providers": {"openai": section}}))

    found = document("models", "status")

    assert found["models"][0]["needsKey"] is needs
    assert found["ready"] is not needs and found["code"] == int(needs)


@pytest.mark.parametrize(
    ("model", "section"),
    [
        ("ollama/qwen3", None),
        ("lmstudio/x", None),
        ("vllm/x", None),
        ("offline/rules", None),
        ("google/gemma-4", {"baseUrl": "http://localhost:9/v1beta"}),
        ("mistral/devstral-small", {"baseUrl": "http://[::1]:9"}),
        ("anthropic/llama", {"baseUrl": "http://127.0.0.1:9"}),
    ],
)
def test_what_needs_no_key_is_ready_without_one_whatever_it_speaks(
    home: Path, model: str, section: dict | None
):
    providers = {model.partition("/")[0]: section} if section else {}
    write(home, model, providers)

    shown = claw("models", "status")

    assert (shown.exit_code, shown.stdout.count("needs no key")) == (0, 1)
    assert claw("models", "use", model).stdout == f"{model} is already the default model\n"


@pytest.mark.parametrize("where", ["environment", "own file"])
def test_an_endpoint_whose_place_nobody_knows_is_not_ready_with_a_key_alone(
    home: Path, where: str, monkeypatch
):
    write(home, "azure/gpt-5")
    if where == "environment":
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", SECRET)
    else:
        claw("auth", "add", "azure", stdin=SECRET)

    found = document("models", "status")

    assert (found["ready"], found["code"], found["models"][0]["ready"]) == (False, 1, False)
    assert "providers.azure.baseUrl: the address of Azure OpenAI is unknown" in found["models"][0]["fault"]
    assert "Set AZURE_OPENAI_ENDPOINT" in claw("models", "status").stdout.replace("\n", " ")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    assert document("models", "status")["ready"] is True


def test_a_model_of_a_plugin_that_is_switched_off_is_not_ready(home: Path):
    write(home, "openai/gpt-5", {"openai": {"apiKey": SECRET}}, plugins={"deny": ["openai"]})

    [model] = document("models", "status")["models"]

    assert (model["ready"], model["fault"]) == (False, "plugin openai: plugins.deny names it")


def test_a_model_is_not_ready_while_its_only_key_rests_wherever_it_is(home: Path):
    openai = {"baseUrl": "http://127.0.0.1:9", "apiKey": SECRET}
    agents = {"defaults": {"model": "openai/gpt-4o"}}
    (home / "config.yaml").write_text(yaml.safe_dump({"agents": agents, "providers": {"openai": openai}}))
    assert document("models", "status")["ready"] is True

    rests(home, "openai", Credential("default", SECRET), "billing")

    assert document("models", "status")["ready"] is False


def test_the_cooldown_of_a_service_without_a_key_is_shown(home: Path):
    write(home, "toy/m", {"toy": {"type": "openai", "baseUrl": "http://127.0.0.1:9/v1"}})
    assert "needs no key" in claw("models", "status").stdout
    rests(home, "toy", Credential("none", ""), "server")

    shown = claw("models", "status")
    assert shown.exit_code == 1
    assert re.search(r"paused for 1 min after a failure: server error", shown.stdout)
    assert not json.loads(claw("models", "status", "--json").stdout)["ready"]


def test_a_service_without_a_key_that_refused_a_call_needs_one_and_waiting_does_not_help(home: Path):
    write(home, "toy/m", {"toy": {"type": "openai", "baseUrl": "http://127.0.0.1:9/v1"}})
    rests(home, "toy", Credential("none", ""), "auth")

    shown = claw("models", "status")
    assert shown.exit_code == 1
    assert "no key (claw auth add toy)" in " ".join(shown.stdout.split())
    assert "paused" not in shown.stdout + claw("models", "use", "toy/m").stdout
    checked = claw("doctor")
    assert "providers.toy: the service refuses calls without a key (claw auth add toy)" in checked.stdout

    claw("auth", "add", "toy", stdin=SECRET)
    assert document("models", "status")["ready"] is True
    assert "without a key" not in claw("doctor").stdout


async def test_a_probe_makes_one_call_with_each_key_and_one_that_answers_rests_no_longer(home: Path):
    import asyncio

    def answer(request: Any) -> ServiceReply:
        bad = "sk-bad" in request.headers["authorization"]
        return (
            ServiceReply(status=401, body={"error": {"message": "no"}}) if bad else ServiceReply(text="yes")
        )

    async with OpenAIService(answer) as service:
        keys = [{"id": "good", "apiKey": SECRET}, {"id": "bad", "apiKey": "sk-bad-0123456789"}]
        config = {**CONFIG, "providers": {"openai": {"baseUrl": service.url, "authProfiles": keys}}}
        (home / "config.yaml").write_text(yaml.safe_dump(config))
        rests(home, "openai", Credential("good", SECRET), "billing")
        found = await asyncio.to_thread(document, "models", "probe", "openai/gpt-4o")
        after = await asyncio.to_thread(document, "models", "status")

    assert found["code"] == 1, found
    assert {(one["key"], one["ok"]) for one in found["calls"]} == {("good", True), ("bad", False)}, found
    assert len(service.requests) == 2
    states = {key["key"]: key["state"] for key in after["models"][0]["keys"]}
    assert states["good"] == "ready"
    assert "the key was rejected" in states["bad"]


def test_a_probe_of_many_says_of_each_that_cannot_be_asked_what_it_lacks(home: Path, monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", SECRET)
    write(home, {"primary": "google/gemini-x", "fallbacks": ["azure/gpt-5", "nobody/x"]})

    found = document("models", "probe")

    said = {one["model"]: one["why"] for one in found["calls"]}
    assert "google has no API key" in said["google/gemini-x"] and "GEMINI_API_KEY" in said["google/gemini-x"]
    assert "Set AZURE_OPENAI_ENDPOINT, or providers.azure.baseUrl" in said["azure/gpt-5"]
    assert "no plugin provides nobody" in said["nobody/x"]
    assert found["code"] == 1


def test_a_probe_of_a_key_that_nobody_has_names_those_that_there_are(home: Path):
    for name in ("work", "main"):
        claw("auth", "add", "openai", "--name", name, stdin=SECRET)

    refused = claw("models", "probe", "openai/gpt-4o", "--key", "nope")

    assert isinstance(refused.exception, UsageError)
    assert "openai has no key nope. Its keys are: work, main" in str(refused.exception)


async def probed(home: Path, **config: Any) -> tuple[dict[str, Any], int]:
    """A probe of one key at a service that answers, and how many requests came there."""
    import asyncio

    async with OpenAIService(lambda request: ServiceReply(text="yes", usage={"prompt_tokens": 9})) as service:
        openai = {"baseUrl": service.url, "apiKey": SECRET, **config.pop("openai", {})}
        tree = {**CONFIG, "providers": {"openai": openai}, **config}
        (home / "config.yaml").write_text(yaml.safe_dump(tree))
        found = await asyncio.to_thread(document, "models", "probe", "openai/gpt-4o")
        return found, len(service.requests)


async def test_a_probe_is_written_down_as_one(home: Path):
    found, _ = await probed(home)
    database = Database(home / "state.db")
    [one] = UsageLedger(database).sums("purpose")
    [payer] = UsageLedger(database).sums("agent")
    database.close()

    assert found["code"] == 0
    assert (one.name, one.calls, payer.name) == ("probe", 1, "default")


async def test_a_probe_passes_no_cap_and_its_key_is_not_to_blame(home: Path):
    found, requests = await probed(home, budgets={"daily": {"tokens": 5}})

    [call] = found["calls"]
    assert (found["code"], requests) == (1, 0)
    assert "budget daily" in call["why"]
    keys = document("models", "status")["models"][0]["keys"]
    assert [key["state"] for key in keys] == ["ready"]


def test_models_are_listed_with_how_they_get_tools_and_what_they_read(home: Path):
    facts = {"gpt-4o": {"contextTokens": 20_000, "tools": "prompt"}}
    model = {"primary": "openai/gpt-4o", "fallbacks": ["offline/rules", "nobody/x"]}
    config = {"agents": {"defaults": {"model": model}}, "providers": {"openai": {"models": facts}}}
    (home / "config.yaml").write_text(yaml.safe_dump(config))

    for command in ("list", "status"):
        rows = document("models", command)["models"]
        assert [(one["tools"], one["contextTokens"]) for one in rows] == [
            ("prompt", 20_000),
            ("native", 32_000),
            (None, None),
        ]
    shown = claw("models", "list")
    assert "openai/gpt-4o: its context window of 20,000 tokens" in shown.stderr
    assert "no native tool calling" in shown.stderr
    assert "offline" not in shown.stderr


def test_another_model_is_chosen_in_the_file_and_its_fallbacks_stay(home: Path):
    assert claw("models", "use", "fast").exit_code == 0
    chosen = yaml.safe_load((home / "config.yaml").read_text())["agents"]["defaults"]["model"]
    assert chosen == {"primary": "fast", "fallbacks": ["anthropic/claude-x"]}

    claw("models", "use", "openai/gpt-5", "--fallback", "fast")
    assert document("models", "list")["models"][1]["model"] == "openai/gpt-4o-mini"
    assert "gpt-5 is no model. Write provider/model" in str(claw("models", "use", "gpt-5").exception)
    assert "openai" in str(claw("models", "use", "opnai/gpt-5").exception)


def test_a_model_that_cannot_answer_yet_is_chosen_and_what_it_lacks_is_said(home: Path, monkeypatch):
    assert claw("models", "use", "google/gemini-x").stdout == (
        "google/gemini-x is selected, but cannot answer yet: google has no API key. add one with "
        "claw auth add google, or set GEMINI_API_KEY / GOOGLE_API_KEY, or set "
        "providers.google.apiKey\n"
    )
    monkeypatch.setenv("GEMINI_API_KEY", SECRET)
    assert claw("models", "use", "google/gemini-x").stdout == "google/gemini-x is already the default model\n"

    claw("auth", "add", "openai", stdin=SECRET)
    rests(home, "openai", Credential("main", SECRET, provider="openai", owner="default"), "billing")
    assert (
        "openai/gpt-5 is selected, but cannot answer yet: paused for 5 h"
        in claw("models", "use", "openai/gpt-5").stdout
    )


@pytest.mark.parametrize("model", ["gpt-4o", "openai/", "/gpt-4o", "opnai/gpt-4o", " openai/gpt-4o", ""])
def test_a_model_that_is_none_is_refused_by_use(home: Path, model: str) -> None:
    assert isinstance(claw("models", "use", model).exception, UsageError)


@pytest.mark.parametrize(
    ("model", "near"),
    [
        ("offline//rules", "offline/rules"),
        ("offline/rules/", "offline/rules"),
        ("offline/ rules", "offline/rules"),
        ("openrouter/vendor//model", "openrouter/vendor/model"),
    ],
)
def test_a_model_written_wrongly_is_refused_with_the_way_to_write_it(home: Path, model: str, near: str):
    for words in ((model,), ("offline/rules", "--fallback", model)):
        refused = claw("models", "use", *words).exception
        assert isinstance(refused, UsageError)
        assert f"Did you mean {near}?" in str(refused)
    assert f"Did you mean {near}?" in claw("config", "set", "agents.defaults.model", model).stderr


@pytest.mark.parametrize("model", ["offline//", "offline/ ", " /x"])
def test_no_name_is_suggested_for_a_model_that_lacks_its_provider_or_its_name(home: Path, model: str):
    refused = str(claw("models", "use", model).exception)

    assert "is no model. Write provider/model, or an alias" in refused


@pytest.mark.parametrize("model", ["openrouter/vendor/model:free", "vllm//models/llama", "vllm/my model"])
def test_an_id_with_a_blank_or_an_empty_part_is_used_where_the_settings_of_the_provider_name_it(
    home: Path, model: str
):
    provider, _, name = model.partition("/")
    write(home, "offline/rules", {provider: {"models": {name: {"tools": "native"}}}})

    assert claw("models", "use", model).exit_code == 0
    assert "is no model" not in claw("config", "validate").stderr


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("gpt-4o", "gpt-4o is no model"),
        ("openai/", "openai/ is no model"),
        ("/gpt-4o", "/gpt-4o is no model"),
        ("opnai/gpt-4o", "Did you mean openai/gpt-4o?"),
        ("qwxz/gpt-4o", "no plugin provides qwxz"),
    ],
)
def test_a_model_of_the_file_that_is_none_is_warned_about(home: Path, model: str, said: str) -> None:
    for answer in (claw("config", "set", "agents.defaults.model", model), claw("config", "validate")):
        assert "agents.defaults.model" in answer.stderr and said in answer.stderr


@pytest.mark.parametrize("model", ["fast", "openai/gpt-4o", "openai/a-model-that-is-new", "groq/x/y"])
def test_a_model_of_the_file_that_a_provider_may_have_is_not_warned_about(home: Path, model: str) -> None:
    assert "no model" not in claw("config", "set", "agents.defaults.model", model).stderr
