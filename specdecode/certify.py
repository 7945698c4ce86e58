"""Does this sampler emit exactly p? The question, asked of anyone's code.

`certify` takes a verifier and `certify_generator` a whole generator, unmodified. On each world of a
battery (`specdecode.worlds`) the exact law of what comes out is enumerated (`specdecode.exact`) and
compared with plain sampling from the target. This joint law decides, not the acceptance rate and not the
first token; besides, coins of exactly 0 and 1 − 2⁻⁵³ must not let out what the target forbids. What cannot
be enumerated is sampled, and the certificate says so, and why.
"""

import inspect
from collections import Counter
from dataclasses import asdict, dataclass, replace
from fractions import Fraction

import numpy as np

from specdecode.checks import as_count, as_tokens
from specdecode.drafts import as_draft
from specdecode.exact import LazyGenerator, against, ancestral_law, distance, law
from specdecode.gtest import g_test, resolution
from specdecode.models import MappedModel, MarkovModel, next_rows
from specdecode.paths import Inexact, NotReproducible, TooLarge
from specdecode.rule import overlap
from specdecode.sampling import draw
from specdecode.verifiers import is_lossy
from specdecode.worlds import World, extreme_worlds, generator_worlds, verifier_worlds

__all__ = [
    "Certificate",
    "Check",
    "Fault",
    "Witness",
    "certify",
    "certify_generator",
    "distance_on",
]

_MAX_PATHS = 50_000
_MAX_DRAWS = 300  # on one path; a loop that retries is then told soon
_REPEATS = 5  # enumerations that must agree before a sampler is called not exact
_EXTREMES = (0.0, 1 - 2.0**-53)  # the least and the greatest uniform a generator of 53 bits gives
_HIDING = {"disjoint support", "draft = target", "equal up to one ulp"}  # where most faults do not show


@dataclass(frozen=True)
class Fault:
    """An outcome that is no text: the sampler raised, or returned what is not token ids."""

    what: str

    def __str__(self):
        return self.what


@dataclass(frozen=True)
class Check:
    """One world and what was found there.

    Attributes
    ----------
    world : str
    k : int
    n_tokens : int
        Tokens whose joint law was compared.
    paths : int or None
        Paths enumerated; None if sampled.
    draws : int or None
        Texts sampled; None if enumerated.
    total_variation : Fraction or None
        Distance from the target's law; None if sampled.
    p_value : float or None
        Of the G-test; None if enumerated.
    passed : bool
    """

    world: str
    k: int
    n_tokens: int
    paths: int | None
    draws: int | None
    total_variation: Fraction | None
    p_value: float | None
    passed: bool


@dataclass(frozen=True)
class Witness:
    """The first world, small ones being tried first, on which a sampler is wrong.

    Attributes
    ----------
    world : World
        Rational rows, draft and k.
    drafted : tuple of int, or None
        For a verifier, the drafted tokens that lead to the outcome most often.
    outcome : tuple of int, or Fault
        What comes out with the wrong probability.
    probability, expected : Fraction or float
        What its probability is, and should be: simple fractions where the float program is within
        rounding of one, floats if it was estimated from a sample.
    how : str
        How it was found: "enumerated", "sampled", or with which extreme coin.
    hints : tuple of str
        What may help to find the mistake; a hint alone refutes nothing.
    snippet : str
        Code to paste and run that shows the same.
    """

    world: World
    drafted: tuple[int, ...] | None
    outcome: object
    probability: Fraction | float
    expected: Fraction | float
    how: str
    hints: tuple[str, ...]
    snippet: str

    def __str__(self):
        world = self.world
        where = f"{world.name}, k = {world.k}, after {world.prefix}"
        if world.stop is not None:
            where += f", stop token {world.stop}"
        lines = [
            f"world      {where}",
            *_shown("target", world.target),
            *_shown("draft", world.draft),
            *([f"drafted    {self.drafted}, for instance"] if self.drafted else []),
            f"outcome    {self.outcome}",
            f"found      {self.how}",
        ]
        if self.how in ("enumerated", "sampled"):
            lines.insert(-1, f"has        {_number(self.probability)}, should have {_number(self.expected)}")
        lines += [f"hint       {hint}" for hint in self.hints]
        return "\n".join(lines)


