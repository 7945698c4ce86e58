"""Verifiers: rules that turn drafted tokens and two sets of rows into emitted tokens.

Every rule is a pure function of one shape,

    verifier(draft_tokens, draft_dists, target_dists, rng) -> emitted

    draft_tokens   k token ids, k ≥ 0
    draft_dists    k rows; row i is the one token i was drawn from
    target_dists   k + 1 rows; row i is the target's after the first i drafted tokens
    rng            anything with random()
    emitted        1 to k + 1 token ids: the accepted drafted tokens, then one more

Rows are read one at a time and only as far as they are needed, so a lazy sequence of rows serves as
well as an array. Floats and Fractions both run.

A rule says what it claims where it is defined, and `RULES` has them all: "exact", "exact at temperature 0",
or "lossy" for one that gives up exactness for speed. A lossy rule carries `exact = False`, and is never
called exact by anything here. What is defined below is the rule alone; called by its public name it checks
each row that it reads, as it reads it, and `on_checked_rows` is the way in for whoever has checked them.
"""

from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Literal, TypeVar, cast

import numpy as np

from specdecode.checks import Rows, TokenIds, as_drafted, as_list, as_number, as_row, as_token, shown
from specdecode.rule import acceptance, divide, excess
from specdecode.sampling import Uniforms, certain, inverse_cdf, uniform

__all__ = [
    "RULES",
    "Rule",
    "block",
    "greedy",
    "is_lossy",
    "lenient",
    "mixture",
    "on_checked_rows",
    "one_hot",
    "replacement",
    "sampler_match",
    "token",
    "typical",
]

Verifier = Callable[[list[int], np.ndarray, np.ndarray, Any], TokenIds]
Claim = Literal["exact", "exact at temperature 0", "lossy"]
Function = TypeVar("Function", bound=Callable[..., list[int]])


@dataclass(frozen=True)
class Rule:
    """A verifier and what it claims of the text that comes out.

    Attributes
    ----------
    name : str
    verify : callable
        The function of that name in this module.
    claim : str
        "exact": the target's law, if each token was drawn from its row; "exact at temperature 0": the text of
        greedy decoding; "lossy": neither.
    departs : str
        How a lossy rule departs from the target's law, in one line; empty for the others.
    on_checked : callable, optional
        The same rule for rows that have been checked.
    """

    name: str
    verify: Verifier
    claim: Claim
    departs: str = ""
    on_checked: Verifier | None = field(default=None, repr=False, compare=False)


RULES: dict[str, Rule] = {}  # by name, in the order in which they are defined


def _claims(
    claim: Claim, departs: str = "", *, reads_draft_dists: bool = True
) -> Callable[[Function], Function]:
    """Enter the rule below into the register with what it claims, and put a door before it."""

    def register(rule: Function) -> Function:
        @wraps(rule)
        def checked(
            draft_tokens: TokenIds, draft_dists: Rows, target_dists: Rows, *rng: Any, **settings: Any
        ) -> list[int]:
            k = len(draft_tokens := as_list(draft_tokens, "draft_tokens"))
            if reads_draft_dists and _length(draft_dists, "draft_dists") != k:
                raise ValueError(
                    f"draft_dists has {len(draft_dists)} rows for {k} drafted tokens; want one each"
                )
            if _length(target_dists, "target_dists") != k + 1:
                rows = f"target_dists has {len(target_dists)} rows for k = {k}"
                raise ValueError(f"{rows}; want k + 1, the last for the bonus")
            p = _AsRead(target_dists, "target_dists")
            q = _AsRead(draft_dists, "draft_dists", beside=p)
            return rule(draft_tokens, q, p, *rng, **settings)

        door: Any = checked
        if claim == "lossy":
            door.exact = False
        RULES[rule.__name__] = Rule(rule.__name__, door, claim, departs, rule)
        return cast(Function, door)

    return register


def _length(rows: Any, name: str) -> int:
    try:
        return len(rows)
    except TypeError:
        raise ValueError(f"{name} is {shown(rows)}; want a sequence of rows") from None


