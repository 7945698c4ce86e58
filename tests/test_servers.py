"""Two servers as black boxes: right ones are not told apart, wrong ones are, and bad ones end in one line."""

import asyncio
import contextlib
import importlib
import itertools
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import numpy as np
import pytest

from specdecode import generate_speculative, generate_target_only, verifiers
from specdecode.certify.worlds import DENSE
from specdecode.models import MarkovModel
from specdecode.museum import EXHIBITS

pytest.importorskip("httpx2")

import httpx2

from specdecode.adapters.servers import Server, asking, compare_servers

ALPHA = 1e-6  # for each comparison; all are seeded, so none fails by chance
CERTIFICATES = ssl.create_default_context()
LETTERS = "abc"
STOP = 2
TARGET, DRAFT = (MarkovModel(model.rows.astype(float)) for model in DENSE)  # floats, to be quick
KEY = r"sk-do/not\show-me-0123456789"


@dataclass
class Reply:
    """What a server in these tests answers."""

    body: object = b""  # bytes, or what is sent as JSON
    status: int = 200
    headers: dict = field(default_factory=dict)

    @property
    def content(self):
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.reply(self.server.models)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(asked)
            self.server.headers.append(dict(self.headers))
        self.reply(
            self.server.answer(asked) if self.path == "/v1/completions" else Reply("no such path", 404)
        )

    def reply(self, reply):
        if reply is None:  # hang up without a word
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.content)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(reply.content)
        except OSError:
            self.close_connection = True  # the other side did not want all of it

    def log_message(self, *args):
        pass


class LocalServer(ThreadingHTTPServer):
    """A server on a free port that answers by `answer`, a function of the request's JSON."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, answer, models):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.asked, self.headers, self.lock = answer, [], [], threading.Lock()
        self.models = Reply({"data": [{"id": name} for name in models]})
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        pass  # clients that leave early are part of the tests


@pytest.fixture
def serve():
    """Start servers, and stop them afterwards; serve(answer) -> LocalServer."""
    running = []

    def start(answer, models=("toy",)):
        server = LocalServer(answer, models)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Short pauses, and certificates that are read once instead of for each client."""
    monkeypatch.setattr(asking, "_BACKOFF", 0.01)
    monkeypatch.setattr(httpx2, "AsyncClient", partial(httpx2.AsyncClient, verify=CERTIFICATES))


def completions(generate, seed, lock=None):
    """An answer(asked) whose texts are those of generate(prefix, n_tokens, rng)."""
    rng, lock = np.random.default_rng(seed), lock or threading.Lock()

    def choice(asked):
        prefix = [LETTERS.index(letter) for letter in asked["prompt"]]
        tokens = list(generate(prefix, asked["max_tokens"], rng))
        reason = "stop" if tokens[-1] == STOP else "length"
        return {"text": "".join(LETTERS[t] for t in tokens if t != STOP), "finish_reason": reason}

    def answer(asked):
        with lock:
            return Reply({"choices": [choice(asked) for _ in range(asked.get("n", 1))]})

    return answer


def plain(seed):
    return completions(lambda prefix, n, rng: generate_target_only(TARGET, prefix, n, rng, stop=STOP), seed)


def speculative(seed, verifier=verifiers.token):
    def generate(prefix, n, rng):
        return generate_speculative(TARGET, DRAFT, prefix, n, 2, rng, verifier=verifier, stop=STOP).tokens

    return completions(generate, seed)


def fixed(*texts):
    """An answer that is always the same."""
    return lambda asked: Reply({"choices": [{"text": text, "finish_reason": "length"} for text in texts]})


def compared(one, other, **options):
    options = {"max_tokens": 3, "draws": 100, "choices": 50, "alpha": ALPHA, "prompts": ["a"]} | options
    return compare_servers(Server(one.url), Server(other.url), **options)


# The verdict


def test_a_right_speculative_server_is_not_told_apart(serve):
    one, other = serve(speculative(seed=1)), serve(plain(seed=2))
    found = compared(one, other, prompts=["a", "b", "ca"], draws=1000, choices=100)
    assert found.verdict == "no difference found", found
    assert found.subjects == (f"{one.url} (toy)", f"{other.url} (toy)")
    assert [sample.draws for sample in found.samples] == [(1000, 1000)] * 3
    assert [sample.label for sample in found.samples] == [
        "prompts[0], 'a'",
        "prompts[1], 'b'",
        "prompts[2], 'ca'",
    ]
    assert found.resolution < 0.25
    assert found.notes == ()
    assert "servers can only be sampled" in str(found)


