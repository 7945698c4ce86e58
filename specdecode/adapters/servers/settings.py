"""A server, and how it is asked: checked before anything is sent."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2

from specdecode.checks import as_count, as_level, as_number, shown

__all__ = ["LEAST", "Server", "Settings", "checked", "checked_prompts", "name_of", "one_line", "refuse_same"]

LEAST = 100  # texts a sample must have to be compared
_SHOWN = 200  # characters of anyone's own words in a line of ours
_RESERVED = ("model", "prompt", "max_tokens", "temperature", "n", "seed", "stream")


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


def _check_url(base_url: Any) -> None:
    if not isinstance(base_url, str):
        raise ValueError(f"base_url is {base_url!r}; want a string such as 'http://127.0.0.1:8000/v1'")
    if any(mark in base_url for mark in "@?#"):  # not shown: passwords and keys stand behind these
        raise ValueError("base_url holds one of @ ? #; want an address alone, and a key as api_key")
    try:
        url = httpx2.URL(base_url)
        urlsplit(base_url)  # refuses half an address of IPv6
    except (httpx2.InvalidURL, ValueError) as error:
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


@dataclass(frozen=True)
class Settings:
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


def checked(
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
) -> Settings:
    """The settings of `compare_servers`, or a ValueError that names the one that is out of range."""
    draws = as_count(draws, "draws", least=LEAST)
    choices = min(as_count(choices, "choices", least=1), draws)
    as_level(alpha)
    for name, limit in (("timeout", timeout), ("seconds", seconds)):
        try:
            right = limit is None or 0 < limit < math.inf
        except TypeError:
            right = False
        if not right:
            raise ValueError(f"{name} is {shown(limit)}; want a finite number of seconds, more than 0")
    if api_key and not isinstance(api_key, str):
        raise ValueError(f"api_key is of type {type(api_key).__name__}; want the key alone, a string")
    if api_key and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
        raise ValueError("api_key holds a blank, a line break or what is not ASCII; want the key alone")
    return Settings(
        max_tokens=as_count(max_tokens, "max_tokens", least=1),
        temperature=as_number(temperature, "temperature", 0),
        choices=choices,
        requests=-(-draws // choices),
        concurrency=as_count(concurrency, "concurrency", least=1),
        timeout=timeout,
        retries=as_count(retries, "retries", least=0),
        seconds=seconds,
        seeds=None if seeds is None else as_count(seeds, "seeds", least=0),
        api_key=api_key or None,
    )


def checked_prompts(prompts: Any) -> list[str]:
    """The prompts as a list of different strings."""
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not prompts:
        raise ValueError(f"prompts is {prompts!r}; want a list of at least one string")
    for i, prompt in enumerate(prompts):
        if not isinstance(prompt, str):
            raise ValueError(f"prompts[{i}] is {prompt!r}; want a string")
        if prompts.index(prompt) < i:
            raise ValueError(f"prompts[{i}] is prompts[{prompts.index(prompt)}] again; want different ones")
    return list(prompts)


def refuse_same(one: Server, other: Server) -> None:
    """Refuse two servers between which nothing could differ."""
    for name, server in (("server", one), ("reference", other)):
        if not isinstance(server, Server):
            raise ValueError(f"{name} is {shown(server)}; want a Server")
    names = [(server.url, server.model, server.extra) for server in (one, other)]
    if names[0] == names[1]:
        raise ValueError(f"both are {name_of(one)}; want two that differ in base_url, model or extra")


def name_of(server: Server) -> str:
    """A server's address, and in brackets what else it is asked for."""
    more = [one_line(server.model)] if server.model else []
    more += [one_line(json.dumps(dict(server.extra)))] if server.extra else []
    return f"{server.url} ({', '.join(more)})" if more else server.url


def one_line(text: str) -> str:
    """A text fit to be shown: on one line, not too long, and with nothing that moves the cursor."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