class _AsRead(dict[int, np.ndarray]):
    """Rows by position, each read and checked when it is first asked for."""

    def __init__(self, rows: Rows, name: str, beside: "_AsRead | None" = None) -> None:
        self._rows, self._name, self._beside = rows, name, beside

    def __missing__(self, i: int) -> np.ndarray:
        first = self._beside[i] if self._beside is not None else next(iter(self.values()), None)
        try:
            row = self._rows[i]
        except (KeyError, IndexError, TypeError):  # a mapping, a set
            raise ValueError(f"{self._name} is {shown(self._rows)}; want a sequence of rows") from None
        self[i] = as_row(row, f"{self._name}[{i}]", None if first is None else len(first))
        return self[i]


def on_checked_rows(verifier: Verifier) -> Verifier:
    """What to call with rows that have been checked: a rule of this module without its door, or the verifier.

    Parameters
    ----------
    verifier : callable
        A rule, bare or inside a `functools.partial`, or anyone's verifier.

    Returns
    -------
    callable
        With the same law. A function that wraps a rule is not that rule, and comes back as it is.

    Examples
    --------
    >>> on_checked_rows(token)([1], [[0.5, 0.5]], [np.array([0.5, 0.5])] * 2, np.random.default_rng(0))
    [1, 0]
    >>> on_checked_rows(print) is print
    True
    """
    if type(verifier) is partial:
        return partial(on_checked_rows(verifier.func), *verifier.args, **verifier.keywords)
    for rule in RULES.values():
        if rule.verify is verifier and rule.on_checked:
            return rule.on_checked
    return verifier


@_claims("exact")
def token(draft_tokens: TokenIds, draft_dists: Rows, target_dists: Rows, rng: Uniforms) -> list[int]:
    """Token by token: keep x with probability min(1, p/q), else replace it from the residual and stop.

    Parameters
    ----------
    draft_tokens : sequence of int, length k
        k ≥ 0. Token i was drawn from draft_dists[i].
    draft_dists : sequence of rows, shape (k, V)
    target_dists : sequence of rows, shape (k + 1, V)
    rng : numpy.random.Generator, or anything with random()
        One uniform for each tested token, then one for the residual or the bonus token; spent even
        when the outcome is certain.

    Returns
    -------
    list of int, length 1 to k + 1
        The accepted drafted tokens, then a replacement or the bonus token. Never a token with p = 0.

    Raises
    ------
    ValueError
        If a row that is read is not a distribution, a drafted token is outside the vocabulary or has
        q = 0, or the numbers of rows do not match k.

    Guarantee
    ---------
    If each drafted token was drawn from its row, the emitted tokens, continued by the target, have the
    target's law (thm-round in chapter 4; by machine, thm-formal in chapter 11). When a coin rejects
    though no entry of p exceeds q, rounding alone rejected, and the replacement is drawn from p.

    References
    ----------
    Leviathan et al. (2023), Algorithm 1; Chen et al. (2023), Algorithm 2.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p, q = [0.5, 0.3, 0.2], [0.1, 0.6, 0.3]
    >>> token([1], [q], [p, p], rng)
    [0]
    """
    return _one_by_one(draft_tokens, lambda i: (target_dists[i], draft_dists[i]), target_dists, rng)


def replacement(p: np.ndarray, q: np.ndarray, kept: Any = 1) -> np.ndarray:
    """The row a rejected token is replaced from: the residual, or p where rounding alone rejected.

    Parameters
    ----------
    p, q : ndarray, shape (V,)
        Target and draft rows, in any arithmetic.
    kept : number
        In [0, 1]; the share of p that the tokens before have left, for the block rule.

    Returns
    -------
    ndarray, shape (V,)
        residual(kept · p, q) if some entry of kept · p exceeds q. Otherwise p: two float rows equal up to
        rounding can still give a ratio just below 1, and no part of p is then left over.

    Examples
    --------
    >>> replacement(np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    array([0.5, 0.5])
    """
    over = excess(kept * p, q)
    return cast(np.ndarray, divide(over, over.sum())) if (over != 0).any() else p