@pytest.mark.parametrize("name", ["replaces-from-p", "samples-only-the-bonus", "coin-stuck"])
def test_a_wrong_speculative_server_is_told_apart(serve, name):
    one, other = serve(speculative(seed=1, verifier=EXHIBITS[name].sampler)), serve(plain(seed=2))
    found = compared(one, other, draws=1500, choices=100)
    assert found.verdict == "not equal", found
    text, reason = found.worst[0]
    assert set(text) <= set(LETTERS)
    assert reason in ("stop", "length")


def test_one_text_a_request(serve):
    one, other = serve(speculative(seed=1)), serve(plain(seed=2))
    found = compared(one, other, draws=300, choices=1)
    assert found.verdict == "no difference found", found
    assert len(one.asked) == len(other.asked) == 300
    assert all("n" not in asked and "seed" not in asked for asked in one.asked)
    assert one.asked[0] == {"model": "toy", "prompt": "a", "max_tokens": 3, "temperature": 1.0}


def test_one_server_with_a_field_that_turns_speculation_off(serve):
    wrong, right = speculative(seed=1, verifier=EXHIBITS["replaces-from-p"].sampler), plain(seed=2)
    server = serve(lambda asked: (wrong if asked.get("speculate", True) else right)(asked))
    on, off = Server(server.url), Server(server.url + "/", extra={"speculate": False})
    found = compare_servers(on, off, ["a"], max_tokens=3, draws=1500, choices=100)
    assert found.verdict == "not equal", found
    assert found.subjects[1] == f'{server.url} (toy, {{"speculate": false}})'


def test_where_a_text_ended_is_part_of_the_outcome(serve):
    def ending(reason):
        return serve(lambda asked: Reply({"choices": [{"text": "a", "finish_reason": reason()}]}))

    both = itertools.cycle(["stop", "length"])
    found = compared(ending(lambda: next(both)), ending(lambda: "length"), choices=1, draws=300)
    assert found.verdict == "not equal", found
    found = compared(ending(lambda: None), ending(lambda: "length"), choices=1)
    assert found.verdict == "no difference found", found
    assert "no finish_reason in common (None from" in found.notes[0]


def test_a_server_with_one_text_only_is_noted(serve):
    found = compared(serve(fixed("a")), serve(plain(seed=1)), choices=1)
    assert found.verdict == "not equal"
    assert "a seed of its own?" in found.notes[-1]


def test_one_list_over_and_over_is_refused(serve):
    one, other = serve(fixed(*"ab" * 5)), serve(plain(seed=1))
    with pytest.raises(ValueError, match="gave one list of 10 texts, 10 times, for prompts"):
        compared(one, other, choices=10)
    found = compared(serve(fixed(*"a" * 10)), serve(fixed(*"a" * 10)), choices=10)
    assert found.verdict == "no difference found", "one text over and over may be the law"


def test_seeds_are_all_different_and_wide_apart(serve):
    def seeds(start):
        one, other = serve(plain(seed=1)), serve(plain(seed=2))
        compared(one, other, prompts=["a", "b"], choices=10, seeds=start)
        return [sorted(asked["seed"] for asked in server.asked) for server in (one, other)]

    first, second = seeds(5)
    together = sorted(first + second)
    assert len(together) == 40
    assert min(b - a for a, b in itertools.pairwise(together)) >= 10
    assert 0 <= together[0] <= together[-1] < 2**31
    assert seeds(5) == [first, second] != seeds(6)


def test_temperature_0_is_allowed_and_noted(serve):
    found = compared(serve(fixed("a")), serve(fixed("b")), choices=1, temperature=0)
    assert found.verdict == "not equal"
    assert "at temperature 0 there is one text to compare" in found.notes[0]


def test_from_within_a_running_loop(serve):
    one, other = serve(plain(seed=1)), serve(plain(seed=2))

    async def notebook():
        return compared(one, other)

    assert asyncio.run(notebook()).verdict == "no difference found"


def test_progress_sees_every_request(serve):
    seen = []

    def track(requests):
        for request in requests:
            yield request
            seen.append(request)

    compared(serve(plain(seed=1)), serve(plain(seed=2)), draws=200, choices=20, track=track)
    assert seen == list(range(20))