def _shown(role, model):
    rows = getattr(getattr(model, "model", model), "rows", None)
    kind = type(model).__name__
    if rows is None:
        return [f"{role:<10} {model!r}"]
    texts = ["  ".join(_number(entry) for entry in row) for row in rows]
    return [f"{role:<10} {kind}", *(f"           after {s}: {text}" for s, text in enumerate(texts))]


def _simple(value):
    """The simple fraction that a probability is within rounding, or the probability itself."""
    simple = Fraction(value).limit_denominator(10_000)
    return simple if abs(simple - Fraction(value)) < 1e-12 else value


def _number(value):
    """A probability for reading: as a fraction if a simple one is within rounding, else as a decimal."""
    simple = _simple(value)
    plain = isinstance(simple, Fraction) and simple.denominator <= 10_000
    return str(simple) if plain else f"{float(value):.6g}"


@dataclass(frozen=True)
class Certificate:
    """The answer to "does this sampler emit exactly p?", with its evidence.

    Attributes
    ----------
    subject : str
        Name of the function.
    verdict : str
        "exact", "not exact", or "no difference found".
    method : str
        "enumerated" or "sampled".
    tolerance : float
        What the distance must not exceed, in an enumeration.
    checks : tuple of Check
    total_variation : Fraction or float or None
        The largest distance found; None when only sampled and nothing was found.
    resolution : float or None
        When sampled: the smallest distance that would have been seen with probability 0.99, between
        outcomes common enough to be told apart. None when enumerated.
    alpha : float
        When sampled: the probability of calling a right sampler wrong.
    reason : str or None
        Why it was sampled.
    witness : Witness or None
    notes : tuple of str
    """

    subject: str
    verdict: str
    method: str
    tolerance: float
    checks: tuple[Check, ...]
    total_variation: Fraction | float | None
    resolution: float | None
    alpha: float
    reason: str | None
    witness: Witness | None
    notes: tuple[str, ...]

    def require_exact(self):
        """Return the certificate if its verdict is "exact"; raise AssertionError with the evidence if not."""
        if self.verdict != "exact":
            raise AssertionError(str(self))
        return self

    def __str__(self):
        lines = [f"{self.subject}: {self.verdict}"]
        if self.verdict == "exact":
            paths = sum(check.paths for check in self.checks)
            lines.append(
                f"  enumerated: {len(self.checks)} worlds, {paths} paths; largest total variation "
                f"{float(self.total_variation):.1e}, allowed {self.tolerance:g}"
            )
        elif self.witness is not None:
            lines.append(
                f"  {self.method}; largest total variation on a world {_number(self.total_variation)}"
            )
            lines += [f"  {line}" for line in str(self.witness).split("\n")]
        if self.reason:
            lines.append(f"  sampled, because {self.reason}")
        if self.resolution is not None:
            draws = sum(check.draws for check in self.checks)
            lines.append(
                f"  {draws} texts, alpha {self.alpha:g}; a total variation of {self.resolution:.2g} "
                f"would have been seen with probability 0.99, a smaller one perhaps not"
            )
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def to_dict(self):
        """The certificate as plain data for JSON; its keys are on the book's page of commands."""
        witness = self.witness and {
            "world": self.witness.world.name,
            "k": self.witness.world.k,
            "target": repr(self.witness.world.target),
            "draft": repr(self.witness.world.draft),
            "prefix": list(self.witness.world.prefix),
            "drafted": self.witness.drafted and list(self.witness.drafted),
            "outcome": str(self.witness.outcome),
            "probability": _number(self.witness.probability),
            "expected": _number(self.witness.expected),
            "how": self.witness.how,
            "hints": list(self.witness.hints),
            "snippet": self.witness.snippet,
        }
        checks = [
            asdict(check)
            | {"total_variation": None if check.total_variation is None else float(check.total_variation)}
            for check in self.checks
        ]
        return {
            "subject": self.subject,
            "verdict": self.verdict,
            "method": self.method,
            "tolerance": self.tolerance,
            "alpha": self.alpha,
            "total_variation": None if self.total_variation is None else float(self.total_variation),
            "resolution": self.resolution,
            "reason": self.reason,
            "worlds": checks,
            "witness": witness,
            "notes": list(self.notes),
        }


