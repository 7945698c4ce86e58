"""Two servers compared as black boxes: one that speculates, and one that does not.

Both are asked over HTTP, in the way of OpenAI's completions, for many texts after the same prompts, and the
samples are compared by the two-sample test of `specdecode.sameness`. Nothing is known of either but what it
says, so a difference is found only if it is large enough to be seen in so many texts.

One **outcome** is a text with its finish_reason: "ab" that ran out of tokens is not "ab" that stopped of
itself.

Needs the extra `server`:  pip install 'specdecode[server]'
"""

import asyncio
import ipaddress
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

import numpy as np

from specdecode.checks import as_count
from specdecode.sameness import Sameness, compare_samples

try:
    import httpx2
except ImportError as error:
    raise ImportError("Servers are asked through httpx2: pip install 'specdecode[server]'") from error

__all__ = ["Server", "compare_servers"]

Outcome = tuple[str, str | None]  # a text, and its finish_reason
Answers = tuple[list[tuple[Outcome, ...]], list[tuple[Outcome, ...]]]  # to one prompt, of either server
Found = TypeVar("Found")

_LEAST = 100  # texts a sample must have to be compared
_MAX_BODY = 1_000_000  # bytes of an answer
_MAX_PAUSE = 10.0  # seconds before asking again, whatever Retry-After says
_BACKOFF = 0.5  # seconds, before the first time of asking again
_STARTING = 0.9  # share of the time in which requests are begun; the rest is for those under way
_SHOWN = 200  # characters of a server's own words in an error
_FORM = "want OpenAI's form of completions"
_RESERVED = ("model", "prompt", "max_tokens", "temperature", "n", "seed", "stream")
_HINTS = {
    401: "want an api_key that it takes",
    403: "want an api_key that it takes",
    404: "want a base_url with all that comes before /completions, often /v1, and a model it has",
    429: "want a smaller concurrency, or more retries",
}


@dataclass(frozen=True)
class Server:
    """A server and what to ask of it.

    Parameters
    ----------
    base_url : str
        What comes before /completions, often ending in /v1. A slash at the end makes no difference.
    model : str, optional
        Name of the model; without it, the only one that the server lists.
    extra : mapping
        More fields of each request, such as the one that turns speculation off.

    Raises
    ------
    ValueError
        If the address is not one of HTTP, or holds a user name or a query, where keys are kept; if `extra`
        cannot be written as JSON, or sets what `compare_servers` sets.

    Examples
    --------
    >>> Server("http://127.0.0.1:8000/v1/", extra={"speculative": False}).url
    'http://127.0.0.1:8000/v1'
    """

    base_url: str
    model: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_url(self.base_url)
        if not (self.model is None or (isinstance(self.model, str) and self.model)):
            raise ValueError(f"model is {self.model!r}; want a name, or None for the only one there is")
        _check_extra(self.extra)

    @property
    def url(self) -> str:
        """The address in its usual spelling, without a slash at its end."""
        return str(httpx2.URL(self.base_url)).rstrip("/")


@dataclass(frozen=True)
class _Settings:
    """How both are asked, once it has been checked."""

    max_tokens: int
    temperature: float
    choices: int
    requests: int  # for each prompt, of each server
    concurrency: int
    timeout: float
    retries: int
    seconds: float | None
    seeds: int | None
    api_key: str | None = field(repr=False)


