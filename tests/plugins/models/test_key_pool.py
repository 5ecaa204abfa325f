"""Keys of model services: kept in the agent's own file, tried in turn, paused after failures, renewed once."""

import asyncio
import json
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from time import monotonic
from types import ModuleType

import pytest
from claw.contracts.errors import ClawError, ProviderError
from claw.contracts.provider import Credential
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw.testing import FakeProvider
from claw_models.cooldown import CooldownRules, KeyState, after_failure, describe_cooldown
from claw_models.credentials import ProfileFile
from claw_models.key_pool import KeyPool
from hypothesis import given, strategies as st
from rigs import tokens as rig
from rigs.tokens import TokenService

NOW = 1_800_000_000.0
ONE, TWO = Credential("one", "sk-1"), Credential("two", "sk-2")


class Time:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = NOW
        self.clock = Clock(lambda: self.now, lambda: self.now)


def busy(seconds: float | None = None) -> ProviderError:
    return ProviderError("slow down", reason="rate_limit", retryable=True, retry_after_seconds=seconds)


def names(keys: KeyPool, provider: FakeProvider, session: str = "") -> list[str]:
    return [key.name for key in keys.keys_for(provider, None, session)]


# --- who is next


def test_keys_take_turns_and_a_conversation_stays_with_its_own():
    time, provider = Time(), FakeProvider(keys=[ONE, TWO])
    keys = KeyPool(None, time.clock)
    assert names(keys, provider, "a") == ["one", "two"]

    time.now += 1
    keys.record_success("fake", ONE, "m", "a", alone=False)

    assert names(keys, provider, "b") == ["two", "one"]
    assert names(keys, provider, "a") == ["one", "two"]


def test_a_conversation_leaves_its_key_when_that_one_rests():
    time, provider = Time(), FakeProvider(keys=[ONE, TWO])
    keys = KeyPool(None, time.clock)
    keys.record_success("fake", ONE, "m", "a", alone=False)
    keys.record_failure("fake", ONE, "m", busy())

    assert names(keys, provider, "a") == ["two", "one"]


def test_of_a_key_whose_rest_is_over_one_request_at_a_time_finds_out():
    time = Time()
    keys = KeyPool(None, time.clock)
    keys.record_failure("fake", ONE, "m", busy(10))
    time.now += 11

    assert keys.try_acquire("fake", [ONE, TWO], ONE, "m")
    assert not keys.try_acquire("fake", [ONE, TWO], ONE, "m")
    keys.record_success("fake", ONE, "m")
    assert keys.try_acquire("fake", [ONE, TWO], ONE, "m")
    assert keys.try_acquire("fake", [ONE, TWO], ONE, "m")


def test_while_all_keys_of_a_provider_rest_one_is_tried_every_twenty_seconds_and_its_success_opens_the_others():
    time = Time()
    keys, both = KeyPool(None, time.clock), [ONE, TWO]
    for key in both:
        keys.record_failure("fake", key, "m", busy())
        time.now += 1

    assert [keys.try_acquire("fake", both, key, "m") for key in both] == [True, False]
    keys.record_failure("fake", ONE, "m", busy())
    keys.release("fake", ONE)
    time.now += 19
    assert [keys.try_acquire("fake", both, key, "m") for key in both] == [False, False]
    time.now += 1
    assert [keys.try_acquire("fake", both, key, "m") for key in both] == [False, True]  # in turn
    keys.record_success("fake", TWO, "m")
    assert keys.try_acquire("fake", both, ONE, "m")


def test_a_service_that_says_when_is_kept_to():
    time = Time()
    keys = KeyPool(None, time.clock)
    keys.record_failure("fake", ONE, "m", busy(90))

    time.now += 89
    assert not keys.try_acquire("fake", [ONE], ONE, "m")
    assert keys.available_in("fake", [ONE], "m") == pytest.approx(1.0)
    time.now += 1
    assert keys.try_acquire("fake", [ONE], ONE, "m")


def test_an_hour_that_a_service_asks_for_does_not_keep_the_last_key_from_a_try_each_five_minutes():
    time = Time()
    keys = KeyPool(None, time.clock)
    keys.record_failure("fake", ONE, "m", busy(3600))

    time.now += 299
    assert not keys.try_acquire("fake", [ONE], ONE, "m")
    time.now += 1
    assert keys.try_acquire("fake", [ONE], ONE, "m")


