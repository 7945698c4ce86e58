"""A verifier for all rows at once: an SMT solver in place of numbers.

`specdecode.exact` follows every outcome of every draw with the rows known. Here the rows are unknown: an
entry is a rational function of unknown reals, of which only facts are known: that they are probabilities,
and what comparisons have told. A comparison that the facts leave open splits the case, as one of a lazy
uniform splits a path. So code that was written for numbers runs unchanged, `induced_from_dists` and whole
verifiers alike: symbolic execution, with Z3 (de Moura and Bjørner 2008) to answer for every tuple of real
rows of a given size (chapter 11).

What needs more than + − × ÷ and comparison (exp, log, float()) cannot be followed, and is refused.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from specdecode.checks import as_count, as_tokens

__all__ = ["Answer", "Undecided", "certify_for_all_rows", "completed_round", "for_all_rows"]

Claim = Callable[..., tuple[Sequence[Any], Sequence[Any]]]  # of rows: what comes out, and what should

_TIMEOUT = 60_000  # milliseconds for one question
_SMALL = 24  # the largest denominator tried for a counterexample
_MOST_CASES = 5_000  # cases and splits, all told
_MOST_ANSWERS = 500  # comparisons of uniforms on one path


class Undecided(RuntimeError):
    """The solver gave up, or the code did what cannot be followed on unknown numbers."""


@dataclass(frozen=True)
class Answer:
    """What holds for all rows, or rows for which it does not.

    Attributes
    ----------
    holds : bool
    cases : int
        Cases into which comparisons split the rows.
    rows : tuple of tuples of Fraction
        If it does not hold: rows for which it does not; those with the smallest common denominator, and of
        them the first in order, or any if that denominator is above 24.
    found, expected : tuple of Fraction
        What came out there, and what should have.
    error : str
        What was raised there instead, if something was.
    """

    holds: bool
    cases: int
    rows: tuple[tuple[Fraction, ...], ...] = ()
    found: tuple[Fraction, ...] = ()
    expected: tuple[Fraction, ...] = ()
    error: str = ""


def for_all_rows(claim: Claim, vocab_size: int, n_rows: int = 2, *, positive: bool = False) -> Answer:
    """Whether a claim of equality holds for all rows of V real numbers.

    Parameters
    ----------
    claim : callable
        claim(*rows) -> (found, expected), two sequences of numbers of one length. Rows are object arrays,
        shape (V,).
    vocab_size : int
        V ≥ 1.
    n_rows : int
        How many unknown rows the claim is about.
    positive : bool
        Whether to leave out rows with a zero.

    Returns
    -------
    Answer

    Raises
    ------
    Undecided
        If the solver gives up or the claim cannot be followed; the message says at what.
    ImportError
        Without Z3; names the install command.

    Guarantee
    ---------
    `holds` is a theorem about all real rows of that size, as far as Z3 and this room are right, and the code
    depends on nothing but the values of the numbers it is given. Each case is evaluated once more in
    Fractions, and so is a counterexample. Floats in the code count as the exact numbers they are.

    Examples
    --------
    >>> from specdecode.proof import induced_from_dists
    >>> for_all_rows(lambda p, q: (induced_from_dists(p, q), p), 3).holds
    True
    >>> for_all_rows(lambda p, q: (q, p), 1).holds, for_all_rows(lambda p, q: (q, p), 2).holds
    (True, False)
    """
    z3, size = _z3(), as_count(vocab_size, "vocab_size", least=1)
    names = range(as_count(n_rows, "n_rows", least=1))
    rows = [[z3.Real(f"row{name}_{x}") for x in range(size)] for name in names]
    facts = [entry > 0 if positive else entry >= 0 for row in rows for entry in row]
    facts += [z3.Sum(row) == 1 for row in rows]

    def question(case: _Case) -> Any:
        given = (np.array([_Entry(case, entry) for entry in row], dtype=object) for row in rows)
        found, expected = _sides(claim(*given), _parts)
        return z3.Or(*(a * d != c * b for (a, b), (c, d) in zip(found, expected)))

    wrong, cases, raised = [], 0, None
    for case, differs in _cases(question, facts):
        cases += 1
        if isinstance(differs, Exception):  # nothing comes out at all
            raised, differs = differs, z3.BoolVal(True)
        if _satisfied([*case.facts, differs]):
            wrong.append([*case.facts, differs])
        else:
            there = _numbers(_satisfied(case.facts), rows)
            found, expected = _sides(claim(*_as_arrays(there)), Fraction)
            if found != expected:
                raise Undecided(
                    f"in Fractions it does not hold at {there}: the code looks at more than values"
                )
    if not wrong:
        return Answer(True, cases)
    there = _smallest(wrong, rows)
    try:
        found, expected = _sides(claim(*_as_arrays(there)), Fraction)
    except Exception as error:
        return Answer(False, cases, there, error=repr(error))
    if found == expected and raised:
        raise Undecided(f"on unknown entries the code raised {raised!r}; it cannot be followed") from raised
    if found == expected:
        raise Undecided(f"the solver's counterexample {there} is none in Fractions")
    return Answer(False, cases, there, found, expected)


def _sides(sides: Any, number: Callable[[Any], Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Both sides of a claim, number by number."""
    found, expected = (tuple(number(value) for value in side) for side in sides)
    if len(found) != len(expected):
        raise Undecided(f"the claim equates {len(found)} numbers with {len(expected)}")
    return found, expected