# The model


def test_the_model_is_named_or_the_only_one(serve):
    one, other = serve(plain(seed=1), models=["x", "y"]), serve(plain(seed=2))
    with pytest.raises(
        ValueError, match=r"/v1/models lists 2 models \(x, y\); want the name of one as model"
    ):
        compared(one, other)
    many = serve(plain(seed=1), models=[f"m{i}" for i in range(30)])
    with pytest.raises(ValueError, match=r"lists 30 models \(m0, .*, m9, …\)"):
        compared(many, other)
    with pytest.raises(ValueError, match="lists no model"):
        compared(serve(plain(seed=1), models=[]), other)
    compare_servers(Server(one.url, "y"), Server(other.url), ["a"], draws=100)
    assert {asked["model"] for asked in one.asked} == {"y"}
    assert {asked["model"] for asked in other.asked} == {"toy"}


@pytest.mark.parametrize("listed", [[], {"data": 3}, {"data": [3, {"id": 4}]}, {"models": []}])
def test_a_list_of_models_of_another_form(serve, listed):
    one = serve(plain(seed=1))
    one.models = Reply(listed)
    with pytest.raises(ValueError, match="lists no model; want the name of one"):
        compared(one, serve(plain(seed=2)))


def test_both_the_same_is_refused(serve):
    one = serve(plain(seed=1))
    same = "want two that differ in base_url, model or extra"
    with pytest.raises(ValueError, match=same):
        compare_servers(Server(one.url), Server(one.url + "/"), ["a"])
    assert not one.asked
    with pytest.raises(ValueError, match=same):
        compare_servers(Server(one.url), Server(one.url, "toy"), ["a"])


# Servers that fail


def flaky(replies, then):
    """An answer that gives these replies first."""
    first = iter(replies)
    return lambda asked: next(first, None) or then(asked)


@pytest.mark.parametrize(
    "trouble",
    [
        Reply({"error": {"message": "overloaded"}}, 500),
        Reply(b"", 503, {"Retry-After": "0"}),
        Reply(b"<html>", 502, {"Retry-After": "soon"}),
        Reply({"detail": "slowly"}, 429, {"Retry-After": "0.01"}),
        Reply(b"", 408),
    ],
    ids=lambda reply: str(reply.status),
)
def test_what_may_pass_is_asked_again(serve, trouble):
    one = serve(flaky([trouble] * 3, plain(seed=1)))
    found = compared(one, serve(plain(seed=2)), draws=200, choices=20)
    assert found.verdict == "no difference found"
    assert len(one.asked) == 10 + 3
    assert len(found.notes) == 1
    assert found.notes[0].startswith(
        f"{one.url} (toy): 3 requests sent again (at last: answered {trouble.status}:"
    )


def unavailable(every, then, first=0, status=503):
    """An answer that is 503 for each `every`-th request after the first ones, however often it is sent."""
    numbers, lock, refused = itertools.count(1), threading.Lock(), set()

    def answer(asked):
        with lock:
            number = next(numbers)
            if number > first and number % every == 0:
                refused.add(asked["seed"])
        return Reply({"error": "full"}, status) if asked["seed"] in refused else then(asked)

    return answer


def test_a_few_503s_to_the_last_are_noted(serve):
    one = serve(unavailable(50, plain(seed=1), first=100))
    found = compared(one, serve(plain(seed=2)), draws=400, choices=1, retries=1, seeds=5)
    assert found.verdict == "no difference found", found
    lost = 400 - found.samples[0].draws[0]
    assert 4 <= lost <= 10
    assert found.samples[0].draws[1] == 400
    assert f"{one.url} (toy): {lost} requests sent again (at last: answered 503: full)" in found.notes
    given_up = (
        f"{one.url} (toy): {lost} of 400 requests given up, answered 503 every time; the texts that are"
    )
    assert f"{given_up} missing may make a difference of up to {lost / 400:.2g}" in found.notes


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        (lambda then: unavailable(1, then), 20),
        (lambda then: unavailable(1, then, first=150), 200),
        (lambda then: unavailable(4, then, first=100), 400),
        (lambda then: unavailable(50, then, first=100, status=500), 180),  # may be due to the text
    ],
    ids=["never answers", "answers no longer", "too large a share", "another status"],
)
def test_more_of_them_end_the_comparison(serve, answer, sent):
    one = serve(answer(plain(seed=1)))
    with pytest.raises(ValueError, match=r"/completions: answered 50[03]: full, asked 2 times; want a"):
        compared(one, serve(plain(seed=2)), draws=400, choices=1, retries=1, seeds=5)
    assert len(one.asked) <= sent


