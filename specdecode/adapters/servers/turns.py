"""Both servers, asked by turns, until that is enough or time is up."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import numpy as np

from specdecode.adapters.servers.answers import Outcome
from specdecode.adapters.servers.asking import Line, client_for
from specdecode.adapters.servers.settings import LEAST, Server, Settings, refuse_same

__all__ = ["Answers", "draw"]

Answers = tuple[list[tuple[Outcome, ...]], list[tuple[Outcome, ...]]]  # to one prompt, of either server
Found = TypeVar("Found")

_STARTING = 0.9  # share of the time in which requests are begun; the rest is for those under way


def draw(
    servers: tuple[Server, Server],
    prompts: list[str],
    settings: Settings,
    track: Callable[[range], Iterable[Any]],
) -> tuple[list[Line], list[Answers]]:
    """What both say to each prompt, and the lines to both with what went wrong on them."""
    answers: list[Answers] = [([], []) for _ in prompts]
    lines = _run(_draw(servers, prompts, settings, answers, track))
    for line in lines:
        line.end()
    return lines, answers


async def _draw(
    servers: tuple[Server, Server],
    prompts: list[str],
    settings: Settings,
    answers: list[Answers],
    track: Callable[[range], Iterable[Any]],
) -> list[Line]:
    began = time.monotonic()
    last_start = math.inf if settings.seconds is None else began + _STARTING * settings.seconds
    planned = len(prompts) * settings.requests
    async with AsyncExitStack() as stack:
        lines = [
            Line(server, await stack.enter_async_context(client_for(server, settings)), settings, planned)
            for server in servers
        ]
        try:
            async with asyncio.timeout(settings.seconds):
                for line in lines:
                    await line.find_model()
                refuse_same(lines[0].server, lines[1].server)
                await _ask_all(lines, prompts, settings, answers, last_start, track)
        except TimeoutError:
            pass  # the answers that there are will tell
    return lines


async def _ask_all(
    lines: list[Line],
    prompts: list[str],
    settings: Settings,
    answers: list[Answers],
    last_start: float,
    track: Callable[[range], Iterable[Any]],
) -> None:
    seeds = _seeds(len(prompts), settings)

    async def one(prompt: int, request: int, side: int) -> None:
        seed = None if seeds is None else int(seeds[side, prompt, request])
        given = await lines[side].complete(prompts[prompt], seed)
        if given is not None:
            answers[prompt][side].append(given)

    jobs = _turns(len(prompts), settings)
    pending: set[asyncio.Task[None]] = set()
    try:
        for _ in track(range(2 * len(prompts) * settings.requests)):
            while len(pending) < settings.concurrency and time.monotonic() < last_start:
                job = next(jobs, None)
                if job is None:
                    break
                pending.add(asyncio.create_task(one(*job)))
            if not pending:
                return
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            done = next(task for task in pending if task.done())
            pending.remove(done)
            done.result()
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


def _turns(n_prompts: int, settings: Settings) -> Iterator[tuple[int, int, int]]:
    """(prompt, request, side), in an order that may be broken off anywhere.

    The servers take turns. The prompts do too, a hundred texts at a time: little time is then enough for some
    of the prompts, instead of for none.
    """
    block = -(-LEAST // settings.choices)
    for first in range(0, settings.requests, block):
        for prompt in range(n_prompts):
            for request in range(first, min(first + block, settings.requests)):
                yield prompt, request, 0
                yield prompt, request, 1


def _seeds(n_prompts: int, settings: Settings) -> np.ndarray | None:
    """A seed for each request, shape (2, prompts, requests).

    Below 2³¹, which every server takes, and multiples of `choices`: some give the i-th choice the seed + i.
    """
    if settings.seeds is None:
        return None
    rng = np.random.default_rng(np.random.SeedSequence(settings.seeds))
    shape = 2, n_prompts, settings.requests
    places = rng.choice(2**31 // settings.choices, size=math.prod(shape), replace=False)
    return (places * settings.choices).reshape(shape)


def _run(work: Coroutine[Any, Any, Found]) -> Found:
    """Run it to its end; in a notebook, whose own loop is running, in a thread beside that."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    cancel: list[Callable[[], object]] = []

    async def known() -> Found:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(asyncio.run, known())
        try:
            return answer.result()
        except KeyboardInterrupt:
            for stop in cancel:
                stop()
            raise
