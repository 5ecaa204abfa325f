"""Ids that a model names: of this chat alone, and never a way to another part of the service."""

import pytest
from claw import Address, DeliveryError
from claw_feishu.fake import FakeFeishu
from claw_feishu.tenant import FeishuError
from hypothesis import given, strategies as st
from plugins.feishu.places import channel, outbound, shown

HERE, THERE = Address("feishu", "oc_here"), Address("feishu", "oc_there")
ACTS = ("edit", "delete", "react", "take off")


async def act(us, what: str, message_id: str) -> None:
    if what == "edit":
        await us.edit(HERE, message_id, "changed")
    elif what == "delete":
        await us.delete(HERE, message_id)
    else:
        await us.react(HERE, message_id, "👍", what == "take off")


@pytest.mark.parametrize("what", ACTS)
@pytest.mark.parametrize(
    "id", ["../chats/oc_there?x=", "..", "om_1/../../chats/oc_there", "om_1#", "om_1%2F..", ""]
)
async def test_an_id_is_no_path_to_another_part_of_the_service(what: str, id: str) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.tenant.token()
        before = len(feishu.log)
        with pytest.raises(DeliveryError, match="there is no message"):
            await act(us, what, id)
        assert feishu.log[before:] == []


@pytest.mark.parametrize("id", ["../chats/oc_there?x=", "..", "nothing", "om_gone"])
async def test_an_answer_to_no_message_is_said_all_the_same(id: str) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.send(outbound(text="hello", chat="oc_here", reply_to=id))
        assert [(one.chat_id, one.reply_to) for one in feishu.ours] == [("oc_here", "")]


@pytest.mark.parametrize("knows", [True, False], ids=["of this run", "of a run before"])
@pytest.mark.parametrize("what", ACTS)
async def test_nothing_is_done_to_a_message_of_another_chat(what: str, knows: bool) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us, channel(feishu) as later:
        [id] = (await us.send(outbound(text="theirs", chat="oc_there"))).message_ids
        with pytest.raises(DeliveryError, match=f"there is no message {id} in this chat"):
            await act(us if knows else later, what, id)
        assert shown(feishu) == ["theirs"]


@pytest.mark.parametrize("knows", [True, False], ids=["of this run", "of a run before"])
async def test_an_answer_to_a_message_of_another_chat_stays_in_this_one(knows: bool) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us, channel(feishu) as later:
        [id] = (await us.send(outbound(text="theirs", chat="oc_there"))).message_ids
        await (us if knows else later).send(outbound(text="ours", key="k2", chat="oc_here", reply_to=id))
        assert [(one.chat_id, one.reply_to) for one in feishu.ours] == [("oc_there", ""), ("oc_here", "")]


@pytest.mark.parametrize("knows", [True, False], ids=["of this run", "of a run before"])
async def test_an_older_message_of_the_chat_can_be_answered_and_changed(knows: bool) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us, channel(feishu) as later:
        [id] = (await us.send(outbound(text="**one**", chat="oc_here"))).message_ids
        one = us if knows else later
        await act(one, "edit", id)
        await one.send(outbound(text="two", key="k2", chat="oc_here", reply_to=id))
        assert shown(feishu) == ["changed", "two"] and feishu.ours[1].reply_to == id


async def test_while_nobody_can_say_where_a_message_is_it_is_tried_again() -> None:
    from claw_feishu.fake import FakeAnswer

    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.fail("GET /open-apis/im/v1/messages/om_1", FakeAnswer(503))
        with pytest.raises(FeishuError) as refused:
            await us.send(outbound(text="hello", chat="oc_here", reply_to="om_1"))
        assert not refused.value.permanent and feishu.ours == []


@given(st.text(st.sampled_from("./?#%\\om_1 \n"), max_size=12))
def test_no_id_leads_out_of_its_place(id: str) -> None:
    import httpx2
    from claw_feishu.tenant import _PATH

    path = f"/open-apis/im/v1/messages/{id}/reply"
    if _PATH.fullmatch(path):
        assert httpx2.URL(f"https://open.feishu.cn{path}").raw_path.decode() == path
