"""How fast a question is answered, in one run that takes turns with the official client on the same node and data.

record what the service asks -> take turns: bare _msearch, the same requests, POST /query -> ratios of medians
-> batches of five -> 16 at a time, in turns -> ratio of throughputs, CPU time of each -> answers from the cache

`bare` is one `_msearch` of both legs, `same` everything that the service asks; `json` is the client as it comes,
without it the client is as fast as it can be (orjson). The service is asked over a bare socket, for little CPU.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from statistics import fmean, median, quantiles
from typing import Any, Final

import orjson

from benchmarks.process import ServiceProcess, cpu_s, service
from benchmarks.recorder import recorder
from benchmarks.reference import Recorded, Reference
from benchmarks.report import Figure, figures
from benchmarks.stage import TOP_K, Stage, ask_all
from benchmarks.synthetic import TAG
from benchmarks.wire import Wire, request

PARALLEL: Final = 16
ROUNDS: Final = 3  # passes over all questions
BLOCKS: Final = 4  # turns of each contender with all clients at once
BLOCK_S: Final = 6.0
_BATCH: Final = 5
_WARM_UP: Final = 50

Call = Callable[[], Awaitable[Any]]


async def run(stage: Stage, *, quick: bool) -> None:
    """Prints the table."""
    rounds, blocks, parallel_s = (1, 2, 2.0) if quick else (ROUNDS, BLOCKS, BLOCK_S)
    requests = stage.requests()
    recorded = await record(stage, requests)
    async with service(stage.folder / "subject", stage.settings()) as subject:
        await ask_all(subject, requests)
        rows = await _one_at_a_time(stage, subject, requests, recorded, rounds)
        rows += await _batches(stage, subject, requests)
        rows += await _in_parallel(stage, subject, requests, recorded, parallel_s, blocks)
    async with service(stage.folder / "caching", stage.settings(ttl_s=3600)) as subject:
        rows.append(await _from_the_cache(subject, requests))
    figures(f"How fast: {len(stage.data.documents):,} chunks, tag filter, cache off, top_k {TOP_K}", rows)


async def record(stage: Stage, requests: Sequence[bytes]) -> list[Recorded]:
    """What a service asks Elasticsearch for each of these questions, once their vectors are at hand."""
    async with (
        recorder(stage.server.url) as between,
        service(stage.folder / "recorded", stage.settings(url=between.url)) as subject,
        subject.connect() as wire,
    ):
        noted: list[Recorded] = []
        for one in requests:
            between.taken()
            await wire.send(one)
            noted.append(Recorded.of(between.taken()))
        return noted


async def _one_at_a_time(
    stage: Stage, subject: ServiceProcess, requests: Sequence[bytes], recorded: Sequence[Recorded], rounds: int
) -> list[Figure]:
    took: dict[str, list[float]] = defaultdict(list)
    engine: list[float] = []
    async with (
        Reference(stage.server.url, fast=True) as fast,
        Reference(stage.server.url, fast=False) as plain,
        subject.connect() as wire,
    ):

        async def turn(at: int, order: int) -> None:
            turns: list[tuple[str, Call]] = [
                ("service", lambda: wire.send(requests[at])),
                ("bare", lambda: fast.bare(recorded[at])),
                ("same", lambda: fast.same(recorded[at])),
                ("bare, json", lambda: plain.bare(recorded[at])),
                ("same, json", lambda: plain.same(recorded[at])),
            ]
            # whoever comes after another finds the engine's caches warm: each comes first equally often
            for name, call in turns[order % 5 :] + turns[: order % 5]:
                started = time.perf_counter()
                answer = await call()
                took[name].append((time.perf_counter() - started) * 1000)
                if name == "service":
                    engine.append(orjson.loads(answer)["took_ms"])

        for at in range(min(_WARM_UP, len(requests))):
            await turn(at, at)
        took.clear()
        engine.clear()
        for number in range(rounds):
            for at in range(len(requests)):
                await turn(at, at + number)
    return _sequential(took, engine, recorded)


def _sequential(took: dict[str, list[float]], engine: Sequence[float], recorded: Sequence[Recorded]) -> list[Figure]:
    middle = {name: median(values) for name, values in took.items()}
    last = {name: quantiles(values, n=20)[-1] for name, values in took.items()}
    requests = fmean(sum(len(stage) for stage in one.stages) for one in recorded)
    sent, answered = (fmean(getattr(one, name) for one in recorded) / 1024 for name in ("sent_bytes", "answer_bytes"))
    told = f"{requests:.2f} requests a question, {sent:.1f} KiB sent, {answered:.1f} KiB answered"
    rows = [
        Figure(f"{name}: median", middle[name], "ms", note=f"95 %: {last[name]:.2f} ms")
        for name in ("bare", "same", "bare, json", "same, json", "service")
    ]
    rows.append(Figure("service: median of its own took_ms", median(engine), "ms", note=told))
    for name, most in (("same", 1.25), ("bare", 1.5), ("same, json", 1.25), ("bare, json", 1.5)):
        rows.append(Figure(f"service / {name}", middle["service"] / middle[name], "x", at_most=most))
    return rows


async def _batches(stage: Stage, subject: ServiceProcess, requests: Sequence[bytes]) -> list[Figure]:
    """Five questions with one text under five filters, in turns with the first of them alone."""
    five: list[float] = []
    one: list[float] = []
    async with subject.connect() as wire:
        for at, text in enumerate(stage.data.questions[:200]):
            filters = [TAG, *(f"{TAG}|topic-{(at + other) % 250}" for other in range(1, _BATCH))]
            questions = [{"text": text, "tags": tags, "top_k": TOP_K} for tags in filters]
            batch = request("/api/v1/knowledge/query-batch", {"queries": questions})
            for times, whole in ((one, requests[at]), (five, batch)):
                started = time.perf_counter()
                await wire.send(whole)
                times.append((time.perf_counter() - started) * 1000)
    note = f"{median(five):.2f} ms and {median(one):.2f} ms"
    ratio = median(five) / median(one)
    return [Figure("query-batch of five with one text / one query", ratio, "x", at_most=2, note=note)]


async def _in_parallel(
    stage: Stage,
    subject: ServiceProcess,
    requests: Sequence[bytes],
    recorded: Sequence[Recorded],
    parallel_s: float,
    blocks: int,
) -> list[Figure]:
    rates: dict[str, list[float]] = defaultdict(list)
    shares: dict[str, list[str]] = defaultdict(list)
    pids = {"client": os.getpid(), "service": subject.pid}
    if stage.server.pid is not None:
        pids["elasticsearch"] = stage.server.pid
    wires = [await subject.connect().__aenter__() for _ in range(PARALLEL)]
    async with Reference(stage.server.url, fast=True) as fast, Reference(stage.server.url, fast=False) as plain:

        async def ask(worker: int, at: int) -> None:
            await wires[worker].send(requests[at % len(requests)])

        contenders: dict[str, Callable[[int, int], Awaitable[None]]] = {
            "service": ask,
            "bare": lambda _, at: fast.bare(recorded[at % len(recorded)]),
            "same": lambda _, at: fast.same(recorded[at % len(recorded)]),
            "bare, json": lambda _, at: plain.bare(recorded[at % len(recorded)]),
        }
        for number in range(blocks):
            for name in list(contenders)[number % 4 :] + list(contenders)[: number % 4]:
                before = {who: cpu_s(pid) for who, pid in pids.items()}
                rate = await _throughput(contenders[name], parallel_s)
                rates[name].append(rate)
                used = {who: (cpu_s(pid) - before[who]) / (rate * parallel_s) * 1000 for who, pid in pids.items()}
                shares[name].append(", ".join(f"{who} {ms:.1f}" for who, ms in used.items()))
    for wire in wires:
        await wire.__aexit__(None, None, None)
    rows = [
        Figure(f"{name}: {PARALLEL} at a time", median(values), "/s", note=f"CPU ms each: {shares[name][-1]}")
        for name, values in rates.items()
    ]
    middle = {name: median(values) for name, values in rates.items()}
    for name in ("bare", "bare, json"):
        ratio = middle["service"] / middle[name]
        rows.append(Figure(f"service / {name}, {PARALLEL} at a time", ratio, "x", at_least=0.75))
    return rows


async def _throughput(ask: Callable[[int, int], Awaitable[None]], for_s: float) -> float:
    """Answers a second."""
    count = 0
    started = time.perf_counter()

    async def work(worker: int) -> None:
        nonlocal count
        while time.perf_counter() - started < for_s:
            count += 1
            await ask(worker, count)

    await asyncio.gather(*(work(worker) for worker in range(PARALLEL)))
    return count / (time.perf_counter() - started)


async def _from_the_cache(subject: ServiceProcess, requests: Sequence[bytes]) -> Figure:
    took: list[float] = []
    async with subject.connect() as wire:
        for one in requests:
            await wire.send(one)
            await _hit(wire, one, took)
    note = f"{len(took)} of {len(requests)} came from it"
    return Figure("answer from the cache: median", median(took), "ms", at_most=2, note=note)


async def _hit(wire: Wire, whole: bytes, took: list[float]) -> None:
    started = time.perf_counter()
    answer = await wire.send(whole)
    elapsed = (time.perf_counter() - started) * 1000
    if orjson.loads(answer)["cache_hit"]:
        took.append(elapsed)
