"""One server over HTTP: a request is sent, waited for, and sent again where that may help."""

import asyncio
import ipaddress
import json
import random
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import httpx2

from specdecode.adapters.servers.answers import MAX_BODY, Again, Judge, Outcome
from specdecode.adapters.servers.settings import Server, Settings, name_of

__all__ = ["Line", "client_for"]

_MAX_PAUSE = 10.0  # seconds before asking again, whatever Retry-After says
_BACKOFF = 0.5  # seconds, before the first time of asking again
_TOLERATED = 0.1  # of the requests to a server: as many may be given up


class _Unavailable(ValueError):
    """A request that was answered 503 every time."""


class Line:
    """A server, the client that asks it, and what went wrong on the way.

    Parameters
    ----------
    server : Server
        With the model named, once `find_model` is done.
    client : httpx2.AsyncClient
    settings : Settings
    planned : int
        How many requests there will be.
    """

    def __init__(self, server: Server, client: httpx2.AsyncClient, settings: Settings, planned: int) -> None:
        self.server, self._client, self._settings, self._planned = server, client, settings, planned
        self._judge = Judge(server.url, settings)
        self._asked_again, self._last = 0, ""
        self._answered, self.given_up = 0, 0
        self._patience = 0  # how many requests in a row may yet be given up; none before the first answer

    @property
    def name(self) -> str:
        return self._judge.without_key(name_of(self.server))

    @property
    def troubles(self) -> list[str]:
        """How many requests were sent again, how many given up, and why the last one was."""
        found = []
        if self._asked_again:
            count = f"{self._asked_again} request{'s' * (self._asked_again != 1)}"
            found.append(f"{self.name}: {count} sent again (at last: {self._last})")
        if self.given_up:
            asked = self._answered + self.given_up
            found.append(
                f"{self.name}: {self.given_up} of {asked} requests given up, answered 503 every time; the "
                f"texts that are missing may make a difference of up to {self.given_up / asked:.2g}"
            )
        return found

    async def find_model(self) -> None:
        """Make the only model that the server lists the one to ask."""
        if self.server.model is None:
            model = self._judge.only_model(await self._ask("GET", "/models"))
            self.server = replace(self.server, model=model)

    async def complete(self, prompt: str, seed: int | None) -> tuple[Outcome, ...] | None:
        """The outcomes of one request; None if it was given up."""
        settings = self._settings
        asked: dict[str, Any] = {"max_tokens": settings.max_tokens, "temperature": settings.temperature}
        if settings.choices > 1:
            asked["n"] = settings.choices
        if seed is not None:
            asked["seed"] = seed
        body = {"model": self.server.model, "prompt": prompt, **asked, **self.server.extra}
        try:
            answer = await self._ask("POST", "/completions", body)
        except _Unavailable:
            self.given_up, self._patience = self.given_up + 1, self._patience - 1
            if self._patience < 0 or self.given_up > _TOLERATED * self._planned:
                raise
            return None
        self._answered, self._patience = self._answered + 1, settings.concurrency
        return self._judge.outcomes(answer)

    def end(self) -> None:
        """Refuse a server that answered too few of the requests that there was time for."""
        asked = self._answered + self.given_up
        if self.given_up > _TOLERATED * asked:
            raise ValueError(
                f"{self.server.url}/completions: {self.given_up} of {asked} requests were answered 503 every "
                f"time; want a server that answers nine of ten"
            )

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The server's answer as JSON, asked for again where that may help."""
        attempt, url = 0, self.server.url + path
        while True:
            try:
                return await self._once(method, url, body)
            except Again as again:
                if attempt == self._settings.retries:
                    times = f"{attempt + 1} time{'s' * (attempt > 0)}"
                    kind = _Unavailable if again.unavailable else ValueError
                    raise kind(f"{url}: {again}, asked {times}; {again.want}") from None
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
            raise Again(seconds, "want a longer timeout, or a smaller concurrency") from None
        except (httpx2.TransportError, OSError, UnicodeError) as error:
            why = self._judge.quoted(str(error) or type(error).__name__)
            what = "no connection" if isinstance(error, httpx2.ConnectError) else "the connection broke"
            raise Again(f"{what} ({why})", "want a server that runs and answers") from None
        return self._judge.content(url, response, found)


async def _read(response: httpx2.Response) -> bytes:
    """The body as it was sent; of one that is too large, a little more than is allowed."""
    content = bytearray()
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            content += chunk
            if len(content) > MAX_BODY:
                break
    return bytes(content)


def client_for(server: Server, settings: Settings) -> httpx2.AsyncClient:
    """A client that opens as many connections as there are requests under way, and no limits of its own."""
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
