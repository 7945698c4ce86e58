"""Speculative decoding: rounds of propose, verify, emit (their counts: `specdecode.trace`).

One round drafts k tokens, or as many as a policy asks for, reads k + 1 target rows in one pass, and lets
a verifier decide what is emitted. Rounds repeat until the text is long enough or a stop token appears
(Leviathan et al. 2023, Algorithm 1; thm-sequence in chapter 4 is why the text keeps the target's law).
"""

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from specdecode import verifiers
from specdecode.checks import TokenIds, as_count, as_draft_length, as_list, as_stop, as_tokens, shown
from specdecode.drafts import Draft, as_draft, proposed
from specdecode.models import Model, Prefix, as_model, next_rows
from specdecode.policies import Policy
from specdecode.sampling import Uniforms, inverse_cdf, uniform
from specdecode.trace import Round, Rounds, Trace
from specdecode.verifiers import Verifier

__all__ = [
    "Round",
    "Trace",
    "cut",
    "generate_batch",
    "generate_speculative",
    "generate_target_only",
    "log_probabilities",
    "play_round",
    "stream_speculative",
]


def generate_speculative(
    target: Model,
    draft: Model | Draft,
    prefix: TokenIds,
    n_tokens: int,
    k: int | Policy,
    rng: Uniforms,
    *,
    verifier: Verifier = verifiers.token,
    stop: int | Collection[int] | None = None,
) -> Trace:
    """Generate text that has the target's law, with at most as many target passes as tokens.

    Parameters
    ----------
    target : Model
        The model whose distribution comes out.
    draft : Model or Draft
        A model is sampled k times a round; a Draft proposes for itself, up to k tokens.
    prefix : sequence of int
        Token ids, possibly empty if the models allow it. Not written to.
    n_tokens : int
        n_tokens ≥ 0, how many new tokens at most. The last round may look k tokens further, so a model
        with a longest prefix must take n_tokens + k new ones.
    k : int or policy
        Draft length, 1 ≤ k ≤ 10 000; or a policy that decides it as it goes (`specdecode.policies`).
    rng : numpy.random.Generator, or anything with random()
        Drawn from in this order each round: k drafts, a coin for each tested token, one more token.
    verifier : callable
        A rule of the shape told in `specdecode.verifiers`.
    stop : int or collection of int, optional
        The text ends with the first of these, wherever in a round it fell.

    Returns
    -------
    Trace
        Same arguments and seed, same tokens.

    Raises
    ------
    ValueError
        For a row that is not a distribution, an id outside the vocabulary, k out of range, n_tokens < 0,
        vocabularies that differ, or a draft, a policy or a verifier that breaks its contract.

    Guarantee
    ---------
    With an exact verifier, the law of the tokens and their number is that of `generate_target_only`,
    whatever the policy (thm-sequence in chapter 4; by machine, thm-formal in chapter 11). The last round
    drafts k tokens like any other; the surplus is cut.

    References
    ----------
    Leviathan et al. (2023), Algorithm 1; Chen et al. (2023), Algorithm 2.

    Examples
    --------
    >>> from specdecode import draft_from_target, random_markov
    >>> target = random_markov(8, seed=1)
    >>> draft = draft_from_target(target, agreement=0.8, seed=2)
    >>> trace = generate_speculative(target, draft, [0], 10, k=3, rng=np.random.default_rng(0))
    >>> len(trace.tokens), trace.target_passes
    (10, 4)
    """
    draft = as_draft(draft)
    steps = stream_speculative(target, draft, prefix, n_tokens, k, rng, verifier=verifier, stop=stop)
    return Trace.collect(steps, draft)


def stream_speculative(
    target: Model,
    draft: Model | Draft,
    prefix: TokenIds,
    n_tokens: int,
    k: int | Policy,
    rng: Uniforms,
    *,
    verifier: Verifier = verifiers.token,
    stop: int | Collection[int] | None = None,
) -> Iterator[tuple[Round, list[int]]]:
    """The rounds of `generate_speculative` one at a time, each with the tokens it adds to the text.

    Parameters
    ----------
    target, draft, prefix, n_tokens, k, rng, verifier, stop
        As for `generate_speculative`.

    Yields
    ------
    Round, list of int
        The first `accepted` of the tokens were drafted; one beyond them is the target's own.

    Raises
    ------
    ValueError
        As `generate_speculative`.
    """
    target, draft = as_model(target, "target"), as_draft(draft)
    _check_verifier(verifier)
    n_tokens, k = as_count(n_tokens, "n_tokens", least=0), k if callable(k) else as_draft_length(k)
    size = as_count(getattr(draft, "vocab_size", target.vocab_size), "draft.vocab_size", least=1)
    if size != target.vocab_size:
        sizes = f"draft has V = {size} and target V = {target.vocab_size}"
        raise ValueError(f"{sizes}; want one vocabulary for both (see `specdecode.drafts.PaddedDraft`)")
    stop = as_stop(stop, target.vocab_size)
    text = as_tokens(prefix, "prefix", target.vocab_size)
    end = len(text) + n_tokens
    played: list[Round] = []
    rounds = Rounds(played)
    while len(text) < end:
        round_, emitted = _round(target, draft, text, k, rng, verifier, rounds)
        played.append(round_)
        kept = cut(emitted, end - len(text), stop)
        text.extend(kept)
        yield round_, kept
        if kept[-1] in stop:
            return


