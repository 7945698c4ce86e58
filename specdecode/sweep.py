"""The toy world measured over agreements and draft lengths, with the exact value beside each count."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from specdecode.checks import as_count, as_draft_length, as_list
from specdecode.cost import markov_tokens_per_step
from specdecode.models import MarkovModel, draft_from_target, random_markov
from specdecode.speculative import generate_speculative

__all__ = ["sweep", "toy_world"]


def toy_world(
    agreement: float, vocab_size: int = 32, target_seed: int = 1, draft_seed: int = 2
) -> tuple[MarkovModel, MarkovModel]:
    """The target and draft that the examples and the command line share.

    Parameters
    ----------
    agreement : float
        From 0 to 1, as for `draft_from_target`.
    vocab_size, target_seed, draft_seed : int

    Returns
    -------
    (target, draft) : MarkovModels

    Examples
    --------
    >>> target, draft = toy_world(0.8)
    >>> target.vocab_size
    32
    """
    target = random_markov(vocab_size, target_seed)
    return target, draft_from_target(target, agreement, draft_seed)


def sweep(
    agreements: Iterable[float],
    longest: int,
    n_tokens: int,
    seed: int,
    *,
    draft_cost: float = 0.1,
    **world: int,
) -> Iterator[dict[str, Any]]:
    """Run the generator for every agreement and every k from 1 to `longest`.

    Parameters
    ----------
    agreements : sequence of float
    longest : int
        Largest draft length, at least 1.
    n_tokens : int
        New tokens a run, at least 1.
    seed : int
        Sampling seed, the same for every run.
    draft_cost : number
        For the speedup of each run.
    **world
        Sizes and seeds for `toy_world`.

    Yields
    ------
    dict
        agreement, k, target_passes, draft_passes, acceptance_rate, conditional_acceptance,
        tokens_per_step, speedup, and expected_tokens_per_step, which is exact for these tables.

    Examples
    --------
    >>> [(row["agreement"], row["k"]) for row in sweep([0.5, 0.9], 2, n_tokens=20, seed=0)]
    [(0.5, 1), (0.5, 2), (0.9, 1), (0.9, 2)]
    """
    seed, lengths = as_count(seed, "seed", least=0), range(1, as_draft_length(longest, "longest") + 1)
    for agreement in as_list(agreements, "agreements", "numbers from 0 to 1"):
        target, draft = toy_world(agreement, **world)
        for k in lengths:
            rng = np.random.default_rng(seed)
            trace = generate_speculative(target, draft, [0], n_tokens, k, rng)
            yield {
                "agreement": agreement,
                "k": k,
                "target_passes": trace.target_passes,
                "draft_passes": trace.draft_passes,
                "acceptance_rate": trace.acceptance_rate,
                "conditional_acceptance": trace.conditional_acceptance,
                "tokens_per_step": trace.tokens_per_step,
                "expected_tokens_per_step": markov_tokens_per_step(target.rows, draft.rows, k),
                "speedup": trace.speedup(draft_cost),
            }
