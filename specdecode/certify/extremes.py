"""Coins at the ends of [0, 1): ties have probability zero, and are still met by a generator of 53 bits."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from specdecode.certify.certificate import Witness
from specdecode.certify.trial import GeneratorTrial, Outcome, Trial, VerifierTrial
from specdecode.certify.worlds import World, extreme_worlds
from specdecode.exact import Fault, LazyGenerator, Numbers
from specdecode.models import next_rows

__all__ = ["at_the_extremes"]

_EXTREMES = (0.0, 1 - 2.0**-53)  # the least and the greatest uniform a generator of 53 bits gives


def at_the_extremes(trial: Trial) -> Witness | None:
    """The witness of a sampler that lets out what the target forbids, or a fault, at an extreme coin."""
    for world in extreme_worlds():
        if isinstance(trial, GeneratorTrial):
            world = replace(world, n_tokens=world.k + 1)
        for u in _EXTREMES:
            for outcome in _outcomes(trial, world, u):
                if isinstance(outcome, Fault) or not _possible(world, outcome):
                    how = f"with every coin exactly {u!r}: {outcome}, which has p = 0 or is no text"
                    hints, snippet = tuple(sorted(trial.hints)), trial.snippet(world, outcome)
                    nothing = Fraction(0)
                    return Witness(world, None, outcome, nothing, nothing, how, hints, snippet)
    return None


def _constant(u: float) -> Any:
    """Every coin is u, for so long that only a loop that waits for another one outlives it."""
    return LazyGenerator(Numbers([u] * 100))


def _outcomes(trial: Trial, world: World, u: float) -> Iterable[Outcome | list[int]]:
    """Every text the sampler gives when all its coins are u, over all drafted tokens."""
    if not isinstance(trial, VerifierTrial):
        return [trial.program(world)(_constant(u))]
    outcomes: list[list[int] | Fault] = []
    draft: Any = world.draft

    def extend(drafted: list[int], rows: list[np.ndarray]) -> None:
        if len(drafted) == world.k:
            p = next_rows(world.target, [*world.prefix, *drafted], world.k + 1)
            vocab_size = world.target.vocab_size
            outcomes.append(trial.emitted(drafted, np.array(rows), p, _constant(u), vocab_size))
            return
        row = next_rows(draft, [*world.prefix, *drafted], 1)[0]
        for token in np.flatnonzero(row):
            extend([*drafted, int(token)], [*rows, row])

    extend([], [])
    return outcomes


def _possible(world: World, tokens: Sequence[int]) -> bool:
    text = list(world.prefix)
    for token in tokens:
        if next_rows(world.target, text, 1)[0][token] == 0:
            return False
        text.append(token)
    return True