def _check_verifier(verifier: Any) -> None:
    if not callable(verifier):
        raise ValueError(f"verifier is {shown(verifier)}; want a function such as specdecode.verifiers.token")


def play_round(
    target: Model,
    draft: Model | Draft,
    text: TokenIds,
    k: int | Policy,
    rng: Uniforms,
    verifier: Verifier = verifiers.token,
    rounds: Sequence[Round] = (),
) -> tuple[Round, list[int]]:
    """One round: propose, verify, emit.

    Parameters
    ----------
    target : Model
    draft : Model or Draft
    text : list of int
        Everything before the round; not written to.
    k : int or policy
        Draft length, k ≥ 1, or what decides it.
    rng : numpy.random.Generator, or anything with random()
    verifier : callable
    rounds : sequence of Round
        Those before this one, for a policy to look at.

    Returns
    -------
    Round, list of int
        The counts, and the tokens emitted before any cut.

    Raises
    ------
    ValueError
        As `generate_speculative`.

    Guarantee
    ---------
    With `verifiers.token` the emitted tokens, continued by the target, have the target's law
    (thm-round in chapter 4; thm-formal in chapter 11).

    Examples
    --------
    >>> from specdecode import random_markov
    >>> target = random_markov(8, seed=1)
    >>> play_round(target, target, [0], 3, np.random.default_rng(0))
    (Round(proposed=3, accepted=3, emitted=4), [1, 3, 0, 1])
    """
    k = k if callable(k) else as_draft_length(k)
    _check_verifier(verifier)
    text = as_tokens(text, "text", as_model(target, "target").vocab_size)
    return _round(target, as_draft(draft), text, k, rng, verifier, rounds)


def _round(
    target: Model,
    draft: Draft,
    text: list[int],
    k: int | Policy,
    rng: Uniforms,
    verifier: Verifier,
    rounds: Sequence[Round],
) -> tuple[Round, list[int]]:
    """`play_round` of what has been checked."""
    vocab_size = target.vocab_size
    if callable(k):
        drafted, draft_dists = _propose_while(k, draft, list(text), rng, rounds, vocab_size)
    else:
        drafted, draft_dists = proposed(draft, list(text), k, rng, vocab_size)
    target_dists = next_rows(target, [*text, *drafted], len(drafted) + 1)
    verify = verifiers.on_checked_rows(verifier)
    emitted = as_tokens(
        verify(drafted, *_same_arithmetic(draft_dists, target_dists), rng), "emitted", vocab_size
    )
    if not 1 <= len(emitted) <= len(drafted) + 1:
        raise ValueError(
            f"verifier emitted {len(emitted)} tokens for {len(drafted)} drafted; want 1 to k + 1"
        )
    return Round(len(drafted), len(emitted) - 1, len(emitted)), emitted


def _propose_while(
    policy: Policy, draft: Draft, text: list[int], rng: Uniforms, rounds: Sequence[Round], vocab_size: int
) -> tuple[list[int], np.ndarray]:
    """Drafted tokens, one at a time, while the policy asks for more."""
    drafted: list[int] = []
    rows: list[np.ndarray] = []
    while as_draft_length(policy(rounds, tuple(drafted), tuple(rows)), "k from the policy", 0) > len(drafted):
        another, its_row = proposed(draft, [*text, *drafted], 1, rng, vocab_size)
        if not another:
            break
        row = np.array(its_row[0])
        row.flags.writeable = False  # what has been drafted is no longer the policy's to change
        drafted, rows = drafted + another, [*rows, row]
    return drafted, np.reshape(rows, (len(rows), vocab_size)) if rows else np.empty((0, vocab_size))


