"""The package's own certificates: the one-token identity in every arithmetic, and the generator's law.

`induced_from_dists` writes down what one drafted token becomes, with the functions of `specdecode.rule`
and the `replacement` of `specdecode.verifiers`, so whatever is proved of it is proved of the rule that runs
(thm-one-token in chapter 2). Feed it symbols from `specdecode.proof.symbols` for the theorem, Fractions for
exact cases, floats for the program.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from specdecode.certify.worlds import World, small_generator_worlds
from specdecode.checks import Rows, as_count
from specdecode.exact import ancestral_law, law
from specdecode.rule import acceptance, excess, overlap, total_variation
from specdecode.speculative import generate_speculative
from specdecode.verifiers import replacement

__all__ = [
    "Enumeration",
    "Identity",
    "deviation",
    "induced_from_dists",
    "random_pairs",
    "round_law",
    "text_law",
    "verify_generator",
    "verify_identity",
]


def induced_from_dists(p: Rows, q: Rows) -> np.ndarray:
    """Law of the token one draft position emits, q · acceptance + rejection mass · residual.

    Parameters
    ----------
    p, q : array_like, shape (V,)
        Target and draft rows: floats, Fractions, or symbols.

    Returns
    -------
    ndarray, shape (V,)
        Equal to p: the one-token identity.

    Guarantee
    ---------
    thm-one-token in chapter 2, and by machine, thm-formal in chapter 11. Exact on Fractions and symbols; on
    floats within rounding, as `spec-decode verify` measures.

    References
    ----------
    Leviathan et al. (2023), appendix A.1; Chen et al. (2023), Theorem 1.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> induced_from_dists([F(1, 3), F(2, 3)], [F(2, 3), F(1, 3)])
    array([Fraction(1, 3), Fraction(2, 3)], dtype=object)
    """
    p, q = np.asanyarray(p), np.asanyarray(q)
    accepted = q * acceptance(p, q)
    rejected = (q - accepted).sum()
    induced: np.ndarray = accepted + rejected * replacement(p, q)
    return induced


def text_law(rows: Rows, last: int, n_tokens: int) -> dict[tuple[int, ...], Any]:
    """Law of n tokens of plain sampling from a Markov table, in any arithmetic.

    Parameters
    ----------
    rows : array_like, shape (V, V)
        Floats, Fractions, or symbols.
    last : int
        The token before.
    n_tokens : int
        n_tokens ≥ 0.

    Returns
    -------
    dict
        Tuple of n tokens -> probability; every tuple, impossible ones included.

    Examples
    --------
    >>> text_law([[0.5, 0.5], [1.0, 0.0]], last=1, n_tokens=1)
    {(0,): 1.0, (1,): 0.0}
    """
    law_of_text: dict[tuple[int, ...], Any] = {(): 1}
    for _ in range(n_tokens):
        law_of_text = {
            (*text, token): mass * rows[text[-1] if text else last][token]
            for text, mass in law_of_text.items()
            for token in range(len(rows))
        }
    return law_of_text


def round_law(target_rows: Rows, draft_rows: Rows, last: int, k: int) -> dict[tuple[int, ...], Any]:
    """Law of a round with k drafted tokens, completed by the target to k + 1, for two Markov tables.

    Written as the induction that proves it: the first drafted token is kept, and a shorter round follows
    it, or it is replaced, and the target goes on.

    Parameters
    ----------
    target_rows, draft_rows : array_like, shape (V, V)
        Floats, Fractions, or symbols.
    last : int
        The token before the round.
    k : int
        Draft length, k ≥ 0.

    Returns
    -------
    dict
        Tuple of k + 1 tokens -> probability.

    Guarantee
    ---------
    Equal to text_law(target_rows, last, k + 1) (thm-round in chapter 4).

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> p, q = [[F(1, 3), F(2, 3)]] * 2, [[F(2, 3), F(1, 3)]] * 2
    >>> round_law(p, q, last=0, k=2) == text_law(p, last=0, n_tokens=3)
    True
    """
    if k == 0:
        return text_law(target_rows, last, 1)
    kept = overlap(target_rows[last], draft_rows[last])
    replaced = excess(target_rows[last], draft_rows[last])  # rejection mass · residual
    return {
        (token, *rest): kept[token] * after_kept[rest] + replaced[token] * mass
        for token in range(len(target_rows))
        for after_kept in [round_law(target_rows, draft_rows, token, k - 1)]
        for rest, mass in text_law(target_rows, token, k).items()
    }


def random_pairs(n: int, seed: int, largest: int = 64) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of rows of six kinds, those on which a formula is likeliest to fail.

    Parameters
    ----------
    n : int
        Number of pairs.
    seed : int
    largest : int
        Vocabulary sizes are drawn from 2 to this.

    Yields
    ------
    (p, q) : float64 rows, shape (V,)
        In turn: two flat rows, two spiky ones, spiky against flat, rows with zeros, equal rows, and rows of
        disjoint support.

    Examples
    --------
    >>> [len(p) for p, q in random_pairs(3, seed=0, largest=4)]
    [4, 3, 2]
    """
    rng = np.random.default_rng(seed)
    for i in range(n):
        size = int(rng.integers(2, largest, endpoint=True))
        yield _KINDS[i % len(_KINDS)](rng, size)