def test_an_overloaded_model_says_nothing_of_its_sibling_and_a_rate_limit_does():
    keys = KeyPool(None, Time().clock)
    keys.record_failure("fake", ONE, "large", ProviderError("busy", reason="overloaded"))
    assert keys.is_healthy("fake", ONE, "small")

    keys.record_failure("fake", ONE, "large", busy())
    assert not keys.is_healthy("fake", ONE, "small")


def test_without_credit_nobody_asks_until_credit_was_added():
    time = Time()
    keys = KeyPool(None, time.clock)
    keys.record_failure("fake", ONE, "m", ProviderError("no credit", reason="billing"))
    time.now += 3600

    assert not keys.try_acquire("fake", [ONE], ONE, "m")
    why = keys.cooldown_error("fake", ONE, "m")
    assert why.problem == "its key one paused for 4 h after a failure: no credit left"
    assert "Once the account has credit, run claw models probe" in why.fix


@pytest.mark.parametrize(
    "reason", ["network", "bad_request", "content_filter", "context_overflow", "model_not_found", "truncated"]
)
def test_what_is_not_the_key_s_fault_does_not_make_it_rest(reason: str):
    keys = KeyPool(None, Time().clock)
    keys.record_failure("fake", ONE, "m", ProviderError("no", reason=reason))

    assert keys.is_healthy("fake", ONE, "m")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["rate_limit", "overloaded"]), st.floats(0, 1e5), st.none() | st.floats(0, 300)
        ),
        max_size=30,
    )
)
def test_no_rate_limit_alone_makes_a_key_rest_longer_than_five_minutes(failures):
    use, now = KeyState(), NOW
    for reason, passes, asked in failures:
        now += passes
        use = after_failure(use, reason, now, CooldownRules(), asked)
        assert use.cools_down_until(now) - now <= 300.001


def test_a_rest_is_reported_in_words():
    use = after_failure(replace(KeyState(), failures=2), "rate_limit", NOW, CooldownRules())

    assert describe_cooldown(use, NOW + 60) == "paused for 4 min after 3 failures: rate limit"
    assert describe_cooldown(use, NOW + 6000) == ""


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("rate_limit", "It is retried at {at} at the latest; claw models probe tests it now"),
        (
            "billing",
            "Once the account has credit, run claw models probe; otherwise it is retried at {at}",
        ),
        (
            "auth",
            "add a working key with claw auth add fake; this one is retried at {at}, or now with claw models probe",
        ),
        ("auth_permanent", "add a working key with claw auth add fake"),
    ],
)
def test_a_key_that_rests_says_until_when_and_what_ends_it_sooner(reason: str, advice: str):
    time = Time()
    keys = KeyPool(None, time.clock)
    keys.record_failure("fake", ONE, "m", ProviderError("no", reason=reason))
    until = datetime.fromtimestamp(keys.state_of("fake", ONE)[""].cools_down_until(NOW))
    at = f"{until:%H:%M}" if until.date() == datetime.fromtimestamp(NOW).date() else f"{until:%Y-%m-%d %H:%M}"

    assert advice.format(at=at) in keys.cooldown_error("fake", ONE, "m").fix


# --- what is kept


def test_another_process_knows_which_key_rests_and_another_secret_of_its_name_does_not(tmp_path: Path):
    time = Time()
    first = KeyPool(Database(tmp_path / "state.db"), time.clock)
    first.record_failure("fake", ONE, "m", busy())
    first.close()

    second = KeyPool(Database(tmp_path / "state.db"), time.clock)
    assert not second.is_healthy("fake", ONE, "m")
    assert second.is_healthy("fake", Credential("one", "sk-new"), "m")
    assert b"sk-1" not in b"".join(path.read_bytes() for path in tmp_path.glob("state.db*"))


