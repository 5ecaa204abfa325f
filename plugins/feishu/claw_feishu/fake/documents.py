"""Fake documents and wikis."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from claw_feishu.fake.cards import ok, refusal
from claw_feishu.fake.server import FakeAnswer, FakeCall
from claw_feishu.fake.shapes import Repeats, Route, page, unfit

DOC_GONE, DOC_UNFIT, WIKI_GONE = 1770002, 1770001, 131005
BLOCKS_A_CALL = 50
_RUN = {"elements": [{"text_run": {"content": str, "text_element_style?": object}}], "style?": object}
_KINDS = {2: "text", 12: "bullet", 13: "ordered", 14: "code", 15: "quote", 22: "divider"} | {
    n + 2: f"heading{n}" for n in range(1, 10)
}
_TEXTS = {f"{name}?": _RUN for name in _KINDS.values() if name != "divider"}
_BLOCK = {"block_type": tuple(_KINDS), **_TEXTS, "divider?": {}}


@dataclass
class FakeDocument:
    """A document.

    :ivar blocks: by id; the document's own block first.
    """

    title: str
    folder: str
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    revision: int = 1


class FakeDocuments:
    """The stored documents of the type docx.

    :param fresh: returns an unused id with a prefix.
    :ivar all: by id.
    """

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self._fresh, self._repeats = fresh, Repeats()
        self.all: dict[str, FakeDocument] = {}

    def routes(self) -> Iterator[Route]:
        """Yield method, path as a regular expression, and handler."""
        doc = "/open-apis/docx/v1/documents"
        yield "POST", doc, self._create
        yield "GET", rf"{doc}/(\w+)", self._doc
        yield "GET", rf"{doc}/(\w+)/raw_content", self._text
        yield "GET", rf"{doc}/(\w+)/blocks", self._blocks
        yield "POST", rf"{doc}/(\w+)/blocks/(\w+)/children", self._append

    def _create(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if fault := unfit(call, body={"title?": str, "folder_token?": str}):
            return fault
        id = self.make(call.body.get("title", ""), call.body.get("folder_token", ""))
        return ok({"document": self._block_json(id)})

    def make(self, title: str, folder: str = "") -> str:
        """Create a document; return its id."""
        id = self._fresh("docx")
        page = {"block_id": id, "block_type": 1, "parent_id": "", "children": []}
        self.all[id] = FakeDocument(title, folder, {id: page})
        return id

    def _block_json(self, id: str) -> dict[str, Any]:
        one = self.all[id]
        return {"document_id": id, "revision_id": one.revision, "title": one.title}

    def _doc(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if found[1] not in self.all:
            return refusal(DOC_GONE, "not found", 404)
        return unfit(call) or ok({"document": self._block_json(found[1])})

    def _text(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if found[1] not in self.all:
            return refusal(DOC_GONE, "not found", 404)
        return unfit(call, query={"lang?": int}) or ok({"content": self.text_of(found[1])})

    def text_of(self, id: str) -> str:
        """Return the visible text of a document."""
        lines = [self.all[id].title]
        for block in self._in_order(id, id):
            runs = block.get(_KINDS.get(block["block_type"], ""), {}).get("elements", ())
            if block["block_type"] != 1:
                lines.append("".join(run["text_run"]["content"] for run in runs))
        return "\n".join(lines) + "\n"

    def _blocks(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if found[1] not in self.all:
            return refusal(DOC_GONE, "not found", 404)
        if fault := unfit(call, query={"page_size?": int, "page_token?": str}):
            return fault
        return page(call, "items", list(self._in_order(found[1], found[1])), 500)

    def _in_order(self, id: str, block: str) -> Iterator[dict[str, Any]]:
        """Yield a block of a document and all below it, in reading order."""
        yield self.all[id].blocks[block]
        for child in self.all[id].blocks[block].get("children", ()):
            yield from self._in_order(id, child)

    def _append(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        document = self.all.get(found[1])
        if document is None or found[2] not in document.blocks:
            return refusal(DOC_GONE, "not found", 404)
        query = {"document_revision_id": ("-1",), "client_token?": str}
        if fault := unfit(call, query=query, body={"children": [_BLOCK], "index?": int}):
            return fault
        children = call.body["children"]
        wrong = any(_KINDS[one["block_type"]] not in one for one in children)
        if wrong or not 1 <= len(children) <= BLOCKS_A_CALL:
            return refusal(1770001, "invalid param")
        return self._repeats.answer(
            call.query.get("client_token", ""),
            lambda: self._put(document, found[2], children, call.body.get("index", -1)),
        )

    def _put(
        self, document: FakeDocument, under: str, children: list[dict[str, Any]], index: int
    ) -> dict[str, Any]:
        made = [{"block_id": self._fresh("dox"), "parent_id": under, **one} for one in children]
        document.blocks.update({one["block_id"]: one for one in made})
        there = document.blocks[under].setdefault("children", [])
        at = len(there) if index < 0 else index
        there[at:at] = [one["block_id"] for one in made]
        document.revision += 1
        return {"children": made, "document_revision_id": document.revision, "client_token": ""}


class FakeWiki:
    """Spaces and their nodes; a node of the type docx has a document.

    :ivar spaces: by id; ``nodes`` by token.
    """

    def __init__(self, fresh: Callable[[str], str], documents: FakeDocuments) -> None:
        self._fresh, self._documents = fresh, documents
        self.spaces: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}

    def routes(self) -> Iterator[Route]:
        """Yield method, path as a regular expression, and handler."""
        wiki = "/open-apis/wiki/v2/spaces"
        yield "GET", wiki, self._spaces
        yield "GET", f"{wiki}/get_node", self._node
        yield "GET", rf"{wiki}/(\w+)/nodes", self._nodes
        yield "POST", rf"{wiki}/(\w+)/nodes", self._make_node
        yield "POST", rf"{wiki}/(\w+)/nodes/(\w+)/update_title", self._rename

    def space(self, name: str) -> str:
        """Create a wiki space that the app belongs to; return its id."""
        id = str(7000000000000000000 + len(self.spaces))
        self.spaces[id] = {"space_id": id, "name": name, "description": "", "space_type": "team"}
        return id

    def _spaces(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        fault = unfit(call, query={"page_size?": int, "page_token?": str})
        return fault or page(call, "items", list(self.spaces.values()), 50)

    def _node(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if fault := unfit(call, query={"token": str, "obj_type?": str}):
            return fault
        node = self.nodes.get(call.query["token"])
        return ok({"node": node}) if node else refusal(WIKI_GONE, "not found: node")

    def _nodes(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        query = {"page_size?": int, "page_token?": str, "parent_node_token?": str}
        if fault := unfit(call, query=query):
            return fault
        if found[1] not in self.spaces:
            return refusal(WIKI_GONE, "not found: space")
        below = call.query.get("parent_node_token", "")
        nodes = self.nodes.values()
        here = [one for one in nodes if (one["space_id"], one["parent_node_token"]) == (found[1], below)]
        return page(call, "items", here, 50)

    def _make_node(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        body = {
            "obj_type": ("docx", "sheet", "bitable", "mindnote"), "node_type": ("origin",),
            "parent_node_token?": str, "title?": str,
        }  # fmt: skip
        if fault := unfit(call, body=body):
            return fault
        parent = call.body.get("parent_node_token", "")
        if found[1] not in self.spaces or (parent and parent not in self.nodes):
            return refusal(WIKI_GONE, "not found")
        title, kind, token = call.body.get("title", ""), call.body["obj_type"], self._fresh("wik")
        object_token = self._documents.make(title) if kind == "docx" else self._fresh(kind)
        self.nodes[token] = {
            "space_id": found[1], "node_token": token, "obj_token": object_token, "obj_type": kind,
            "parent_node_token": parent, "node_type": "origin", "has_child": False, "title": title,
        }  # fmt: skip
        if parent:
            self.nodes[parent]["has_child"] = True
        return ok({"node": self.nodes[token]})

    def _rename(self, call: FakeCall, found: "re.Match[str]") -> FakeAnswer:
        if fault := unfit(call, body={"title": str}):
            return fault
        if found[2] not in self.nodes:
            return refusal(WIKI_GONE, "not found: node")
        self.nodes[found[2]]["title"] = call.body["title"]
        return ok({})
