"""The load: every prompt sent once, in a closed loop (one follows another's end) or an open one (when each is due)."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specdeck.load.client import Target, request_body
from specdeck.load.conversation import FAILED, answer_text, continued, turns_of
from specdeck.load.exchange import Exchange, perform
from specdeck.load.pool import Pool
from specdeck.load.quiet import LagSampler, collector_paused
from specdeck.load.record import make_record
from specdeck.load.records import Records
from specdeck.load.spill import Spill
from specdeck.load.wire import clock
from specdeck.results.schema import RequestError, RequestRecord, Sampling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from specdeck.load.prompts import Prompt
    from specdeck.load.stages import Moment


@dataclass(frozen=True)
class LoadOutcome:
    """What a load left: one record per prompt, in prompt order, and how the client itself fared.

    The records of a long load lie on the disk and are decoded anew on each access.

    Attributes:
        start: moment on the machine's monotonic clock that all times of the records count from.
        duration_s: from the first scheduled request to the last answer's end.
        mean_in_flight: time-average of requests sent and not ended.
        client_cpu_s: CPU seconds of this process during the load.
    """

    records: Sequence[RequestRecord]
    start: float
    duration_s: float
    loop_lag_p99_ms: float | None
    mean_in_flight: float | None
    client_cpu_s: float


async def run_load(
    target: Target,
    prompts: Sequence[Prompt],
    *,
    concurrency: int,
    sampling: Sampling,
    request_timeout_s: float,
    moments: Sequence[Moment] | None = None,
    ramp_up_s: float = 0.0,
    cell_timeout_s: float | None = None,
    cache_salt: str | None = None,
    salt_repeats: bool = False,
    salts: Sequence[str | None] | None = None,
    start_when: Callable[[], Awaitable[float]] | None = None,
    on_record: Callable[[RequestRecord], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> LoadOutcome:
    """Send every prompt once, and after it its follow-ups, each behind the answer that came; `concurrency` at a time.

    Without `moments` the loop is closed: a slot's next request is scheduled at the end of its last. With them, request
    i is scheduled at `moments[i]` whatever became of the others; when `concurrency` requests are in flight it waits
    here, which is `sent_s` minus `scheduled_s` of its record.

    Failures are recorded, never retried, and end their conversation. When so many requests in a row fail that the
    server is plainly gone, or the time for the cell is over, the rest is recorded as not sent.

    Args:
        target: server, model, endpoint.
        prompts: sent in this order.
        concurrency: most requests in flight.
        sampling: sent with every request.
        request_timeout_s: limit of each request, from sending to the last byte.
        moments: when each request is due, ascending, one for each prompt (see arrivals.py, stages.py).
        ramp_up_s: seconds over which the slots of a closed loop begin, one after another.
        cell_timeout_s: limit of the whole load.
        cache_salt: sent with every request, so that no other load's prefix cache can be hit.
        salt_repeats: give each repetition of a prompt a salt of its own: it does not find the first one's cache.
        salts: one a prompt, instead of what the two before say.
        start_when: asked when all is ready for the moment that the clock starts from (see workers.py).
        on_record: called with each record, after the load.
        on_progress: called with the prompt's id at each request's end, while others are timed: keep it short.

    Raises:
        SpecdeckError: a prompt does not fit the endpoint (before anything is sent).
        ValueError: moments for conversations, whose turns are due when the last one is answered.
    """
    flat, conversations = turns_of(prompts)
    if moments is not None and len(flat) > len(prompts):
        raise ValueError("an open loop cannot hold conversations")
    every_salt = [
        salt
        for salt, turns in zip(
            salts or salts_of(prompts, cache_salt, salt_repeats=salt_repeats), conversations, strict=True
        )
        for _ in turns
    ]
    requests = [b""] * len(flat)
    for prompt, turns in zip(prompts, conversations, strict=True):
        requests[turns.start] = request_body(target, prompt, sampling, cache_salt=every_salt[turns.start])
    with Spill() as spill:
        load = _Load(
            target, sampling, flat, conversations, every_salt, requests, concurrency, request_timeout_s, on_progress,
            moments, ramp_up_s, spill,
        )  # fmt: skip
        async with Pool(target, min(concurrency, len(prompts))) as pool:
            load.encode(pool)
            with collector_paused():
                async with LagSampler() as lag:
                    cpu = time.process_time()
                    load.start = clock() if start_when is None else await start_when()
                    await asyncio.sleep(max(0.0, load.start - clock()))
                    await load.run(pool, cell_timeout_s)
                    cpu = time.process_time() - cpu
        records = load.finish()
    if on_record is not None:
        for record in records:
            on_record(record)
    duration = max((record.end_s for record in records), default=0.0)
    return LoadOutcome(
        records=records,
        start=load.start,
        duration_s=duration,
        loop_lag_p99_ms=lag.p99_ms(),
        mean_in_flight=mean_in_flight(records, duration),
        client_cpu_s=cpu,
    )


def salts_of(prompts: Sequence[Prompt], salt: str | None, *, salt_repeats: bool) -> list[str | None]:
    """The cache salt of each request; a repeated prompt's is numbered."""
    if not salt_repeats:
        return [salt] * len(prompts)
    seen: Counter[str] = Counter()
    salts: list[str | None] = []
    for prompt in prompts:
        times = seen[prompt.id]
        seen[prompt.id] += 1
        salts.append(f"{salt or 'specdeck'}-{times}" if times else salt)
    return salts


def mean_in_flight(records: Sequence[RequestRecord], duration_s: float) -> float | None:
    """Time-average of requests in flight: sum of (end − sent) over the duration. None without a duration."""
    if duration_s <= 0:
        return None
    return sum(record.end_s - record.sent_s for record in records if record.sent_s is not None) / duration_s