def certify(
    verifier, *, worlds=None, tolerance=1e-12, draws=20_000, alpha=1e-6, seed=0, track=iter
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
        Of the sampling.
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
    _takes(verifier, 4, "verifier(draft_tokens, draft_dists, target_dists, rng)")
    worlds = _settled(verifier_worlds() if worlds is None else worlds, tolerance, draws, alpha)
    trial = _Verifier(verifier)
    found = _judge(trial, worlds, tolerance, draws, alpha, seed, track)
    if found.verdict == "exact":
        found = _with_extremes(found, trial)
        found = replace(found, notes=(*found.notes, *_further_notes(trial, worlds)))
    return _as_it_says(found, verifier)


def certify_generator(
    generate, *, worlds=None, tolerance=1e-12, draws=20_000, alpha=1e-6, seed=0, track=iter
) -> Certificate:
    """Is a whole generator exact? Its texts must have the law of plain sampling, length and stop included.

    Parameters
    ----------
    generate : callable
        generate(target, draft, prefix, n_tokens, k, rng[, stop=]) -> the new token ids, or anything with
        them as `.tokens`. Target and draft are models with float64 rows; some drafts have `propose`.
    worlds, tolerance, draws, alpha, seed, track
        As for `certify`; `generator_worlds()` if worlds are left out.

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
    >>> from specdecode.worlds import generator_worlds
    >>> certify_generator(generate_speculative, worlds=generator_worlds()[:8]).verdict
    'exact'
    """
    _takes(generate, 6, "generate(target, draft, prefix, n_tokens, k, rng)")
    worlds = _settled(generator_worlds() if worlds is None else worlds, tolerance, draws, alpha)
    trial, notes = _Generator(generate), []
    if not _has_stop(generate):
        worlds = [world for world in worlds if world.stop is None]
        notes.append("stop tokens not tested: it takes no `stop`")
    refusal = _refusal_of_look_ups(trial, worlds)
    if refusal:
        worlds = [world for world in worlds if not world.looks_up]
        notes.append(f"drafts with `propose` not tested: handed one, it {refusal}")
    if not worlds:
        raise ValueError("no world is left to judge it on; want one without stop tokens and look-ups")
    found = _judge(trial, worlds, tolerance, draws, alpha, seed, track)
    if found.verdict == "exact":
        found = _with_extremes(found, trial)
    return _as_it_says(replace(found, notes=(*found.notes, *notes)), generate)


def _as_it_says(found, function):
    """What says of itself that it is lossy is never called exact, whatever a few worlds show."""
    if not is_lossy(function):
        return found
    verdict = "no difference found" if found.verdict == "exact" else found.verdict
    return replace(found, verdict=verdict, notes=(*found.notes, "it says of itself that it is lossy"))


def distance_on(sampler, world, is_generator=False) -> Fraction:
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
    trial = (_Generator if is_generator else _Verifier)(sampler)
    return distance(_enumerated(trial, world), trial.reference(world))


# What is put to the test: a program for each world, and the law it should have.


class _Verifier:
    """A verifier on a world: draft, verify, complete to k + 1 tokens."""

    def __init__(self, function, arithmetic=float):
        self.function, self.arithmetic = function, arithmetic
        self.written, self.hints, self.drafted = False, set(), None

    def reference(self, world):
        return ancestral_law(world.target, world.prefix, world.k + 1)

    def length(self, world):
        return world.k + 1

    def program(self, world):
        draft, vocab_size = as_draft(world.draft), world.target.vocab_size

        def run(rng):
            drafted, q = draft.propose(world.prefix, world.k, rng)
            p = next_rows(world.target, [*world.prefix, *drafted], len(drafted) + 1)
            emitted = self.emitted(drafted, q, p, rng, vocab_size)
            if isinstance(emitted, Fault):
                return emitted
            while len(emitted) <= world.k:
                row = next_rows(world.target, [*world.prefix, *emitted], 1)[0]
                emitted.append(draw(row, rng.random()))
            return tuple(emitted)

        return run

    def emitted(self, drafted, q, p, rng, vocab_size):
        """What the function returns for one round, or the fault it committed."""
        self.drafted = tuple(drafted)
        given = np.array(drafted, dtype=np.int64), q.astype(self.arithmetic), p.astype(self.arithmetic)
        kept = [array.copy() for array in given]
        tokens = _called(lambda: self.function(*given, rng), vocab_size)
        self.written |= any(not np.array_equal(a, b) for a, b in zip(given, kept))
        if not isinstance(tokens, Fault):
            if not 1 <= len(tokens) <= len(drafted) + 1:
                return Fault(f"returned {len(tokens)} tokens for {len(drafted)} drafted")
            last = len(tokens) - 1
            if any(p[i][token] == 0 for i, token in enumerate(tokens) if tokens[:i] == drafted[:i]):
                self.hints.add("a token came out that the target forbids (p = 0)")
            if last < len(drafted) and tokens[:last] == drafted[:last] and tokens[last] == drafted[last]:
                self.hints.add("a rejected token was replaced by itself")
        return tokens

    def snippet(self, world, outcome):
        return _snippet(self.function, "certify", world, outcome)


class _Generator:
    """A generator on a world: the whole text."""

    def __init__(self, function):
        self.function, self.written, self.hints, self.drafted = function, False, set(), None

    def reference(self, world):
        return ancestral_law(world.target, world.prefix, world.n_tokens, stop=world.stop)

    def length(self, world):
        return world.n_tokens

    def program(self, world):
        target = _in_floats(world.target)
        draft = world.draft if world.looks_up else _in_floats(world.draft)
        extra = {} if world.stop is None else {"stop": world.stop}

        def run(rng):
            prefix = list(world.prefix)
            tokens = _called(
                lambda: self.function(target, draft, prefix, world.n_tokens, world.k, rng, **extra),
                target.vocab_size,
            )
            self.written |= prefix != list(world.prefix)
            if isinstance(tokens, Fault):
                return tokens
            if len(tokens) != world.n_tokens and (world.stop is None or world.stop not in tokens):
                self.hints.add(f"it returned {len(tokens)} tokens when asked for {world.n_tokens}")
            return tuple(tokens)

        return run

    def snippet(self, world, outcome):
        return _snippet(self.function, "certify_generator", world, outcome)


def _in_floats(model):
    if isinstance(model, MarkovModel):
        return MarkovModel(model.rows.astype(float))
    return MappedModel(model, lambda row: row.astype(float))


def _world_in_floats(world):
    """The same world for sampling: floats are many times faster, and no sample sees their rounding."""
    draft = world.draft if world.looks_up else _in_floats(world.draft)
    return replace(world, target=_in_floats(world.target), draft=draft)


def _called(call, vocab_size):
    """The token ids a call returns, or the fault it committed. What `law` must see is let through."""
    try:
        result = call()
    except (Inexact, NotReproducible, TooLarge):
        raise
    except (Exception, SystemExit) as error:
        return Fault(f"raised {type(error).__name__}: {' '.join(str(error).split())[:200]}")
    try:
        return as_tokens(getattr(result, "tokens", result), "what it returned", vocab_size)
    except ValueError as error:
        return Fault(str(error))


def _snippet(function, certify_name, world, outcome):
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
    if name.isidentifier() and module:
        bring = f"from {module} import {name}"
    else:  # a partial, a lambda or a method has no name to import it by
        name, bring = "sampler", "sampler = ...  # the function that was certified"
    fields = [
        f"{world.name!r}",
        repr(world.target),
        repr(world.draft),
        f"k={world.k}",
        f"prefix={world.prefix}",
    ]
    if world.n_tokens is not None:
        fields.append(f"n_tokens={world.n_tokens}")
    if world.stop is not None:
        fields.append(f"stop={world.stop}")
    body = ",\n    ".join(fields)
    return (
        "from fractions import Fraction\n\n"
        f"from specdecode.certify import {certify_name}\n"
        "from specdecode.drafts import ArgmaxDraft, NGramDraft\n"
        "from specdecode.models import MarkovModel, RepetitionPenalty\n"
        "from specdecode.worlds import World\n\n"
        f"{bring}\n\n"
        f"world = World(\n    {body},\n)\n"
        f"print({certify_name}({name}, worlds=[world]))  # about {outcome}\n"
    )


def _takes(function, count, shape):
    if not callable(function):
        raise ValueError(f"{function!r} is not callable; want {shape}")
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        raise ValueError(
            f"{_name(function)} does not take {count} arguments ({error}); want {shape}"
        ) from None
    except ValueError:  # some builtins have no signature to look at
        pass


def _has_stop(generate):
    try:
        inspect.signature(generate).bind(*range(6), stop=None)
    except (TypeError, ValueError):
        return False
    return True


def _refusal_of_look_ups(trial, worlds):
    """What a generator does that cannot take a draft with `propose`, or None if it can."""
    for world in worlds:
        if world.looks_up:
            outcome = trial.program(world)(np.random.default_rng(0))
            return outcome.what if isinstance(outcome, Fault) else None
    return None


def _settled(worlds, tolerance, draws, alpha):
    """The worlds as a list, after a look at the numbers that go with them."""
    worlds = list(worlds)
    if not worlds:
        raise ValueError("worlds is empty; want one or more")
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is {tolerance}; want a number from 0, and below 1")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; want a number between 0 and 1")
    as_count(draws, "draws", least=100)
    return worlds


