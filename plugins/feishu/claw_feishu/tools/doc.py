"""Tools for documents (docx). Facts: open.feishu.cn, "Docs > Document" (block types, 50 blocks a call)."""

import re
from collections.abc import Iterator
from typing import Any, Literal

from claw import Tool, ToolContext, ToolError, tool

from claw_feishu.tools.sdk import READS, WRITES, Sdk, id_in, needed, once_token, share, token_in

BLOCKS_A_CALL = 50
_TEXT, _HEADING, _BULLET, _ORDERED, _CODE, _QUOTE, _DIVIDER = 2, 3, 12, 13, 14, 15, 22
_LINES = (
    (re.compile(r"(#{1,6})\s+(.*)"), lambda m: _block(_HEADING + len(m[1]) - 1, f"heading{len(m[1])}", m[2])),
    (re.compile(r"\s*[-*+]\s+(.*)"), lambda m: _block(_BULLET, "bullet", m[1])),
    (re.compile(r"\s*\d+[.)]\s+(.*)"), lambda m: _block(_ORDERED, "ordered", m[1])),
    (re.compile(r">\s?(.*)"), lambda m: _block(_QUOTE, "quote", m[1])),
    (re.compile(r"(?:-{3,}|\*{3,}|_{3,})\s*"), lambda m: {"block_type": _DIVIDER, "divider": {}}),
)


class DocumentTools:
    """The tools for documents."""

    def __init__(self, sdk: Sdk) -> None:
        self._sdk = sdk

    def tools(self) -> tuple[Tool, ...]:
        """Return the read tool and the write tool."""
        reads, writes = tool(name="feishu_doc_read", **READS), tool(name="feishu_doc_write", **WRITES)
        return reads(self.read), writes(self.write)

    async def read(
        self,
        action: Literal["text", "blocks", "info"],
        document: str,
        context: ToolContext,
        page_token: str = "",
        account: str = "",
    ) -> dict[str, Any]:
        """Read a Feishu document: its plain text, its blocks with their ids, or its title and revision.

        :param document: id of the document, or its address.
        :param page_token: of the page of blocks before this one.
        :param account: account of the app, when there are several.
        """
        id = token_in(document)
        if action == "blocks":
            return await self._sdk.ask(context, account, _blocks(id, page_token))
        return await self._sdk.ask(context, account, _text(id) if action == "text" else _info(id))

    async def write(
        self,
        action: Literal["create", "append", "share"],
        context: ToolContext,
        *,
        document: str = "",
        title: str = "",
        folder: str = "",
        markdown: str = "",
        under: str = "",
        people: list[str] | None = None,
        perm: Literal["view", "edit", "full_access"] = "edit",
        account: str = "",
    ) -> dict[str, Any]:
        """Make a Feishu document, write at its end, or let people at it (until then only the app sees what it made).

        :param document: id or address; for append and share.
        :param title: of a new one.
        :param folder: token of the folder for a new one; empty = the app's own.
        :param markdown: what to write: headings, lists, quotes, fenced code; other lines as they are.
        :param under: id of the block to write under; empty = the document itself.
        :param people: open ids (ou_…) to share with.
        :param account: account of the app, when there are several.
        """
        id = token_in(document)
        if action == "create":
            needed(action, title=title)
            made = (await self._sdk.ask(context, account, _create(title, folder)))["document"]
            if markdown:
                try:
                    await append(self._sdk, context, account, str(made["document_id"]), "", markdown)
                except ToolError as why:
                    raise ToolError(
                        "document {id} was made, its text was not written: {why}",
                        id=made["document_id"],
                        why=why,
                    ) from why
            return dict(made)
        if action == "share":
            needed(action, document=id, people=people)
            return await share(self._sdk, context, account, id, "docx", people or [], perm)
        needed(action, document=id, markdown=markdown)
        return await append(self._sdk, context, account, id, under, markdown)


async def append(
    sdk: Sdk, context: ToolContext, account: str, id: str, under: str, markdown: str
) -> dict[str, Any]:
    """Append Markdown at the end of a block, in as many calls as needed."""
    blocks, made = list(blocks_of(markdown)), []
    for at in range(0, len(blocks), BLOCKS_A_CALL):
        call = _append(id, id_in(under) or id, blocks[at : at + BLOCKS_A_CALL], once_token(context, str(at)))
        done = await sdk.ask(context, account, call)
        made += [one["block_id"] for one in done.get("children") or ()]
    return {"document_id": id, "block_ids": made}


def blocks_of(markdown: str) -> Iterator[dict[str, Any]]:
    """Yield the blocks for Markdown in the service's form. Pure. Inline marks stay unchanged."""
    code: list[str] | None = None
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            if code is not None:
                yield _block(_CODE, "code", "\n".join(code))
            code = [] if code is None else None
        elif code is not None:
            code.append(line)
        elif line.strip():
            yield next(
                (make(found) for form, make in _LINES if (found := form.fullmatch(line))), None
            ) or _block(_TEXT, "text", line)
    if code:
        yield _block(_CODE, "code", "\n".join(code))


def _block(kind: int, name: str, text: str) -> dict[str, Any]:
    return {"block_type": kind, name: {"elements": [{"text_run": {"content": text}}]}}


def _text(id: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.docx.v1 import RawContentDocumentRequest

        request = RawContentDocumentRequest.builder().document_id(id).lang(0).build()
        return client.docx.v1.document.raw_content(request, option)

    return call


def _info(id: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.docx.v1 import GetDocumentRequest

        return client.docx.v1.document.get(GetDocumentRequest.builder().document_id(id).build(), option)

    return call


def _blocks(id: str, page_token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.docx.v1 import ListDocumentBlockRequest

        request = ListDocumentBlockRequest.builder().document_id(id).page_size(100)
        if page_token:
            request.page_token(page_token)
        return client.docx.v1.document_block.list(request.build(), option)

    return call


def _create(title: str, folder: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.docx.v1 import CreateDocumentRequest, CreateDocumentRequestBody

        body = CreateDocumentRequestBody({"title": title, "folder_token": token_in(folder) or None})
        return client.docx.v1.document.create(
            CreateDocumentRequest.builder().request_body(body).build(), option
        )

    return call


def _append(id: str, under: str, blocks: list[dict[str, Any]], token: str) -> Any:
    def call(client: Any, option: Any) -> Any:
        from lark_oapi.api.docx.v1 import (
            CreateDocumentBlockChildrenRequest,
            CreateDocumentBlockChildrenRequestBody,
        )

        body = CreateDocumentBlockChildrenRequestBody({"children": blocks, "index": -1})
        request = CreateDocumentBlockChildrenRequest.builder().document_id(id).block_id(under)
        request = request.document_revision_id(-1).client_token(token).request_body(body)
        return client.docx.v1.document_block_children.create(request.build(), option)

    return call