def _as_arrays(rows: Sequence[Sequence[Fraction]]) -> list[np.ndarray]:
    return [np.array(row, dtype=object) for row in rows]


def certify_for_all_rows(
    verifier: Callable[..., Any], vocab_size: int, k: int = 1, *, positive: bool = False
) -> Answer:
    """Whether a round of k drafted tokens has the target's law on its first k tokens, for all real rows.

    Parameters
    ----------
    verifier : callable
        A rule of the shape told in `specdecode.verifiers`. Its rng offers random(), and a uniform may be
        compared with numbers.
    vocab_size, k : int
        V ≥ 1 and k ≥ 1. The number of cases grows fast: V = 4 at k = 1 and V = 2 at k = 2 take seconds.
    positive : bool
        Whether to leave out rows with a zero.

    Returns
    -------
    Answer
        Its rows: the target's after each text of fewer than k tokens, shortest first, then the draft's.

    Raises
    ------
    Undecided, ImportError
        As `for_all_rows`.

    Guarantee
    ---------
    As `for_all_rows`. What comes behind k tokens is not looked at: the bonus row is one fixed row.

    Examples
    --------
    >>> from specdecode import verifiers
    >>> certify_for_all_rows(verifiers.token, vocab_size=3).holds
    True
    >>> found = certify_for_all_rows(verifiers.greedy, vocab_size=2, positive=True)
    >>> [str(entry) for entry in found.found], [str(entry) for entry in found.expected]
    (['1', '0'], ['1/2', '1/2'])
    """
    size, k = as_count(vocab_size, "vocab_size", least=1), as_count(k, "k", least=1)
    n_texts = sum(size**length for length in range(k))
    return for_all_rows(completed_round(verifier, k), size, 2 * n_texts, positive=positive)


