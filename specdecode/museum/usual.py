"""The tests that people usually run, and which exhibits they would catch.

A test is a world made easier, or not, and a statistic of what a sampler does there. So every test can be put
on every world, and looks at the exact law there instead of a sample. What it misses, it misses by what it
looks at, or by the world; never by bad luck.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from specdecode import verifiers
from specdecode.certify.trial import world_in_floats
from specdecode.certify.worlds import World
from specdecode.checks import TokenIds
from specdecode.exact import ancestral_law, law
from specdecode.models import MappedModel, next_rows
from specdecode.museum.exhibits import EXHIBITS, WORLDS, Exhibit
from specdecode.sampling import temperature
from specdecode.speculative import generate_speculative

__all__ = ["SEEN", "USUAL_TESTS", "grid", "usual_tests"]

SEEN = Fraction(1, 1000)  # what a test by sampling can hope to see, with a million draws

Sampler = Callable[..., Any]
Outcome = tuple[int | None, tuple[int, ...]]  # tokens accepted in the first round, if counted; text
Found = Mapping[Outcome, Fraction]


# The worlds that the tests look at.


class _TwoTokens:
    """A model whose tokens but the first are made one, so that every row stays a distribution."""

    vocab_size = 2

    def __init__(self, model: Any) -> None:
        self.model = model

    def next_dist(self, prefix: TokenIds) -> np.ndarray:
        row = self.model.next_dist(prefix)
        return np.array([row[0], row[1:].sum()])


def _as_it_is(world: World) -> World:
    return world


def _at_temperature_0(world: World) -> World:
    def cold(model: Any) -> MappedModel:
        return MappedModel(model, lambda row: temperature(row, 0))

    longer = max(world.n_tokens or 0, 5)  # at the price of one path
    return replace(world, target=cold(world.target), draft=cold(world.draft), n_tokens=longer)


def _with_two_tokens(world: World) -> World:
    return replace(
        world,
        target=_TwoTokens(world.target),
        draft=_TwoTokens(world.draft),
        prefix=tuple(min(token, 1) for token in world.prefix),
        stop=None if world.stop is None else min(world.stop, 1),
    )


def _with_the_target_as_draft(world: World) -> World:
    return replace(world, draft=world.target)


# What they look at there: each is a distance from the right rule.


def _text(found: Found, expected: Found, world: World) -> Fraction:
    return _total_variation(found, expected, lambda text: text)


def _first_token(found: Found, expected: Found, world: World) -> Fraction:
    return _total_variation(found, expected, lambda text: text[:1])


def _total_variation(found: Found, expected: Found, part: Callable[[tuple[int, ...]], Any]) -> Fraction:
    gaps: defaultdict[Any, Fraction] = defaultdict(Fraction)
    for sign, seen in ((1, found), (-1, expected)):
        for (_, text), mass in seen.items():
            gaps[part(text)] += sign * mass
    return sum((max(gap, Fraction(0)) for gap in gaps.values()), Fraction(0))


def _accepted(found: Found, expected: Found, world: World) -> Fraction:
    if any(accepted is None for accepted, _ in found):
        return Fraction(0)  # what is not counted cannot differ
    gap = Fraction(0)
    for sign, seen in ((1, found), (-1, expected)):
        for (accepted, _), mass in seen.items():
            gap += sign * (accepted or 0) * mass
    return abs(gap)


def _impossible(found: Found, expected: Found, world: World) -> Fraction:
    def impossible(text: tuple[int, ...]) -> bool:
        rows = (world.target.next_dist([*world.prefix, *text[:i]]) for i in range(len(text)))
        return any(row[token] == 0 for row, token in zip(rows, text))

    return sum((mass for (_, text), mass in found.items() if impossible(text)), Fraction(0))


_TESTS = {
    "acceptance rate": (_as_it_is, _accepted),
    "greedy equality": (_at_temperature_0, _text),
    "first token": (_as_it_is, _first_token),
    "V = 2": (_with_two_tokens, _text),
    "draft = target": (_with_the_target_as_draft, _text),
    "zero support": (_as_it_is, _impossible),
    "joint law": (_as_it_is, _text),
}
USUAL_TESTS = tuple(_TESTS)


def _generated(generate: Sampler, world: World) -> Found:
    """The law of what can be seen of a generator."""
    stop = {} if world.stop is None else {"stop": world.stop}

    def program(rng: Any) -> Outcome:
        prefix, n_tokens = list(world.prefix), _length(world)
        trace = generate(world.target, world.draft, prefix, n_tokens, world.k, rng, **stop)
        return trace.rounds[0].accepted if trace.rounds else None, tuple(trace.tokens)

    return law(program)


def _verified(verifier: Sampler, world: World) -> Found:
    """The law of what can be seen of a verifier: only its own draws are followed, as the others are right."""
    target: Any = world.target
    draft: Any = world.draft
    n_tokens, found = _length(world), defaultdict[Outcome, Fraction](Fraction)
    for drafted, chance in _sampled(draft, world.prefix, world.k).items():
        text = [*world.prefix, *drafted]
        q, p = next_rows(draft, text[:-1], world.k), next_rows(target, text, world.k + 1)

        def program(rng: Any, drafted: Any = drafted, q: Any = q, p: Any = p) -> tuple[int, ...]:
            return tuple(map(int, verifier(list(drafted), q.copy(), p.copy(), rng)))

        for emitted, mass in law(program).items():
            begun = emitted[:n_tokens]
            rest = _sampled(target, world.prefix + begun, n_tokens - len(begun))
            for end, share in rest.items():
                found[len(emitted) - 1, begun + end] += chance * mass * share
    return found


def _observed(sampler: Sampler, is_generator: bool, world: World) -> Found:
    return (_generated if is_generator else _verified)(sampler, world)


def _length(world: World) -> int:
    return world.n_tokens or world.k + 1


@cache
def _sampled(model: Any, prefix: tuple[int, ...], n_tokens: int) -> Mapping[tuple[int, ...], Fraction]:
    return ancestral_law(model, prefix, n_tokens)


@cache
def _prepared(world: World, easier: Callable[[World], World]) -> World:
    return world_in_floats(easier(world))


@cache
def _expected(is_generator: bool, world: World) -> Found:
    return _observed(generate_speculative if is_generator else verifiers.token, is_generator, world)


@cache
def _distances(sampler: Sampler, is_generator: bool, world: World) -> dict[str, Fraction]:
    """How far from the right rule each test finds a sampler; each law is enumerated once."""
    worlds = {easier: _prepared(world, easier) for easier, _ in _TESTS.values()}
    laws = {easier: _observed(sampler, is_generator, easy) for easier, easy in worlds.items()}
    return {
        test: statistic(laws[easier], _expected(is_generator, worlds[easier]), worlds[easier])
        for test, (easier, statistic) in _TESTS.items()
    }


def usual_tests(
    exhibit: Exhibit, world: World | None = None, threshold: float | Fraction = SEEN
) -> dict[str, bool]:
    """Which of the tests that people run would catch an exhibit, all on one world at one threshold.

    Every test is given the exact law in place of a sample. At the default threshold it counts as catching
    what differs by more than 0.001, which would take about a million draws.

    Parameters
    ----------
    exhibit : Exhibit
    world : World, optional
        The exhibit's own if left out. Its draft must be a model.
    threshold : number
        What all tests can see; 1e-12 is rounding.

    Returns
    -------
    dict
        Name of the test -> caught. "acceptance rate": the mean number accepted in the first round. "greedy
        equality", "V = 2", "draft = target": the text, where both models are at temperature 0, or know but
        two tokens, or are both the target. "first token": its histogram. "zero support": a token with p
        = 0. "joint law": a round completed to the text's length, or a generator's text.

    Raises
    ------
    ValueError
        If the world's draft is not a model.

    Guarantee
    ---------
    "first token" and "zero support" catch nothing that "joint law" misses: they look at a function of the
    text. The other four may.

    Examples
    --------
    >>> from specdecode.museum import EXHIBITS
    >>> usual_tests(EXHIBITS["goes-on"])["first token"], usual_tests(EXHIBITS["goes-on"])["joint law"]
    (False, True)
    """
    world = world or exhibit.world
    if world.looks_up:
        raise ValueError(f"world {world.name!r} has a draft that looks up; want a model, which is sampled")
    if not exhibit.is_generator:  # so that worlds which a verifier cannot tell apart are enumerated once
        world = replace(world, name="", stop=None)
    distances = _distances(exhibit.sampler, exhibit.is_generator, world)
    return {test: distance > threshold for test, distance in distances.items()}


def grid(threshold: float | Fraction = SEEN) -> dict[str, dict[str, dict[str, bool]]]:
    """Every test on every world of the museum, for every exhibit.

    Parameters
    ----------
    threshold : number
        As for `usual_tests`, one for all.

    Returns
    -------
    dict
        Name of the exhibit -> name of the world -> name of the test -> caught. A generator plays several
        rounds, so k = 1 is enough for it, but on its own world.

    Examples
    --------
    >>> grid()["failed-coin"]["dense"]["joint law"]
    True
    """
    return {
        name: {world.name: usual_tests(exhibit, _fitted(world, exhibit), threshold) for world in WORLDS}
        for name, exhibit in EXHIBITS.items()
    }


def _fitted(world: World, exhibit: Exhibit) -> World:
    if world.name == exhibit.world.name:
        return exhibit.world
    return replace(world, k=1) if exhibit.is_generator else world