@_claims("exact")
def block(draft_tokens: TokenIds, draft_dists: Rows, target_dists: Rows, rng: Uniforms) -> list[int]:
    """Block verification: keep the longest beginning of the draft that its own coin keeps.

    With π_0 = 1 and π_i = min(1, π_{i−1} · p_i(x_i) / q_i(x_i)), and the part of the target's next row that a
    block of length i leaves over, z_i = Σ (π_i · p_{i+1} − q_{i+1})⁺, the beginning of length i is kept with
    probability z_i / (z_i + 1 − π_i), the whole draft with π_k. One more token is drawn from the
    normalised (π_i · p_{i+1} − q_{i+1})⁺, or from the bonus row.

    Parameters
    ----------
    draft_tokens : sequence of int, length k
        k ≥ 0. Token i was drawn from draft_dists[i].
    draft_dists : sequence of rows, shape (k, V)
    target_dists : sequence of rows, shape (k + 1, V)
    rng : numpy.random.Generator, or anything with random()
        One uniform for each drafted token, whatever the others said, then one for the last token.

    Returns
    -------
    list of int, length 1 to k + 1
        The accepted drafted tokens, then a replacement or the bonus token. Never a token with p = 0.

    Raises
    ------
    ValueError
        As `token`.

    Guarantee
    ---------
    As `token`: the emitted tokens, continued by the target, have the target's law, and at least as many are
    accepted as by the token rule (thm-block in chapter 8; by machine, thm-formal in chapter 11); for k = 1
    the two are one rule. A later token may be kept although an earlier coin failed, so the coins do not
    stop at the first failure.

    References
    ----------
    Sun et al. (2024), block verification.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p, q = [0.5, 0.3, 0.2], [0.1, 0.6, 0.3]
    >>> block([1], [q], [p, p], rng)
    [0]
    """
    k, kept, drafted = len(draft_tokens), [1], []
    for i in range(k):
        p, q = target_dists[i], draft_dists[i]
        drafted.append(as_drafted(draft_tokens[i], q, f"draft_tokens[{i}]"))
        kept.append(acceptance(kept[i] * p[drafted[i]], q[drafted[i]]))
    length = 0
    for i in range(1, k + 1):
        if uniform(rng) < (kept[k] if i == k else _keeps(kept[i], target_dists[i], draft_dists[i])):
            length = i
    last = target_dists[length]
    if length < k:
        last = replacement(last, draft_dists[length], kept[length])
    return [*drafted[:length], inverse_cdf(last, uniform(rng))]


def _keeps(kept: Any, p: np.ndarray, q: np.ndarray) -> Any:
    """Probability that a block ends no earlier than before these rows, given that it ends no later."""
    left = excess(kept * p, q).sum()
    return left / (left + 1 - kept) if left + 1 - kept != 0 else 1


@_claims("exact at temperature 0")
def greedy(draft_tokens: TokenIds, draft_dists: Sized, target_dists: Rows, rng: Any = None) -> list[int]:
    """Greedy decoding, verified: emit the target's arg-max at each position, up to the first that differs.

    Parameters
    ----------
    draft_tokens : sequence of int, length k
    draft_dists : sequence of rows, shape (k, V)
        Not read: what the target does not prefer is rejected, however it was drafted.
    target_dists : sequence of rows, shape (k + 1, V)
        Soft rows; their arg-maxes count, ties to the lowest index.
    rng : ignored
        Nothing is random here, so nothing is drawn.

    Returns
    -------
    list of int, length 1 to k + 1

    Raises
    ------
    ValueError
        If a row that is read is not a distribution, a drafted token is outside the vocabulary, or the
        numbers of rows do not match k.

    Guarantee
    ---------
    Exact for the temperature-0 target: the emitted tokens are the ones greedy decoding gives. It makes
    no claim about the soft rows themselves.

    References
    ----------
    Stern et al. (2018), section 3.

    Examples
    --------
    >>> rows = [[0.1, 0.7, 0.2], [0.2, 0.4, 0.4]]
    >>> greedy([1], [rows[0]], rows), greedy([2], [rows[0]], rows)
    ([1, 1], [1])
    """
    return _while_it_matches(draft_tokens, target_dists, lambda p: int(np.argmax(p)))