@dataclass
class _Load:
    target: Target
    sampling: Sampling
    prompts: Sequence[Prompt]
    conversations: Sequence[range]
    salts: Sequence[str | None]
    requests: list[bytes]
    concurrency: int
    request_timeout_s: float
    on_progress: Callable[[str], None] | None
    moments: Sequence[Moment] | None
    ramp_up_s: float
    spill: Spill
    start: float = 0.0
    _next: int = 0
    _failed_in_row: int = 0
    _why_unsent: str = ""
    _why: dict[int, str] = field(default_factory=dict)
    _answers: dict[int, str] = field(default_factory=dict)
    _exchanges: dict[int, Exchange] = field(default_factory=dict)
    _run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        self._followed = {index for turns in self.conversations for index in turns[:-1]}

    def encode(self, pool: Pool) -> None:
        """Make whole requests of the bodies, before anything is timed."""
        for index, body in enumerate(self.requests):
            if body:
                self.requests[index] = pool.encode(body, self._request_id(index))

    def _request_id(self, index: int) -> str:
        return f"specdeck-{self._run_id}-{index}"

    def _stage(self, index: int) -> int | None:
        return None if self.moments is None else self.moments[index].stage

    async def run(self, pool: Pool, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as group:
                if self.moments is None:
                    for number in range(min(self.concurrency, len(self.conversations))):
                        group.create_task(self._slot(pool, number * self.ramp_up_s / self.concurrency))
                else:
                    await self._send_when_due(pool, group, self.moments)
        except TimeoutError:
            self._why_unsent = f"the cell's time limit of {timeout_s:g} s passed"
            for exchange in self._exchanges.values():
                if exchange.end == 0.0 or (exchange.failure is not None and exchange.failure.kind == "cancelled"):
                    exchange.failure = RequestError(kind="timeout", message=self._why_unsent)
                    exchange.end = exchange.end or clock()

    async def _slot(self, pool: Pool, after_s: float) -> None:
        scheduled = self.start + after_s
        if after_s and (wait := scheduled - clock()) > 0:
            await asyncio.sleep(wait)
        while self._next < len(self.conversations) and not self._gives_up():
            turns, self._next = self.conversations[self._next], self._next + 1
            scheduled = await self._converse(pool, turns, scheduled)

    async def _converse(self, pool: Pool, turns: range, scheduled: float) -> float:
        """Send the turns of a conversation one after another. Returns the moment the last one ended."""
        history, scheduled = self.prompts[turns.start], await self._one(pool, turns.start, scheduled)
        for index in turns[1:]:
            answer = self._answers.pop(index - 1, None)
            if answer is None:
                self._why.update(dict.fromkeys(range(index, turns.stop), FAILED))
                break
            history = continued(history, answer, self.prompts[index])
            body = request_body(self.target, history, self.sampling, cache_salt=self.salts[index])
            self.requests[index] = pool.encode(body, self._request_id(index))
            scheduled = await self._one(pool, index, scheduled)
        return scheduled

    async def _send_when_due(self, pool: Pool, group: asyncio.TaskGroup, moments: Sequence[Moment]) -> None:
        gate = asyncio.Semaphore(self.concurrency)

        async def queued(index: int, scheduled: float) -> None:
            async with gate:
                if not self._gives_up():
                    await self._one(pool, index, scheduled)

        for index in range(len(self.prompts)):
            scheduled = self.start + moments[index].due_s
            if (wait := scheduled - clock()) > 0:
                await asyncio.sleep(wait)
            if self._gives_up():
                return
            group.create_task(queued(index, scheduled))

    def _gives_up(self) -> bool:
        """Whether the server is plainly gone."""
        if self._failed_in_row < max(5, 2 * self.concurrency):
            return False
        self._why_unsent = self._why_unsent or f"{self._failed_in_row} requests in a row had failed"
        return True

    async def _one(self, pool: Pool, index: int, scheduled: float) -> float:
        """Send one request and keep what came of it. Returns the moment it ended."""
        exchange = self._exchanges[index] = Exchange(
            self._request_id(index), index, scheduled, stage=self._stage(index)
        )
        try:
            await perform(
                pool,
                self.requests[index],
                exchange,
                timeout_s=self.request_timeout_s,
                api_key=self.target.api_key,
            )
        except asyncio.CancelledError:
            exchange.failure = RequestError(kind="cancelled", message="cancelled while in flight")
            raise
        self.requests[index] = b""
        self._failed_in_row = self._failed_in_row + 1 if exchange.failure else 0
        if index in self._followed and (answer := answer_text(exchange)) is not None:
            self._answers[index] = answer
        self.spill.put(exchange)
        if self.on_progress is not None:
            self.on_progress(self.prompts[index].id)
        return exchange.end

    def finish(self) -> Records:
        """Read all answers, one after another, now that nothing is timed."""
        return Records(map(self._record, range(len(self.prompts))))

    def _record(self, index: int) -> RequestRecord:
        exchange = self._exchanges.pop(index, None)
        if exchange is None:
            now = clock()
            unsent = RequestError(kind="cancelled", message=f"not sent: {self._why.get(index, self._why_unsent)}")
            due = now if self.moments is None else self.start + self.moments[index].due_s
            exchange = Exchange(
                self._request_id(index), index, due, end=max(now, due), failure=unsent, stage=self._stage(index)
            )
        self.spill.fetch(exchange)
        return make_record(exchange, self.prompts[index], self.start, self.target.api_key)
