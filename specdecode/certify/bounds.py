"""What a certificate has looked at: nothing is said of what lies beyond."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from specdecode.certify.worlds import World
from specdecode.exact.uniforms import as_fraction
from specdecode.models import next_rows

__all__ = ["bounds_of"]


def bounds_of(
    worlds: Sequence[World], tolerance: float, seed: int, *, dtype: str = "float64", batch: int = 1
) -> dict[str, Any]:
    """Sizes of the worlds of a certificate.

    Parameters
    ----------
    worlds : sequence of World
    tolerance : float
    seed : int
        Of random worlds and of sampling.
    dtype : str
        Of the rows.
    batch : int
        The most sequences that were verified at once.

    Returns
    -------
    dict
        As `Certificate.bounds` has it; sizes are sorted lists.
    """

    def sizes(of: Any) -> list[int]:
        return sorted({of(world) for world in worlds})

    generated = [world for world in worlds if world.n_tokens is not None]
    return {
        "V": sizes(lambda world: world.target.vocab_size),
        "k": sizes(lambda world: world.k),
        "tokens": sizes(lambda world: world.k + 1 if world.n_tokens is None else world.n_tokens),
        "prompts": sizes(lambda world: len(world.prefix)),
        "rounds": max((-(-(world.n_tokens or 0) // (world.k + 1)) for world in generated), default=1),
        "batch": batch,
        "calls": sizes(lambda world: world.calls),
        "dtype": dtype,
        "gap": _smallest_gap(worlds, tolerance),
        "seed": seed,
    }


def _smallest_gap(worlds: Sequence[World], tolerance: float) -> float | None:
    """The smallest difference between an entry of the target and one of the draft that is not hidden."""
    gaps: list[Fraction] = []
    for world in worlds:
        draft: Any = world.draft
        if world.looks_up or world.target.vocab_size > 1000:
            continue
        rows = (next_rows(model, world.prefix, 1)[0].tolist() for model in (world.target, draft))
        gaps += [abs(as_fraction(p) - as_fraction(q)) for p, q in zip(*rows)]
    return min((float(gap) for gap in gaps if gap > max(tolerance, 1e-15)), default=None)