@_claims("exact", reads_draft_dists=False)
def one_hot(draft_tokens: TokenIds, draft_dists: Any, target_dists: Rows, rng: Uniforms) -> list[int]:
    """For deterministic drafts: keep x with probability p(x), else draw from p without x.

    The token rule with the rows of a draft that was certain of its tokens.

    Parameters
    ----------
    draft_tokens : sequence of int, length k
        Chosen in any way that does not look at this verifier's coins.
    draft_dists : sequence of rows, shape (k, V)
        Not read.
    target_dists : sequence of rows, shape (k + 1, V)
    rng : numpy.random.Generator, or anything with random()
        As for `token`.

    Returns
    -------
    list of int, length 1 to k + 1

    Raises
    ------
    ValueError
        As `token`.

    Guarantee
    ---------
    Exact, however the drafted tokens were chosen, sampled ones included: it costs acceptance, Σ p·q
    in place of Σ min(p, q), not exactness (thm-one-token in chapter 2, with q certain of x; thm-formal in
    chapter 11).

    Examples
    --------
    >>> one_hot([1], None, [[0.5, 0.25, 0.25]] * 2, np.random.default_rng(0))
    [0]
    """

    def with_certainty(i: int) -> tuple[np.ndarray, np.ndarray]:
        p = target_dists[i]
        x = as_token(draft_tokens[i], f"draft_tokens[{i}]", len(p))
        return p, certain(x, len(p)).astype(p.dtype)

    return _one_by_one(draft_tokens, with_certainty, target_dists, rng)


@_claims("exact")
def sampler_match(draft_tokens: TokenIds, draft_dists: Sized, target_dists: Rows, rng: Uniforms) -> list[int]:
    """Draw from the target at each position and emit that draw; go on while it equals the drafted token.

    Parameters
    ----------
    draft_tokens : sequence of int, length k
    draft_dists : sequence of rows, shape (k, V)
        Not read.
    target_dists : sequence of rows, shape (k + 1, V)
    rng : numpy.random.Generator, or anything with random()
        One uniform for each emitted token.

    Returns
    -------
    list of int, length 1 to k + 1

    Raises
    ------
    ValueError
        If a row that is read is not a distribution, a drafted token is outside the vocabulary, or the
        numbers of rows do not match k.

    Guarantee
    ---------
    Exact: every emitted token is the target's own draw, the draft only decides how many there are. With
    the same uniforms it gives the text of plain sampling, token for token (thm-formal in chapter 11).

    Examples
    --------
    >>> sampler_match([0, 1], [None] * 2, [[1.0, 0.0]] * 3, np.random.default_rng(0))
    [0, 0]
    """
    return _while_it_matches(draft_tokens, target_dists, lambda p: inverse_cdf(p, uniform(rng)))


# Lossy rules: faster, and not exact.


def is_lossy(rule: Any) -> bool:
    """Whether a verifier says of itself that it gives up exactness, bare or inside a `functools.partial`.

    Examples
    --------
    >>> from functools import partial
    >>> is_lossy(token), is_lossy(partial(typical, epsilon=0.1))
    (False, True)
    """
    return not getattr(getattr(rule, "func", rule), "exact", True)


@_claims("lossy", "keeps what the target finds likely, however often it is drafted")
def typical(
    draft_tokens: TokenIds,
    draft_dists: Sized,
    target_dists: Rows,
    rng: Uniforms,
    *,
    epsilon: float = 0.09,
    delta: float = 0.3,
) -> list[int]:
    """Typical acceptance, lossy: keep x if p(x) > min(ε, δ · exp(−H(p))), whatever q is.

    Parameters
    ----------
    draft_tokens, draft_dists, target_dists, rng
        As for `token`; draft_dists is not read, and one uniform is spent, on the last token.
    epsilon, delta : float
        The hard threshold, and the factor of the one that falls with the entropy H of the target's row.

    Returns
    -------
    list of int, length 1 to k + 1
        The tokens kept, then a draw from the target's row after them, the rejected token included.

    Raises
    ------
    ValueError
        As `token`, or if a threshold is negative.

    Guarantee
    ---------
    None of exactness (`exact` is False): a likely token is kept however often it is drafted.

    References
    ----------
    Cai et al. (2024), typical acceptance.

    Examples
    --------
    >>> typical([1], [None], [[0.2, 0.8]] * 2, np.random.default_rng(0))
    [1, 1]
    """
    as_number(epsilon, "epsilon", 0, np.inf)
    as_number(delta, "delta", 0, np.inf)
    emitted: list[int] = []
    for i, drafted in enumerate(draft_tokens):
        p = target_dists[i]
        x = as_token(drafted, f"draft_tokens[{i}]", len(p))
        entries = p[p > 0].astype(float)
        if not p[x] > min(epsilon, delta * float(np.exp((entries * np.log(entries)).sum()))):
            break
        emitted.append(x)
    return [*emitted, inverse_cdf(target_dists[len(emitted)], uniform(rng))]


