"""The pure halves: what a dispatch means, what a text becomes, what is asked for again, and what the settings allow."""

import logging
from typing import Any

import claw_discord
import claw_discord.client
import pytest
from claw import Button, ConfigError, DeliveryError, UsageError
from claw_discord import outbound
from claw_discord.chats import DiscordChat, DiscordChats
from claw_discord.inbound import DiscordBot, id_at, readable, sent_at, to_inbound
from claw_discord.read_positions import ReadPositions
from claw_discord.rendering import escape_markdown, render
from claw_testing import bench
from hypothesis import given, strategies as st
from plugins.discord.living import says

ME, ALICE, GUILD, CHANNEL = "42", "77", "900", "910"


def message(content: str = "hi", **more: Any) -> dict[str, Any]:
    author = {"id": ALICE, "username": "alice", "global_name": "Alice"}
    data = {"id": "1300000000000000001", "channel_id": CHANNEL, "guild_id": GUILD, "type": 0, "content": content,
            "author": author, "timestamp": "2026-06-15T14:31:00+00:00", "mentions": []}  # fmt: skip
    return {"t": "MESSAGE_CREATE", "s": 5, "op": 0, "d": data | more}


class TestReading:
    @pytest.mark.parametrize(
        ("content", "text"),
        [
            ("<@42> do it", "do it"),
            ("please <@!42> do it", "please do it"),
            ("do it <@42>", "do it"),
            ("first\n<@42> second", "first\nsecond"),
            ("<@42>", ""),
            ("ask <@77>, not <@421>", "ask @Alice, not <@421>"),
            ("<@&5> and <#6> stay", "<@&5> and <#6> stay"),
        ],
    )
    def test_our_mention_goes_and_the_others_get_names(self, content: str, text: str) -> None:
        assert readable(content, ME, [{"id": "77", "global_name": "Alice"}]) == text

    @given(st.text(max_size=60))
    def test_a_text_without_mentions_stays_as_it_is(self, content: str) -> None:
        plain = content.replace("<@", "")
        assert readable(plain, ME, []) == plain.strip()

    @pytest.mark.parametrize(
        "event", ["MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_REACTION_ADD", "INTERACTION_CREATE"]
    )
    @pytest.mark.parametrize("data", [None, [], "x", {}, {"author": None}])
    def test_data_of_another_shape_is_no_message(self, event: str, data: Any) -> None:
        assert to_inbound({"t": event, "d": data}, DiscordBot(ME), reactions="all") is None

    def test_system_lines_are_not_said_by_people(self) -> None:
        assert to_inbound(message(type=7), DiscordBot(ME)) is None  # somebody joined

    def test_a_nick_of_the_server_comes_before_a_name(self) -> None:
        inbound = to_inbound(message(member={"nick": "Al"}), DiscordBot(ME))
        assert inbound is not None and (inbound.sender.name, inbound.sender.username) == ("Al", "alice")

    def test_a_webhook_is_a_program_whatever_it_calls_itself(self) -> None:
        inbound = to_inbound(message(webhook_id="5"), DiscordBot(ME))
        assert inbound is not None and inbound.sender.is_bot

    def test_what_is_passed_on_is_read_with_its_files(self) -> None:
        inner = {
            "content": "old news",
            "attachments": [{"id": "7", "filename": "a.ogg", "content_type": "audio/ogg"}],
        }
        forward = message(
            "", message_reference={"type": 1, "message_id": "9"}, message_snapshots=[{"message": inner}]
        )
        inbound = to_inbound(forward, DiscordBot(ME))
        assert inbound is not None and (inbound.text, inbound.reply_to) == ("old news", None)
        assert inbound.around.forwarded_from and inbound.attachments[0].kind == "audio"

    def test_a_sticker_is_a_file_with_a_key_of_its_own(self) -> None:
        inbound = to_inbound(
            message("", sticker_items=[{"id": "8", "name": "wave", "format_type": 4}]), DiscordBot(ME)
        )
        assert inbound is not None
        [sticker] = inbound.attachments
        assert (sticker.kind, sticker.name, sticker.key) == ("sticker", "wave", "sticker:8.gif")

    @pytest.mark.parametrize(("format", "ending"), [(1, "png"), (2, "png"), (3, "json"), (4, "gif")])
    def test_a_sticker_of_each_format_has_its_ending(self, format: int, ending: str) -> None:
        inbound = to_inbound(
            message("", sticker_items=[{"id": "8", "name": "wave", "format_type": format}]), DiscordBot(ME)
        )
        assert inbound is not None and inbound.attachments[0].key == f"sticker:8.{ending}"

    def test_what_was_chosen_from_a_list_is_its_value(self) -> None:
        data = {"id": "9", "type": 3, "channel_id": CHANNEL, "user": {"id": ALICE}}
        chosen = to_inbound(
            {"t": "INTERACTION_CREATE", "d": data | {"data": {"custom_id": "list", "values": ["b"]}}},
            DiscordBot(ME),
        )
        assert chosen is not None and (chosen.kind, chosen.text) == ("button", "b")

    def test_everybody_is_not_us_and_an_answer_to_us_is(self) -> None:
        everyone = to_inbound(message("@everyone look", mention_everyone=True), DiscordBot(ME))
        answer = to_inbound(
            message("why?", referenced_message={"id": "5", "author": {"id": ME}}), DiscordBot(ME)
        )
        assert everyone is not None and answer is not None
        assert (everyone.mentions_us, answer.mentions_us) == (False, True)

    @pytest.mark.parametrize(("user", "by"), [(ALICE, ALICE), (ME, None), ("", None)])
    def test_a_reaction_of_the_bot_is_not_received(self, user: str, by: str | None) -> None:
        data = {"user_id": user, "channel_id": CHANNEL, "message_id": "5", "emoji": {"name": "👍"}}
        reaction = to_inbound(
            {"t": "MESSAGE_REACTION_ADD", "s": 3, "d": data}, DiscordBot(ME), reactions="all"
        )
        assert (reaction and reaction.sender.id) == by

    def test_a_post_in_a_forum_says_so(self) -> None:
        places = DiscordChats()
        forum = {"id": "1", "type": 15, "name": "help"}
        post = {"id": CHANNEL, "type": 11, "name": "my question", "parent_id": "1"}
        places.learn("GUILD_CREATE", {"id": GUILD, "name": "G", "channels": [forum], "threads": [post]})
        inbound = to_inbound(message(channel_type=11), DiscordBot(ME), places=places)
        assert inbound is not None
        assert (inbound.address.chat, inbound.address.thread) == ("1", CHANNEL)
        around = inbound.around
        assert (around.chat_name, around.thread_name, around.is_forum) == ("help", "my question", True)

    def test_places_follow_what_the_service_reports(self) -> None:
        places = DiscordChats()
        places.learn(
            "GUILD_CREATE", {"id": GUILD, "name": "G", "channels": [{"id": "1", "type": 0, "name": "a"}]}
        )
        places.learn("CHANNEL_UPDATE", {"id": "1", "type": 0, "name": "b", "guild_id": GUILD})
        places.learn(
            "THREAD_LIST_SYNC", {"guild_id": GUILD, "threads": [{"id": "2", "type": 12, "parent_id": "1"}]}
        )
        renamed, parent = places.get("1"), places.parent_of("2")
        assert renamed is not None and (renamed.name, renamed.guild_name) == ("b", "G") and parent == renamed
        places.learn("CHANNEL_DELETE", {"id": "1"})
        assert places.get("1") is None

    def test_ids_hold_their_time(self) -> None:
        assert sent_at(str(id_at(1_781_534_000.5))) == 1_781_534_000.5


