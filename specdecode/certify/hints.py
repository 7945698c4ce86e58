"""What may help to find a mistake. A hint alone refutes nothing: exact rules exist that break each."""

from fractions import Fraction
from typing import Any

import numpy as np

from specdecode.certify.certificate import readable
from specdecode.certify.trial import Trial, VerifierTrial
from specdecode.certify.worlds import World
from specdecode.drafts import as_draft
from specdecode.exact import Fault, LazyGenerator, Numbers, law
from specdecode.models import next_rows
from specdecode.rule import overlap

__all__ = ["acceptance", "draws_nothing", "leading_to"]


def leading_to(trial: Trial, world: World, outcome: Any, max_paths: int) -> tuple[int, ...] | None:
    """The drafted tokens that lead to an outcome most often; None if nothing leads there."""
    run = trial.program(world)
    joint = law(lambda rng: (run(rng), trial.drafted), max_paths=max_paths)
    leading = {drafted: mass for (found, drafted), mass in joint.items() if found == outcome}
    return max(leading, key=lambda drafted: leading[drafted], default=None)


def draws_nothing(trial: Trial, world: World) -> list[str]:
    """Whether a verifier drew at all, on a few runs, beyond what drafting and completing drew."""
    if not isinstance(trial, VerifierTrial):
        return []
    used = []

    def counting(draft_tokens: Any, draft_dists: Any, target_dists: Any, rng: Any) -> Any:
        before = rng._path.asked
        try:
            return trial.function(draft_tokens, draft_dists, target_dists, rng)
        finally:
            used.append(rng._path.asked - before)

    for seed in range(20):
        numbers = np.random.default_rng(seed).random(1000).tolist()
        VerifierTrial(counting).program(world)(LazyGenerator(Numbers(numbers)))
    return [] if any(used) else ["it never drew a random number"]


def acceptance(trial: Trial, world: World) -> list[str]:
    """Whether a verifier keeps the first drafted token as often as Σ min(p, q)."""
    if not isinstance(trial, VerifierTrial) or world.looks_up:
        return []
    p, q = (next_rows(model, world.prefix, 1)[0] for model in (world.target, world.draft))  # type: ignore[arg-type]
    draft, vocab_size = as_draft(world.draft), world.target.vocab_size

    def kept(rng: Any) -> bool:
        drafted, rows = draft.propose(world.prefix, world.k, rng)
        target_rows = next_rows(world.target, [*world.prefix, *drafted], world.k + 1)
        emitted = trial.emitted(drafted, rows, target_rows, rng, vocab_size)
        return not isinstance(emitted, Fault) and emitted[0] == drafted[0] and len(emitted) > 1

    found, right = law(kept).get(True, Fraction(0)), overlap(p, q).sum()
    if abs(found - right) < 1e-12:
        return []
    return [f"it accepts the first token with {readable(found)}, where Σ min(p, q) is {readable(right)}"]
