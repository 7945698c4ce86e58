"""Worlds: a small target, a small draft and a k, chosen so that faults have nowhere to hide.

A certificate is computed on these (`specdecode.certify`). They are chosen, not drawn: V ≥ 3, since two
tokens hide whole classes of faults; zeros on either side and on both; equal and disjoint rows; drafts that
are sampled, arg-maxed, and looked up; targets with a memory. Rows are rationals with small denominators,
so that a witness can be read. Small ones come first, and the first to fail is the witness.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from specdecode.drafts import ArgmaxDraft, Draft, NGramDraft
from specdecode.models import MarkovModel, Model, RepetitionPenalty

__all__ = ["World", "extreme_worlds", "generator_worlds", "memory_world", "table", "verifier_worlds"]


@dataclass(frozen=True)
class World:
    """A target, a draft and a k that a sampler is judged on.

    Attributes
    ----------
    name : str
    target : Model
        With rational rows, unless the world is about rounding.
    draft : Model or Draft
    k : int
        Draft length.
    prefix : tuple of int
    n_tokens : int, optional
        Length of the text, for generators.
    stop : int, optional
        A stop token, for generators.
    """

    name: str
    target: Model
    draft: Model | Draft
    k: int
    prefix: tuple[int, ...] = (0,)
    n_tokens: int | None = None
    stop: int | None = None

    @property
    def looks_up(self) -> bool:
        """Whether the draft proposes for itself instead of being a model that is sampled."""
        return isinstance(self.draft, Draft)


def table(*rows: Sequence[int]) -> MarkovModel:
    """A Markov model from rows of whole-number weights, as Fractions.

    Examples
    --------
    >>> table([1, 3], [1, 1]).next_dist([0])
    array([Fraction(1, 4), Fraction(3, 4)], dtype=object)
    """
    return MarkovModel([[Fraction(weight, sum(row)) for weight in row] for row in rows])


DENSE = table([2, 1, 1], [1, 2, 1], [1, 1, 2]), table([1, 2, 9], [9, 1, 2], [2, 9, 1])
ZEROS = (
    table([2, 1, 1, 0], [0, 1, 1, 2], [1, 0, 3, 0], [1, 1, 1, 1]),
    table([1, 1, 2, 0], [1, 1, 0, 2], [0, 2, 1, 1], [4, 0, 1, 1]),
)
DISJOINT = (
    table([1, 1, 0, 0], [0, 1, 3, 0], [1, 0, 0, 1], [0, 0, 1, 1]),
    table([0, 0, 1, 3], [1, 0, 0, 1], [0, 1, 2, 0], [1, 1, 0, 0]),
)
PEAKY = table([94, 3, 3], [3, 94, 3], [3, 3, 94]), table([1, 1, 1], [1, 1, 1], [1, 1, 1])
FEW = (
    table([1, 1, 0], [0, 1, 2], [2, 0, 1]),
    table([1, 0, 1], [0, 2, 1], [1, 0, 1]),
)  # one or two tokens a row
SIX = (  # the second is the first with each row turned round
    table(
        [6, 1, 2, 3, 1, 3],
        [1, 5, 1, 1, 4, 4],
        [2, 2, 3, 6, 1, 2],
        [3, 1, 1, 1, 8, 2],
        [1, 1, 1, 1, 1, 11],
        [4, 4, 2, 2, 2, 2],
    ),
    table(
        [3, 1, 3, 2, 1, 6],
        [4, 4, 1, 1, 5, 1],
        [2, 1, 6, 3, 2, 2],
        [2, 8, 1, 1, 1, 3],
        [11, 1, 1, 1, 1, 1],
        [2, 2, 2, 2, 4, 4],
    ),
)
RARE = (
    table([2**30, 1, 2], [1, 2**30, 2], [2, 1, 2**30]),
    table([2**30, 2, 1], [2, 2**30, 1], [1, 2, 2**30]),
)


def _ulp() -> tuple[MarkovModel, MarkovModel]:
    """Two float tables, equal but for the last bit of some entries."""
    rows = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
    nudged = rows.copy()
    nudged[0, 1] = np.nextafter(rows[0, 1], 1)  # a coin may reject though nothing of p is left over
    nudged[1, 0] = np.nextafter(rows[1, 0], 1)
    nudged[1, 1] = np.nextafter(rows[1, 1], 0)
    nudged[2, 2] = np.nextafter(rows[2, 2], 0)
    return MarkovModel(rows), MarkovModel(nudged)


def verifier_worlds() -> list[World]:
    """The battery for a verifier, small worlds first.

    Returns
    -------
    list of World
    """
    return [
        World("dense", *DENSE, k=1),
        World("zeros on either side", *ZEROS, k=1),
        World("disjoint support", *DISJOINT, k=1),
        World("draft = target", DENSE[0], DENSE[0], k=1),
        World("peaky target, flat draft", *PEAKY, k=1),
        World("flat target, peaky draft", PEAKY[1], PEAKY[0], k=1),
        World("equal up to one ulp", *_ulp(), k=1),
        World("arg-maxed draft", DENSE[0], ArgmaxDraft(DENSE[1]), k=1),
        World("dense", *DENSE, k=2),
        World("zeros on either side", *ZEROS, k=2),
        World("disjoint support", *DISJOINT, k=2),
        World("draft = target", DENSE[0], DENSE[0], k=2),
        World("equal up to one ulp", *_ulp(), k=2),
        World("arg-maxed draft", ZEROS[0], ArgmaxDraft(ZEROS[1]), k=2),
        World("n-gram draft", DENSE[0], NGramDraft(3), k=2, prefix=(0, 1, 2, 0)),
        World("n-gram draft, shorter than k", FEW[0], NGramDraft(3), k=3, prefix=(2, 0, 0)),
        memory_world(2),
        World("six tokens", *SIX, k=1),
        World("n-gram draft", DENSE[0], NGramDraft(3), k=3, prefix=(0, 1, 2, 0, 1, 2, 0)),
        World("few tokens a row", *FEW, k=3),
        World("dense", *DENSE, k=3),
        World("few tokens a row", *FEW, k=5),
        World("rare tokens", *RARE, k=1),
        World("certain target", table([0, 1, 0], [0, 0, 1], [1, 0, 0]), DENSE[1], k=2),
    ]


def memory_world(k: int) -> World:
    """A target that remembers its whole prefix, and a draft that does not."""
    return World("memory", RepetitionPenalty(DENSE[0], 2), DENSE[1], k=k)


def extreme_worlds() -> list[World]:
    """Worlds with impossible tokens and sums and ratios exact in floats, for coins at the ends of [0, 1).

    Returns
    -------
    list of World
    """
    target = table([0, 1, 1, 0], [0, 2, 2, 0], [0, 3, 1, 0], [0, 1, 1, 0])
    draft = table([1, 1, 1, 1], [2, 1, 0, 1], [1, 1, 1, 1], [1, 0, 0, 1])
    return [World("impossible tokens", target, draft, k=k) for k in (1, 2)]


def generator_worlds() -> list[World]:
    """The battery for a generator, small worlds first.

    Returns
    -------
    list of World
    """
    return [
        World("nothing asked", *DENSE, k=1, n_tokens=0),
        World("dense", *DENSE, k=1, n_tokens=1),
        World("dense", *DENSE, k=1, n_tokens=2),
        World("zeros on either side", *ZEROS, k=1, n_tokens=2),
        World("draft = target", DENSE[0], DENSE[0], k=1, n_tokens=2),
        World("n-gram draft", DENSE[0], NGramDraft(3), k=1, prefix=(0, 1, 2, 0), n_tokens=2),
        World("stop token", *DENSE, k=1, n_tokens=3, stop=1),
        World("stop token 0, in the prefix", *DENSE, k=1, n_tokens=3, stop=0),
        replace(memory_world(1), name="memory of the prefix", prefix=(1,) + (0,) * 15, n_tokens=2),
        World("draft with a memory", memory_world(1).target, RepetitionPenalty(DENSE[1], 3), k=1, n_tokens=3),
        World("dense", *DENSE, k=2, n_tokens=1),
        World("dense", *DENSE, k=2, n_tokens=2),
        replace(memory_world(1), n_tokens=3),
        World("dense", *DENSE, k=1, n_tokens=4),
        World("stop token", *DENSE, k=2, n_tokens=3, stop=2),
        World("stop token", *FEW, k=3, n_tokens=4, stop=1),
        replace(memory_world(2), n_tokens=3),
        World("n-gram draft, shorter than k", FEW[0], NGramDraft(3), k=3, prefix=(2, 0, 0), n_tokens=4),
        World("n-gram draft", DENSE[0], NGramDraft(3), k=2, prefix=(0, 1, 2, 0), n_tokens=4),
        World("arg-maxed draft", DENSE[0], ArgmaxDraft(DENSE[1]), k=2, n_tokens=3),
        World("past two rounds", *FEW, k=1, n_tokens=5),
        World("past two rounds", *FEW, k=2, n_tokens=5),
        World("past five rounds", *FEW, k=1, n_tokens=7),
        World("few tokens a row", *FEW, k=5, n_tokens=6, stop=2),
        World("stop token, looked up", FEW[0], NGramDraft(3), k=3, prefix=(0, 1, 2, 0), n_tokens=4, stop=2),
        World("k + 1", *FEW, k=3, n_tokens=4),
        World("dense", *DENSE, k=3, n_tokens=2),
        World("dense", *DENSE, k=2, n_tokens=3),
    ]