@_claims("lossy", "keeps a drafted token up to 1/l times too often")
def lenient(
    draft_tokens: TokenIds,
    draft_dists: Rows,
    target_dists: Rows,
    rng: Uniforms,
    *,
    lenience: Any = 0.8,
) -> list[int]:
    """Lenience, lossy: the token rule with its coins at min(1, p / (l · q)).

    Parameters
    ----------
    draft_tokens, draft_dists, target_dists, rng
        As for `token`.
    lenience : number
        0 < l ≤ 1; 1 is the token rule.

    Returns
    -------
    list of int, length 1 to k + 1

    Raises
    ------
    ValueError
        As `token`, or if lenience is out of range.

    Guarantee
    ---------
    None of exactness (`exact` is False). For one token: none comes out with more than p / l.

    References
    ----------
    Leviathan et al. (2023), appendix A.5.

    Examples
    --------
    >>> p, q = [0.4, 0.6], [0.5, 0.5]
    >>> lenient([0], [q], [p, p], np.random.default_rng(0), lenience=0.8)
    [0, 0]
    """
    as_number(lenience, "lenience", 0, 1, open_below=True)
    return _one_by_one(
        draft_tokens,
        lambda i: (target_dists[i], draft_dists[i]),
        target_dists,
        rng,
        lambda p, q: acceptance(p, lenience * q),
    )


@_claims("lossy", "emits the draft's law in place of the target's with weight 1 − w")
def mixture(
    draft_tokens: TokenIds,
    draft_dists: Rows,
    target_dists: Rows,
    rng: Uniforms,
    *,
    weight: Any = 0.75,
) -> list[int]:
    """A mixture, lossy: the token rule against w · p + (1 − w) · q in place of p.

    Parameters
    ----------
    draft_tokens, draft_dists, target_dists, rng
        As for `token`.
    weight : number
        0 ≤ w ≤ 1; 1 is the token rule.

    Returns
    -------
    list of int, length 1 to k + 1

    Raises
    ------
    ValueError
        As `token`, or if weight is out of range.

    Guarantee
    ---------
    None of exactness (`exact` is False). A drafted position has the law of the mixture, so its distance from
    p is (1 − w) · TV(p, q).

    References
    ----------
    huggingface/transformers#45979.

    Examples
    --------
    >>> p, q = [0.5, 0.3, 0.2], [0.1, 0.6, 0.3]
    >>> mixture([1], [q], [p, p], np.random.default_rng(0))
    [0]
    """
    as_number(weight, "weight", 0, 1)

    def mixed(i: int) -> tuple[np.ndarray, np.ndarray]:
        p, q = target_dists[i], draft_dists[i]
        return weight * p + (1 - weight) * q, q

    return _one_by_one(draft_tokens, mixed, target_dists, rng)


def _one_by_one(
    draft_tokens: TokenIds,
    rows: Callable[[int], tuple[np.ndarray, np.ndarray]],
    target_dists: Rows,
    rng: Uniforms,
    keeps: Callable[[Any, Any], Any] = acceptance,
) -> list[int]:
    """Keep token i with probability `keeps` of its entries in its rows p and q, or replace it and stop."""
    emitted: list[int] = []
    for i, drafted in enumerate(draft_tokens):
        p, q = rows(i)
        x = as_drafted(drafted, q, f"draft_tokens[{i}]")
        if not uniform(rng) < keeps(p[x], q[x]):
            return [*emitted, inverse_cdf(replacement(p, q), uniform(rng))]
        emitted.append(x)
    return [*emitted, inverse_cdf(target_dists[len(emitted)], uniform(rng))]


def _while_it_matches(
    draft_tokens: TokenIds, target_dists: Rows, choose: Callable[[np.ndarray], int]
) -> list[int]:
    """Emit what `choose` makes of each target row, up to the first that is not the drafted token."""
    emitted: list[int] = []
    for i in range(len(draft_tokens) + 1):
        p = target_dists[i]
        emitted.append(choose(p))
        if i < len(draft_tokens) and as_token(draft_tokens[i], f"draft_tokens[{i}]", len(p)) != emitted[i]:
            break
    return emitted
