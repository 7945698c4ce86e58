"""Worlds: a small target, a small draft and a k, chosen so that faults have nowhere to hide.

A certificate is computed on these (`specdecode.certify`). They are chosen, not drawn: V ≥ 3, since two
tokens hide whole classes of faults; zeros on either side and on both; equal and disjoint rows; drafts that
are sampled, arg-maxed, and looked up; targets with a memory. Rows are rationals with small denominators,
so that a witness can be read. Small ones come first, and the first to fail is the witness. Behind them come
worlds along every axis on which code has edges: wide, long, near, called twice; and a few that are random.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from specdecode.certify.targets import Certain, Remembers, Widened
from specdecode.checks import as_count
from specdecode.drafts import ArgmaxDraft, Draft, NGramDraft
from specdecode.models import MarkovModel, Model, RepetitionPenalty, next_rows

__all__ = [
    "World",
    "extreme_worlds",
    "generator_worlds",
    "memory_world",
    "random_worlds",
    "sized_worlds",
    "small_generator_worlds",
    "small_verifier_worlds",
    "table",
    "verifier_worlds",
]


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
    calls : int
        How many times in a row the sampler is called; its texts must be independent.
    spare : bool
        Whether a certificate may do without it where it has too many paths; it is then named.
    """

    name: str
    target: Model
    draft: Model | Draft
    k: int
    prefix: tuple[int, ...] = (0,)
    n_tokens: int | None = None
    stop: int | None = None
    calls: int = 1
    spare: bool = False

    @property
    def is_rational(self) -> bool:
        """Whether the target's rows are Fractions."""
        return next_rows(self.target, self.prefix, 1).dtype == object

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
DYADIC = table([2, 1, 1], [1, 2, 1], [1, 1, 2]), table([1, 1, 2], [4, 1, 3], [2, 5, 1])
SMALL_ENTRIES = (
    table([99_899, 100, 1], [1, 99_899, 100], [100, 1, 99_899]),
    table([99_899, 1, 100], [100, 99_899, 1], [100, 100, 99_800]),
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


def verifier_worlds(seed: int = 0) -> list[World]:
    """The battery for a verifier: small designed worlds first, then along every axis, then random ones.

    Parameters
    ----------
    seed : int
        Of the random worlds.

    Returns
    -------
    list of World
    """
    more = [*_along_the_axes(), *random_worlds(seed)]
    return [*small_verifier_worlds(), *(replace(world, spare=True) for world in more)]


def small_verifier_worlds() -> list[World]:
    """Those of the battery that are small in every way, and designed."""
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
        World("dense", *DENSE, k=3, spare=True),
        World("few tokens a row", *FEW, k=5, spare=True),
        World("rare tokens", *RARE, k=1),
        World("certain target", table([0, 1, 0], [0, 0, 1], [1, 0, 0]), DENSE[1], k=2),
    ]


def _along_the_axes() -> list[World]:
    """Wide, long, near, called twice: what a small world cannot show."""
    return [
        *(wide_world(vocab_size, k=1) for vocab_size in (300, 70_000)),
        *(one_wide_row(vocab_size) for vocab_size in (10, 60, 300)),
        *(long_world(k) for k in (6, 7, 9, 17)),
        *(near_world(f"rows {gap} apart", gap) for gap in ("1/1000", "1/100000")),
        World("entries of 1e-3 and 1e-5", *SMALL_ENTRIES, k=1),
        World("order, number and position", Remembers(3), DENSE[1], k=2),
        World("two calls in a row", *DENSE, k=1, calls=2),
    ]


def sized_worlds(
    vocab: Collection[int], k: Collection[int], tokens: Collection[int] = (), *, is_generator: bool = False
) -> list[World]:
    """Worlds of given sizes, in few paths.

    Parameters
    ----------
    vocab : collection of int
        Vocabulary sizes, 3 or more.
    k : collection of int
        Draft lengths, 1 or more.
    tokens : collection of int
        Lengths of a generator's text, 1 or more.
    is_generator : bool
        Whether the worlds have a length of text.

    Returns
    -------
    list of World

    Raises
    ------
    ValueError
        If a size is too small; names it.
    """
    wide = [wide_world(as_count(size, "vocab", least=3), k=1) for size in vocab]
    long = [long_world(as_count(length, "k", least=1)) for length in k]
    if not is_generator:
        return [*wide, *long]
    return [
        *(replace(world, n_tokens=2) for world in wide),
        *(replace(world, n_tokens=world.k + 1) for world in long),
        *(long_text(as_count(length, "tokens", least=1)) for length in tokens),
    ]


