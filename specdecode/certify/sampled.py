"""Sampling, for what cannot be enumerated: the texts of a sampler against the target's law, by a G-test.

One world of each kind is sampled. Where a p-value is small and not yet small enough, drawing goes on: a world
has up to four looks, at 1, 4, 16 and 64 times the draws, which share its part of alpha.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from specdecode.certify.certificate import Check, Witness
from specdecode.certify.statistics import g_test, resolution
from specdecode.certify.trial import Trial, world_in_floats
from specdecode.certify.worlds import World
from specdecode.exact import Law, NotReproducible

__all__ = ["Sampled", "one_of_each_kind", "sampled"]

_LOOKS = 4
_MORE = 4  # times as many texts for the next look
_DOUBT = 1e-2  # a p-value below it is looked at again


class Sampled:
    """What sampling found.

    Attributes
    ----------
    checks : list of Check
    witness : Witness or None
        Of the first world that refutes.
    total_variation : float or None
        Between the sample and the law there.
    notes : list of str
    worlds : list of World
        Those that were sampled.
    """

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.witness: Witness | None = None
        self.total_variation: float | None = None
        self.notes: list[str] = []
        self.worlds: list[World] = []


def sampled(trial: Trial, worlds: Sequence[World], draws: int, alpha: float, seed: int) -> Sampled:
    """Sample a sampler on one world of each kind.

    Parameters
    ----------
    trial : Trial
    worlds : sequence of World
        A battery; what is left out of it is noted.
    draws : int
        Texts a world, at the first look.
    alpha : float
        Probability of calling a right sampler wrong, over all worlds and looks (Bonferroni).
    seed : int

    Returns
    -------
    Sampled
    """
    chosen = one_of_each_kind(worlds)
    found, rng = Sampled(), np.random.default_rng(seed)
    level = alpha / len(chosen) / _LOOKS
    for world in chosen:
        # In floats, which are many times faster; no sample sees their rounding.
        program, reference = trial.program(world_in_floats(world)), trial.reference(world)
        counts: Counter[Any] = Counter()
        p_value, degrees = 1.0, 0
        try:
            for look in range(_LOOKS):
                counts.update(program(rng) for _ in range(draws * _MORE**look - counts.total()))
                p_value, degrees = g_test(counts, reference)
                if p_value < level or p_value > _DOUBT:
                    break
            else:
                found.notes.append(
                    f"{world.name}, k = {world.k}: p = {p_value:.1e} after {counts.total()} texts, "
                    f"undecided; want more draws"
                )
        except NotReproducible as error:
            found.notes.append(f"it could not be sampled either: {error}")
            break
        passed, texts = p_value >= level, counts.total()
        seen = resolution(texts, degrees, level)
        length = trial.length(world)
        found.checks.append(Check(world.name, world.k, length, None, texts, None, p_value, passed, seen))
        found.worlds.append(world)
        if not passed and found.witness is None:
            found.witness, found.total_variation = _witness(trial, world, counts, reference)
    names = sorted({world.name for world in worlds} - {world.name for world in chosen})
    if names:
        found.notes.append(
            f"{len(chosen)} of {len(worlds)} worlds were sampled; left out: {', '.join(names)}"
        )
    return found


def _witness(trial: Trial, world: World, counts: Counter[Any], law: Law) -> tuple[Witness, float]:
    """The outcome that differs most, one that must not happen at all first, and the sample's distance."""
    shares = {outcome: count / counts.total() for outcome, count in counts.items()}
    expected = {outcome: float(mass) for outcome, mass in law.items()}
    apart = {o: shares.get(o, 0.0) - expected.get(o, 0.0) for o in {*shares, *expected}}
    forbidden = [o for o in shares if o not in expected]
    outcome = max(forbidden or apart, key=lambda o: (abs(apart[o]), repr(o)))
    witness = Witness(
        world,
        None,
        outcome,
        shares.get(outcome, 0.0),
        expected.get(outcome, 0.0),
        "sampled",
        tuple(sorted(trial.hints)),
        trial.snippet(world, outcome),
    )
    return witness, sum(max(gap, 0.0) for gap in apart.values())


def one_of_each_kind(worlds: Sequence[World]) -> list[World]:
    """Of each kind of world the one with most tokens to compare, but for those in which samples show little.

    A kind is a width, a depth, a sort of target and draft, whether it stops, and how often it is called.
    """
    telling = [w for w in worlds if (w.n_tokens or w.k) >= 2 or w.calls > 1 or w.target.vocab_size > 4]
    telling = [w for w in telling if w.target is not w.draft and w.name not in _HIDING]
    by_kind: dict[Any, World] = {}
    for world in sorted(telling, key=lambda w: (w.n_tokens or 0, w.k), reverse=True):
        by_kind.setdefault(_kind(world), world)  # sampling has no paths to run out of: the longest of each
    return list(by_kind.values()) or list(worlds)


def _kind(world: World) -> tuple[Any, ...]:
    width, depth = world.target.vocab_size, max(world.k, (world.n_tokens or 0) // 8)
    sort = type(getattr(world.target, "model", world.target)).__name__
    stops = world.stop is not None
    return sort, min(width, 5), width > 100, depth > 5, world.looks_up, stops, world.calls


_HIDING = {"disjoint support", "equal up to one ulp", "three ids of 70000"}  # little to see, or long to draw
