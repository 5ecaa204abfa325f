"""Tools for wikis (知识库). Facts: open.feishu.cn, "Docs > Wiki": a node is a place in a space, its object the
document there."""

from typing import Any, Literal

from claw import Tool, ToolContext, tool

from claw_feishu.tools.sdk import READS, WRITES, Sdk, id_in, needed, token_in


class WikiTools:
    """The tools for wikis."""

    def __init__(self, sdk: Sdk) -> None:
        self._sdk = sdk

    def tools(self) -> tuple[Tool, ...]:
        """Return the read tool and the write tool."""
        reads, writes = tool(name="feishu_wiki_read", **READS), tool(name="feishu_wiki_write", **WRITES)
        return reads(self.read), writes(self.write)

    async def read(
        self,
        action: Literal["spaces", "node", "nodes"],
        context: ToolContext,
        space: str = "",
        node: str = "",
        page_token: str = "",
        account: str = "",
    ) -> dict[str, Any]:
        """Look round in Feishu's wikis: the spaces that the app is in, one node, or the nodes below a place.

        A node names its document: read it by its obj_token with the tool for its obj_type.

        :param space: id of a space; for nodes.
        :param node: token or address of a node; for nodes the one to look below, empty = the top.
        :param page_token: of the page before this one.
        :param account: account of the app, when there are several.
        """
        if action == "spaces":
            return await self._sdk.ask(context, account, _spaces(page_token))
        if action == "node":
            needed(action, node=node)
            return await self._sdk.ask(context, account, _node(token_in(node)))
        needed(action, space=space)
        return await self._sdk.ask(context, account, _nodes(id_in(space), token_in(node), page_token))

    async def write(
        self,
        action: Literal["create", "rename"],
        space: str,
        title: str,
        context: ToolContext,
        node: str = "",
        kind: Literal["docx", "sheet", "bitable", "mindnote"] = "docx",
        account: str = "",
    ) -> dict[str, Any]:
        """Make a node in a Feishu wiki, with a new document in it, or give a node another title.

        :param space: id of the space.
        :param title: of the new document, or the new title.
        :param node: token of the node to make it below (empty = at the top), or of the one to rename.
        :param kind: what the new document is.
        :param account: account of the app, when there are several.
        """
        if action == "create":
            return await self._sdk.ask(context, account, _create(id_in(space), token_in(node), kind, title))
        needed(action, node=node)
        await self._sdk.ask(context, account, _rename(id_in(space), token_in(node), title))
        return {"node_token": token_in(node), "title": title}


def _spaces(page_token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.wiki.v2 import ListSpaceRequest

        request = ListSpaceRequest.builder().page_size(50)
        if page_token:
            request.page_token(page_token)
        return client.wiki.v2.space.list(request.build(), option)

    return call


def _node(token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.wiki.v2 import GetNodeSpaceRequest

        return client.wiki.v2.space.get_node(GetNodeSpaceRequest.builder().token(token).build(), option)

    return call


def _nodes(space: str, parent: str, page_token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.wiki.v2 import ListSpaceNodeRequest

        request = ListSpaceNodeRequest.builder().space_id(space).page_size(50)
        if parent:
            request.parent_node_token(parent)
        if page_token:
            request.page_token(page_token)
        return client.wiki.v2.space_node.list(request.build(), option)

    return call


def _create(space: str, parent: str, kind: str, title: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.wiki.v2 import CreateSpaceNodeRequest, Node

        node = Node(
            {"obj_type": kind, "node_type": "origin", "parent_node_token": parent or None, "title": title}
        )
        request = CreateSpaceNodeRequest.builder().space_id(space).request_body(node).build()
        return client.wiki.v2.space_node.create(request, option)

    return call


def _rename(space: str, token: str, title: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.wiki.v2 import UpdateTitleSpaceNodeRequest, UpdateTitleSpaceNodeRequestBody

        body = UpdateTitleSpaceNodeRequestBody({"title": title})
        request = UpdateTitleSpaceNodeRequest.builder().space_id(space).node_token(token)
        return client.wiki.v2.space_node.update_title(request.request_body(body).build(), option)

    return call