def test_too_many_503s_in_the_time_there_was(serve):
    one = serve(slowly(unavailable(5, plain(seed=1), first=20), 0.01))
    with pytest.raises(ValueError, match=r"requests were answered 503 every time; want .* nine of ten"):
        compared(one, serve(plain(seed=2)), draws=10_000, choices=1, retries=0, seeds=5, seconds=2)


def test_a_prompt_that_is_left_with_too_few_texts(serve):
    one = serve(unavailable(50, plain(seed=1)))
    with pytest.raises(ValueError, match=r"^\d+ texts came, and 100 .* given up, .*; want more draws$"):
        compared(one, serve(plain(seed=2)), draws=100, choices=1, retries=0, seeds=5)


def test_a_lost_connection_is_asked_again(serve):
    replies = iter([None, None])
    good = plain(seed=1)
    one = serve(lambda asked: next(replies, "good") and good(asked))
    found = compared(one, serve(plain(seed=2)))
    assert "2 requests sent again (at last: the connection broke (" in found.notes[0]


def test_retry_after_is_honoured_up_to_a_cap(serve, monkeypatch):
    pauses, sleep = [], asyncio.sleep

    async def noted(seconds):
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    headers = ["1.5", "3600", formatdate(time.time() + 5), formatdate(time.time() - 5), "inf"]
    busy = [Reply(b"", 429, {"Retry-After": value}) for value in headers]
    other = serve(plain(seed=2))
    compared(serve(flaky(busy, plain(seed=1))), other, choices=100, retries=5)
    assert pauses[:2] == [1.5, 10]
    assert 2 < pauses[2] <= 5
    assert pauses[3:] == [0, 10]

    pauses.clear()
    monkeypatch.setattr(asking, "_BACKOFF", 0.5)
    compared(serve(flaky([Reply(b"", 500)] * 7, plain(seed=1))), other, choices=100, retries=7)
    for attempt, pause in enumerate(pauses):
        assert min(10, 0.25 * 2**attempt) <= pause <= min(10, 0.75 * 2**attempt)


def hanging(asked):
    time.sleep(3)
    return Reply(b"")


BAD = [
    (
        lambda asked: Reply(b"", 500),
        "/v1/completions: answered 500: , asked 3 times; want a server that answers",
    ),
    (lambda asked: Reply("busy", 429), "answered 429: busy, asked 3 times; want a smaller concurrency"),
    (lambda asked: Reply({"error": "bad key"}, 401), "answered 401: bad key; want an api_key that it takes"),
    (lambda asked: Reply({"message": "what?"}, 404), "answered 404: what?; want a base_url with all that"),
    (lambda asked: Reply(b"\x1b[31mx\r\n" * 999, 400), "answered 400: [31mx [31mx "),
    (lambda asked: Reply(b"\xff" * 3_000_000, 400), "answered 400: \ufffd"),
    (hanging, "no answer within 0.2 s, asked 3 times; want a longer timeout, or a smaller concurrency"),
    (lambda asked: None, "asked 3 times; want a server that runs and answers"),
    (lambda asked: Reply(b"<html>hello"), "answered what is not JSON: <html>hello; want"),
    (lambda asked: Reply(b"[" * 100_000), "answered what is not JSON: [["),
    (lambda asked: Reply(b"9" * 5_000), "answered what is not JSON: 99"),
    (lambda asked: Reply(b""), "answered what is not JSON"),
    (
        lambda asked: Reply({"error": "no"}),
        'answered without a list of choices: {"error": "no"}; want OpenAI',
    ),
    (lambda asked: Reply([1]), "answered without a list of choices: [1]"),
    (lambda asked: Reply({"choices": {}}), "answered without a list of choices"),
    (lambda asked: Reply({"choices": []}), "gave 0 in place of 1 choices; want OpenAI's form"),
    (lambda asked: Reply({"choices": [{"message": 1}]}), 'gave a choice without a text: {"message": 1}'),
    (lambda asked: Reply({"choices": [{"text": 7}]}), "gave a choice without a text"),
    (lambda asked: Reply({"choices": ["a"]}), "gave a choice without a text"),
    (
        lambda asked: Reply({"choices": [{"text": "a", "finish_reason": 7}]}),
        "gave a choice with the finish_reason 7; want OpenAI's form of completions",
    ),
    (
        lambda asked: Reply({"choices": [{"text": "a", "finish_reason": {"type": "\x1b[31m"}}]}),
        'gave a choice with the finish_reason {"type": "\\u001b[31m"}; want',
    ),
    (
        lambda asked: Reply({"choices": [{"text": "a", "finish_reason": ["length"]}]}),
        'finish_reason ["length"]',
    ),
    (lambda asked: Reply({"choices": [{"text": "a", "finish_reason": False}]}), "finish_reason false; want"),
    (lambda asked: Reply(b" " * 3_000_000), "answered over 1000000 bytes; want fewer choices or max_tokens"),
    (
        lambda asked: Reply(b"", 307, {"Location": "http://x/y"}),
        "answered 307, a redirect to http://x/y; want",
    ),
    (lambda asked: Reply(b"", 304), "answered 304, a redirect to nowhere"),
    (fixed("a", "b"), "gave 2 in place of 1 choices"),
]