TABLE = "| a | b |\n|---|---|\n| 1 | 中文 |"


def test_a_reconnect_of_the_library_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("discord.client")
    with caplog.at_level(logging.INFO):
        try:
            raise ConnectionResetError("the line broke")
        except ConnectionResetError:
            log.exception("Attempting a reconnect in %.2fs", 1.5)
            log.exception("Something else")
    first, second = caplog.records
    warning = "Attempting a reconnect in 1.50s: ConnectionResetError: the line broke"
    assert (first.getMessage(), first.exc_info) == (warning, None)
    assert second.exc_info, "what is not expected keeps its trace"


class TestWriting:
    def test_a_table_becomes_a_block_that_is_aligned(self) -> None:
        assert render(f"see\n{TABLE}\nend") == "see\n```\na | b\n--+-----\n1 | 中文\n```\nend"

    def test_what_is_in_a_block_of_code_is_left_alone(self) -> None:
        text = f"```md\n{TABLE}\n#### four\n```"
        assert render(text) == text

    def test_a_heading_too_deep_for_discord_is_bold(self) -> None:
        assert render("### three\n#### four ####") == "### three\n**four**"

    def test_a_text_that_is_no_markdown_is_shown_letter_for_letter(self) -> None:
        assert (
            escape_markdown("**/*.md _or_ a_b `x` ~~y~~ <@1>")
            == r"\*\*/\*.md \_or\_ a_b \`x\` \~\~y\~\~ \<@1>"
        )
        assert escape_markdown("# one\n> two #3 > 4") == "\\# one\n\\> two #3 > 4"

    @given(st.text(alphabet=st.sampled_from("|-: ab\n`#*~"), max_size=80))
    def test_rendering_twice_changes_nothing_more(self, text: str) -> None:
        once = render(text)
        assert render(once) == once

    @given(st.text(max_size=200))
    def test_no_word_is_lost(self, text: str) -> None:
        def alphanumeric(text: str) -> list[str]:
            return [char for char in text if char.isalnum()]

        assert alphanumeric(render(text)) == alphanumeric(text)

    def test_the_nonce_is_short_and_the_keys_alone(self) -> None:
        keys = [f"turn-{number}:0" for number in range(50)]
        nonces = {outbound.nonce(key) for key in keys}
        assert len(nonces) == 50 and {len(nonce) for nonce in nonces} == {25}

    def test_buttons_are_in_rows_of_five(self) -> None:
        buttons = [Button(f"b{number}", f"v{number}") for number in range(7)]
        assert [len(row["components"]) for row in outbound.components(buttons)] == [5, 2]
        with pytest.raises(DeliveryError, match="25 buttons"):
            outbound.components(buttons * 4)

    @pytest.mark.parametrize("value", ["", "x" * 101])
    def test_a_value_that_would_not_come_back_is_refused_before_it_is_sent(self, value: str) -> None:
        with pytest.raises(DeliveryError, match="100 characters") as refused:
            outbound.components([Button("?", value)])
        assert refused.value.permanent and outbound.components([Button("?", "x" * 100)])

    def test_what_is_too_long_for_its_place_is_cut_where_no_meaning_is_lost(self) -> None:
        [row] = outbound.components([Button("x" * 81, "v")])
        assert len(row["components"][0]["label"]) == 80
        asked = outbound.poll("q" * 301, ["o" * 56])["poll"]
        assert len(asked["question"]["text"]) == 300 and len(asked["answers"][0]["poll_media"]["text"]) == 55
        assert len(outbound.thread("t " * 80)["name"]) <= 100 and outbound.thread(" \n")["name"] == "claw"
        with pytest.raises(UsageError):
            outbound.poll("Which?", ["x"] * 11)

    def test_a_message_holds_two_thousand_characters_and_ten_megabytes(self) -> None:
        assert outbound.message(says("x" * 2000))["content"] and outbound.FILE_BYTES == 10 << 20
        with pytest.raises(DeliveryError, match="2000"):
            outbound.message(says("x" * 2001))

    def test_a_text_that_is_no_markdown_fits_also_when_its_signs_do_not(self) -> None:
        assert outbound.message(says("*" * 900, plain=True))["content"] == r"\*" * 900
        assert outbound.message(says("*" * 1900, plain=True))["content"] == "*" * 1900

    @pytest.mark.parametrize(
        ("written", "named"),
        [
            ("👍", "👍"),
            ("<:party:123>", "party:123"),
            ("<a:party:123>", "party:123"),
            ("party:123", "party:123"),
        ],
    )
    def test_an_emoji_is_named_as_a_route_wants_it(self, written: str, named: str) -> None:
        assert outbound.emoji(written) == named

    @pytest.mark.parametrize("text", ["", " \n"])
    def test_an_empty_text_is_no_message(self, text: str) -> None:
        with pytest.raises(DeliveryError) as refused:
            outbound.message(says(text))
        assert refused.value.permanent

    @pytest.mark.parametrize(
        ("status", "code", "permanent", "pause"),
        [(400, 50035, True, None), (403, 50001, True, None), (404, 10003, True, None), (401, 0, True, None),
         (500, 0, False, None), (503, 0, False, None), (408, 0, False, None), (429, 0, False, 7.5)],
    )  # fmt: skip
    def test_a_refusal_says_whether_another_try_may_help(
        self, status: int, code: int, permanent: bool, pause: float | None
    ) -> None:
        refused = outbound.refusal(status, code, "no", retry_after=7.5)
        assert (refused.permanent, refused.retry_after_seconds) == (permanent, pause)

    def test_the_page_of_a_proxy_says_nothing_of_the_message(self) -> None:
        assert not outbound.refusal(404, 0, "<html>404 Not Found</html>", is_page=True).permanent

    def test_a_pause_of_no_length_is_a_second(self) -> None:
        assert outbound.refusal(429, 0, "no").retry_after_seconds == 1.0