def completed_round(verifier: Callable[..., Any], k: int = 1) -> Claim:
    """The law of a round's first k tokens, completed by the target, beside the target's own.

    Parameters
    ----------
    verifier : callable
    k : int
        Draft length.

    Returns
    -------
    callable
        A claim for `for_all_rows`, of rows that are unknown or Fractions, ordered as `certify_for_all_rows`
        says: (the probability of each text of k tokens, the target's probability of it).

    Examples
    --------
    >>> from specdecode import verifiers
    >>> p, q = np.array([[Fraction(1, 4), Fraction(3, 4)], [Fraction(1, 2)] * 2])
    >>> completed_round(verifiers.greedy)(p, q)
    ([Fraction(0, 1), Fraction(1, 1)], [Fraction(1, 4), Fraction(3, 4)])
    """

    def claim(*rows: np.ndarray) -> tuple[list[Any], list[Any]]:
        size, half = len(rows[0]), len(rows) // 2
        short = [text for length in range(k) for text in product(range(size), repeat=length)]
        target, draft = dict(zip(short, rows[:half])), dict(zip(short, rows[half:]))
        ends = [Fraction(1, 3), *[Fraction(0)] * (size - 2), Fraction(2, 3)] if size > 1 else [Fraction(1)]
        bonus = np.array(ends, dtype=object)  # not a row that code would look for
        whole = list(product(range(size), repeat=k))

        def onwards(text: tuple[int, ...], start: int) -> Any:
            mass: Any = Fraction(1)
            for i in range(start, k):
                mass = mass * target[text[:i]][text[i]]
            return mass

        masses: dict[tuple[int, ...], Any] = dict.fromkeys(whole, Fraction(0))
        for drafted in whole:
            mass: Any = Fraction(1)
            for i, token in enumerate(drafted):
                mass = mass * draft[drafted[:i]][token]
            if not mass > 0:
                continue
            draft_dists = np.array([draft[drafted[:i]] for i in range(k)])
            target_dists = np.array([*(target[drafted[:i]] for i in range(k)), bonus])
            for run in _runs():
                tokens = verifier(np.array(drafted), draft_dists.copy(), target_dists.copy(), run)
                if run.trouble:  # the verifier may have swallowed it
                    raise run.trouble
                emitted = tuple(as_tokens(tokens, "emitted", size))
                if not 1 <= len(emitted) <= k + 1:
                    raise ValueError(f"verifier emitted {len(emitted)} tokens for k = {k}; want 1 to k + 1")
                emitted = emitted[:k]
                for text in whole:
                    if text[: len(emitted)] == emitted:
                        masses[text] += mass * run.probability * onwards(text, len(emitted))
        return list(masses.values()), [onwards(text, 0) for text in whole]

    return claim


# Unknown numbers.


class _Split(BaseException):
    """A comparison that the facts leave open."""

    def __init__(self, condition: Any) -> None:
        super().__init__(str(condition))
        self.condition = condition


class _Case:
    """Facts about the unknowns, and what follows from them."""

    def __init__(self, facts: Sequence[Any], known: Mapping[str, bool] = MappingProxyType({})) -> None:
        self.facts, self._known = list(facts), dict(known)
        self._solver = _z3().Solver()
        self._solver.set("timeout", _TIMEOUT)
        self._solver.add(*facts)
        self._models: list[Any] = []  # numbers that satisfy the facts: most questions are open already there
        self.trouble: BaseException | None = None  # raised in this case, whether the code swallowed it or not
        self.closed = False
        self._asked: dict[int, tuple[Any, bool]] = {}

    def decides(self, condition: Any) -> bool:
        """Whether a condition on the unknowns holds; splits the case if it may or may not."""
        if self.closed:
            self.refuse("an entry was kept from an earlier run; the code must depend on its rows alone")
        asked = condition.get_id()  # equal terms have equal ids while one of them is kept
        if asked not in self._asked:
            self._asked[asked] = condition, self._decide(condition)
        return self._asked[asked][1]

    def _decide(self, condition: Any) -> bool:
        z3 = _z3()
        condition = z3.simplify(condition)
        if z3.is_true(condition) or z3.is_false(condition):
            return bool(z3.is_true(condition))
        key = condition.sexpr()
        if key not in self._known:
            seen = {z3.is_true(model.eval(condition, model_completion=True)) for model in self._models}
            possible = [
                answer
                for answer in (True, False)
                if answer in seen or self._may(condition if answer else z3.Not(condition))
            ]
            if len(possible) == 2:
                self.trouble = self.trouble or _Split(condition)
                raise self.trouble
            self._known[key] = possible[0]
        return self._known[key]

    def refuse(self, why: str) -> NoReturn:
        """Give up on this case, and remember it: code that swallows the error must not be believed."""
        self.trouble = Undecided(why)
        raise self.trouble

    def _may(self, condition: Any) -> bool:
        self._solver.push()
        self._solver.add(condition)
        model = _model(self._solver)
        self._solver.pop()
        if model is not None:
            self._models.append(model)
        return model is not None

    def split(self, condition: Any) -> list["_Case"]:
        """The two cases that a condition makes of this one; what is known stays known."""
        z3 = _z3()
        return [_Case([*self.facts, fact], self._known) for fact in (z3.Not(condition), condition)]


