"""Does this sampler emit exactly p? The question, asked of anyone's code.

`certify` takes a verifier and `certify_generator` a whole generator, unmodified. On each world of a
battery (`specdecode.certify.worlds`) the exact law of what comes out is enumerated (`specdecode.exact`) and
compared with plain sampling from the target. This joint law decides, not the acceptance rate and not the
first token; besides, coins of exactly 0 and 1 − 2⁻⁵³ must not let out what the target forbids. What cannot
be enumerated is sampled, and the certificate says so, and why.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from specdecode.certify.bounds import bounds_of
from specdecode.certify.certificate import Certificate, Check
from specdecode.certify.edges import edge_worlds
from specdecode.certify.enumerated import confirmed, enumerated
from specdecode.certify.extremes import at_the_extremes
from specdecode.certify.reached import Watch
from specdecode.certify.sampled import sampled
from specdecode.certify.trial import GeneratorTrial, Trial, VerifierTrial, has_stop, name_of, takes
from specdecode.certify.worlds import (
    World,
    extreme_worlds,
    generator_worlds,
    sized_worlds,
    small_verifier_worlds,
    verifier_worlds,
)
from specdecode.checks import as_count, as_level, as_number
from specdecode.exact import Fault, Inexact, NotReproducible, TooLarge, against, distance, law
from specdecode.verifiers import Verifier, is_lossy

__all__ = ["Question", "Track", "certify", "certify_generator", "distance_on"]

Track = Callable[[Sequence[World]], Iterable[World]]  # passes the worlds on, and shows how far it is


def certify(
    verifier: Verifier,
    *,
    worlds: Iterable[World] | None = None,
    tolerance: float = 1e-12,
    draws: int = 20_000,
    alpha: float = 1e-6,
    seed: int = 0,
    vocab: Collection[int] = (),
    k: Collection[int] = (),
    track: Track = iter,
) -> Certificate:
    """Is a verifier exact? Its rounds, completed by the target, must have the target's joint law.

    Parameters
    ----------
    verifier : callable
        verifier(draft_tokens, draft_dists, target_dists, rng) -> token ids. It is handed writable int64
        (k,) and float64 (k, V) and (k + 1, V) arrays, and a `numpy.random.Generator`.
    worlds : list of World, optional
        What to judge it on; `verifier_worlds()` if left out.
    tolerance : float
        Largest distance put down to rounding: 1e-12, or 1e-6 for code that computes in float32.
    draws : int
        Texts a world, when it has to be sampled.
    alpha : float
        Probability of calling a right sampler wrong, when it has to be sampled.
    seed : int
        Of the random worlds, and of the sampling.
    vocab, k : collection of int
        Vocabulary sizes (3 or more) and draft lengths to try besides, where worlds are left out.
    track : callable
        Wraps the list of worlds, for a progress display.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        If `verifier` is not callable with four arguments.

    Guarantee
    ---------
    "exact": on every world the enumerated law is within the tolerance of the target's (thm-law in
    chapter 4), and no extreme coin does harm; it says nothing about other worlds. "not exact": by the joint
    law, proved by the witness if enumerated, wrong with probability at most alpha if sampled; or because a
    coin of exactly 0 or 1 − 2⁻⁵³ lets out a token with p = 0 or a fault, however improbable. Whatever else
    happens with a total probability below the tolerance is a note.

    Examples
    --------
    >>> from specdecode import verifiers
    >>> certify(verifiers.token).verdict
    'exact'
    >>> certify(verifiers.greedy).verdict
    'not exact'
    """
    takes(verifier, 4, "verifier(draft_tokens, draft_dists, target_dists, rng)")
    question = Question(tolerance, draws, alpha, seed, track)
    battery = [*verifier_worlds(seed), *sized_worlds(vocab, k)]
    found = question.ask(VerifierTrial(verifier), worlds, battery)
    if found.verdict == "exact":
        found = replace(found, notes=(*found.notes, *_further_notes(VerifierTrial(verifier), found)))
    return _as_it_says(found, verifier)


def certify_generator(
    generate: Callable[..., Any],
    *,
    worlds: Iterable[World] | None = None,
    tolerance: float = 1e-12,
    draws: int = 20_000,
    alpha: float = 1e-6,
    seed: int = 0,
    vocab: Collection[int] = (),
    k: Collection[int] = (),
    tokens: Collection[int] = (),
    track: Track = iter,
) -> Certificate:
    """Is a whole generator exact? Its texts must have the law of plain sampling, length and stop included.

    Parameters
    ----------
    generate : callable
        generate(target, draft, prefix, n_tokens, k, rng[, stop=]) -> the new token ids, or anything with
        them as `.tokens`. Target and draft are models with float64 rows; some drafts have `propose`.
    worlds, tolerance, draws, alpha, seed, vocab, k, track
        As for `certify`; `generator_worlds()` if worlds are left out.
    tokens : collection of int
        Lengths of texts to try besides.

    Returns
    -------
    Certificate
        With the note "stop tokens not tested" if `generate` takes no `stop`.

    Raises
    ------
    ValueError
        If `generate` is not callable with six arguments.

    Guarantee
    ---------
    As `certify`.

    Examples
    --------
    >>> from specdecode import generate_speculative
    >>> from specdecode.certify.worlds import generator_worlds
    >>> certify_generator(generate_speculative, worlds=generator_worlds()[:8]).verdict
    'exact'
    """
    takes(generate, 6, "generate(target, draft, prefix, n_tokens, k, rng)")
    question = Question(tolerance, draws, alpha, seed, track)
    trial, notes = GeneratorTrial(generate), []
    more = sized_worlds(vocab, k, tokens, is_generator=True)
    battery = [*generator_worlds(seed), *more] if worlds is None else list(worlds)
    chosen = battery
    if not has_stop(generate):
        chosen = [world for world in chosen if world.stop is None]
        notes.append("stop tokens not tested: it takes no `stop`")
    refusal = _refusal_of_look_ups(trial, chosen)
    if refusal:
        chosen = [world for world in chosen if not world.looks_up]
        notes.append(f"drafts with `propose` not tested: handed one, it {refusal}")
    if battery and not chosen:
        raise ValueError("no world is left to judge it on; want one without stop tokens and look-ups")
    found = question.ask(trial, None if worlds is None else chosen, chosen)
    return _as_it_says(replace(found, notes=(*found.notes, *notes)), generate)


def _as_it_says(found: Certificate, function: Any) -> Certificate:
    """What says of itself that it is lossy is never called exact, whatever a few worlds show."""
    if not is_lossy(function):
        return found
    verdict = "no difference found" if found.verdict == "exact" else found.verdict
    return replace(found, verdict=verdict, notes=(*found.notes, "it says of itself that it is lossy"))


def distance_on(sampler: Callable[..., Any], world: World, is_generator: bool = False) -> Fraction:
    """Total variation of a sampler from its target on one world, by one enumeration.

    Parameters
    ----------
    sampler : callable
        A verifier, or a generator if `is_generator`.
    world : World
    is_generator : bool

    Returns
    -------
    Fraction
        A fault, such as an exception, counts as an outcome that should not be.

    Raises
    ------
    Inexact, NotReproducible, TooLarge
        If the sampler cannot be enumerated; `certify` would sample it.

    Examples
    --------
    >>> from specdecode import verifiers
    >>> float(distance_on(verifiers.greedy, verifier_worlds()[0])) > 0.4
    True
    """
    trial: Trial = GeneratorTrial(sampler) if is_generator else VerifierTrial(sampler)
    return distance(enumerated(trial, world), trial.reference(world))


def _refusal_of_look_ups(trial: Trial, worlds: Sequence[World]) -> str | None:
    """What a generator does that cannot take a draft with `propose`, or None if it can."""
    for world in worlds:
        if world.looks_up:
            outcome = trial.program(world)(np.random.default_rng(0))
            return outcome.what if isinstance(outcome, Fault) else None
    return None


@dataclass(frozen=True)
class Question:
    """How a sampler is to be judged."""

    tolerance: float
    draws: int
    alpha: float
    seed: int
    track: Track

    def __post_init__(self) -> None:
        as_number(self.tolerance, "tolerance", 0, 1, open_above=True)
        as_level(self.alpha)
        as_count(self.draws, "draws", least=100)
        as_count(self.seed, "seed", least=0)

    def ask(self, trial: Trial, worlds: Iterable[World] | None, battery: list[World]) -> Certificate:
        """The certificate on the caller's own worlds, or else on a battery and the edges that the code shows.

        Worlds of one's own are all that is looked at: no edges are added to them, and extreme coins are tried
        on them alone.
        """
        own = worlds is not None
        chosen = list(battery if worlds is None else worlds)
        for world in chosen:
            if not isinstance(world, World):
                raise ValueError(f"worlds has {world!r}; want specdecode.certify.worlds.World")
        if own:
            chosen = [replace(world, spare=False) for world in chosen]  # none of them may be left out
        if not chosen:
            raise ValueError("worlds is empty; want one or more")
        for world in chosen:
            as_count(world.k, f"k of the world {world.name!r}", least=0)
        more, untried = ([], []) if own else edge_worlds(trial.function, isinstance(trial, GeneratorTrial))
        chosen += more
        watch = Watch(trial.function)
        try:
            with np.errstate(all="ignore"):  # a sampler's warnings are no part of the answer
                found, judged = self._enumerate(trial, chosen, watch)
        finally:
            unreached, notes = watch.told()
        found = replace(found, bounds=bounds_of(judged, self.tolerance, self.seed), unreached=unreached)
        found = replace(found, notes=(*found.notes, *untried, *notes))
        if found.verdict == "exact":
            with np.errstate(all="ignore"):
                found = _with_extremes(found, trial, chosen if own else extreme_worlds())
        return found

    def _enumerate(
        self, trial: Trial, worlds: Sequence[World], watch: Watch
    ) -> tuple[Certificate, list[World]]:
        """Enumerate every world, or sample them if one cannot be enumerated; and those that were judged."""
        checks: list[Check] = []
        judged: list[World] = []
        notes: list[str] = []
        worst, witness = Fraction(0), None
        try:
            for world in self.track(worlds):
                if witness is not None and world.spare:
                    continue  # what is wrong is known
                trial.hints.clear()
                reference, length = trial.reference(world), trial.length(world)
                try:
                    law_there = enumerated(trial, world, self.tolerance)
                except TooLarge as error:
                    if not world.spare:
                        raise
                    notes.append(f"{world.name}, k = {world.k}: left out, for {error}")
                    continue
                comparison = against(law_there, reference, self.tolerance)
                found, gap, passed = comparison.law_a, comparison.total_variation, comparison.equal
                slight = {o: m for o, m in found.items() if o not in reference and m <= self.tolerance}
                if slight:
                    outcome = max(slight, key=lambda o: slight[o])
                    more = f", and {len(slight) - 1} more such" if len(slight) > 1 else ""
                    told = f"{outcome} with probability {float(slight[outcome]):.1e}{more}"
                    notes.append(f"{world.name}, k = {world.k}: {told}")
                checks.append(Check(world.name, world.k, length, found.paths, None, gap, None, passed))
                judged.append(world)
                worst = max(worst, gap)
                if not passed and witness is None:
                    witness = confirmed(trial, world, comparison)
                watch.look()
        except (Inexact, NotReproducible, TooLarge) as error:
            if witness is None:
                return self._sample(trial, worlds, _why(error))
            notes.append(f"the remaining worlds were left out: {_why(error)}")
        certificate = Certificate(
            subject=name_of(trial.function),
            verdict="exact" if witness is None else "not exact",
            method="enumerated",
            tolerance=self.tolerance,
            checks=tuple(checks),
            total_variation=worst,
            resolution=None,
            alpha=self.alpha,
            reason=None,
            witness=witness,
            notes=(*notes, *_written(trial)),
        )
        return certificate, judged

    def _sample(self, trial: Trial, worlds: Sequence[World], reason: str) -> tuple[Certificate, list[World]]:
        found = sampled(trial, worlds, self.draws, self.alpha, self.seed)
        certificate = Certificate(
            subject=name_of(trial.function),
            verdict="no difference found" if found.witness is None else "not exact",
            method="sampled",
            tolerance=self.tolerance,
            checks=tuple(found.checks),
            total_variation=found.total_variation,
            resolution=max((check.resolution or 1.0 for check in found.checks), default=1.0),
            alpha=self.alpha,
            reason=reason,
            witness=found.witness,
            notes=(*found.notes, *_written(trial)),
        )
        return certificate, found.worlds


def _written(trial: Trial) -> list[str]:
    return ["it wrote to the arrays or the list it was given"] if trial.written else []


def _why(error: Exception) -> str:
    if isinstance(error, NotReproducible):
        return f"it has randomness or state of its own ({error})"
    if isinstance(error, TooLarge):
        return f"it has too many paths to follow ({error})"
    return f"it does to a uniform what cannot be followed exactly ({error})"


def _with_extremes(found: Certificate, trial: Trial, worlds: Sequence[World]) -> Certificate:
    witness = at_the_extremes(trial, worlds)
    if witness is None:
        return replace(found, edges="0 and 1 − 2⁻⁵³ let out nothing forbidden")
    return replace(found, verdict="not exact", witness=witness, edges=witness.how)


def _further_notes(trial: VerifierTrial, found: Certificate) -> list[str]:
    """What else is worth knowing of a verifier that is exact."""
    notes = []
    row = np.array([[0.25, 0.25, 0.5]])
    emitted = trial.emitted([], np.empty((0, 3)), row, np.random.default_rng(0), 3)
    if isinstance(emitted, Fault):
        notes.append(f"with nothing drafted (k = 0) it {emitted}")
    else:
        try:
            plain = _plainly(trial, row) == {x: Fraction(mass) for x, mass in enumerate(row[0].tolist())}
            if not plain:
                notes.append("with nothing drafted (k = 0) it does not draw from the target's row")
        except (Inexact, NotReproducible, TooLarge) as error:
            notes.append(f"with nothing drafted (k = 0) its law is not known: {_why(error)}")
    small = [world for world in small_verifier_worlds() if world.k == 1 and world.is_rational]
    rational = VerifierTrial(trial.function, dtype=object)
    try:
        equal = all(enumerated(rational, world, 0) == rational.reference(world) for world in small)
    except (Inexact, NotReproducible, TooLarge):
        equal = False
    if equal:
        notes.append("on rows of Fractions (k = 1) the laws are equal, not only close")
    return notes


def _plainly(trial: VerifierTrial, row: np.ndarray) -> Any:
    """Law of what a verifier emits when nothing was drafted."""

    def program(rng: Any) -> Any:
        emitted = trial.emitted([], np.empty((0, row.shape[1])), row, rng, row.shape[1])
        return emitted if isinstance(emitted, Fault) else emitted[0]

    return law(program, max_paths=50_000, max_draws=300)
