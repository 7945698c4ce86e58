"""The tests that people usually run, and which exhibits they would catch."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from specdecode import verifiers
from specdecode.certify import distance_on
from specdecode.certify.trial import world_in_floats
from specdecode.certify.worlds import DENSE, World, table
from specdecode.drafts import as_draft
from specdecode.exact import Law, law
from specdecode.models import MappedModel, next_rows
from specdecode.museum.exhibits import WORLD, ZEROS_WORLD, Exhibit
from specdecode.sampling import draw, temperature
from specdecode.speculative import generate_speculative

__all__ = ["USUAL_TESTS", "usual_tests"]

_SEEN = Fraction(1, 1000)  # what a test by sampling can hope to see, with a million draws
_HALVES = World("two tokens", table([1, 2], [2, 1]), table([2, 1], [1, 1]), k=2, n_tokens=3)
_EQUAL = World("draft = target", DENSE[0], DENSE[0], k=2, n_tokens=3)
_COLD = World(
    "temperature 0",
    MappedModel(DENSE[0], lambda row: temperature(row, 0)),
    MappedModel(DENSE[1], lambda row: temperature(row, 0)),
    k=2,
    n_tokens=5,
)


def _observed(sampler: Callable[..., Any], is_generator: bool, world: World) -> Law:
    """Law of (tokens accepted in the first round, text), in floats; a fault counts as a text of its own."""
    world = world_in_floats(world)
    target, draft = world.target, world.draft

    def generated(rng: Any) -> Any:
        trace = sampler(target, draft, list(world.prefix), world.n_tokens, world.k, rng)
        accepted = trace.rounds[0].accepted if trace.rounds else None
        return accepted, tuple(trace.tokens)

    def verified(rng: Any) -> Any:
        text = list(world.prefix)
        drafted, rows = as_draft(draft).propose(text, world.k, rng)
        emitted = list(sampler(drafted, rows, next_rows(target, [*text, *drafted], world.k + 1), rng))
        accepted, length = len(emitted) - 1, world.n_tokens or world.k + 1
        while len(emitted) < length:
            emitted.append(draw(target.next_dist([*text, *emitted]), rng.random()))
        return accepted, tuple(map(int, emitted[:length]))

    return law(generated if is_generator else verified)


def _distance_of(law_a: Law, law_b: Law, statistic: Callable[..., Any]) -> Fraction:
    """Total variation between the laws of a statistic of (accepted, text)."""
    difference: dict[Any, Fraction] = {}
    for sign, found in ((1, law_a), (-1, law_b)):
        for outcome, mass in found.items():
            key = statistic(*outcome)
            difference[key] = difference.get(key, Fraction(0)) + sign * mass
    return sum((max(gap, Fraction(0)) for gap in difference.values()), Fraction(0))


def _accepts_otherwise(found: Law, expected: Law) -> bool:
    def mean(of: Law) -> Fraction:
        return sum((accepted * mass for (accepted, _), mass in of.items()), Fraction(0))

    counted = all(accepted is not None for accepted, _ in found)
    return counted and abs(mean(found) - mean(expected)) > _SEEN


USUAL_TESTS = (
    "acceptance rate",
    "greedy equality",
    "first token",
    "V = 2",
    "draft = target",
    "zero support",
    "joint law",
)


def usual_tests(exhibit: Exhibit) -> dict[str, bool]:
    """Which of the tests that people run would catch an exhibit.

    The six usual tests are given the exact law in place of a sample, on fixed worlds, and count as catching
    what differs by more than 0.001, which would take about a million draws. So a miss is no bad luck. The
    joint law is enumerated to rounding, 1e-12, on the world that the exhibit needs.

    Parameters
    ----------
    exhibit : Exhibit

    Returns
    -------
    dict
        Name of the test -> caught. "acceptance rate": the mean number accepted in the first round.
        "greedy equality": the text at temperature 0. "first token": its histogram. "V = 2", "draft =
        target": the joint law there. "zero support": a token with p = 0. "joint law": that of a round
        completed to k + 1 tokens, or of the text, on the exhibit's own world.

    Examples
    --------
    >>> from specdecode.museum import EXHIBITS
    >>> usual_tests(EXHIBITS["goes-on"])["first token"], usual_tests(EXHIBITS["goes-on"])["joint law"]
    (False, True)
    """
    right: Callable[..., Any] = generate_speculative if exhibit.is_generator else verifiers.token

    def both(world: World) -> tuple[Law, Law]:
        if exhibit.is_generator:
            world = replace(world, k=1)
        found, expected = (_observed(s, exhibit.is_generator, world) for s in (exhibit.sampler, right))
        return found, expected

    def differs(world: World, statistic: Callable[..., Any]) -> bool:
        return _distance_of(*both(world), statistic) > _SEEN

    def text(_: Any, tokens: Any) -> Any:
        return tokens

    found, expected = both(WORLD)
    zeros, zeros_right = both(ZEROS_WORLD)
    return {
        "acceptance rate": _accepts_otherwise(found, expected),
        "greedy equality": differs(_COLD, text),
        "first token": _distance_of(found, expected, lambda _, tokens: tokens[:1]) > _SEEN,
        "V = 2": differs(_HALVES, text),
        "draft = target": differs(_EQUAL, text),
        "zero support": not {tokens for _, tokens in zeros} <= {tokens for _, tokens in zeros_right},
        "joint law": distance_on(exhibit.sampler, exhibit.world, exhibit.is_generator) > 1e-12,
    }
