"""``claw doctor`` and ``claw status`` beside a gateway that runs: the disk, the channels, and who may write to them."""

import json
import os
import resource

import pytest
from claw_admin.doctor.checks import disk_findings
from integration.gateways import Home, Running, home, until  # noqa: F401

HOW = """told = "no line to Post"
        self.state = ChannelState(self.config.how, "" if self.config.how == "up" else told, last_error=told)"""


def usage(*, blocks: int = 1_000_000, left: int = 1_000_000, files: int = 1000, files_left: int = 1000):
    """Return the figures of a disk, in blocks of 4 KB as the user sees them."""
    return os.statvfs_result((4096, 4096, blocks, left, left, files, files_left, files_left, 0, 255))


def found(home: Home, *words: str, plain: bool = False) -> list[dict[str, object]]:  # noqa: F811
    return json.loads(home.claw("doctor", "--json", *words, plain=plain).out)["findings"]


@pytest.mark.parametrize(
    ("disk", "said"),
    [
        (usage(left=0), "the disk is almost full: 0.0 MB free"),
        (usage(left=3000), "the disk is almost full: 11.7 MB free"),
        (usage(files_left=0), "the disk has no space for another file"),
        (usage(left=5000), None),
        (usage(blocks=0, left=0), None),  # a file system that does not say
        (usage(files=0, files_left=0), None),
    ],
)
def test_a_disk_that_is_full_is_wrong(tmp_path, disk, said):
    assert [one.problem for one in disk_findings(tmp_path, disk)] == ([said] if said else [])


def test_a_home_that_cannot_be_written_is_wrong(home):  # noqa: F811
    home.home.chmod(0o500)
    [one] = [one for one in found(home, plain=True) if one["kind"] == "disk"]
    assert one["grave"] and one["problem"] == "it is read-only"
    home.home.chmod(0o700)


def test_a_gateway_that_may_open_few_files_says_so_in_every_status(home):  # noqa: F811
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    home.with_channel()
    few = "it may open only 200 files, so at most 25 turns run at once"
    with Running(home, descriptors=200):
        [one] = [one for one in found(home) if one["kind"] == "files"]
        assert (one["about"], one["problem"], one["grave"]) == ("gateway", few, False)
        for words in (("gateway", "status"), ("channels", "status")):
            said = home.claw(*words)
            assert (said.code, f"gateway: {few}. raise the limit" in said.out + said.err) == (0, True)
            assert home.claw(*words, "--json").code == 0
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_a_channel_of_the_running_gateway_that_does_not_receive_is_reported(home):  # noqa: F811
    home.with_channel(HOW, more="how: str", how="failed")
    with Running(home):
        [one] = until(lambda: [one for one in found(home) if one["about"] == "channels.post"])
        assert (one["kind"], one["problem"], one["grave"]) == ("failed", "no line to Post", True)
        assert "channels: 1 failed" in home.claw("status").out

        home.write(how="waiting")
        until(lambda: "channels: 1 waiting" in home.claw("status").out)
        [one] = [one for one in found(home) if one["about"] == "channels.post"]
        assert (one["kind"], one["problem"], one["grave"]) == ("waiting", "no line to Post", True), (
            "it never received"
        )
        assert home.claw("channels", "status").code == 1

        home.write(how="up")
        until(lambda: "channels: 1 up" in home.claw("status").out)
        assert not [one for one in found(home) if one["about"] == "channels.post"]
        assert "earlier: no line to Post" in home.claw("channels", "status").out
    assert "channels" not in home.claw("status").out


@pytest.mark.parametrize(
    ("section", "shut"),
    [
        ({"dmPolicy": "allowlist", "allowFrom": []}, True),
        ({"dmPolicy": "allowlist", "allowFrom": [" "]}, True),
        ({"dmPolicy": "disabled", "allowFrom": ["*"]}, True),
        ({"dmPolicy": "disabled", "allowFrom": [], "groups": {"1": {"enabled": False}}}, True),
        ({"dmPolicy": "disabled", "allowFrom": [], "groups": {"1": {}}, "groupPolicy": "disabled"}, True),
        ({"dmPolicy": "disabled", "allowFrom": [], "groups": {"1": {}}, "groupAllowFrom": []}, True),
        ({"dmPolicy": "disabled", "allowFrom": [], "groups": {"1": {"allowFrom": ["u1"]}}, "groupAllowFrom": []}, False),
        ({"dmPolicy": "pairing", "allowFrom": []}, False),
        ({"dmPolicy": "open", "allowFrom": ["*"]}, False),
        ({"dmPolicy": "allowlist", "allowFrom": ["u1"]}, False),
        ({"dmPolicy": "disabled", "allowFrom": [], "groups": {"1": {}}}, False),
        ({"dmPolicy": "disabled", "allowFrom": [], "groupPolicy": "open"}, False),
        ({"dmPolicy": "allowlist", "allowFrom": [], "enabled": False}, False),
        ({"dmPolicy": "pairing", "allowFrom": [], "accounts": {"two": {"dmPolicy": "allowlist"}}}, "two"),
    ],
)  # fmt: skip
def test_a_channel_whose_empty_lists_let_nobody_in_is_pointed_out(home, section, shut):  # noqa: F811
    home.with_channel(**section)
    told = [one for one in found(home) if "no one may write" in one["problem"]]
    key = "channels.post.accounts.two" if shut == "two" else "channels.post"
    assert [one["about"].rpartition(": ")[2] for one in told] == ([key] if shut else [])
    if told and section.get("dmPolicy") == "disabled":  # an id in the list would let nobody in
        assert told[0]["mend"] == "Choose another dmPolicy, list groups, or write enabled: false"
    elif told:
        assert f"claw config set '{key}.allowFrom[]' ID" in str(told[0]["mend"])


def test_an_owner_gets_in_where_the_list_is_empty(home):  # noqa: F811
    home.with_channel(dmPolicy="allowlist", allowFrom=[])
    file = home.home / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "owners": ["post:u1"]}))
    assert not [one for one in found(home) if "no one may write" in one["problem"]]
