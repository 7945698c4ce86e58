"""The exact law of a program that draws random numbers.

`law` runs a program along every path of its draws (`specdecode.paths`) and returns each outcome with
its exact rational probability, under ideal uniforms on [0, 1) (thm-law in chapter 4). A real generator's
uniforms lie on a grid of 53 bits, which moves one draw from V tokens by at most V · 2⁻⁵³.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational

import numpy as np

from specdecode.checks import as_count, as_stop, as_tokens
from specdecode.models import next_rows
from specdecode.paths import LazyUniform, NotReproducible, Path, walk
from specdecode.speculative import cut

__all__ = [
    "Comparison",
    "Law",
    "LazyGenerator",
    "LazyRandom",
    "ancestral_law",
    "compare",
    "compose",
    "distance",
    "law",
    "outcome_of",
]

_REPLAYS = 8


class Law(Mapping):
    """An exact distribution: outcome -> Fraction, impossible outcomes absent.

    Equal to any mapping with the same probabilities. Should not be confused with an estimate: nothing
    in it was sampled.

    Parameters
    ----------
    masses : mapping
        Outcome -> rational probability; zeros are dropped.
    paths : int, optional
        Paths that were followed to find it.

    Raises
    ------
    ValueError
        If the probabilities do not sum to exactly 1, or one is negative.
    """

    def __init__(self, masses, paths=None):
        self._masses = {outcome: Fraction(mass) for outcome, mass in masses.items() if mass != 0}
        self.paths = paths
        total = sum(self._masses.values())
        if total != 1 or min(self._masses.values()) < 0:
            raise ValueError(f"probabilities sum to {total}; want non-negative ones that sum to exactly 1")

    def __getitem__(self, outcome):
        return self._masses[outcome]

    def __iter__(self):
        return iter(self._masses)

    def __len__(self):
        return len(self._masses)

    def __repr__(self):
        inside = ", ".join(f"{outcome!r}: {mass}" for outcome, mass in sorted(self.items(), key=repr))
        return f"Law({{{inside}}})"


def law(program, *, source=None, max_paths=1_000_000, max_draws=10_000) -> Law:
    """The exact distribution of a program's outcome.

    Parameters
    ----------
    program : callable
        program(rng) -> a hashable outcome. It is run once for every path, so it must depend on nothing
        but its rng: no generator of its own, no clock, no state kept from run to run.
    source : callable, optional
        Path -> the rng to hand over: `LazyGenerator` (a `numpy.random.Generator`, the default) or
        `LazyRandom` (a `random.Random`).
    max_paths, max_draws : int
        Limits on the number of paths, and on uniforms drawn on one path.

    Returns
    -------
    Law
        With `.paths`, the number of paths followed.

    Raises
    ------
    Inexact
        If the program does to a uniform what cannot be followed exactly.
    NotReproducible
        If the same answers of the rng led to different outcomes.
    TooLarge
        If a limit is passed.
    TypeError
        If an outcome is not hashable.

    Guarantee
    ---------
    Exact rational arithmetic; every threshold is taken at its exact value, a float being a rational
    (thm-law in chapter 4).

    Examples
    --------
    >>> law(lambda rng: sum(rng.random() < Fraction(1, 3) for _ in range(2)))
    Law({0: 4/9, 1: 4/9, 2: 1/9})
    >>> def reused(rng):
    ...     u = rng.random()
    ...     return u < 0.5, u < 0.75
    >>> law(reused)
    Law({(False, False): 1/4, (False, True): 1/4, (True, True): 1/2})
    """
    source = source or LazyGenerator

    def run(path):
        return program(source(path))

    masses, finished, paths = {}, [], 0
    for path, outcome in walk(run, max_paths=max_paths, max_draws=max_draws):
        try:
            masses[outcome] = masses.get(outcome, 0) + path.probability
        except TypeError as error:
            if isinstance(outcome, LazyUniform):
                raise TypeError(
                    "outcome is a uniform, which has no list of outcomes; want a comparison"
                ) from None
            kind = type(outcome).__name__
            raise TypeError(f"outcome is a {kind}, which is not hashable; want a tuple, say") from error
        paths += 1
        if len(finished) < _REPLAYS:
            finished.append((path.decisions, outcome))
    for decisions, outcome in finished:  # a cache that leaks from path to path shows here
        if run(Path(decisions, max_draws)) != outcome:
            raise NotReproducible("given the same draws twice, the program returned two different outcomes")
    return Law(masses, paths)


def outcome_of(result):
    """What a program returned, as something to be hashed: arrays, tensors and lists as nested tuples.

    Examples
    --------
    >>> outcome_of([np.array([1, 2]), 3])
    ((1, 2), 3)
    """
    if hasattr(result, "tolist"):
        result = result.tolist()
    if isinstance(result, (list, tuple)):
        return tuple(outcome_of(part) for part in result)
    return result


class LazyGenerator(np.random.Generator):
    """A `numpy.random.Generator` whose uniforms are lazy.

    Offers random, uniform, integers, choice and multinomial with n = 1. Every other draw raises
    `Inexact`: an inherited one would return real randomness.
    """

    def __init__(self, path):
        super().__init__(_UNUSED)
        self._path = path

    def random(self, size=None, dtype=np.float64, out=None):
        if np.dtype(dtype) != np.float64:
            self._path.refuse("random(dtype=float32) has uniforms of 24 bits; use random() in float64")
        if out is not None:
            self._path.refuse("random(out=…) would store floats; use random(size)")
        return self._fill(size, self._path.uniform)

    def uniform(self, low=0.0, high=1.0, size=None):
        return self._fill(size, lambda: self._path.uniform() * (_exact(high) - _exact(low)) + _exact(low))

    def integers(self, low, high=None, size=None, dtype=np.int64, endpoint=False):
        low, high = (0, low) if high is None else (low, high)
        count = int(high) - int(low) + bool(endpoint)
        if count < 1:
            raise ValueError(f"integers from {low} to {high}: nothing to choose from")
        whole = np.dtype(dtype).type  # as NumPy does, which some code relies on by calling .item()
        return self._fill(size, lambda: whole(int(low) + int(self._path.uniform() * count)), dtype)

    def choice(self, a, size=None, replace=True, p=None, axis=0, shuffle=True):
        if axis != 0 or (size is not None and not replace):
            self._path.refuse("choice(axis=…) and choice(replace=False) are not followed; draw one at a time")
        items = np.arange(a) if np.ndim(a) == 0 else a
        if p is None:
            return self._fill(size, lambda: items[self.integers(len(items))], getattr(items, "dtype", object))
        cumulative = np.cumsum(p)
        wide = getattr(p, "dtype", None) not in (np.float32, np.float16)
        within = np.sqrt(np.finfo(np.float64 if wide else p.dtype).eps)  # as NumPy allows
        if len(cumulative) != len(items) or not (np.min(p) >= 0 and abs(cumulative[-1] - 1) < within):
            raise ValueError(
                f"choice: p is {np.asarray(p).tolist()}; want {len(items)} probabilities that sum to 1"
            )
        cumulative = cumulative / cumulative[-1]  # as NumPy does it

        def chosen():
            return items[int(np.searchsorted(cumulative, self._path.uniform(), side="right"))]

        return self._fill(size, chosen, getattr(items, "dtype", object))

    def multinomial(self, n, pvals, size=None):
        if n != 1 or size is not None:
            self._path.refuse("multinomial is followed for n = 1 and no size")
        counts = np.zeros(len(pvals), dtype=np.int64)
        counts[self.choice(len(pvals), p=pvals)] = 1
        return counts

    def __repr__(self):
        return "LazyGenerator"  # the inherited one names a bit generator that is never drawn from

    __str__ = __repr__

    def _fill(self, size, draw, dtype=object):
        if size is None:
            return draw()
        drawn = np.empty(size, dtype=dtype)
        for index in np.ndindex(drawn.shape):
            drawn[index] = draw()
        return drawn


_UNUSED = np.random.PCG64(0)  # a Generator cannot be made without one; nothing ever draws from it


def _exact(number):
    """The exact value of a number; a float of any width is a rational."""
    return Fraction(number) if isinstance(number, Rational) else Fraction(*number.as_integer_ratio())


def _refusing(name):
    def refuse(self, *args, **kwargs):
        self._path.refuse(
            f"rng.{name} is not followed exactly; draw with random, uniform, integers or choice(p=…)"
        )

    return refuse


def _refuse_the_rest(cls, base, followed=()):
    """Every public name of `base` that `cls` neither defines nor rightly inherits refuses to answer.

    So do copies: a copy of a generator repeats the draws of the original, which no path can follow.
    """
    for name in ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__"):
        setattr(cls, name, _refusing(name))
    for name in dir(base):
        if not name.startswith("_") and name not in vars(cls) and name not in followed:
            refuse = _refusing(name)
            setattr(cls, name, refuse if callable(getattr(base, name)) else property(refuse))


_refuse_the_rest(LazyGenerator, np.random.Generator)


class LazyRandom(random.Random):
    """A `random.Random` whose uniforms are lazy.

    Offers random, choice, choices, randint, randrange, sample, shuffle and uniform; every other draw
    raises `Inexact`.
    """

    def __new__(cls, path):
        return super().__new__(cls)

    def __init__(self, path):
        self._path = path

    def random(self):
        return self._path.uniform()

    def _randbelow(self, n):
        return int(self.random() * n)


# These draw through random() and _randbelow() alone.
_refuse_the_rest(
    LazyRandom, random.Random, {"choice", "choices", "randint", "randrange", "sample", "shuffle", "uniform"}
)


def ancestral_law(model, prefix, n_tokens, *, stop=None) -> Law:
    """The law of plain sampling, by multiplying the model's rows: what "exact" is exact to.

    Parameters
    ----------
    model : Model
        Rational rows give the law itself. A float row is taken at its exact values, divided by their sum.
    prefix : sequence of int
    n_tokens : int
        n_tokens ≥ 0.
    stop : int or collection of int, optional

    Returns
    -------
    Law
        Keys are tuples of the new tokens, a stop token included.

    Raises
    ------
    ValueError
        As `generate_target_only`.

    Examples
    --------
    >>> from specdecode.models import MarkovModel
    >>> coin = MarkovModel([[Fraction(1, 3), Fraction(2, 3)]] * 2)
    >>> ancestral_law(coin, [0], 2, stop=0)
    Law({(0,): 1/3, (1, 0): 2/9, (1, 1): 4/9})
    """
    stop = as_stop(stop, model.vocab_size)
    prefix = as_tokens(prefix, "prefix", model.vocab_size)
    open_texts, masses = {(): Fraction(1)}, {}
    for _ in range(as_count(n_tokens, "n_tokens", least=0)):
        longer = {}
        for text, mass in open_texts.items():
            row = [_exact(entry) for entry in next_rows(model, [*prefix, *text], 1)[0].tolist()]
            total = sum(row)
            for token, probability in enumerate(row):
                if probability:
                    ended = masses if token in stop else longer
                    ended[*text, token] = mass * probability / total
        open_texts = longer
    return Law(masses | open_texts)


def distance(law_a, law_b) -> Fraction:
    """Total variation between two laws, Σ (a − b)⁺.

    Parameters
    ----------
    law_a, law_b : mapping
        Outcome -> rational probability.

    Returns
    -------
    Fraction
        In [0, 1]; 0 if and only if the laws are equal.

    Examples
    --------
    >>> distance(Law({0: Fraction(1, 2), 1: Fraction(1, 2)}), Law({1: 1}))
    Fraction(1, 2)
    """
    return sum((max(mass - law_b.get(outcome, 0), 0) for outcome, mass in law_a.items()), Fraction(0))


@dataclass(frozen=True)
class Comparison:
    """Two enumerated laws, side by side.

    Attributes
    ----------
    law_a, law_b : Law
    total_variation : Fraction
        Distance between them.
    tolerance : number
        Up to which they count as equal.
    worst : (outcome, Fraction, Fraction)
        The outcome whose probabilities differ most, and what they are.
    """

    law_a: Law
    law_b: Law
    total_variation: Fraction
    tolerance: float
    worst: tuple

    @property
    def equal(self):
        """Whether the distance is at most the tolerance."""
        return self.total_variation <= self.tolerance


def compare(program_a, program_b, *, tolerance=0, **limits) -> Comparison:
    """Enumerate two programs and compare their laws: a certificate that needs no reference.

    Parameters
    ----------
    program_a, program_b : callable
        Each program(rng) -> a hashable outcome, as for `law`: speculation on and off, say.
    tolerance : number
        Largest distance that counts as equal; 0 for rational programs, about 1e-12 for float ones.
    **limits
        source, max_paths and max_draws, as for `law`.

    Returns
    -------
    Comparison

    Raises
    ------
    Inexact, NotReproducible, TooLarge, TypeError
        As `law`.

    Examples
    --------
    >>> found = compare(lambda rng: rng.random() < 0.5, lambda rng: rng.random() < 0.75)
    >>> found.equal, found.total_variation, found.worst
    (False, Fraction(1, 4), (False, Fraction(1, 2), Fraction(1, 4)))
    """
    return against(law(program_a, **limits), law(program_b, **limits), tolerance)


def against(law_a, law_b, tolerance=0) -> Comparison:
    """Two laws, already found, side by side; see `compare`."""
    outcomes = sorted({*law_a, *law_b}, key=repr)
    worst = max(outcomes, key=lambda outcome: abs(law_a.get(outcome, 0) - law_b.get(outcome, 0)))
    probabilities = law_a.get(worst, Fraction(0)), law_b.get(worst, Fraction(0))
    return Comparison(law_a, law_b, distance(law_a, law_b), tolerance, (worst, *probabilities))


def compose(step, prefix, n_tokens, *, stop=None, memory=None, **limits) -> Law:
    """The exact law of a text made in rounds, with equal states merged after each round.

    Enumerating a whole generator multiplies the paths of all its rounds. A round depends on nothing but
    the text so far, so its law is found once for each text, or for each ending if that is all it sees.

    Parameters
    ----------
    step : callable
        step(text, rng) -> the tokens a round adds to the list `text`, at least one.
    prefix : sequence of int
    n_tokens : int
        Where the text is cut.
    stop : int or collection of int, optional
        Ends the text, wherever in a round it falls.
    memory : int, optional
        How many of the last tokens a round can see; all of them if left out. 1 for two Markov models.
    **limits
        source, max_paths and max_draws for the law of each round, as for `law`.

    Returns
    -------
    Law
        Keys are tuples of the new tokens, as for `ancestral_law`.

    Raises
    ------
    ValueError
        If a round adds nothing.

    Guarantee
    ---------
    Equal to the law of the loop that repeats `step` (thm-sequence in chapter 4), provided a round really
    sees no more than `memory` tokens.

    Examples
    --------
    >>> half = Fraction(1, 2)
    >>> compose(lambda text, rng: [0, 0] if rng.random() < half else [1], [0], 2)
    Law({(0, 0): 1/2, (1, 0): 1/4, (1, 1): 1/4})
    """
    stop = as_stop(stop, vocab_size=float("inf"))
    prefix, n_tokens = list(prefix), as_count(n_tokens, "n_tokens", least=0)
    known, masses = {}, {}

    def round_law(text):
        seen = tuple([*prefix, *text][-memory if memory else 0 :])
        if seen not in known:
            known[seen] = law(lambda rng: tuple(step(list(seen), rng)), **limits)
        return known[seen]

    # By length, so that all ways of reaching a text are merged before it is continued.
    waiting = [{(): Fraction(1)}, *({} for _ in range(n_tokens))]
    for length, texts in enumerate(waiting):
        for text, mass in texts.items():
            if length == n_tokens or (text[-1:] and text[-1] in stop):
                masses[text] = mass
                continue
            for added, probability in round_law(text).items():
                if not added:
                    raise ValueError(f"a round added no token to {[*prefix, *text]}; want one or more")
                longer = (*text, *cut(added, n_tokens - length, stop))
                reached = waiting[len(longer)]
                reached[longer] = reached.get(longer, 0) + mass * probability
    return Law(masses)