def _same_arithmetic(draft_dists: np.ndarray, target_dists: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Floats beside Fractions become Fractions that sum to 1; a Fraction is never rounded to a float."""
    if draft_dists.dtype != target_dists.dtype:
        draft_dists, target_dists = _exactly(draft_dists), _exactly(target_dists)
    return draft_dists, target_dists


def _exactly(rows: np.ndarray) -> np.ndarray:
    if rows.dtype == object:
        return rows
    values = np.frompyfunc(Fraction, 1, 1)(rows)
    exact: np.ndarray = values / values.sum(axis=1, keepdims=True)
    return exact


def cut(emitted: list[int], room: int, stop: Collection[int]) -> list[int]:
    """What of a round's tokens stays: up to the room left, and up to the first stop token.

    Examples
    --------
    >>> cut([3, 1, 2], room=5, stop={1}), cut([3, 1, 2], room=1, stop=set())
    ([3, 1], [3])
    """
    kept = emitted[:room]
    for i, token in enumerate(kept):
        if token in stop:
            return kept[: i + 1]
    return kept


def generate_target_only(
    target: Model,
    prefix: TokenIds,
    n_tokens: int,
    rng: Uniforms,
    *,
    stop: int | Collection[int] | None = None,
) -> list[int]:
    """Plain ancestral sampling from the target: one pass and one uniform a token.

    Parameters
    ----------
    target : Model
    prefix : sequence of int
        Not written to.
    n_tokens : int
        n_tokens ≥ 0.
    rng : numpy.random.Generator, or anything with random()
    stop : int or collection of int, optional
        The text ends with the first of these.

    Returns
    -------
    list of int
        The new tokens, a stop token included.

    Raises
    ------
    ValueError
        For a row that is not a distribution, an id outside the vocabulary, or n_tokens < 0.

    Guarantee
    ---------
    Its law is the reference that "exact" refers to everywhere in this package.

    Examples
    --------
    >>> from specdecode import random_markov
    >>> generate_target_only(random_markov(8, seed=1), [0], 5, np.random.default_rng(0))
    [1, 3, 0, 0, 6]
    """
    target, n_tokens = as_model(target, "target"), as_count(n_tokens, "n_tokens", least=0)
    stop = as_stop(stop, target.vocab_size)
    text = Prefix(as_tokens(prefix, "prefix", target.vocab_size))
    start = len(text)
    while len(text) < start + n_tokens:
        row = next_rows(target, text, 1)[0]
        text.grow(inverse_cdf(row, uniform(rng)))
        if text[-1] in stop:
            break
    return text[start:]


def generate_batch(
    target: Model,
    draft: Model | Draft,
    prompts: Sequence[TokenIds],
    n_tokens: int,
    k: int | Policy,
    seed: int,
    **options: Any,
) -> list[Trace]:
    """Several prompts with one seed, each with uniforms and a cache of its own.

    Parameters
    ----------
    target : Model
    draft : Model or Draft
        A model with a cache offers `fresh()`, the same model with another one; each row then gets its own.
    prompts : sequence of sequences of int
    n_tokens : int
    k : int or policy
    seed : int
        Row i draws from `default_rng([seed, i])`.
    **options
        verifier and stop, as for `generate_speculative`.

    Returns
    -------
    list of Trace
        One a prompt, in order. Traces add up to that of the batch.

    Raises
    ------
    ValueError
        As `generate_speculative`.

    Guarantee
    ---------
    A row depends on its prompt, its place and the seed, not on who shares the batch; distinct rows are
    independent.

    Examples
    --------
    >>> from specdecode import draft_from_target, random_markov
    >>> target = random_markov(8, seed=1)
    >>> draft = draft_from_target(target, agreement=0.8, seed=2)
    >>> both = generate_batch(target, draft, [[0], [5]], 10, 3, seed=0)
    >>> both[0] == generate_batch(target, draft, [[0]], 10, 3, seed=0)[0]
    True
    """
    seed, prompts = as_count(seed, "seed", least=0), as_list(prompts, "prompts", "prompts")
    return [
        generate_speculative(
            _fresh(target), _fresh(draft), prompt, n_tokens, k, np.random.default_rng([seed, row]), **options
        )
        for row, prompt in enumerate(prompts)
    ]


def _fresh(model: Any) -> Any:
    return model.fresh() if hasattr(model, "fresh") else model


def log_probabilities(target: Model, prefix: TokenIds, tokens: TokenIds) -> list[float]:
    """log p of each token under the target, given what is before it.

    Never log q, the draft's, nor log r, the residual's: whichever row a token was drawn from in its round,
    its law is p.

    Parameters
    ----------
    target : Model
        The one that was sampled, settings included.
    prefix : sequence of int
    tokens : sequence of int
        The new tokens, `Trace.tokens`.

    Returns
    -------
    list of float
        One a token; their sum is the log-probability of the text. −inf for a token the target forbids.

    Raises
    ------
    ValueError
        If an id is outside the vocabulary, or a row is not a distribution.

    Examples
    --------
    >>> from specdecode.models import MarkovModel
    >>> coin = MarkovModel([[0.25, 0.75], [0.5, 0.5]])
    >>> [round(value, 4) for value in log_probabilities(coin, [0], [1, 0])]
    [-0.2877, -0.6931]
    """
    tokens = as_tokens(tokens, "tokens", as_model(target, "target").vocab_size)
    if not tokens:
        return []
    rows = next_rows(target, [*as_tokens(prefix, "prefix", target.vocab_size), *tokens[:-1]], len(tokens))
    with np.errstate(divide="ignore"):
        return [float(np.log(float(row[token]))) for row, token in zip(rows, tokens)]