class TestWhatWasMissed:
    NOW = 1_781_534_000.0

    def gaps(
        self, seen: ReadPositions, *places: DiscordChat, joined: float = 0.0, limit: float = 3600.0
    ) -> list[tuple[str, int]]:
        return seen.guild_gaps(GUILD, places, joined=joined, now=self.NOW, limit_seconds=limit)

    def place(self, id: str, seconds_ago: float, kind: int = 0) -> DiscordChat:
        return DiscordChat(id, kind, newest=id_at(self.NOW - seconds_ago))

    def test_only_places_with_something_newer_are_asked(self) -> None:
        reaction = id_at(self.NOW - 100)
        seen = ReadPositions({"alive": self.NOW - 50, "chats": {"1": reaction, "2": reaction}})
        seen.begin(self.NOW)
        assert self.gaps(seen, DiscordChat("1", newest=reaction), self.place("2", 10)) == [("2", reaction)]

    def test_the_place_with_the_newest_words_is_asked_first(self) -> None:
        seen = ReadPositions({"alive": self.NOW - 500})
        seen.begin(self.NOW)
        places = [self.place(id, ago) for id, ago in (("1", 300), ("2", 10), ("3", 100))]
        assert [chat for chat, _ in self.gaps(seen, *places)] == ["2", "3", "1"]

    def test_what_came_shortly_before_the_last_sign_of_life_is_asked_for_too(self) -> None:
        seen = ReadPositions({"alive": self.NOW - 500})
        seen.begin(self.NOW)
        places = [self.place("1", 500 + 100), self.place("2", 500 + 140)]
        assert [chat for chat, _ in self.gaps(seen, *places)] == ["1"]

    def test_a_voice_channel_has_a_chat_and_a_category_has_none(self) -> None:
        seen = ReadPositions({"alive": self.NOW - 500})
        seen.begin(self.NOW)
        assert [
            chat for chat, _ in self.gaps(seen, self.place("1", 10, kind=2), self.place("2", 10, kind=4))
        ] == ["1"]

    def test_what_is_too_old_or_from_before_we_came_is_left(self) -> None:
        seen = ReadPositions({"alive": self.NOW - 90_000})
        seen.begin(self.NOW)
        assert self.gaps(seen, self.place("1", 4000)) == []
        seen.begin(self.NOW)
        assert self.gaps(seen, self.place("1", 1000), joined=self.NOW - 500) == []

    def test_what_comes_between_the_greeting_and_the_list_hides_nothing(self) -> None:
        reaction = id_at(self.NOW - 100)
        seen = ReadPositions({"alive": self.NOW - 100, "chats": {"1": reaction}})
        seen.begin(self.NOW)
        seen.took("1", str(id_at(self.NOW)))
        assert self.gaps(seen, self.place("1", 0)) == [("1", reaction)]

    def test_a_server_that_was_away_is_asked_from_where_it_went(self) -> None:
        seen = ReadPositions({"alive": self.NOW - 3000})
        seen.begin(self.NOW)
        assert self.gaps(seen, self.place("1", 2000)) != []
        seen.took("1", str(id_at(self.NOW - 2000)))
        assert self.gaps(seen, self.place("1", 2000)) == []

    def test_what_is_pending_survives_on_disk_and_is_never_passed_over(self) -> None:
        seen = ReadPositions()
        seen.begin(self.NOW)
        seen.took("1", "50")
        seen.add_pending("1", "61")
        seen.add_pending("1", "70")
        seen.took("1", "80")
        assert seen.pending == {"1": 60} and seen.noted()["chats"] == {"1": 60}
        seen.settle("1")
        assert seen.noted()["chats"] == {"1": 80}

    def test_direct_chats_are_asked_one_and_all(self) -> None:
        seen = ReadPositions(
            {"alive": self.NOW - 10, "chats": {"1": id_at(self.NOW - 60), "2": 5}, "direct": ["1"]}
        )
        seen.begin(self.NOW)
        assert seen.direct_gaps(self.NOW, 3600) == [("1", id_at(self.NOW - 60))]
        assert seen.direct_gaps(self.NOW, 0) == []

    def test_only_so_many_chats_are_remembered(self) -> None:
        seen = ReadPositions()
        for number in range(1100):
            seen.took(str(number), "1", direct=True)
        noted = seen.noted()
        assert len(noted["chats"]) == len(noted["direct"]) == 1000 and "1099" in noted["chats"]


