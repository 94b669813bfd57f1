"""What is stored comes back unchanged, whatever it is made of, on either backend."""

from __future__ import annotations

import json
from typing import Any

import pytest

from knowledge_store_sdk import KnowledgeDocument
from tests.service.serving import Service

FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}\u200d\N{BOY}"
CONTENTS = {
    "one byte": "x",
    "64 KiB": ("a line of text\n" * 4_500)[: 64 * 1024],
    "64 KiB of four-byte characters": "\N{OLD ITALIC LETTER A}" * (16 * 1024),
    "control characters": "".join(chr(code) for code in (*range(1, 32), 127, *range(128, 160))),
    "right to left": "\u202eمرحبا بالعالم\u202c שלום",
    "emoji": f"{FAMILY} \N{WAVING HAND SIGN}\N{EMOJI MODIFIER FITZPATRICK TYPE-6} 🇩🇪 ❤️",
    "unnormalised": "e\u0301 \u212b \ufb01",
    "line ends": "a\r\nb\rc\nd\u2028e\u2029f\x0b\x0c",
    "space around": "  \n\t text \u00a0 ",
    "noncharacters": "\ufffe\uffff\ufeff",
}
IDS = [
    "stats",
    "documents",
    "query",
    "a/b/../c//d",
    "#fragment?query=1&x=%20",
    "100% sure",
    " leading and trailing ",
    "..",
    "\n\t",
    "É\u0301 Straße " + FAMILY,
    "x" * 2_048,
    "/#% \N{OLD ITALIC LETTER A}" * 409,
    "_internal",
    "a+b|c",
]


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"leaf": True}
    for _ in range(levels - 1):
        value = {"level": value}
    return value


METADATA: dict[str, dict[str, Any]] = {
    "50 levels": deep(50),
    "10,000 keys": {f"key {n}": n for n in range(10_000)},
    "integers of 15 digits": {"n": 999_999_999_999_999, "m": -123_456_789_012_345, "big": 2**63 - 1, "u": 2**64 - 1},
    "numbers": {"pi": 3.141592653589793, "small": 5e-324, "large": 1.7976931348623157e308, "minus": -0.0, "one": 1.0},
    "strange keys": {"": 1, ".": 2, "a.b": 3, " ": 4, "$ref": 5, "_id": 6, "\u202e": 7, "__proto__": {"x": 1}},
    "mixed types": {"a": [1, "1", None, True, {"a": []}], "b": {}, "c": []},
    "what would clash in a mapping": {"date": "2026-01-01", "n": "text", "content": {"x": 1}, "tags": 7},
}


@pytest.mark.parametrize("name", CONTENTS)
async def test_content_comes_back_verbatim(service: Service, name: str) -> None:
    document = KnowledgeDocument(id="a", content=CONTENTS[name], tags=["t"])
    await service.client.upsert(document, refresh=True)
    assert (await service.client.get("a")).content == CONTENTS[name]
    (listed,) = (await service.ask(text="", tags="t"))["documents"]
    assert listed["content"] == CONTENTS[name]
    assert listed["citation"]["content_hash"] == document.content_hash


async def test_ids_come_back_verbatim_and_stay_apart(service: Service) -> None:
    documents = [KnowledgeDocument(id=id, content=f"document {at}") for at, id in enumerate(IDS)]
    result = await service.client.bulk_upsert(documents, refresh=True)
    assert result.stored == len(IDS)
    for at, id in enumerate(IDS):
        found = await service.client.get(id)
        assert (found.id, found.content) == (id, f"document {at}")
    listed = {one.id async for one in service.client.list()}
    assert listed == set(IDS)
    for left, id in enumerate(reversed(IDS)):
        await service.client.delete(id)
        if left % 5 == 0:
            with pytest.raises(Exception, match="no document"):
                await service.client.get(id)
    assert (await service.client.stats()).total in range(len(IDS) + 1)


@pytest.mark.parametrize("name", METADATA)
async def test_metadata_comes_back_as_it_was_sent(service: Service, name: str) -> None:
    body = {"id": "a", "content": "alpha", "metadata": METADATA[name]}
    async with service.http.post("/api/v1/knowledge/upsert?refresh=wait_for", json=body) as response:
        assert response.status == 200, await response.text()
    async with service.http.get("/api/v1/knowledge/documents", params={"id": "a"}) as response:
        stored = json.loads(await response.read())["metadata"]
    assert stored == METADATA[name]
    assert json.dumps(stored) == json.dumps(METADATA[name])  # 1.0 stays 1.0, and the order of the keys stays
    (found,) = (await service.ask(text="alpha"))["documents"]
    assert found["metadata"] == METADATA[name]


async def test_metadata_is_never_searched(service: Service) -> None:
    await service.client.upsert(KnowledgeDocument(id="a", content="alpha", metadata={"word": "zebra"}), refresh=True)
    assert (await service.ask(text="zebra", mode="keyword"))["documents"] == []


async def test_a_thousand_tags_all_filter(service: Service) -> None:
    tags = [f"tag-{n}" for n in range(1_000)]
    await service.client.upsert(KnowledgeDocument(id="a", content="alpha", tags=tags), refresh=True)
    assert list((await service.client.get("a")).tags) == tags
    for tag in (tags[0], tags[499], tags[999]):
        assert [one["id"] for one in (await service.ask(text="alpha", tags=tag))["documents"]] == ["a"]
    assert len((await service.client.stats()).tags) == 1_000


async def test_every_other_field_comes_back_as_it_was_sent(service: Service) -> None:
    body = {
        "id": "a",
        "content": "alpha",
        "tags": ["x", "x", "b"],
        "source": "wiki",
        "updated_at": "2026-01-02T03:04:05.678901+05:30",
        "expires_at": "2199-12-31T23:59:59.999999Z",
        "uri": "confluence://SRE/12345?x=%20#ü",
        "title": " Title ",
        "section": "A › B",
        "context": "A\nB",
        "revision": "r 1",
        "locator": {"type": "pdf", "page": 3, "boxes": [{"x0": 0.1, "top": 2.0, "x1": 3.5, "bottom": 4.0}]},
    }
    async with service.http.post("/api/v1/knowledge/upsert?refresh=wait_for", json=body) as response:
        assert response.status == 200, await response.text()
    (found,) = (await service.ask(text="alpha"))["documents"]
    assert {name: found[name] for name in body} == body
    assert found["citation"]["locator"] == body["locator"]