def compare_servers(
    server: Server,
    reference: Server,
    prompts: Sequence[str],
    *,
    max_tokens: int = 4,
    draws: int = 1000,
    temperature: float = 1.0,
    alpha: float = 1e-6,
    choices: int = 1,
    concurrency: int = 8,
    timeout: float = 30.0,
    retries: int = 3,
    seconds: float | None = None,
    api_key: str | None = None,
    seeds: int | None = None,
    track: Callable[[range], Iterable[Any]] = iter,
) -> Sameness:
    """Do two servers draw their texts from one law? Asked by sampling both.

    Parameters
    ----------
    server, reference : Server
        One that speculates, and one that does not.
    prompts : sequence of str
        Each compared by itself; all different.
    max_tokens : int
        Length of a text. The longer, the more texts there are, and the fewer draws each gets.
    draws : int
        Texts for each prompt from each server, at least 100; rounded up to whole requests.
    temperature : float
        At 0 there is one text to compare, which says little of the law.
    alpha : float
        Probability of telling equal laws apart.
    choices : int
        Texts a request (n); more than 1 saves requests, where the server draws them independently.
    concurrency : int
        Requests under way at one time, to both servers together.
    timeout : float
        Seconds for one request, from its first byte to its last.
    retries : int
        How often a request is sent again that timed out, lost its connection, or was answered 408, 429 or
        5xx. The pause doubles each time and is at most 10 s, also where Retry-After asks for more.
    seconds : float, optional
        Limit on the whole. What was drawn until then is compared, and a note says how much that was.
    api_key : str, optional
        Sent to both as a bearer token, and shown nowhere.
    seeds : int, optional
        Send a seed with each request, all derived from this one and no two the same. None: send no seed.
    track : callable
        Wraps the range of the requests, to show how far they are.

    Returns
    -------
    Sameness
        "not equal" or "no difference found"; one `Sample` a prompt.

    Raises
    ------
    ValueError
        In one line: if a setting is out of range; if both are the same, so that nothing could differ; if a
        server refuses, cannot be reached, redirects, lists several models where none is named, or gives no
        usable answer; if all its answers are one list of several texts, which are not independent draws; if
        the time did not do for 100 texts from each for any prompt.

    Guarantee
    ---------
    "not equal" is wrong with probability at most alpha, if each server draws its texts independently and by
    a law that does not change meanwhile (owed by the caller). There are 2 · len(prompts) · ⌈draws / choices⌉
    requests, each sent at most retries + 1 times, and of an answer no more than 1 MB is read. The servers are
    asked by turns, so a limit on time finds them equally far; requests are begun in the first nine tenths of
    it, so that slow texts are not left out. What timed out is drawn anew, which favours short texts: a note
    says how often something was sent again. A local address is reached without the environment's proxy.

    Examples
    --------
    >>> server = Server("http://127.0.0.1:8000/v1")
    >>> compare_servers(server, server, ["Once upon a time"])
    Traceback (most recent call last):
    ValueError: both are http://127.0.0.1:8000/v1; want two that differ in base_url, model or extra
    """
    settings = _checked(
        max_tokens, draws, temperature, alpha, choices, concurrency, timeout, retries, seconds, api_key, seeds
    )
    prompts = _checked_prompts(prompts)
    _refuse_same(*((each.url, each.model, each.extra) for each in (server, reference)))
    answers: list[Answers] = [([], []) for _ in prompts]
    lines = _run(_draw((server, reference), prompts, settings, answers, track))
    subjects = lines[0].name, lines[1].name
    troubles = [line.trouble for line in lines if line.trouble]
    labels = [_label(i, prompt) for i, prompt in enumerate(prompts)]
    kept, notes = _kept(dict(zip(labels, answers)), settings, troubles)
    for label, pair in kept.items():
        for name, given in zip(subjects, pair):
            _refuse_repeated(name, label, given, alpha)
    if temperature == 0:
        notes.append("at temperature 0 there is one text to compare, and rounding may decide which: use 1")
    groups, more = _comparable(subjects, kept)
    reason = "two servers can only be sampled"
    return compare_samples(subjects, groups, alpha, reason=reason, notes=(*notes, *troubles, *more))


# What is asked for


def _check_url(base_url: Any) -> None:
    if not isinstance(base_url, str):
        raise ValueError(f"base_url is {base_url!r}; want a string such as 'http://127.0.0.1:8000/v1'")
    if any(mark in base_url for mark in "@?#"):  # not shown: passwords and keys stand behind these
        raise ValueError("base_url holds one of @ ? #; want an address alone, and a key as api_key")
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL as error:
        raise ValueError(f"base_url is {base_url!r}: {error}; want one such as http://HOST:PORT/v1") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"base_url is {base_url!r}; want one that begins with http://HOST or https://HOST")
    if url.port is not None and not 0 < url.port < 2**16:
        raise ValueError(f"base_url is {base_url!r}, with port {url.port}; want a port from 1 to 65535")
    if url.path.rstrip("/").endswith("/completions"):
        raise ValueError(f"base_url is {base_url!r}; want it without /completions, which is added")


