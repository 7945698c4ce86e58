"""The law of a sampler on a world, enumerated, and the witness of one that is wrong."""

from fractions import Fraction

from specdecode.certify.certificate import Witness, simple
from specdecode.certify.hints import acceptance, draws_nothing, leading_to
from specdecode.certify.trial import Trial
from specdecode.certify.worlds import World
from specdecode.exact import Comparison, Fault, Law, NotReproducible, law

__all__ = ["confirmed", "enumerated"]

_MAX_PATHS = 50_000
_SPARE_UNIFORMS = 50_000  # on all paths of a world that can be left out
_MAX_DRAWS = 400  # on one path; a loop that retries is then told soon
_REPEATS = 5  # enumerations that must agree before a sampler is called not exact


def enumerated(trial: Trial, world: World, tolerance: float = 1e-12) -> Law:
    """The exact law of what a sampler gives on a world, faults among its outcomes."""
    work = _SPARE_UNIFORMS if world.spare else None
    return law(
        trial.program(world),
        max_paths=_MAX_PATHS,
        max_draws=_MAX_DRAWS,
        max_uniforms=work,
        tolerance=tolerance,
    )


def confirmed(trial: Trial, world: World, comparison: Comparison) -> Witness:
    """The witness of a failed world, once repeated enumeration has given the same law every time."""
    found, tolerance = comparison.law_a, float(comparison.tolerance)
    for _ in range(_REPEATS):
        if enumerated(trial, world, tolerance) != found:
            raise NotReproducible("enumerated again, it had another law")
    outcome, probability, expected = comparison.worst
    wrong = [o for o in found if o not in comparison.law_b]
    if wrong:  # an outcome that must not happen at all says more than one that happens too often
        outcome = max(wrong, key=lambda o: found[o])
        probability, expected = found[outcome], Fraction(0)
    hints = [*sorted(trial.hints), *acceptance(trial, world)]
    if not isinstance(outcome, Fault):
        hints += draws_nothing(trial, world)
    if comparison.total_variation < 1e-6:
        hints.append("the distance is that of float32 rounding: for such code, tolerance=1e-6")
    return Witness(
        world,
        leading_to(trial, world, outcome, _MAX_PATHS),
        outcome,
        simple(probability),
        simple(expected),
        "enumerated",
        tuple(hints),
        trial.snippet(world, outcome),
    )