def test_a_key_that_answered_in_another_process_rests_no_longer_in_this_one(tmp_path: Path):
    time, path = Time(), tmp_path / "state.db"
    gateway, probe = (
        KeyPool(Database(path, time.clock), time.clock),
        KeyPool(Database(path, time.clock), time.clock),
    )
    gateway.record_failure("fake", ONE, "m", ProviderError("no credit", reason="billing"))
    gateway.record_success("fake", TWO, "m", alone=False)
    assert not probe.is_healthy("fake", ONE, "m")

    probe.forget("fake", "", "one")
    time.now += 2

    assert gateway.is_healthy("fake", ONE, "m")
    assert gateway.state_of("fake", TWO)[""].last_used == NOW, "who was used last is not forgotten"


def test_a_key_that_was_refused_in_another_process_rests_in_this_one_and_no_rest_of_its_own_is_lost(
    tmp_path: Path,
):
    time, path = Time(), tmp_path / "state.db"
    gateway, other = (
        KeyPool(Database(path, time.clock), time.clock),
        KeyPool(Database(path, time.clock), time.clock),
    )
    gateway.record_failure("fake", ONE, "m", busy())
    assert gateway.is_healthy("fake", TWO, "m")

    time.now += 2
    other.record_failure("fake", TWO, "m", ProviderError("no credit", reason="billing"))
    gateway.record_failure("fake", ONE, "n", ProviderError("broken", reason="server"))
    time.now += 2

    assert gateway.all_cooling_down("fake", [ONE, TWO], "m")
    assert set(gateway.state_of("fake", ONE)) == {"", "n"}
    assert gateway.is_healthy("fake", Credential("two", "sk-new"), "m"), "its mark came along"


def test_a_rest_that_could_not_be_written_is_kept_while_others_write(tmp_path: Path):
    time, path = Time(), tmp_path / "state.db"
    database = Database(path, time.clock)
    gateway, other = KeyPool(database, time.clock), KeyPool(Database(path, time.clock), time.clock)
    assert gateway.is_healthy("fake", ONE, "m")
    database.write("PRAGMA query_only = 1")  # as a disk that is full
    with pytest.raises(ClawError):
        gateway.record_failure("fake", ONE, "m", busy())

    other.record_failure("fake", TWO, "m", busy())
    time.now += 2

    assert gateway.all_cooling_down("fake", [ONE, TWO], "m")


def test_who_was_used_last_is_written_when_claw_stops_and_not_before(tmp_path: Path):
    time, database = Time(), Database(tmp_path / "state.db")
    provider = FakeProvider(keys=[ONE, TWO])
    keys = KeyPool(database, time.clock)
    keys.record_success("fake", ONE, "m", alone=False)
    assert database.read("SELECT count(*) FROM keys") == [(0,)]
    keys.close()

    assert names(KeyPool(Database(tmp_path / "state.db"), time.clock), provider) == ["two", "one"]


def test_an_agent_s_own_file_is_private_and_wins_over_everybody_s_keys(tmp_path: Path):
    file = ProfileFile(tmp_path / "helper")
    file.add(Credential("one", "sk-own", provider="fake"))
    file.add(Credential("other", "sk-x", provider="another"))

    found = KeyPool().keys_for(FakeProvider(keys=[ONE, TWO]), tmp_path / "helper")

    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [(key.name, key.secret, key.owner) for key in found] == [
        ("one", "sk-own", "helper"),
        ("two", "sk-2", ""),
    ]


def test_a_key_that_is_added_while_claw_runs_is_used_soon(tmp_path: Path):
    time = Time()
    keys, provider = KeyPool(None, time.clock), FakeProvider(keys=[])
    assert keys.keys_for(provider, tmp_path) == ()

    ProfileFile(tmp_path).add(Credential("new", "sk-new", provider="fake"))
    time.now += 3

    assert names(keys, provider) == []
    assert [key.secret for key in keys.keys_for(provider, tmp_path)] == ["sk-new"]