def random_worlds(seed: int) -> list[World]:
    """Worlds whose entries are random over a large denominator: no code was written with them in mind.

    Parameters
    ----------
    seed : int

    Returns
    -------
    list of World
    """
    rng = np.random.default_rng(seed)

    def model(vocab_size: int) -> MarkovModel:
        return table(*rng.integers(1, 10**6, size=(vocab_size, vocab_size)).tolist())

    sizes = ((3, 1), (4, 1), (3, 2))
    return [World(f"random, seed {seed}", model(size), model(size), k=k) for size, k in sizes]


def wide_world(vocab_size: int, k: int) -> World:
    """Three possible ids, spread over a wide vocabulary, the last one among them."""
    ids = (0, vocab_size // 2, vocab_size - 1)
    target, draft = (Widened(model, ids, vocab_size) for model in DYADIC)
    return World(f"three ids of {vocab_size}", target, draft, k=k, prefix=(ids[0],))


def one_wide_row(vocab_size: int) -> World:
    """A target whose first row has V possible tokens, a draft that is certain, and certainty afterwards."""
    total = 2 ** (vocab_size - 1).bit_length()  # so that floats are exact, with the drafted token and without
    others = [2] * (total - vocab_size + 1) + [1] * (2 * vocab_size - 2 - total)
    target = Certain(vocab_size, {1: [*others[:1], total, *others[1:]]})
    return World(f"a row of {vocab_size}", target, Certain(vocab_size, {}), k=1)


def long_world(k: int) -> World:
    """A long draft whose last three tokens, and the bonus, are uncertain; in few paths."""
    last = range(max(1, k - 2), k + 1)  # places in the text, after a prefix of one token
    target = Certain(3, {**dict.fromkeys(last, (1, 3, 0)), k + 1: (1, 0, 1)})
    return World(f"k = {k}", target, Certain(3, dict.fromkeys(last, (1, 1, 0))), k=k)


def near_world(name: str, gap: str) -> World:
    """Target and draft so near that only a rule that compares them exactly tells them apart."""
    near = Fraction(gap)
    target = [[Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]] * 3
    draft = [[Fraction(1, 2) - near, Fraction(1, 4), Fraction(1, 4) + near]] * 3
    return World(name, MarkovModel(target), MarkovModel(draft), k=1)


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


def generator_worlds(seed: int = 0) -> list[World]:
    """The battery for a generator: small designed worlds first, then along every axis, then random ones.

    Parameters
    ----------
    seed : int
        Of the random worlds.

    Returns
    -------
    list of World
    """
    order, few = Remembers(3), Remembers(4, few=True)
    wide = (wide_world(vocab_size, k=2) for vocab_size in (300, 70_000))
    more = [
        World("order, number and position", order, DENSE[1], k=1, n_tokens=3),
        World("order, number and position", few, Certain(4, {}), k=2, n_tokens=5),
        World("look-ups that come back empty", few, NGramDraft(4), k=2, prefix=(0, 1, 2, 0, 1), n_tokens=6),
        *(World("a long prompt", order, DENSE[1], k=1, prefix=_prompt(n), n_tokens=2) for n in (33, 65)),
        *(replace(world, n_tokens=2) for world in wide),
        replace(one_wide_row(60), n_tokens=2),
        *(whole_rounds(k, rounds) for k in (2, 3) for rounds in (2, 3)),
        *(long_text(length) for length in (16, 32, 64)),
        *(replace(long_world(k), n_tokens=k + 1) for k in (6, 9)),
        *(replace(near_world(f"rows {gap} apart", gap), n_tokens=2) for gap in ("1/1000", "1/100000")),
        World("two texts in a row", *FEW, k=2, n_tokens=2, calls=2),
        *(replace(world, n_tokens=2) for world in random_worlds(seed)[:2]),
    ]
    return [*small_generator_worlds(), *(replace(world, spare=True) for world in more)]


def _prompt(length: int) -> tuple[int, ...]:
    return tuple(place * place % 3 for place in range(length))


def whole_rounds(k: int, rounds: int) -> World:
    """Rounds that are kept whole, as both models are certain, and three uncertain tokens after them."""
    first = 1 + rounds * (k + 1)
    target = Certain(3, dict.fromkeys(range(first, first + 3), (1, 2, 1)))
    draft = Certain(3, dict.fromkeys(range(first, first + 2), (1, 1, 0)))
    return World(f"{rounds} whole rounds", target, draft, k=k, n_tokens=first + 2)


def long_text(length: int) -> World:
    """A certain text, but for two tokens about a length at which a buffer might end."""
    places = (length - 1, length, length + 1)
    target = Certain(3, dict.fromkeys(places, (1, 2, 0)))
    return World(f"about {length} tokens", target, Certain(3, {}), k=3, n_tokens=length + 2)


def small_generator_worlds() -> list[World]:
    """Those of the battery that are small in every way, and rational."""
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
