"""The right rule once more, in loose form: its lines are arguments, and an exhibit changes one of them."""

from collections.abc import Callable
from typing import Any

from specdecode import verifiers
from specdecode.checks import TokenIds
from specdecode.drafts import as_draft
from specdecode.models import next_rows
from specdecode.sampling import draw
from specdecode.speculative import Round, Trace, cut

__all__ = ["generate", "normalised", "verify"]

Line = Callable[..., Any]


def verify(
    draft_tokens: TokenIds,
    draft_dists: Any,
    target_dists: Any,
    rng: Any,
    *,
    row: Line = lambda rows, i: rows[i],
    coin: Line = lambda rng, coins: rng.random(),
    ratio: Line = lambda p, q, x: p[x] / q[x],
    accepts: Line = lambda coin, ratio: coin < ratio,
    replaces: Line = lambda p, q, x, coin, rng: draw(verifiers.replacement(p, q), rng.random()),
    bonus: Line = lambda target_dists, draft_dists, rng: draw(target_dists[-1], rng.random()),
) -> list[int]:
    """One round of the token rule."""
    emitted: list[int] = []
    coins: list[Any] = []
    for i, x in enumerate(draft_tokens):
        p, q = row(target_dists, i), draft_dists[i]
        coins.append(coin(rng, coins))
        if not accepts(coins[-1], ratio(p, q, x)):
            return [*emitted, replaces(p, q, x, coins[-1], rng)]
        emitted.append(int(x))
    return [*emitted, bonus(target_dists, draft_dists, rng)]


def _sampled(draft: Any, text: list[int], k: int, rng: Any) -> tuple[Any, Any]:
    return as_draft(draft).propose(text, k, rng)


def _all_rows(target: Any, text: list[int], drafted: list[int]) -> Any:
    return next_rows(target, [*text, *drafted], len(drafted) + 1)


def generate(
    target: Any,
    draft: Any,
    prefix: TokenIds,
    n_tokens: int,
    k: int,
    rng: Any,
    stop: int | None = None,
    *,
    propose: Line = _sampled,
    rows: Line = _all_rows,
    verify: Line = verify,
    stopped: Line = lambda emitted, stops: not stops.isdisjoint(emitted),
    finish: Line = cut,
) -> Trace:
    """A text in rounds; its draft is never counted, for the museum asks of no cost."""
    stops = set() if stop is None else {stop}
    text = list(prefix)
    made: list[Round] = []
    while len(text) < len(prefix) + n_tokens:
        drafted, draft_dists = propose(draft, text, k, rng)
        emitted = verify(drafted, draft_dists, rows(target, text, drafted), rng)
        made.append(Round(len(drafted), len(emitted) - 1, len(emitted)))
        text += emitted
        if stopped(emitted, stops):
            break
    return Trace(finish(text[len(prefix) :], n_tokens, stops), made, 0)


def normalised(weights: Any) -> Any:
    """Weights over their sum."""
    return weights / weights.sum()
