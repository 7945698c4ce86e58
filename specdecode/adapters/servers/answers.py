"""What an answer says, or what is wrong with it: in one line, and without the key."""

import json
import time
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn
from urllib.parse import quote

import httpx2

from specdecode.adapters.servers.settings import Settings, one_line

__all__ = ["MAX_BODY", "Again", "Judge", "Outcome"]

Outcome = tuple[str, str | None]  # a text, and its finish_reason

MAX_BODY = 1_000_000  # bytes of an answer
_FORM = "want OpenAI's form of completions"
_HINTS = {
    401: "want an api_key that it takes",
    403: "want an api_key that it takes",
    404: "want a base_url with all that comes before /completions, often /v1, and a model it has",
    429: "want a smaller concurrency, or more retries",
}


class Again(Exception):
    """What makes it worth while to ask again.

    Parameters
    ----------
    trouble : str
        What went wrong.
    want : str
        What would be right.
    pause : float, optional
        Seconds that the server asked to wait.
    unavailable : bool
        Whether the server said that it is there, and cannot answer now (503).
    """

    def __init__(
        self, trouble: str, want: str, pause: float | None = None, unavailable: bool = False
    ) -> None:
        super().__init__(trouble)
        self.want, self.pause, self.unavailable = want, pause, unavailable


class Judge:
    """Reads the answers of one server.

    Parameters
    ----------
    base : str
        The server's address.
    settings : Settings
    """

    def __init__(self, base: str, settings: Settings) -> None:
        self._base, self._settings = base, settings

    def content(self, url: str, response: httpx2.Response, content: bytes) -> Any:
        """The answer as JSON, if it is one; raises `Again` where another may be."""
        status = response.status_code
        if 300 <= status < 400:
            where = self.quoted(response.headers.get("location", "nowhere"))
            raise ValueError(f"{url} answered {status}, a redirect to {where}; want the address itself")
        if not 200 <= status < 300:
            said = f"answered {status}: {self.quoted(_message(content))}"
            if status not in (408, 429) and status < 500:
                raise ValueError(f"{url} {said}; {_HINTS.get(status, 'want a request that it takes')}")
            pause = _asked_to_wait(response.headers.get("retry-after"))
            raise Again(said, _HINTS.get(status, "want a server that answers"), pause, status == 503)
        if len(content) > MAX_BODY:
            raise ValueError(f"{url} answered over {MAX_BODY} bytes; want fewer choices or max_tokens")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            shown = self.quoted(content.decode(errors="replace"))
            raise ValueError(f"{url} answered what is not JSON: {shown}; want a completions server") from None

    def only_model(self, answer: Any) -> str:
        """The name of the only model in a list of models."""
        listed = answer.get("data") if isinstance(answer, dict) else None
        entries = listed if isinstance(listed, list) else []
        ids = [entry.get("id") for entry in entries if isinstance(entry, dict)]
        names = [name for name in ids if isinstance(name, str)]
        if len(names) != 1:
            known = ", ".join(map(self.quoted, names[:10])) + ", …" * (len(names) > 10)
            have = f"{len(names)} models ({known})" if names else "no model"
            raise ValueError(f"{self._base}/models lists {have}; want the name of one as model")
        return names[0]

    def outcomes(self, answer: Any) -> tuple[Outcome, ...]:
        """The choices of a completion, as many as were asked for."""
        given = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(given, list):
            self._refuse(f"answered without a list of choices: {self._shown(answer)}")
        choices = self._settings.choices
        if len(given) != choices:
            hint = "want choices=1, or a server that takes n" if choices > 1 else _FORM
            self._refuse(f"gave {len(given)} in place of {choices} choices", hint)
        return tuple(map(self._outcome, given))

    def _outcome(self, choice: Any) -> Outcome:
        text = choice.get("text") if isinstance(choice, dict) else None
        if not isinstance(text, str):
            self._refuse(f"gave a choice without a text: {self._shown(choice)}")
        reason = choice.get("finish_reason")
        if not (reason is None or isinstance(reason, str)):
            self._refuse(f"gave a choice with the finish_reason {self._shown(reason)}")
        return self.without_key(text), None if reason is None else self.without_key(reason)

    def _refuse(self, trouble: str, hint: str = _FORM) -> NoReturn:
        raise ValueError(f"{self._base}/completions {trouble}; {hint}")

    def _shown(self, answer: Any) -> str:
        return self.quoted(json.dumps(answer))

    def quoted(self, text: str) -> str:
        """A server's own words, fit to be shown."""
        return one_line(self.without_key(text))

    def without_key(self, text: str) -> str:
        """The text without the key: a server may send it back, as it is, in JSON, or in an address."""
        key = self._settings.api_key
        for spelling in (key, json.dumps(key)[1:-1], quote(key, safe="")) if key else ():
            text = text.replace(spelling, "[api_key]")
        return text


def _message(content: bytes) -> str:
    """What an error says, in the places where servers put it; else all of it."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return content[:MAX_BODY].decode(errors="replace")
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