def test_a_key_may_be_in_the_environment_or_in_the_machine_s_keyring(tmp_path: Path, monkeypatch):
    kept: dict[tuple[str, str], str] = {}
    library = ModuleType("keyring")
    library.set_password = lambda service, name, secret: kept.update({(service, name): secret})  # type: ignore[attr-defined]
    library.get_password = lambda service, name: kept.get((service, name))  # type: ignore[attr-defined]
    library.delete_password = lambda service, name: kept.pop((service, name))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", library)
    file = ProfileFile(tmp_path, {"MY_KEY": "sk-env"})
    file.add(Credential("a", "", provider="fake"), env="MY_KEY")
    file.add(Credential("b", "sk-ring", provider="fake"), in_keyring=True)

    assert {key.name: key.secret for key in file.read().keys} == {"a": "sk-env", "b": "sk-ring"}
    assert b"sk-" not in file.path.read_bytes()
    assert file.remove("fake", "b")
    assert kept == {}


def test_a_file_of_keys_that_cannot_be_read_says_so(tmp_path: Path):
    (tmp_path / "auth-profiles.json").write_text("{")

    with pytest.raises(ClawError, match="the keys cannot be read"):
        KeyPool().keys_for(FakeProvider(keys=[]), tmp_path)


# --- logins that run out


def expiring(folder: Path, refresh: str = "refresh-0") -> ProfileFile:
    file = ProfileFile(folder)
    file.add(Credential("main", "token-0", "oauth", "acme", 1.0, refresh))
    return file


def test_a_login_that_runs_out_is_renewed_once_for_all_processes(tmp_path: Path):
    service, file = TokenService(), expiring(tmp_path)
    command = [sys.executable, rig.__file__, str(tmp_path), service.url, "12"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]

    outcomes = [json.loads(process.communicate(timeout=30)[0]) for process in processes]
    service.close()

    assert outcomes == [["token-1"], ["token-1"]]
    assert service.calls == ["refresh-0"]
    assert file.tree()["profiles"]["acme"]["main"]["refresh"] == "refresh-1"


async def test_a_login_whose_new_form_was_lost_ends_in_a_request_to_log_in_again(tmp_path: Path):
    service, file = TokenService(), expiring(tmp_path)
    service.renew("refresh-0")  # by a process that died before it wrote down what came back

    outcomes = await rig.tokens(tmp_path, service.url, 20)
    again = await rig.tokens(tmp_path, service.url, 20)
    service.close()

    assert len(service.calls) == 2, "asked once, and never again"
    assert all("og in again: claw auth add acme --name main" in text for text in (*outcomes, *again)), (
        outcomes
    )
    assert file.read().keys == ()


async def test_a_login_that_is_good_for_a_while_is_left_alone(tmp_path: Path):
    time = Time()
    file = ProfileFile(tmp_path)
    file.add(Credential("main", "token-0", "oauth", "acme", NOW + 3600, "refresh-0"))
    [key] = file.read().keys

    assert (
        await KeyPool(None, time.clock).logins.refreshed(
            rig.Renewing("http://nowhere.invalid"), key, tmp_path
        )
        is key
    )


async def test_a_login_that_was_renewed_is_printed_by_nobody(tmp_path: Path):
    service, file = TokenService(), expiring(tmp_path)
    secrets: list[str] = []
    keys = KeyPool(learn=secrets.extend)
    [key] = file.read().keys

    await keys.logins.refreshed(rig.Renewing(service.url), key, tmp_path)
    service.close()

    assert {"token-1", "refresh-1"} <= set(secrets)


async def test_who_is_waiting_when_a_provider_answers_is_let_go_at_once():
    keys = KeyPool()
    keys.record_failure("fake", ONE, "m", busy(30))
    waiting = [asyncio.ensure_future(keys.wait_available(["fake"], lambda: 30.0, 60.0)) for _ in range(5)]
    await asyncio.sleep(0.01)

    keys.record_success("fake", ONE, "m")

    await asyncio.wait_for(asyncio.gather(*waiting), 20)


async def test_who_is_let_go_by_one_answer_does_not_ask_at_one_moment():
    keys = KeyPool()
    keys.record_failure("fake", ONE, "m", busy(30))
    left: list[float] = []

    async def wait() -> None:
        await keys.wait_available(["fake"], lambda: 30.0, 60.0)
        left.append(monotonic())

    waiting = [asyncio.ensure_future(wait()) for _ in range(8)]
    await asyncio.sleep(0.01)
    keys.record_success("fake", ONE, "m")
    await asyncio.gather(*waiting)

    assert max(left) - min(left) > 0.05