def _name(function):
    return getattr(function, "__qualname__", type(function).__name__)


# The verdict.


def _judge(trial, worlds, tolerance, draws, alpha, seed, track):
    """Enumerate every world; sample them all if one cannot be enumerated."""
    checks, notes, worst, witness = [], [], Fraction(0), None
    try:
        for world in track(worlds):
            trial.hints.clear()
            reference = trial.reference(world)
            comparison = against(_enumerated(trial, world), reference, tolerance)
            faults = {o: m for o, m in comparison.law_a.items() if o not in reference and m <= tolerance}
            for outcome, mass in faults.items():
                notes.append(f"{world.name}, k = {world.k}: {outcome} with probability {float(mass):.1e}")
            paths, passed = comparison.law_a.paths, bool(comparison.equal)
            checks.append(
                Check(
                    world.name,
                    world.k,
                    trial.length(world),
                    paths,
                    None,
                    comparison.total_variation,
                    None,
                    passed,
                )
            )
            worst = max(worst, comparison.total_variation)
            if not passed and witness is None:
                witness = _confirmed(trial, world, comparison)
    except (Inexact, NotReproducible, TooLarge) as error:
        if witness is None:
            return _sampled(trial, worlds, tolerance, draws, alpha, seed, _why(error))
        notes.append(f"the remaining worlds were left out: {_why(error)}")
    if trial.written:
        notes.append("it wrote to the arrays or the list it was given")
    verdict = "exact" if witness is None else "not exact"
    return Certificate(
        _name(trial.function),
        verdict,
        "enumerated",
        tolerance,
        tuple(checks),
        worst,
        None,
        alpha,
        None,
        witness,
        tuple(notes),
    )


