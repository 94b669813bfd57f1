"""Many documents, written in requests that a service takes:

    documents -> batches -> one request each -> the items that may be tried again -> results in order

One batch is done with before the next one is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from typing import Final

from knowledge_store_sdk._http import pause
from knowledge_store_sdk._wire import Encoded, Wire, encoded
from knowledge_store_sdk.errors import InternalError
from knowledge_store_sdk.models import MAX_BULK_DOCUMENTS, BulkResult, KnowledgeDocument, WriteResult

MAX_BATCH_BYTES: Final = 4 * 1024 * 1024


async def batches(
    documents: Iterable[KnowledgeDocument] | AsyncIterable[KnowledgeDocument],
) -> AsyncGenerator[list[Encoded], None]:
    """The documents in order, at most 1,000 and about 4 MiB of JSON at a time, read only as they are needed.

    No id stands twice in one batch: of two documents with one id the later must be written later, whatever is tried
    again in between.
    """
    batch: dict[str, Encoded] = {}
    size = 0
    async for document in _each(documents):
        one = encoded(document)
        full = len(batch) == MAX_BULK_DOCUMENTS or size + len(one.json) > MAX_BATCH_BYTES
        if batch and (full or one.id in batch):
            yield list(batch.values())
            batch, size = {}, 0
        batch[one.id] = one
        size += len(one.json) + 1
    if batch:
        yield list(batch.values())


async def write_batch(wire: Wire, batch: list[Encoded], *, refresh: bool, retries: int) -> list[WriteResult]:
    """One result a document, in order. What failed and may be tried again is sent again, alone and a bounded number of
    times; what was stored, or refused for good, is not."""
    results: dict[str, WriteResult] = {}
    left = batch
    for attempt in range(retries + 1):
        answer = await wire.bulk_upsert(left, refresh=refresh)
        told = [one.id for one in answer.results if one.state == "stored"]
        if len(answer.results) != len(left) or not set(told) <= {one.id for one in left}:
            raise InternalError(f"{len(answer.results)} results came back for {len(left)} documents, or for others")
        results.update((sent.id, result) for sent, result in zip(left, answer.results, strict=True))
        left = [one for one in left if _may_be_tried_again(results[one.id])]
        if not left:
            break
        if attempt < retries:
            await asyncio.sleep(pause(attempt, None))
    return [results[one.id] for one in batch]


def merged(results: Iterable[WriteResult]) -> BulkResult:
    """The results with their counts, which add up to their number."""
    every = tuple(results)
    stored = sum(one.state == "stored" for one in every)
    return BulkResult(stored=stored, failed=len(every) - stored, results=every)


def _may_be_tried_again(result: WriteResult) -> bool:
    return result.error is not None and result.error.retryable


async def _each(
    documents: Iterable[KnowledgeDocument] | AsyncIterable[KnowledgeDocument],
) -> AsyncIterator[KnowledgeDocument]:
    if isinstance(documents, AsyncIterable):
        async for document in documents:
            yield document
    else:
        for document in documents:
            yield document