class TestSettings:
    def registered(self, section: dict[str, Any], **environ: str) -> list[Any]:
        config = bench.plugin_config({"channels": {"discord": section}}, "discord", environ=environ)
        return bench.contributed(claw_discord, config)["register_channels"]

    def test_without_a_section_there_is_no_channel(self) -> None:
        assert bench.contributed(claw_discord, bench.plugin_config({}, "discord"))["register_channels"] == []

    @pytest.mark.parametrize("section", [{}, {"token": ""}, {"token": "  "}, {"token": {"env": "GONE"}}])
    def test_a_missing_token_starts_nothing_and_names_the_key(self, section: dict[str, Any]) -> None:
        with pytest.raises(ConfigError) as refused:
            self.registered(section)
        assert refused.value.key == "channels.discord.token"

    def test_a_variable_of_blanks_is_no_token(self) -> None:
        with pytest.raises(ConfigError, match="empty") as refused:
            self.registered({"token": {"env": "BLANK"}}, BLANK="  ")
        assert refused.value.key == "channels.discord.token"

    def test_the_token_may_come_from_the_environment(self) -> None:
        [channel] = self.registered({}, DISCORD_BOT_TOKEN="from-outside")
        assert channel.account == "default" and channel.state.state == "starting"

    def test_each_account_is_a_channel_of_its_own(self) -> None:
        accounts = {"work": {"token": "b"}, "off": {"token": "c", "enabled": False}}
        channels = self.registered({"token": "a", "accounts": accounts})
        assert [channel.account for channel in channels] == ["default", "work"]
        with pytest.raises(ConfigError) as refused:
            self.registered({"accounts": {"work": {}}})
        assert refused.value.key == "channels.discord.accounts.work.token"

    def test_a_second_account_with_one_token_is_refused_and_both_keys_are_named(self) -> None:
        section = {"token": "a", "accounts": {"b": {"autoThread": True}, "c": {"token": "c"}}}
        config = bench.plugin_config({"channels": {"discord": section}}, "discord")
        *channels, unavailable = bench.contributed(claw_discord, config)["register_channels"]
        assert [channel.account for channel in channels] == ["default", "c"]
        refused = unavailable.error
        assert (
            refused.key == "channels.discord.accounts.b.token" and "channels.discord.token" in refused.problem
        )

    def test_two_accounts_cannot_live_on_two_discords(self) -> None:
        accounts = {"work": {"token": "b", "apiBase": "http://127.0.0.1:1/api/v10"}}
        with pytest.raises(ConfigError, match="one Discord only"):
            self.registered({"token": "a", "accounts": accounts})

    @pytest.mark.parametrize(
        "section",
        [
            {"apiBase": "discord.com"},
            {"apiBase": "https://"},
            {"gatewayUrl": "https://gateway"},
            {"tokn": "x"},
        ],
    )
    def test_what_cannot_be_is_refused_before_anything_starts(self, section: dict[str, Any]) -> None:
        with pytest.raises(ConfigError) as refused:
            self.registered({"token": "a", **section})
        assert refused.value.key == f"channels.discord.{next(iter(section))}" and refused.value.fix

    def test_the_token_shows_nowhere(self) -> None:
        [channel] = self.registered({"token": "very-secret-token"})
        assert "very-secret" not in repr(channel) + repr(vars(channel)) + repr(channel._settings)