@pytest.mark.parametrize(("answer", "says"), BAD, ids=[says[:40] for _, says in BAD])
def test_a_bad_server_ends_in_one_line(serve, answer, says):
    bad, good = serve(answer), serve(plain(seed=1))
    began = time.monotonic()
    with pytest.raises(ValueError, match="completions") as failed:
        compared(bad, good, choices=1, timeout=0.2, retries=2)
    assert time.monotonic() - began < 3
    line = str(failed.value)
    assert line.startswith(bad.url)
    assert says in line
    assert line.isprintable(), "one line, and nothing that moves the cursor"
    assert len(line) < 450


def test_a_server_that_does_not_know_n(serve):
    one, other = serve(lambda asked: fixed("a")(asked)), serve(plain(seed=1))
    with pytest.raises(
        ValueError, match="gave 1 in place of 50 choices; want choices=1, or a server that takes n"
    ):
        compared(one, other)


def test_a_refusal_stops_at_once(serve):
    one, other = serve(hanging), serve(lambda asked: Reply("no", 400))
    began = time.monotonic()
    with pytest.raises(ValueError, match="answered 400") as failed:
        compared(one, other, draws=10_000, choices=1)
    assert time.monotonic() - began < 2
    assert str(failed.value).startswith(other.url)
    assert len(other.asked) <= 8


def test_a_server_that_drips_is_timed_out():
    listener = socket.create_server(("127.0.0.1", 0))
    stopping = threading.Event()

    def drip():
        listener.settimeout(0.05)
        connections = []
        while not stopping.is_set():
            try:
                connection, _ = listener.accept()
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                connections.append(connection)
            except TimeoutError:
                pass
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.sendall(b" ")
        for connection in connections:
            connection.close()

    thread = threading.Thread(target=drip)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with pytest.raises(ValueError, match="asked 1 time; want a longer timeout"):
            compare_servers(Server(url, "x"), Server(url, "y"), ["a"], timeout=0.3, retries=0)
    finally:
        stopping.set()
        thread.join()
        listener.close()


def test_where_nothing_listens(serve):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    nowhere = Server(f"http://127.0.0.1:{port}/v1")
    with pytest.raises(
        ValueError, match=r"/v1/models: no connection \(.*\), asked 3 times; want a server that runs"
    ):
        compare_servers(nowhere, Server(serve(plain(seed=1)).url), ["a"], retries=2)