def _flat(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.dirichlet(np.ones(size))


def _spiky(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.dirichlet(np.full(size, 0.1))


def _with_zeros(rng: np.random.Generator, size: int) -> np.ndarray:
    weights = _flat(rng, size) * (rng.random(size) < 0.5)
    weights[rng.integers(size)] += 0.5  # at least one token stays possible
    row: np.ndarray = weights / weights.sum()
    return row


def _equal(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    row = _flat(rng, size)
    return row, row.copy()


def _disjoint(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    cut = rng.integers(1, size)
    p, q = _flat(rng, size), _flat(rng, size)
    p[cut:], q[:cut] = 0, 0
    return p / p.sum(), q / q.sum()


_KINDS = (
    lambda rng, size: (_flat(rng, size), _flat(rng, size)),
    lambda rng, size: (_spiky(rng, size), _spiky(rng, size)),
    lambda rng, size: (_spiky(rng, size), _flat(rng, size)),
    lambda rng, size: (_with_zeros(rng, size), _with_zeros(rng, size)),
    _equal,
    _disjoint,
)


@dataclass(frozen=True)
class Identity:
    """Evidence for the one-token identity: how far the emitted law was from the target's, at worst.

    Attributes
    ----------
    pairs : int
        Pairs of float rows tried.
    total_variation : float
        The largest distance between induced law and p among them.
    worst : (p, q)
        The pair that attained it.
    tolerance : float
        What the distance must not exceed.
    rational_pairs : int
        Pairs of Fraction rows tried.
    rational_failures : int
        Those for which the induced law was not literally p.
    """

    pairs: int
    total_variation: float
    worst: tuple[np.ndarray, np.ndarray]
    tolerance: float
    rational_pairs: int
    rational_failures: int

    @property
    def passed(self) -> bool:
        """Whether every pair agreed: floats within the tolerance, Fractions literally."""
        return self.total_variation <= self.tolerance and self.rational_failures == 0


def verify_identity(
    pairs: int,
    seed: int,
    *,
    tolerance: float = 1e-12,
    induced: Callable[[Any, Any], Any] = induced_from_dists,
    track: Callable[[Any], Iterable[Any]] = iter,
) -> Identity:
    """Check the one-token identity on random pairs of rows, in floats and in Fractions.

    Parameters
    ----------
    pairs : int
        How many float pairs, at least 1; a tenth as many small rational pairs are tried besides.
    seed : int
    tolerance : float
        Largest distance allowed in float64.
    induced : callable
        (p, q) ↦ the law of the emitted token; the package's own unless another rule is put to the test.
    track : callable
        Wraps the list of float pairs, for a progress display.

    Returns
    -------
    Identity

    Raises
    ------
    ValueError
        If pairs < 1.

    Examples
    --------
    >>> verify_identity(60, seed=0).passed
    True
    >>> verify_identity(60, seed=0, induced=lambda p, q: q).passed
    False
    """
    pairs = as_count(pairs, "pairs", least=1)
    tried = list(random_pairs(pairs, seed))
    distances = [deviation(p, induced(p, q)) for p, q in track(tried)]
    worst = int(np.argmax(distances))  # the first NaN, if there is one
    rational = [
        (_rational(p), _rational(q)) for p, q in random_pairs(max(1, pairs // 10), seed + 1, largest=6)
    ]
    failures = sum(np.asarray(induced(p, q)).tolist() != p.tolist() for p, q in rational)
    return Identity(pairs, distances[worst], tried[worst], tolerance, len(rational), failures)


def deviation(p: Rows, row: Rows) -> float:
    """How far an induced row is from p, the larger of Σ (p − row)⁺ and Σ (row − p)⁺.

    Parameters
    ----------
    p, row : array_like, shape (V,)
        `row` need not sum to 1: rounding, or a wrong rule, may see to that. So both directions count.

    Returns
    -------
    float
        0 if and only if the two are equal; NaN if an entry is.

    Examples
    --------
    >>> deviation([0.5, 0.5], [0.5, 0.75])
    0.25
    """
    return float(max(total_variation(p, row), total_variation(row, p)))


def _rational(row: np.ndarray) -> np.ndarray:
    """A nearby row of Fractions with a small common denominator; zeros stay zeros."""
    weights = [Fraction(int(np.ceil(60 * entry))) for entry in row.tolist()]
    return np.array(weights, dtype=object) / sum(weights)


@dataclass(frozen=True)
class Enumeration:
    """The law of the running generator on one world, and whether it is literally the target's."""

    world: World
    paths: int
    equal: bool


def verify_generator(
    *,
    generate: Callable[..., Any] = generate_speculative,
    worlds: Sequence[World] | None = None,
    track: Callable[[Any], Iterable[Any]] = iter,
) -> list[Enumeration]:
    """Enumerate a generator in Fractions on a battery of worlds, and compare with plain sampling.

    Parameters
    ----------
    generate : callable
        As `generate_speculative`, which is what is verified unless another is put to the test. It must
        compute in the arithmetic of its rows; `certify_generator` takes any.
    worlds : list of World, optional
        `small_generator_worlds()` if left out.
    track : callable
        Wraps the list of worlds, for a progress display.

    Returns
    -------
    list of Enumeration
        One a world. Equality is `==` between laws of Fractions.

    Examples
    --------
    >>> all(found.equal for found in verify_generator(worlds=small_generator_worlds()[:8]))
    True
    """
    found = []
    for world in track(small_generator_worlds() if worlds is None else worlds):

        def program(rng: Any, world: World = world) -> tuple[int, ...]:
            arguments = world.target, world.draft, world.prefix, world.n_tokens, world.k
            return tuple(generate(*arguments, rng, stop=world.stop).tokens)

        exact = law(program)
        reference = ancestral_law(world.target, world.prefix, world.n_tokens, stop=world.stop)
        found.append(Enumeration(world, exact.paths or 0, exact == reference))
    return found
