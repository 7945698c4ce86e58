"""Malformed answers of servers, and settings that cannot be."""

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from malformed import Case
from malformed_arguments import FINITE, INF, NAN, NONE, SEEDS, UNIT, WHOLE, each_wrong, values_of
from malformed_lines import URLS

from specdecode.checks import shown

EXTRAS: list[Any] = [{"prompt": 1}, {"n": 2}, {"stream": True}, {"a": NAN}, {"a": {1}}, {"a": object()}]
CHOICE = {"text": "a", "finish_reason": "stop"}
BODIES: dict[str, Any] = {
    **{f"{body!r}": body for body in (None, 3, "text", [], {}, True, 0.5)},
    **{
        f"choices {given!r}": {"choices": given}
        for given in (None, 3, "a", {}, [], [None], [3], ["a"], [[]], [{}], [CHOICE] * 2)
    },
    **{f"a text {text!r}": {"choices": [{"text": text}]} for text in (None, 3, [], {}, True)},
    **{
        f"a reason {reason!r}": {"choices": [{**CHOICE, "finish_reason": reason}]}
        for reason in (3, [], {}, ["stop"], True, 0.5)
    },
    "an error": {"error": {"message": "two\nlines"}},
    "nothing": b"",
    "a page": b"<html>\n<body>no</body></html>",
    "half of it": b'{"choices": [{"te',
    "bytes": bytes(range(256)),
    "depth": b"[" * 100_000,
    "length": b'{"choices": "' + b"a" * 1_100_000 + b'"}',
    "two of them": b"{} {}",
}
STATUSES = (301, 302, 400, 401, 403, 404, 408, 418, 422, 429, 500, 502, 503)
MODELS_LISTED: dict[str, Any] = {
    **{f"{body!r}": body for body in (None, 3, "m", [], {})},
    **{
        f"data {data!r}": {"data": data}
        for data in (None, 3, {}, [], [None], [{}], [{"id": 3}], [{"id": "a"}, {"id": "b"}])
    },
    "a page": b"<html></html>",
    "nothing": b"",
}


class Answers(BaseHTTPRequestHandler):
    """Answers what the server was made to; `models` for the list of models."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(*self.server.models)  # type: ignore[attr-defined]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(*self.server.completion)  # type: ignore[attr-defined]

    def answer(self, status: int, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the other side may not want all of it
            self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass


GOOD = (200, {"choices": [CHOICE]})
ONE_MODEL = (200, {"data": [{"id": "m"}]})


@contextlib.contextmanager
def _server(completion: Any = GOOD, models: Any = ONE_MODEL) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads, server.completion, server.models = True, completion, models  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def cases() -> Iterator[Case]:
    """Malformed answers of either server, and settings that cannot be."""
    from specdecode.adapters.servers import Server, compare_servers

    def compared(bad: Any, side: int) -> Any:
        with _server(**bad) as one, _server() as other:
            both = [Server(one, "bad" if "models" not in bad else None), Server(other, "good")]
            return compare_servers(
                *(both if side == 0 else both[::-1]), ["p"], draws=100, retries=0, concurrency=1
            )

    for side, name in enumerate(("server", "reference")):
        for title, body in BODIES.items():
            yield Case(
                "servers", f"{name} answers {title}", partial(compared, {"completion": (200, body)}, side)
            )
        for status in STATUSES:
            yield Case(
                "servers",
                f"{name} answers {status}",
                partial(compared, {"completion": (status, {"error": "a\nb"})}, side),
            )
        for title, body in MODELS_LISTED.items():
            yield Case("servers", f"{name} lists {title}", partial(compared, {"models": (200, body)}, side))
    options: dict[str, tuple[Any, ...]] = {
        "prompts": (["p"], values_of(None, 3, "p", [], [3], [None], ["a", "a"], {"a"}), "prompts"),
        "max_tokens": (4, WHOLE | values_of(0), "max_tokens"),
        "draws": (100, WHOLE | values_of(0, 99), "draws"),
        "temperature": (1, FINITE | NONE, "temperature"),
        "alpha": (0.5, UNIT | NONE | values_of(0, 1), "alpha"),
        "choices": (1, WHOLE | values_of(0), "choices"),
        "concurrency": (1, WHOLE | values_of(0), "concurrency"),
        "timeout": (1, values_of(0, -1, NAN, INF, "1", [1]), "timeout"),
        "retries": (0, WHOLE, "retries"),
        "seconds": (1, values_of(0, -1, NAN, INF, "1", [1]), "seconds"),
        "api_key": (
            None,
            values_of(3, b"k") | {"blanks": ("a b", ""), "lines": ("a\nb", ""), "letters": ("é", "")},
            "api_key",
        ),
        "seeds": (None, {name: wrong for name, wrong in SEEDS.items() if name != "None"}, "seeds"),
    }
    two = Server("http://127.0.0.1:9", "a"), Server("http://127.0.0.1:9", "b")
    makes = partial(compare_servers, *two)
    makes.__name__ = "compare_servers"  # type: ignore[attr-defined]
    tables = [
        (makes, options),
        (
            Server,
            {
                "base_url": (
                    "http://x",
                    values_of(None, 3, b"http://x") | {url: (url, "base_url") for url in URLS},
                    "base_url",
                ),
                "model": (None, values_of("", 3, ["m"], b"m"), "model"),
                "extra": (
                    {},
                    values_of(None, 3, "a", []) | {shown(wrong): (wrong, "extra") for wrong in EXTRAS},
                    "extra",
                ),
            },
        ),
    ]
    for function, arguments in tables:
        yield from each_wrong("servers", function, arguments)