def _enumerated(trial, world):
    program = trial.program(world)

    def checked(rng):
        outcome = program(rng)
        if isinstance(outcome, Fault):
            # The fault may lie in the lazy uniform, not in the code: try again with plain numbers.
            again = program(LazyGenerator(_Numbers(rng._path.middle())))
            if not isinstance(again, Fault):
                rng._path.refuse(f"with a lazy uniform it {outcome}; with a plain number it does not")
        return outcome

    return law(checked, max_paths=_MAX_PATHS, max_draws=_MAX_DRAWS)


def _confirmed(trial, world, comparison):
    """The witness of a failed world, once repeated enumeration has given the same law every time."""
    for _ in range(_REPEATS):
        if _enumerated(trial, world) != comparison.law_a:
            raise NotReproducible("enumerated again, it had another law")
    outcome, probability, expected = comparison.worst
    wrong = [o for o in comparison.law_a if o not in comparison.law_b]
    if wrong:  # an outcome that must not happen at all says more than one that happens too often
        outcome = max(wrong, key=comparison.law_a.get)
        probability, expected = comparison.law_a[outcome], Fraction(0)
    hints = sorted(trial.hints)
    if isinstance(trial, _Verifier):
        hints += _acceptance_hint(trial, world)
    if not isinstance(outcome, Fault) and not any(_draws_used(trial, world)):
        hints.append("it never drew a random number")
    if comparison.total_variation < 1e-6:
        hints.append("the distance is that of float32 rounding: for such code, tolerance=1e-6")
    return Witness(
        world,
        _leading_to(trial, world, outcome),
        outcome,
        _simple(probability),
        _simple(expected),
        "enumerated",
        tuple(hints),
        trial.snippet(world, outcome),
    )