def test_a_proxy_in_the_environment_does_not_hide_a_local_server(serve, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    compared(serve(plain(seed=1)), serve(plain(seed=2)))
    assert asking._is_local("localhost")
    assert asking._is_local("::1")
    assert asking._is_local("0.0.0.0")
    assert not asking._is_local("10.0.0.1")
    assert not asking._is_local("localhost.example.org")


# The key


def test_the_key_is_sent_to_both(serve):
    one, other = serve(plain(seed=1)), serve(plain(seed=2))
    compared(one, other, api_key=KEY)
    for server in (one, other):
        assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    compared(one, other, api_key="")
    assert "Authorization" not in one.headers[-1]


@pytest.mark.parametrize(
    "answer",
    [
        lambda asked: Reply(f"not {KEY}", 401),
        lambda asked: Reply("x" * 190 + KEY, 400),
        lambda asked: Reply(KEY, 500),
        lambda asked: Reply(b"", 307, {"Location": f"http://x/?key={KEY}"}),
        lambda asked: Reply(b"", 307, {"Location": f"http://x/?key={quote(KEY, safe='')}"}),
        lambda asked: Reply(KEY.encode()),
        lambda asked: Reply({KEY: KEY}),
        lambda asked: Reply({"choices": [{KEY: KEY}]}),
    ],
)
def test_no_error_shows_the_key(serve, answer):
    one, other = serve(answer), serve(plain(seed=2))
    with pytest.raises(ValueError, match=r"\[api_key\]") as failed:
        compared(one, other, choices=1, api_key=KEY, retries=1)
    assert failed.value.__cause__ is None
    assert shows_nothing_of_the_key(f"{failed.value} {failed.value!r}")


@pytest.mark.parametrize("answer", [fixed(KEY), flaky([Reply(KEY, 500)], plain(seed=1))])
def test_no_answer_shows_the_key(serve, answer):
    found = compared(serve(answer), serve(plain(seed=2)), choices=1, api_key=KEY)
    shown = f"{found} {found!r} {found.to_dict()}"
    assert "[api_key]" in shown
    assert shows_nothing_of_the_key(shown)


def shows_nothing_of_the_key(text):
    return not any(KEY[at : at + 8] in text for at in range(len(KEY) - 7))


@pytest.mark.parametrize("key", ["c4\nd5", "c4 d5", "ключ"])
def test_a_key_that_no_header_can_hold(key):
    with pytest.raises(ValueError, match="want the key alone") as failed:
        compare_servers(Server("http://a"), Server("http://b"), ["a"], api_key=key)
    assert key not in str(failed.value)


# Time


def slowly(answer, seconds):
    def slow(asked):
        time.sleep(seconds)
        return answer(asked)

    return slow


def test_a_limit_on_time_compares_what_there_is(serve):
    one, other = serve(slowly(plain(seed=1), 0.05)), serve(plain(seed=2))
    began = time.monotonic()
    found = compared(
        one, other, prompts=["a", "b", "c"], draws=100_000, choices=50, concurrency=2, seconds=0.8
    )
    assert time.monotonic() - began < 2.5
    assert found.verdict == "no difference found", found
    assert found.notes[0].startswith("time was up after 0.8 s: ")
    assert "of 100000 texts a prompt from each" in found.notes[0]
    draws = [count for sample in found.samples for count in sample.draws]
    assert min(draws) >= 100
    assert max(draws) - min(draws) <= 200, "the prompts and the servers are about equally far"


def test_prompts_that_time_did_not_do_for_are_left_out(serve):
    one, other = serve(slowly(plain(seed=1), 0.1)), serve(plain(seed=2))
    prompts = ["a" * n for n in range(1, 21)]
    found = compared(one, other, prompts=prompts, concurrency=1, seconds=0.8)
    assert 1 <= len(found.samples) < 20
    assert f"{20 - len(found.samples)} of 20 prompts left out" in found.notes[1]


def test_too_little_time_for_a_hundred_texts(serve):
    began = time.monotonic()
    with pytest.raises(
        ValueError, match=r"^\d+ texts came in 0.3 s, and 100 from each are needed for a prompt; want"
    ):
        compared(serve(slowly(plain(seed=1), 0.1)), serve(plain(seed=2)), choices=1, seconds=0.3)
    with pytest.raises(
        ValueError, match=r"^0 texts .* sent again \(at last: answered 500: down\); want more"
    ):
        compared(serve(lambda asked: Reply("down", 500)), serve(hanging), retries=10_000, seconds=0.3)
    assert time.monotonic() - began < 2.5


def test_an_interrupt_stops_it(serve):
    """In another process, as a user would: Ctrl-C, and the prompt is back."""
    one = serve(slowly(plain(seed=1), 5))
    code = f"""
from specdecode.adapters.servers import Server, compare_servers
print("asking", flush=True)
compare_servers(Server({one.url!r}, "x"), Server({one.url!r}, "y"), ["a"])
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True) as asking:
        assert asking.stdout.readline() == "asking\n"
        while not one.asked:
            time.sleep(0.01)
        asking.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert asking.communicate(timeout=10)[1].strip().endswith("KeyboardInterrupt")
        assert time.monotonic() - began < 3


# Settings


@pytest.mark.parametrize(
    ("base_url", "says"),
    [
        ("localhost:8000/v1", "want one that begins with http://HOST or https://HOST"),
        ("ftp://a/v1", "want one that begins with http://"),
        ("http:///v1", "want one that begins with http://"),
        ("", "want one that begins with http://"),
        (
            "http://a:99999/v1",
            "base_url is 'http://a:99999/v1', with port 99999; want a port from 1 to 65535",
        ),
        (
            "http://a:b/v1",
            "base_url is 'http://a:b/v1': Invalid port: 'b'; want one such as http://HOST:PORT/v1",
        ),
        ("http://a/v1/completions", "want it without /completions"),
        (f"http://user:{KEY}@a/v1", "holds one of @ ? #; want an address alone, and a key as api_key"),
        (f"http://a/v1?key={KEY}", "holds one of @ ? #"),
        (7, "base_url is 7; want a string"),
    ],
)
def test_an_address_that_is_none(base_url, says):
    with pytest.raises(ValueError, match="base_url") as failed:
        Server(base_url)
    assert says in str(failed.value)
    assert KEY not in str(failed.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"model": ""}, "model is ''; want a name"),
        ({"extra": 3}, "extra is 3; want a mapping"),
        ({"extra": {"n": 3}}, "extra sets 'n'; want fields other than model, prompt,"),
        ({"extra": {"top_p": float("nan")}}, "extra cannot be written as JSON"),
        ({"extra": {"f": len}}, "extra cannot be written as JSON"),
    ],
)
def test_a_server_with_bad_settings(settings, says):
    with pytest.raises(ValueError, match="want") as failed:
        Server("http://a", **settings)
    assert says in str(failed.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"prompts": "a"}, "prompts is 'a'; want a list of at least one string"),
        ({"prompts": []}, "prompts is []"),
        ({"prompts": ["a", 3]}, "prompts[1] is 3; want a string"),
        ({"prompts": ["a", "b", "a"]}, "prompts[2] is prompts[0] again"),
        ({"draws": 99}, "draws is 99; want a whole number, 100 or more"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"choices": 0}, "choices is 0"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"retries": -1}, "retries is -1"),
        ({"temperature": -1}, "temperature is -1; want a finite number, 0 or more"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"alpha": 0}, "alpha is 0; want a number between 0 and 1"),
        ({"timeout": 0}, "timeout is 0; want a finite number of seconds"),
        ({"seconds": float("inf")}, "seconds is inf"),
        ({"seeds": -1}, "seeds is -1"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_sent(options, says):
    with pytest.raises(ValueError, match="want") as failed:
        compare_servers(Server("http://a"), Server("http://b"), **{"prompts": ["a"]} | options)
    assert says in str(failed.value)


def test_prompts_of_any_text_arrive(serve):
    one, other = serve(fixed(*"a" * 50)), serve(fixed(*"a" * 50))
    prompts = ["", "日本\n\x00", "\ud800", "x" * 10_000]
    found = compared(one, other, prompts=prompts)
    assert Counter(asked["prompt"] for asked in one.asked) == dict.fromkeys(prompts, 2)
    assert str(found).encode()  # a lone surrogate would not go
    assert all(len(sample.label) < 70 for sample in found.samples)


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    monkeypatch.delitem(sys.modules, "specdecode.adapters.servers")
    with pytest.raises(ImportError, match=r"pip install 'specdecode\[server\]'$"):
        importlib.import_module("specdecode.adapters.servers")


# The command line


def test_the_command_tells_servers_apart(serve, capsys, monkeypatch):
    from specdecode import cli

    monkeypatch.setenv("A_KEY", KEY)
    off, same = serve(plain(seed=1)), serve(speculative(seed=2))
    wrong = serve(speculative(seed=3, verifier=EXHIBITS["replaces-from-p"].sampler))
    argv = ["--reference-url", off.url, "--prompt", "a", "--draws", "1500", "--choices", "100"]
    argv += ["--max-tokens", "3", "--key-env", "A_KEY"]
    assert cli.main(["compare", "--base-url", same.url, *argv]) == 0
    assert "no difference found" in capsys.readouterr().out
    assert cli.main(["compare", "--base-url", wrong.url, *argv, "--json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["verdict"] == "not equal"
    assert KEY not in told.out + told.err
    assert off.headers[-1]["Authorization"] == f"Bearer {KEY}"
