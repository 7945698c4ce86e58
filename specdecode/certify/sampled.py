"""Sampling, for what cannot be enumerated: the texts of a sampler against the target's law, by a G-test."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from specdecode.certify.certificate import Certificate, Check, Witness
from specdecode.certify.statistics import g_test, resolution
from specdecode.certify.trial import Trial, name_of, world_in_floats
from specdecode.certify.worlds import World
from specdecode.exact import NotReproducible

__all__ = ["sampled"]

_HIDING = {"disjoint support", "draft = target", "equal up to one ulp"}  # where most faults do not show


def sampled(
    trial: Trial,
    worlds: Sequence[World],
    tolerance: float,
    draws: int,
    alpha: float,
    seed: int,
    reason: str,
) -> Certificate:
    """The certificate of a sampler that could not be enumerated, for the given reason."""
    chosen = _few(worlds)
    rng = np.random.default_rng(seed)
    checks: list[Check] = []
    notes: list[str] = []
    smallest, size = 0.0, None
    witness: Witness | None = None
    for world in chosen:
        # In floats, which are many times faster; no sample sees their rounding.
        program, reference = trial.program(world_in_floats(world)), trial.reference(world)
        try:
            counts = Counter(program(rng) for _ in range(draws))
        except NotReproducible as error:
            notes.append(f"it could not be sampled either: {error}")
            smallest = 1.0
            break
        p_value, degrees = g_test(counts, reference)
        passed = p_value >= alpha / len(chosen)
        checks.append(Check(world.name, world.k, trial.length(world), None, draws, None, p_value, passed))
        smallest = max(smallest, resolution(draws, degrees, alpha / len(chosen)))
        if not passed and witness is None:
            shares = {outcome: count / draws for outcome, count in counts.items()}
            expected = {outcome: float(mass) for outcome, mass in reference.items()}
            apart = {o: shares.get(o, 0.0) - expected.get(o, 0.0) for o in {*shares, *expected}}
            size = sum(max(gap, 0.0) for gap in apart.values())
            forbidden = [o for o in shares if o not in expected]
            outcome = max(forbidden or apart, key=lambda o: abs(apart[o]))
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
    if trial.written:
        notes.append("it wrote to the arrays or the list it was given")
    return Certificate(
        name_of(trial.function),
        "no difference found" if witness is None else "not exact",
        "sampled",
        tolerance,
        tuple(checks),
        size,
        smallest,
        alpha,
        reason,
        witness,
        tuple(notes),
    )


def _few(worlds: Sequence[World]) -> list[World]:
    """Worlds worth sampling: several tokens compared, faults in the open, one of a name, at most five."""
    telling = [w for w in worlds if (w.n_tokens or w.k) >= 2 and w.name not in _HIDING]
    by_name: dict[str, World] = {}
    for world in sorted(telling, key=lambda w: (w.k, w.n_tokens or 0), reverse=True):
        by_name.setdefault(world.name, world)  # sampling has no paths to run out of: the longest of each name
    return list(by_name.values())[:5] or list(worlds)