def _check_extra(extra: Any) -> None:
    if not isinstance(extra, Mapping):
        raise ValueError(f"extra is {extra!r}; want a mapping from names of fields to their values")
    reserved = [name for name in _RESERVED if name in extra]
    if reserved:
        raise ValueError(f"extra sets {reserved[0]!r}; want fields other than {', '.join(_RESERVED)}")
    try:
        json.dumps(dict(extra), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"extra cannot be written as JSON: {error}; want plain data") from None


def _checked(
    max_tokens: int,
    draws: int,
    temperature: float,
    alpha: float,
    choices: int,
    concurrency: int,
    timeout: float,
    retries: int,
    seconds: float | None,
    api_key: str | None,
    seeds: int | None,
) -> _Settings:
    draws = as_count(draws, "draws", least=_LEAST)
    choices = min(as_count(choices, "choices", least=1), draws)
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature is {temperature}; want a finite number, 0 or more")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; want a number between 0 and 1")
    for name, limit in (("timeout", timeout), ("seconds", seconds)):
        if limit is not None and not 0 < limit < math.inf:
            raise ValueError(f"{name} is {limit}; want a finite number of seconds, more than 0")
    if api_key and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise ValueError("api_key holds a blank, a line break or what is not ASCII; want the key alone")
    return _Settings(
        max_tokens=as_count(max_tokens, "max_tokens", least=1),
        temperature=temperature,
        choices=choices,
        requests=-(-draws // choices),
        concurrency=as_count(concurrency, "concurrency", least=1),
        timeout=timeout,
        retries=as_count(retries, "retries", least=0),
        seconds=seconds,
        seeds=None if seeds is None else as_count(seeds, "seeds", least=0),
        api_key=api_key or None,
    )


def _checked_prompts(prompts: Any) -> list[str]:
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not prompts:
        raise ValueError(f"prompts is {prompts!r}; want a list of at least one string")
    for i, prompt in enumerate(prompts):
        if not isinstance(prompt, str):
            raise ValueError(f"prompts[{i}] is {prompt!r}; want a string")
        if prompts.index(prompt) < i:
            raise ValueError(f"prompts[{i}] is prompts[{prompts.index(prompt)}] again; want different ones")
    return list(prompts)


def _refuse_same(one: tuple[str, str | None, Any], other: tuple[str, str | None, Any]) -> None:
    if one == other:
        raise ValueError(f"both are {_name(*one)}; want two that differ in base_url, model or extra")


def _name(url: str, model: str | None, extra: Mapping[str, Any]) -> str:
    more = [_one_line(model)] if model else []
    more += [_one_line(json.dumps(dict(extra)))] if extra else []
    return f"{url} ({', '.join(more)})" if more else url


def _label(i: int, prompt: str) -> str:
    return f"prompts[{i}], {prompt if len(prompt) <= 40 else prompt[:39] + '…'!r}"


# One server


class _Again(Exception):
    """What makes it worth while to ask again: what went wrong, what would be right, how long to wait."""

    def __init__(self, trouble: str, want: str, pause: float | None = None) -> None:
        super().__init__(trouble)
        self.want, self.pause = want, pause


class _Line:
    """A server, the client that asks it, and what went wrong on the way."""

    def __init__(self, server: Server, client: httpx2.AsyncClient, settings: _Settings) -> None:
        self.server, self.model = server, server.model
        self._client, self._settings = client, settings
        self._asked_again, self._last = 0, ""

    @property
    def name(self) -> str:
        return self._without_key(_name(self.server.url, self.model, self.server.extra))

    @property
    def trouble(self) -> str:
        """How many requests were sent again, and why the last one was; empty if none."""
        count = f"{self._asked_again} request{'s' * (self._asked_again != 1)}"
        return f"{self.name}: {count} sent again (at last: {self._last})" if self._asked_again else ""

    async def find_model(self) -> None:
        """Make the only model that the server lists the one to ask."""
        if self.model is not None:
            return
        answer = await self._ask("GET", "/models")
        listed = answer.get("data") if isinstance(answer, dict) else None
        ids = [
            entry.get("id")
            for entry in (listed if isinstance(listed, list) else ())
            if isinstance(entry, dict)
        ]
        names = [name for name in ids if isinstance(name, str)]
        if len(names) != 1:
            known = ", ".join(map(self._quoted, names[:10])) + ", …" * (len(names) > 10)
            have = f"{len(names)} models ({known})" if names else "no model"
            raise ValueError(f"{self.server.url}/models lists {have}; want the name of one as model")
        self.model = names[0]

    async def complete(self, prompt: str, seed: int | None) -> tuple[Outcome, ...]:
        """The outcomes of one request."""
        settings = self._settings
        asked = {"max_tokens": settings.max_tokens, "temperature": settings.temperature}
        if settings.choices > 1:
            asked["n"] = settings.choices
        if seed is not None:
            asked["seed"] = seed
        answer = await self._ask(
            "POST", "/completions", {"model": self.model, "prompt": prompt, **asked, **self.server.extra}
        )
        given = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(given, list):
            self._refuse(f"answered without a list of choices: {self._quoted(json.dumps(answer))}")
        if len(given) != settings.choices:
            hint = "want choices=1, or a server that takes n" if settings.choices > 1 else _FORM
            self._refuse(f"gave {len(given)} in place of {settings.choices} choices", hint)
        return tuple(map(self._outcome, given))

    def _outcome(self, choice: Any) -> Outcome:
        text = choice.get("text") if isinstance(choice, dict) else None
        if not isinstance(text, str):
            self._refuse(f"gave a choice without a text: {self._quoted(json.dumps(choice))}")
        reason = choice.get("finish_reason")
        return self._without_key(text), self._without_key(reason) if isinstance(reason, str) else None

    def _refuse(self, trouble: str, hint: str = _FORM) -> NoReturn:
        raise ValueError(f"{self.server.url}/completions {trouble}; {hint}")

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The server's answer as JSON, asked for again where that may help."""
        attempt, url = 0, self.server.url + path
        while True:
            try:
                return await self._once(method, url, body)
            except _Again as again:
                if attempt == self._settings.retries:
                    times = f"{attempt + 1} time{'s' * (attempt > 0)}"
                    raise ValueError(f"{url}: {again}, asked {times}; {again.want}") from None
                self._asked_again, self._last = self._asked_again + 1, str(again)
                # Jitter, so that those who failed together do not come back together.
                pause = _BACKOFF * 2 ** min(attempt, 10) * random.uniform(0.5, 1.5)
                pause = min(pause if again.pause is None else again.pause, _MAX_PAUSE)
            attempt += 1
            await asyncio.sleep(pause)

    async def _once(self, method: str, url: str, body: Mapping[str, Any] | None) -> Any:
        # Written here and not by httpx2, so that a lone surrogate in a prompt is escaped instead of refused.
        content = None if body is None else json.dumps(body).encode()
        try:
            # httpx2's own limit would begin anew with each byte.
            async with asyncio.timeout(self._settings.timeout):
                async with self._client.stream(method, url, content=content) as response:
                    found = await _read(response)
        except TimeoutError:
            seconds = f"no answer within {self._settings.timeout:g} s"
            raise _Again(seconds, "want a longer timeout, or a smaller concurrency") from None
        except (httpx2.TransportError, OSError, UnicodeError) as error:
            why = self._quoted(str(error) or type(error).__name__)
            what = "no connection" if isinstance(error, httpx2.ConnectError) else "the connection broke"
            raise _Again(f"{what} ({why})", "want a server that runs and answers") from None
        return self._judged(url, response, found)

    def _judged(self, url: str, response: httpx2.Response, content: bytes) -> Any:
        """The answer as JSON, if it is one."""
        status = response.status_code
        if 300 <= status < 400:
            where = self._quoted(response.headers.get("location", "nowhere"))
            raise ValueError(f"{url} answered {status}, a redirect to {where}; want the address itself")
        if not 200 <= status < 300:
            said = f"answered {status}: {self._quoted(_message(content))}"
            if status not in (408, 429) and status < 500:
                raise ValueError(f"{url} {said}; {_HINTS.get(status, 'want a request that it takes')}")
            pause = _asked_to_wait(response.headers.get("retry-after"))
            raise _Again(said, _HINTS.get(status, "want a server that answers"), pause)
        if len(content) > _MAX_BODY:
            raise ValueError(f"{url} answered over {_MAX_BODY} bytes; want fewer choices or max_tokens")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            shown = self._quoted(content.decode(errors="replace"))
            raise ValueError(f"{url} answered what is not JSON: {shown}; want a completions server") from None

    def _quoted(self, text: str) -> str:
        """A server's own words, fit to be shown."""
        return _one_line(self._without_key(text))

    def _without_key(self, text: str) -> str:
        """The text without the key: a server may send it back, as it is, in JSON, or in an address."""
        key = self._settings.api_key
        for spelling in (key, json.dumps(key)[1:-1], quote(key, safe="")) if key else ():
            text = text.replace(spelling, "[api_key]")
        return text


def _one_line(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"


async def _read(response: httpx2.Response) -> bytes:
    """The body as it was sent; of one that is too large, a little more than is allowed."""
    content = bytearray()
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            content += chunk
            if len(content) > _MAX_BODY:
                break
    return bytes(content)


def _message(content: bytes) -> str:
    """What an error says, in the places where servers put it; else all of it."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return content[:_MAX_BODY].decode(errors="replace")
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return found if isinstance(found, str) else json.dumps(found)


def _asked_to_wait(header: str | None) -> float | None:
    """Seconds from a Retry-After, which may also be a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _client(server: Server, settings: _Settings) -> httpx2.AsyncClient:
    # identity: a small body could unpack to a huge one
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if settings.api_key:
        headers["Authorization"] = f"Bearer {settings.api_key}"
    return httpx2.AsyncClient(
        headers=headers,
        timeout=None,
        limits=httpx2.Limits(
            max_connections=settings.concurrency, max_keepalive_connections=settings.concurrency
        ),
        trust_env=not _is_local(httpx2.URL(server.url).host),  # a proxy's localhost is not this one
    )


def _is_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


# Both servers


async def _draw(
    servers: tuple[Server, Server],
    prompts: list[str],
    settings: _Settings,
    answers: list[Answers],
    track: Callable[[range], Iterable[Any]],
) -> list[_Line]:
    """Put into `answers` what both say, until that is enough or time is up."""
    began = time.monotonic()
    last_start = math.inf if settings.seconds is None else began + _STARTING * settings.seconds
    async with AsyncExitStack() as stack:
        lines = [
            _Line(server, await stack.enter_async_context(_client(server, settings)), settings)
            for server in servers
        ]
        try:
            async with asyncio.timeout(settings.seconds):
                for line in lines:
                    await line.find_model()
                _refuse_same(*((line.server.url, line.model, line.server.extra) for line in lines))
                await _ask_all(lines, prompts, settings, answers, last_start, track)
        except TimeoutError:
            pass  # the answers that there are will tell
    return lines


async def _ask_all(
    lines: list[_Line],
    prompts: list[str],
    settings: _Settings,
    answers: list[Answers],
    last_start: float,
    track: Callable[[range], Iterable[Any]],
) -> None:
    seeds = _seeds(len(prompts), settings)

    async def one(prompt: int, request: int, side: int) -> None:
        seed = None if seeds is None else int(seeds[side, prompt, request])
        answers[prompt][side].append(await lines[side].complete(prompts[prompt], seed))

    jobs = _turns(len(prompts), settings)
    pending: set[asyncio.Task] = set()
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


def _turns(n_prompts: int, settings: _Settings) -> Iterator[tuple[int, int, int]]:
    """(prompt, request, side), in an order that may be broken off anywhere.

    The servers take turns. The prompts do too, a hundred texts at a time: little time is then enough for some
    of the prompts, instead of for none.
    """
    block = -(-_LEAST // settings.choices)
    for first in range(0, settings.requests, block):
        for prompt in range(n_prompts):
            for request in range(first, min(first + block, settings.requests)):
                yield prompt, request, 0
                yield prompt, request, 1


def _seeds(n_prompts: int, settings: _Settings) -> np.ndarray | None:
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
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task]] = []

    async def known() -> Found:
        running.append((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(asyncio.run, known())
        try:
            return answer.result()
        except KeyboardInterrupt:
            for loop, task in running:
                loop.call_soon_threadsafe(task.cancel)
            raise


# What they said


def _kept(
    answers: Mapping[str, Answers], settings: _Settings, troubles: Sequence[str]
) -> tuple[dict[str, Answers], list[str]]:
    """The prompts with enough texts from both, and notes of what time did not do for."""
    if all(len(given) == settings.requests for pair in answers.values() for given in pair):
        return dict(answers), []
    came = {label: [len(given) * settings.choices for given in pair] for label, pair in answers.items()}
    kept = {label: pair for label, pair in answers.items() if min(came[label]) >= _LEAST}
    limit = f"{settings.seconds:g} s"
    if not kept:
        total = sum(map(sum, came.values()))
        why = "".join(f"; {trouble}" for trouble in troubles)
        raise ValueError(
            f"{total} texts came in {limit}, and {_LEAST} from each are needed for a prompt{why}; "
            f"want more seconds, fewer max_tokens, or more choices a request"
        )
    counts = [count for label in kept for count in came[label]]
    asked = settings.requests * settings.choices
    notes = [f"time was up after {limit}: {min(counts)} to {max(counts)} of {asked} texts a prompt from each"]
    if len(kept) < len(answers):
        left_out = len(answers) - len(kept)
        notes.append(
            f"{left_out} of {len(answers)} prompts left out, with fewer than {_LEAST} texts from each"
        )
    return kept, notes


def _refuse_repeated(name: str, label: str, given: Sequence[tuple[Outcome, ...]], alpha: float) -> None:
    """Refuse answers that are all one list, if independent draws would hardly ever have been.

    No law gives a list of n texts a larger probability than its own frequencies do, exp(−n·H) with H their
    entropy; so a list of one text over and over is never refused.
    """
    n = len(given[0])
    likeliest = sum(count * math.log(count / n) for count in Counter(given[0]).values())
    if len(set(given)) == 1 and (len(given) - 1) * likeliest < math.log(alpha):
        raise ValueError(
            f"{name} gave one list of {n} texts, {len(given)} times, for {label}, as with a fixed seed; "
            f"want independent draws: no seed in the server's settings, or a seed for each request (seeds)"
        )


def _comparable(
    subjects: tuple[str, str], answers: Mapping[str, Answers]
) -> tuple[dict[str, tuple[Counter, Counter]], list[str]]:
    """Counts of outcomes; of texts alone, and a note, where the two name finish_reasons differently."""
    groups = {
        label: tuple(Counter(outcome for request in given for outcome in request) for given in pair)
        for label, pair in answers.items()
    }
    reasons = [{reason for pair in groups.values() for _, reason in pair[side]} for side in (0, 1)]
    if reasons[0] & reasons[1]:
        return groups, []
    named = [_one_line(", ".join(sorted(map(str, given)))) for given in reasons]
    both = " and ".join(f"{said} from {name}" for said, name in zip(named, subjects))
    note = f"no finish_reason in common ({both}), so the texts alone were compared"
    return {label: tuple(map(_texts, pair)) for label, pair in groups.items()}, [note]


def _texts(counts: Counter) -> Counter:
    texts: Counter = Counter()
    for (text, _), count in counts.items():
        texts[text] += count
    return texts
