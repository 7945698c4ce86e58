"""The answer to "does this sampler emit exactly p?", with its evidence."""

from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from specdecode.certify.worlds import World

__all__ = ["Certificate", "Check", "Witness", "as_float", "readable", "simple"]


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
    resolution : float or None
        If sampled: the smallest distance that would have been seen here with probability 0.99.
    """

    world: str
    k: int
    n_tokens: int
    paths: int | None
    draws: int | None
    total_variation: Fraction | None
    p_value: float | None
    passed: bool
    resolution: float | None = None


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
    outcome: Any
    probability: Fraction | float
    expected: Fraction | float
    how: str
    hints: tuple[str, ...]
    snippet: str

    def __str__(self) -> str:
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
            found, wanted = readable(self.probability), readable(self.expected)
            lines.insert(-1, f"has        {found}, should have {wanted}")
        lines += [f"hint       {hint}" for hint in self.hints]
        return "\n".join(lines)


def _shown(role: str, model: Any) -> list[str]:
    rows = getattr(getattr(model, "model", model), "rows", None)
    kind = type(model).__name__
    if not isinstance(rows, np.ndarray):
        return [f"{role:<10} {model!r}"]
    texts = ["  ".join(readable(entry) for entry in row) for row in rows]
    return [f"{role:<10} {kind}", *(f"           after {s}: {text}" for s, text in enumerate(texts))]


def simple(value: Fraction | float) -> Fraction | float:
    """The simple fraction that a probability is within rounding, or the probability itself."""
    near = Fraction(value).limit_denominator(10_000)
    return near if abs(near - Fraction(value)) < 1e-12 else value


def _told(bounds: dict[str, Any]) -> str:
    """The bounds in a line: sizes as ranges."""
    parts = []
    for name, value in bounds.items():
        if isinstance(value, list):
            value = f"{value[0]}" if len(value) == 1 else f"{value[0]} to {value[-1]}" if value else "none"
        elif isinstance(value, float):
            value = f"{value:.0e}"
        parts.append(f"{name} {value}")
    return ", ".join(parts)


def as_float(value: Fraction | float | None) -> float | None:
    """A number for JSON, which has no fractions."""
    return None if value is None else float(value)


def readable(value: Fraction | float) -> str:
    """A probability for reading: as a fraction if a simple one is within rounding, else as a decimal."""
    near = simple(value)
    plain = isinstance(near, Fraction) and near.denominator <= 10_000
    return str(near) if plain else f"{float(value):.6g}"


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
    bounds : dict
        What was looked at, and nothing is said of what lies beyond: "V", "k", "tokens", "prompts", "rounds",
        "batch" and "calls" with the sizes of the worlds, "dtype", "gap", the smallest difference between an
        entry of the target and one of the draft that the tolerance does not hide, and "seed".
    unreached : tuple of str
        "file:first-last" for lines of the sampler's own that no world ran.
    edges : str
        What coins of exactly 0 and 1 − 2⁻⁵³ do: "nothing forbidden", "not tried", or what came out.
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
    bounds: dict[str, Any] = field(default_factory=dict)
    unreached: tuple[str, ...] = ()
    edges: str = "not tried"

    @property
    def law_verdict(self) -> str:
        """The verdict on the law alone, edge coins aside."""
        by_a_coin = self.witness is not None and self.witness.how not in ("enumerated", "sampled")
        return "exact" if by_a_coin else self.verdict

    @property
    def has_power(self) -> bool:
        """Whether a wrong sampler could have been seen: where nothing could differ, nothing has passed."""
        return self.method == "enumerated" or any((check.resolution or 1) < 1 for check in self.checks)

    def require_exact(self) -> "Certificate":
        """Return the certificate if its verdict is "exact"; raise AssertionError with the evidence if not."""
        if self.verdict != "exact":
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        lines = [f"{self.subject}: {self.verdict}", f"  law         {self._law()}"]
        if self.method == "sampled":
            lines += [f"  sampled, because {self.reason}", *(f"  {line}" for line in self._resolutions())]
        if self.edges != "not tried":
            lines.append(f"  edge coins  {self.edges}")
        if self.witness is not None:
            lines += [f"  {line}" for line in str(self.witness).split("\n")]
        lines += [f"  bounds      {told}" for told in [_told(self.bounds)] if told]
        for reach in self.unreached:
            lines.append(f"  unreached   {reach} never ran; nothing is said of it")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def _law(self) -> str:
        """What was found of the law, in a line."""
        if self.method == "sampled":
            apart = (
                "" if self.total_variation is None else f", {readable(self.total_variation)} off in a sample"
            )
            return f"{self.law_verdict}{apart}"
        paths, largest = sum(check.paths or 0 for check in self.checks), as_float(self.total_variation) or 0.0
        passed = f"{len(self.checks)} worlds, {paths} paths; largest total variation"
        allowed = f"allowed {self.tolerance:g}"
        if self.law_verdict == "exact":
            return f"exact, enumerated: {passed} {largest:.1e}, {allowed}"
        return f"not exact, enumerated; largest total variation on a world {readable(largest)}, {allowed}"

    def _resolutions(self) -> list[str]:
        """What sampling would have seen."""
        draws = sum(check.draws or 0 for check in self.checks)
        if not self.has_power:
            return [f"{draws} texts, of which none could have shown anything: too few of any one outcome"]
        lines = [
            f"{draws} texts, alpha {self.alpha:g}; a total variation of {self.resolution:.2g} "
            f"would have been seen with probability 0.99, a smaller one perhaps not"
        ]
        return lines + [
            f"  {check.world}, k = {check.k}: {check.resolution:.2g}"
            for check in self.checks
            if check.resolution
        ]

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain data for JSON; its keys are on the book's page of commands."""
        witness = self.witness and {
            "world": self.witness.world.name,
            "k": self.witness.world.k,
            "target": repr(self.witness.world.target),
            "draft": repr(self.witness.world.draft),
            "prefix": list(self.witness.world.prefix),
            "drafted": self.witness.drafted and list(self.witness.drafted),
            "outcome": str(self.witness.outcome),
            "probability": readable(self.witness.probability),
            "expected": readable(self.witness.expected),
            "how": self.witness.how,
            "hints": list(self.witness.hints),
            "snippet": self.witness.snippet,
        }
        checks = [
            asdict(check) | {"total_variation": as_float(check.total_variation)} for check in self.checks
        ]
        return {
            "subject": self.subject,
            "verdict": self.verdict,
            "method": self.method,
            "tolerance": self.tolerance,
            "alpha": self.alpha,
            "total_variation": as_float(self.total_variation),
            "resolution": self.resolution,
            "reason": self.reason,
            "worlds": checks,
            "witness": witness,
            "notes": list(self.notes),
            "bounds": self.bounds,
            "unreached": list(self.unreached),
            "edges": self.edges,
        }