def _cases(question: Callable[[_Case], Any], facts: list[Any]) -> Iterator[tuple[_Case, Any]]:
    """Every case that comparisons make of the facts, each with the answer in it, or what was raised."""
    waiting, asked = [_Case(facts)], 0
    while waiting:
        case, answer = waiting.pop(), None
        asked += 1
        if asked > _MOST_CASES:
            raise Undecided(
                f"more than {_MOST_CASES} cases; make the vocabulary or k smaller, or rows positive"
            )
        try:
            answer = question(case)
        except (_Split, Undecided) as trouble:
            case.trouble = case.trouble or trouble
        except Exception as error:
            answer = error
        case.closed = True
        if isinstance(case.trouble, _Split):
            waiting += case.split(case.trouble.condition)
        elif case.trouble:
            raise case.trouble
        else:
            yield case, answer


def _model(solver: Any) -> Any:
    """Numbers that satisfy what a solver was told; None if there are none."""
    z3 = _z3()
    answer = solver.check()
    if answer == z3.unknown:
        raise Undecided(f"the solver gave up ({solver.reason_unknown()}) on {solver.assertions()}")
    return solver.model() if answer == z3.sat else None


def _satisfied(claim: Sequence[Any]) -> Any:
    """Numbers that satisfy a claim, a model of Z3; None if there are none."""
    solver = _z3().Solver()
    solver.set("timeout", _TIMEOUT)
    solver.add(*claim)
    return _model(solver)


def _smallest(claims: list[list[Any]], rows: list[list[Any]]) -> tuple[tuple[Fraction, ...], ...]:
    """Rows that satisfy one of the claims: with the smallest common denominator, if one is small, and of
    those the first in order, so that every Z3 gives the same."""
    z3, entries = _z3(), [entry for row in rows for entry in row]
    for denominator in range(1, _SMALL + 1):
        fixed = [z3.Or(*(entry * denominator == n for n in range(denominator + 1))) for entry in entries]
        possible = [claim for claim in claims if _satisfied([*claim, *fixed])]
        if possible:
            for i, entry in enumerate(entries):
                for n in range(denominator + 1):
                    fixed[i] = entry * denominator == n
                    still = [claim for claim in possible if _satisfied([*claim, *fixed])]
                    if still:
                        possible = still
                        break
            return _numbers(_satisfied([*possible[0], *fixed]), rows)
    return _numbers(_satisfied(claims[0]), rows)


def _numbers(model: Any, rows: list[list[Any]]) -> tuple[tuple[Fraction, ...], ...]:
    """What a model says the rows are."""

    def number(entry: Any) -> Fraction:
        value = model.eval(entry, model_completion=True)
        if not hasattr(value, "as_fraction"):
            raise Undecided(f"the solver answers with an irrational number, {value}, which no Fraction is")
        return Fraction(value.as_fraction())

    return tuple(tuple(number(entry) for entry in row) for row in rows)


def _is_beyond(value: Any) -> bool:
    """Whether a value is infinite or NaN, which compares with every entry as it does with 0."""
    return isinstance(value, float | np.floating) and not math.isfinite(value)


def _term(value: Any) -> Any:
    """A known number as the solver's; None for what is no number."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int | float | Fraction):
        return _known_number(Fraction(value))
    return None


@cache
def _known_number(value: Fraction) -> Any:
    return _z3().RealVal(str(value))


def _parts(value: Any) -> tuple[Any, Any]:
    """Numerator and denominator of an entry or a number, as the solver's terms."""
    if isinstance(value, _Entry):
        return value.num, value.den
    term = _term(value)
    if term is None:
        raise TypeError(f"{value!r} is no number")
    return term, _z3().RealVal(1)


