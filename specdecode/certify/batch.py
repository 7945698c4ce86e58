"""Does a verifier of batches emit exactly p, for each sequence and for all of them together?

Sequences of a batch are independent texts: their joint law is the product of the target's. A coin they share
leaves each sequence's own law alone, and shows in the joint one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from specdecode.certify.certificate import Certificate
from specdecode.certify.targets import Kept
from specdecode.certify.trial import Trial, takes, token_ids
from specdecode.certify.verdicts import Question, Track
from specdecode.certify.worlds import DENSE, FEW, ZEROS, World
from specdecode.exact import Fault, Law, ancestral_law

__all__ = ["batch_worlds", "certify_batch"]


@dataclass(frozen=True)
class _Batch(World):
    """A world of several sequences, each with a draft length of its own; its k is the longest."""

    lengths: tuple[int, ...] = ()

    def prompt(self, sequence: int) -> tuple[int, ...]:
        """What a sequence begins with: another token for each."""
        return (sequence % self.target.vocab_size,)


def batch_worlds() -> list[World]:
    """The battery for a verifier of batches: equal and ragged draft lengths, a sequence without a draft."""
    sizes = (
        ("one sequence", DENSE, (1,)),
        ("two sequences", DENSE, (1, 1)),
        ("two, zeros on either side", ZEROS, (1, 1)),
        ("two, ragged", FEW, (2, 1)),
        ("two, the longer second", FEW, (1, 2)),
        ("two, one without a draft", DENSE, (0, 1)),
        ("two, k = 2", FEW, (2, 2)),
        ("three sequences", FEW, (1, 1, 1)),
    )
    return [_Batch(name, *models, k=max(lengths), lengths=lengths) for name, models, lengths in sizes]


class _BatchTrial(Trial):
    """A verifier of batches on a world: draft each sequence, verify all at once, complete each."""

    certifier = "certify_batch"

    def text_length(self, world: World) -> int:
        return sum(length + 1 for length in _lengths(world))

    def texts(self, world: World, outcome: Any) -> list[tuple[tuple[int, ...], Any]]:
        return [(_prompt(world, b), text) for b, text in enumerate(outcome)]

    def snippet(self, world: World, outcome: Any) -> str:
        named = f"next(world for world in batch_worlds() if world.name == {world.name!r})"
        return (
            "from specdecode.certify.batch import batch_worlds, certify_batch\n\n"
            "sampler = ...  # the function that was certified\n"
            f"print(certify_batch(sampler, worlds=[{named}]))  # about {outcome}\n"
        )

    def reference(self, world: World) -> Law:
        laws = [
            ancestral_law(world.target, _prompt(world, b), length + 1).items()
            for b, length in enumerate(_lengths(world))
        ]
        return Law({tuple(t for t, _ in texts): prod(m for _, m in texts) for texts in product(*laws)})

    def once(self, world: World) -> Callable[[Any], Any]:
        target, draft = Kept(world.target, float), Kept(world.draft, float)  # type: ignore[arg-type]
        lengths, size = _lengths(world), world.target.vocab_size
        shape = len(lengths), max(lengths)

        def run(rng: Any) -> Any:
            ids = np.full(shape, -1, dtype=np.int64)
            q, p = np.zeros((*shape, size)), np.zeros((shape[0], shape[1] + 1, size))
            for b, length in enumerate(lengths):
                text = list(_prompt(world, b))
                for i in range(length):
                    q[b, i], p[b, i] = draft.next_dist(text), target.next_dist(text)
                    text.append(draft.draw(text, rng.random()))
                    ids[b, i] = text[-1]
                p[b, length] = target.next_dist(text)
            found = self._called(ids, q, p, rng, size)
            if isinstance(found, Fault):
                return found
            for b, emitted in enumerate(found):
                prompt = _prompt(world, b)
                while len(emitted) <= lengths[b]:
                    emitted.append(target.draw([*prompt, *emitted], rng.random()))
            return tuple(map(tuple, found))

        return run

    def _called(self, ids: Any, q: Any, p: Any, rng: Any, size: int) -> list[list[int]] | Fault:
        """What each sequence emits, or the first fault."""
        drafted = (ids >= 0).sum(axis=1).tolist()
        kept = [array.copy() for array in (ids, q, p)]
        try:
            answer = self.function(ids, q, p, rng)
            rows = list(answer)
        except (Exception, SystemExit) as error:
            if getattr(rng, "_path", None) is not None and getattr(rng._path, "trouble", None) is error:
                raise
            return Fault.raised(error)
        self.written |= any(not np.array_equal(a, b) for a, b in zip((ids, q, p), kept))
        if len(rows) != len(drafted):
            return Fault(f"returned {len(rows)} sequences for a batch of {len(drafted)}")
        found: list[list[int]] = []
        for b, row in enumerate(rows):
            tokens = token_ids(lambda row=row: row, size)  # type: ignore[misc]
            if isinstance(tokens, Fault):
                return Fault(f"sequence {b}: {tokens}")
            if not 1 <= len(tokens) <= drafted[b] + 1:
                return Fault(f"sequence {b}: returned {len(tokens)} tokens for {drafted[b]} drafted")
            found.append(tokens)
        return found


def _lengths(world: World) -> tuple[int, ...]:
    return world.lengths if isinstance(world, _Batch) else (world.k, world.k)


def _prompt(world: World, sequence: int) -> tuple[int, ...]:
    return world.prompt(sequence) if isinstance(world, _Batch) else world.prefix


def certify_batch(
    verifier: Callable[..., Any],
    *,
    worlds: Iterable[World] | None = None,
    tolerance: float = 1e-12,
    draws: int = 20_000,
    alpha: float = 1e-6,
    seed: int = 0,
    track: Track = iter,
) -> Certificate:
    """Is a verifier of batches exact? All sequences together must have the product of the target's laws.

    Parameters
    ----------
    verifier : callable
        verifier(draft_tokens, draft_dists, target_dists, rng) -> B sequences of token ids. It is handed int64
        (B, k), −1 where nothing was drafted, float64 (B, k, V) and (B, k + 1, V), and a
        `numpy.random.Generator`. Rows behind a sequence's own draft length are zeros.
    worlds : list of World, optional
        What to judge it on; `batch_worlds()` if left out. Of another world two sequences are made.
    tolerance, draws, alpha, seed, track
        As for `certify`.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        If `verifier` is not callable with four arguments.

    Guarantee
    ---------
    As `certify`, of the joint law of all sequences.

    Examples
    --------
    >>> from specdecode import verifiers
    >>> def one_by_one(draft_tokens, draft_dists, target_dists, rng):
    ...     for drafted, q, p in zip(draft_tokens, draft_dists, target_dists):
    ...         k = (drafted >= 0).sum()
    ...         yield verifiers.token(drafted[:k], q[:k], p[: k + 1], rng)
    >>> certify_batch(one_by_one).verdict
    'exact'
    """
    takes(verifier, 4, "verifier(draft_tokens, draft_dists, target_dists, rng) for a batch")
    question = Question(tolerance, draws, alpha, seed, track)
    chosen = batch_worlds() if worlds is None else list(worlds)
    found = question.ask(_BatchTrial(verifier), chosen, chosen)
    largest = max(len(_lengths(world)) for world in chosen)
    return replace(found, bounds=found.bounds | {"batch": largest})
