"""Coins at the ends of [0, 1): ties have probability zero, and are still met by a generator of 53 bits.

Noise that decides a race is left fair: its ties are of no coin.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from specdecode.certify.certificate import Witness
from specdecode.certify.trial import GeneratorTrial, Trial, VerifierTrial
from specdecode.certify.worlds import World
from specdecode.exact import (
    Fault,
    Inexact,
    LazyGenerator,
    NotReproducible,
    Numbers,
    Path,
    TooLarge,
    walk,
)
from specdecode.models import next_rows

__all__ = ["EXTREMES", "at_the_extremes"]

EXTREMES = (0.0, 1 - 2.0**-53)  # the least and the greatest uniform a generator of 53 bits gives
_WIDTH, _TEXTS = 16, 1000  # of a vocabulary, and how many texts may be drafted
_CHANCE = 1e-9  # of a race's outcome, below which the coins are not to blame for it
_DRAWS = 100  # so many are extreme that only a loop which waits for another one outlives them


def at_the_extremes(trial: Trial, worlds: Sequence[World]) -> Witness | None:
    """The witness of a sampler that lets out what the target forbids, or a fault, at an extreme coin.

    Of the worlds those are tried that forbid a token, and whose drafts are sampled from few texts.
    """
    for world in worlds:
        size = world.target.vocab_size
        if world.looks_up or size > _WIDTH or size**world.k > _TEXTS or not _forbids(world):
            continue
        world = replace(world, calls=1)
        if isinstance(trial, GeneratorTrial) and world.n_tokens is None:
            world = replace(world, n_tokens=world.k + 1)
        for u in EXTREMES:
            for outcome in _outcomes(trial, world, u):
                if isinstance(outcome, Fault) or not all(
                    _possible(world, prompt, text) for prompt, text in trial.texts(world, outcome)
                ):
                    how = f"with every coin exactly {u!r}: {outcome}, which has p = 0 or is no text"
                    hints, snippet = tuple(sorted(trial.hints)), trial.snippet(world, outcome)
                    nothing = Fraction(0)
                    return Witness(world, None, outcome, nothing, nothing, how, hints, snippet)
    return None


def _outcomes(trial: Trial, world: World, u: float) -> Iterator[Any]:
    """Every text the sampler gives when all its coins are u, over all drafted tokens."""
    if not isinstance(trial, VerifierTrial):
        yield from _played(trial.program(world), u)
        return
    draft: Any = world.draft
    vocab_size = world.target.vocab_size

    def proposals(drafted: list[int], rows: list[np.ndarray]) -> Iterator[tuple[list[int], np.ndarray]]:
        if len(drafted) == world.k:
            yield drafted, np.array(rows)
            return
        row = next_rows(draft, [*world.prefix, *drafted], 1)[0]
        for token in np.flatnonzero(row):
            yield from proposals([*drafted, int(token)], [*rows, row])

    for drafted, q in proposals([], []):
        p = next_rows(world.target, [*world.prefix, *drafted], world.k + 1)
        yield from _played(lambda rng, d=drafted, q=q, p=p: trial.emitted(d, q, p, rng, vocab_size), u)


def _forbids(world: World) -> bool:
    """Whether the first row, in Fractions, has a 0."""
    return world.is_rational and 0 in next_rows(world.target, world.prefix, 1)[0].tolist()


def _played(program: Any, u: float) -> Iterator[Any]:
    """What a program does with real numbers: each coin is u, and noise says who wins a race."""
    paths: list[Path] = []

    def run(path: Path) -> None:
        paths.append(path)
        program(LazyGenerator(path))

    try:
        for _ in walk(run, max_paths=1000, max_draws=_DRAWS, refused=lambda why: None, edge=u):
            pass
    except (Inexact, NotReproducible, TooLarge):
        paths = [] if any(path.races for path in paths) else [Path()]
    for path in paths:
        numbers = path.numbers()
        if numbers is not None and path.probability > _CHANCE:
            yield program(LazyGenerator(Numbers([*numbers, *[u] * _DRAWS])))


def _possible(world: World, prompt: Sequence[int], tokens: Sequence[int]) -> bool:
    text = list(prompt)
    for token in tokens:
        if next_rows(world.target, text, 1)[0][token] == 0:
            return False
        text.append(token)
    return True