class _Entry:
    """A rational function num ÷ den of the unknowns, den > 0; so comparisons need no division.

    Both are kept simplified, so that equal denominators are seen to be equal.
    """

    __slots__ = ("case", "den", "num")

    def __init__(self, case: _Case, num: Any, den: Any = None) -> None:
        self.case, self.num, self.den = case, num, _known_number(Fraction(1)) if den is None else den

    def _made(self, num: Any, den: Any) -> "_Entry":
        return _Entry(self.case, _z3().simplify(num), den)

    def _with(self, other: Any, operation: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, _Uniform):
            return NotImplemented
        if _is_beyond(other):
            self.case.refuse(f"{other} went into arithmetic; only comparison with it can be followed")
        if not isinstance(other, _Entry):
            term = _term(other)
            if term is None:
                return NotImplemented
            other = _Entry(self.case, term)
        return operation(self, other)

    def _plus(self, other: "_Entry") -> "_Entry":
        if self.den.eq(other.den):
            return self._made(self.num + other.num, self.den)
        den = _z3().simplify(self.den * other.den)
        return self._made(self.num * other.den + other.num * self.den, den)

    def _times(self, other: "_Entry") -> "_Entry":
        if self.den.eq(other.num):
            return _Entry(self.case, self.num, other.den)
        if self.num.eq(other.den):
            return _Entry(self.case, other.num, self.den)
        return self._made(self.num * other.num, _z3().simplify(self.den * other.den))

    def _inverse(self) -> "_Entry":
        if self.case.decides(self.num == 0):
            raise ZeroDivisionError("division by an entry that is 0")
        if self.case.decides(self.num > 0):
            return _Entry(self.case, self.den, self.num)
        return self._made(-self.den, _z3().simplify(-self.num))

    def _below(self, other: "_Entry") -> bool:
        if self.den.eq(other.den):
            return self.case.decides(self.num < other.num)
        return self.case.decides(self.num * other.den < other.num * self.den)

    def _equals(self, other: "_Entry") -> bool:
        return self.case.decides(self.num * other.den == other.num * self.den)

    def __add__(self, other: Any) -> Any:
        return self._with(other, _Entry._plus)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a._plus(-b))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b._plus(-a))

    def __mul__(self, other: Any) -> Any:
        return self._with(other, _Entry._times)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a._times(b._inverse()))

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b._times(a._inverse()))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> "_Entry":
        return self._made(-self.num, self.den)

    def __abs__(self) -> "_Entry":
        return -self if self < 0 else self

    def __lt__(self, other: Any) -> Any:
        return other > 0.0 if _is_beyond(other) else self._with(other, _Entry._below)

    def __gt__(self, other: Any) -> Any:
        return other < 0.0 if _is_beyond(other) else self._with(other, lambda a, b: b._below(a))

    def __le__(self, other: Any) -> Any:
        return other >= 0.0 if _is_beyond(other) else self._with(other, lambda a, b: not b._below(a))

    def __ge__(self, other: Any) -> Any:
        return other <= 0.0 if _is_beyond(other) else self._with(other, lambda a, b: not a._below(b))

    def __eq__(self, other: Any) -> Any:
        return other == 0.0 if _is_beyond(other) else self._with(other, _Entry._equals)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return self != 0

    def _refuse(self, *_: Any) -> NoReturn:
        self.case.refuse(
            "an unknown entry went into more than + − × ÷ and comparison: float(), a power, a log"
        )

    __float__ = __int__ = __index__ = __complex__ = __round__ = __floor__ = __trunc__ = _refuse
    __pow__ = __rpow__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    exp = log = log2 = sqrt = rint = _refuse

    def __copy__(self) -> "_Entry":
        return self

    def __deepcopy__(self, memo: Any) -> "_Entry":
        return self

    def __repr__(self) -> str:
        return f"{self.num}" if self.den.eq(_z3().RealVal(1)) else f"({self.num}) / ({self.den})"


# Uniforms against unknown numbers.


