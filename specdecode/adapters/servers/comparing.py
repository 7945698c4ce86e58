"""From what two servers said to a verdict.

One **outcome** is a text with its finish_reason: "ab" that ran out of tokens is not "ab" that stopped of
itself.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from specdecode.adapters.servers.answers import Outcome
from specdecode.adapters.servers.settings import (
    LEAST,
    Server,
    Settings,
    checked,
    checked_prompts,
    one_line,
    refuse_same,
)
from specdecode.adapters.servers.turns import Answers, draw
from specdecode.certify.same import Sameness, compare_samples

__all__ = ["compare_servers"]

Counts = tuple[Counter[Any], Counter[Any]]  # of outcomes, or of texts, from either server


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
        5xx. The pause doubles each time and is at most 10 s, also where Retry-After asks for more. A request
        that is answered 503 every time is given up, if the server otherwise answers.
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
    says how often something was sent again. What was given up, at most a tenth of the requests to a server,
    is missing, and a note says how large a difference that may make. A local address is reached without the
    environment's proxy.

    Examples
    --------
    >>> server = Server("http://127.0.0.1:8000/v1")
    >>> compare_servers(server, server, ["Once upon a time"])
    Traceback (most recent call last):
    ValueError: both are http://127.0.0.1:8000/v1; want two that differ in base_url, model or extra
    """
    settings = checked(
        max_tokens, draws, temperature, alpha, choices, concurrency, timeout, retries, seconds, api_key, seeds
    )
    prompts = checked_prompts(prompts)
    refuse_same(server, reference)
    lines, answers = draw((server, reference), prompts, settings, track)
    subjects = lines[0].name, lines[1].name
    troubles = [trouble for line in lines for trouble in line.troubles]
    labels = [_label(i, prompt) for i, prompt in enumerate(prompts)]
    given_up = sum(line.given_up for line in lines)
    kept, notes = _kept(dict(zip(labels, answers)), settings, given_up, troubles)
    for label, pair in kept.items():
        for name, given in zip(subjects, pair):
            _refuse_repeated(name, label, given, alpha)
    if temperature == 0:
        notes.append("at temperature 0 there is one text to compare, and rounding may decide which: use 1")
    groups, more = _comparable(subjects, kept)
    reason = "two servers can only be sampled"
    return compare_samples(subjects, groups, alpha, reason=reason, notes=(*notes, *troubles, *more))


def _label(i: int, prompt: str) -> str:
    return f"prompts[{i}], {prompt if len(prompt) <= 40 else prompt[:39] + '…'!r}"


def _kept(
    answers: Mapping[str, Answers], settings: Settings, given_up: int, troubles: Sequence[str]
) -> tuple[dict[str, Answers], list[str]]:
    """The prompts with enough texts from both, and notes of what time did not do for."""
    came = {label: [len(given) * settings.choices for given in pair] for label, pair in answers.items()}
    kept = {label: pair for label, pair in answers.items() if min(came[label]) >= LEAST}
    asked = given_up + sum(len(given) for pair in answers.values() for given in pair)
    in_time = asked == 2 * len(answers) * settings.requests
    within = "" if in_time else f" in {settings.seconds:g} s"
    if not kept:
        total = sum(map(sum, came.values()))
        why = "".join(f"; {trouble}" for trouble in troubles)
        want = "more draws" if in_time else "more seconds, fewer max_tokens, or more choices a request"
        raise ValueError(
            f"{total} texts came{within}, and {LEAST} from each are needed for a prompt{why}; want {want}"
        )
    notes = []
    if not in_time:
        counts = [count for label in kept for count in came[label]]
        notes.append(
            f"time was up after {settings.seconds:g} s: {min(counts)} to {max(counts)} of "
            f"{settings.requests * settings.choices} texts a prompt from each"
        )
    if len(kept) < len(answers):
        left_out = len(answers) - len(kept)
        notes.append(
            f"{left_out} of {len(answers)} prompts left out, with fewer than {LEAST} texts from each"
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
) -> tuple[dict[str, Counts], list[str]]:
    """Counts of outcomes; of texts alone, and a note, where the two name finish_reasons differently."""
    groups = {label: (_outcomes(one), _outcomes(other)) for label, (one, other) in answers.items()}
    reasons = [{reason for pair in groups.values() for _, reason in pair[side]} for side in (0, 1)]
    if reasons[0] & reasons[1]:
        return groups, []
    named = [one_line(", ".join(sorted(map(str, given)))) for given in reasons]
    both = " and ".join(f"{said} from {name}" for said, name in zip(named, subjects))
    note = f"no finish_reason in common ({both}), so the texts alone were compared"
    return {label: (_texts(one), _texts(other)) for label, (one, other) in groups.items()}, [note]


def _outcomes(given: Sequence[tuple[Outcome, ...]]) -> Counter[Any]:
    return Counter(outcome for request in given for outcome in request)


def _texts(counts: Counter[Any]) -> Counter[Any]:
    texts: Counter[Any] = Counter()
    for (text, _), count in counts.items():
        texts[text] += count
    return texts