def _leading_to(trial, world, outcome):
    """The drafted tokens that lead to an outcome most often; None if nothing leads there."""
    run = trial.program(world)
    joint = law(lambda rng: (run(rng), trial.drafted), max_paths=_MAX_PATHS)
    leading = {drafted: mass for (found, drafted), mass in joint.items() if found == outcome}
    return max(leading, key=leading.get, default=None)


def _draws_used(trial, world):
    """Whether the function itself drew, on a few runs: the uniforms it took beyond those of the program."""
    if not isinstance(trial, _Verifier):
        return [True]
    used = []

    def counting(draft_tokens, draft_dists, target_dists, rng):
        before = rng._path.asked
        try:
            return trial.function(draft_tokens, draft_dists, target_dists, rng)
        finally:
            used.append(rng._path.asked - before)

    for seed in range(20):
        numbers = np.random.default_rng(seed).random(1000).tolist()
        _Verifier(counting).program(world)(LazyGenerator(_Numbers(numbers)))
    return used


def _acceptance_hint(trial, world):
    """Whether the first drafted token is kept as often as Σ min(p, q)."""
    if world.looks_up:
        return []
    p, q = (next_rows(model, world.prefix, 1)[0] for model in (world.target, world.draft))
    draft, vocab_size = as_draft(world.draft), world.target.vocab_size

    def kept(rng):
        drafted, rows = draft.propose(world.prefix, world.k, rng)
        target_rows = next_rows(world.target, [*world.prefix, *drafted], world.k + 1)
        emitted = trial.emitted(drafted, rows, target_rows, rng, vocab_size)
        return not isinstance(emitted, Fault) and emitted[0] == drafted[0] and len(emitted) > 1

    found, right = law(kept).get(True, Fraction(0)), overlap(p, q).sum()
    if abs(found - right) < 1e-12:
        return []
    return [f"it accepts the first token with {_number(found)}, where Σ min(p, q) is {_number(right)}"]


def _why(error):
    if isinstance(error, NotReproducible):
        return f"it has randomness or state of its own ({error})"
    if isinstance(error, TooLarge):
        return f"it has too many paths to follow ({error})"
    return f"it does to a uniform what cannot be followed exactly ({error})"


# Coins at the ends of [0, 1): ties have probability zero, and are still met by a generator of 53 bits.


class _Numbers:
    """A path of plain floats: those given, then one half."""

    def __init__(self, numbers):
        self.numbers, self.asked = iter(numbers), 0

    def uniform(self):
        self.asked += 1
        return next(self.numbers, 0.5)

    def refuse(self, why):
        raise Inexact(why)


def _constant(u):
    """Every coin is u, for so long that only a loop that waits for another one outlives it."""
    return _Numbers([u] * 100)


def _with_extremes(found, trial):
    for world in extreme_worlds():
        if isinstance(trial, _Generator):
            world = replace(world, n_tokens=world.k + 1)
        for u in _EXTREMES:
            for outcome in _outcomes(trial, world, u):
                if isinstance(outcome, Fault) or not _possible(world, outcome):
                    how = f"with every coin exactly {u!r}: {outcome}, which has p = 0 or is no text"
                    snippet = trial.snippet(world, outcome)
                    witness = Witness(
                        world,
                        None,
                        outcome,
                        Fraction(0),
                        Fraction(0),
                        how,
                        tuple(sorted(trial.hints)),
                        snippet,
                    )
                    return replace(found, verdict="not exact", witness=witness)
    return found