class _Run:
    """One way through a verifier's draws: its rng."""

    def __init__(self, script: Sequence[bool]) -> None:
        self._script, self._asked = list(script), 0
        self.forks: list[list[bool]] = []
        self.ends: list[list[Any]] = []  # what is known of each uniform: [low, high]
        self.trouble: Undecided | None = None

    def random(self, size: Any = None) -> Any:
        if size is not None:
            drawn = np.empty(size, dtype=object)
            for index in np.ndindex(drawn.shape):
                drawn[index] = self.random()
            return drawn
        self.ends.append([Fraction(0), Fraction(1)])
        return _Uniform(self, len(self.ends) - 1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.refuse(f"rng.{name} was asked for; only rng.random() can be followed")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:  # what copy, deepcopy and pickle ask for
        self.refuse("the rng was copied, and a copy would draw the same uniforms")

    def refuse(self, why: str) -> NoReturn:
        self.trouble = Undecided(why)
        raise self.trouble

    def below(self, which: int, threshold: Any) -> bool:
        """Whether a uniform is below a threshold; decides it where both are possible."""
        low, high = self.ends[which]
        if threshold <= low:
            return False
        if threshold >= high:
            return True
        if self._asked == len(self._script):
            if self._asked == _MOST_ANSWERS:
                self.refuse(
                    f"uniforms were compared more than {_MOST_ANSWERS} times: a loop that may never end"
                )
            self.forks.append([*self._script, False])
            self._script.append(True)
        self._asked += 1
        answer = self._script[self._asked - 1]
        self.ends[which][answer] = threshold  # the high end if it is below, else the low one
        return answer

    @property
    def probability(self) -> Any:
        mass: Any = Fraction(1)
        for low, high in self.ends:
            mass = mass * (high - low)
        return mass


def _runs() -> Iterator[_Run]:
    """Every run, each forking where a comparison of a uniform could have gone the other way."""
    waiting: list[list[bool]] = [[]]
    while waiting:
        run = _Run(waiting.pop())
        yield run
        waiting += run.forks


class _Uniform:
    """scale · u + shift, for a uniform u known to lie between two ends, all of which may be unknown."""

    __slots__ = ("_run", "_scale", "_shift", "_which")

    def __init__(self, run: _Run, which: int, scale: Any = 1, shift: Any = 0) -> None:
        self._run, self._which, self._scale, self._shift = run, which, scale, shift

    def _below(self, other: Any) -> Any:
        if other is self:
            return False  # as a sorted search asks of its key
        if isinstance(other, _Uniform):
            self._run.refuse("two uniforms were compared with each other; compare each with a number")
        if _is_beyond(other):
            return other > 0.0
        threshold = self._number(other)
        if threshold is None:
            return NotImplemented
        if self._scale == 0:
            return bool(self._shift < threshold)
        if (self._scale, self._shift) == (1, 0):
            return self._run.below(self._which, threshold)
        at = (threshold - self._shift) / self._scale
        return self._run.below(self._which, at) == bool(self._scale > 0)

    @staticmethod
    def _number(value: Any) -> Any:
        """An entry or a Fraction; None for what is no number."""
        if isinstance(value, _Entry) or _term(value) is None:
            return value if isinstance(value, _Entry) else None
        return Fraction(value.item() if isinstance(value, np.generic) else value)

    def __lt__(self, other: Any) -> Any:
        return self._below(other)

    def __ge__(self, other: Any) -> Any:
        below = self._below(other)
        return below if below is NotImplemented else not below

    def __le__(self, other: Any) -> Any:
        return True if other is self else self._below(other)  # ties have probability 0

    def __gt__(self, other: Any) -> Any:
        return False if other is self else self.__ge__(other)

    def _affine(self, other: Any, scale: Callable[[Any, Any], Any], shift: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, _Uniform):
            self._run.refuse("two uniforms were combined; combine each with a number")
        number = self._number(other)
        if number is None:
            return NotImplemented
        return _Uniform(self._run, self._which, scale(self._scale, number), shift(self._shift, number))

    def __add__(self, other: Any) -> Any:
        return self._affine(other, lambda a, x: a, lambda b, x: b + x)

    def __sub__(self, other: Any) -> Any:
        return self._affine(other, lambda a, x: a, lambda b, x: b - x)

    def __rsub__(self, other: Any) -> Any:
        return self._affine(other, lambda a, x: -a, lambda b, x: x - b)

    def __mul__(self, other: Any) -> Any:
        return self._affine(other, lambda a, x: a * x, lambda b, x: b * x)

    def __truediv__(self, other: Any) -> Any:
        return self._affine(other, lambda a, x: a / x, lambda b, x: b / x)

    __radd__, __rmul__ = __add__, __mul__

    def __copy__(self) -> "_Uniform":
        return self

    def __deepcopy__(self, memo: Any) -> "_Uniform":
        return self

    def _refuse(self, *_: Any) -> NoReturn:
        self._run.refuse(
            "a uniform went into more than + − × ÷ by a number and comparison: float(), int(), a log"
        )

    __float__ = __int__ = __index__ = __complex__ = __round__ = __floor__ = __trunc__ = __abs__ = _refuse
    __pow__ = __rpow__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __rtruediv__ = _refuse
    __eq__ = __ne__ = __neg__ = exp = log = sqrt = _refuse
    __hash__ = None  # type: ignore[assignment]


def _z3() -> Any:
    try:
        import z3
    except ImportError as missing:
        raise ImportError("for all rows at once needs Z3: pip install 'specdecode[smt]'") from missing
    return z3