def _outcomes(trial, world, u):
    """Every text the sampler gives when all its coins are u, over all drafted tokens."""
    if isinstance(trial, _Generator):
        return [trial.program(world)(LazyGenerator(_constant(u)))]
    outcomes, vocab_size = [], world.target.vocab_size

    def extend(drafted, rows):
        if len(drafted) == world.k:
            p = next_rows(world.target, [*world.prefix, *drafted], world.k + 1)
            outcomes.append(
                trial.emitted(drafted, np.array(rows), p, LazyGenerator(_constant(u)), vocab_size)
            )
            return
        row = next_rows(world.draft, [*world.prefix, *drafted], 1)[0]
        for token in np.flatnonzero(row):
            extend([*drafted, int(token)], [*rows, row])

    extend([], [])
    return outcomes


def _possible(world, tokens):
    text = list(world.prefix)
    for token in tokens:
        if next_rows(world.target, text, 1)[0][token] == 0:
            return False
        text.append(token)
    return True


def _further_notes(trial, worlds):
    """What else is worth knowing of a verifier that is exact."""
    notes = []
    row = np.array([[0.25, 0.25, 0.5]])
    emitted = trial.emitted([], np.empty((0, 3)), row, np.random.default_rng(0), 3)
    if isinstance(emitted, Fault):
        notes.append(f"with nothing drafted (k = 0) it {emitted}")
    elif _plainly(trial, row) != {x: Fraction(mass) for x, mass in enumerate(row[0].tolist())}:
        notes.append("with nothing drafted (k = 0) it does not draw from the target's row")
    rational = _Verifier(trial.function, arithmetic=object)
    small = [
        world for world in worlds if world.k == 1 and next_rows(world.target, world.prefix, 1).dtype == object
    ]
    try:
        equal = all(_enumerated(rational, world) == rational.reference(world) for world in small)
    except (Inexact, NotReproducible, TooLarge):
        equal = False
    if small and equal:
        notes.append("on rows of Fractions (k = 1) the laws are equal, not only close")
    return notes


def _plainly(trial, row):
    """Law of what a verifier emits when nothing was drafted."""

    def program(rng):
        emitted = trial.emitted([], np.empty((0, row.shape[1])), row, rng, row.shape[1])
        return emitted if isinstance(emitted, Fault) else emitted[0]

    return law(program, max_paths=_MAX_PATHS, max_draws=_MAX_DRAWS)


# Sampling, when enumeration is not possible.


def _sampled(trial, worlds, tolerance, draws, alpha, seed, reason):
    chosen = _few(worlds)
    rng = np.random.default_rng(seed)
    checks, notes, smallest, witness, size = [], [], 0.0, None, None
    for world in chosen:
        program, reference = trial.program(_world_in_floats(world)), trial.reference(world)
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
            outcomes = {*shares, *reference}
            outcome = max(outcomes, key=lambda o: abs(shares.get(o, 0) - reference.get(o, 0)))
            forbidden = [o for o in shares if o not in reference]
            outcome = max(forbidden, key=shares.get) if forbidden else outcome
            size = sum(max(share - float(reference.get(o, 0)), 0) for o, share in shares.items())
            expected = float(reference.get(outcome, 0))
            witness = Witness(
                world,
                None,
                outcome,
                shares.get(outcome, 0.0),
                expected,
                "sampled",
                tuple(sorted(trial.hints)),
                trial.snippet(world, outcome),
            )
    if trial.written:
        notes.append("it wrote to the arrays or the list it was given")
    verdict = "no difference found" if witness is None else "not exact"
    return Certificate(
        _name(trial.function),
        verdict,
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


def _few(worlds):
    """Worlds worth sampling: several tokens compared, faults in the open, one of a name, at most five."""
    telling = [w for w in worlds if (w.n_tokens or w.k) >= 2 and w.name not in _HIDING]
    by_name = {}
    for world in sorted(telling, key=lambda w: (w.k, w.n_tokens or 0), reverse=True):
        by_name.setdefault(world.name, world)  # sampling has no paths to run out of: the longest of each name
    return list(by_name.values())[:5] or list(worlds)
