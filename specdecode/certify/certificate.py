"""The answer to "does this sampler emit exactly p?", with its evidence."""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

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
    if rows is None:
        return [f"{role:<10} {model!r}"]
    texts = ["  ".join(readable(entry) for entry in row) for row in rows]
    return [f"{role:<10} {kind}", *(f"           after {s}: {text}" for s, text in enumerate(texts))]


def simple(value: Fraction | float) -> Fraction | float:
    """The simple fraction that a probability is within rounding, or the probability itself."""
    near = Fraction(value).limit_denominator(10_000)
    return near if abs(near - Fraction(value)) < 1e-12 else value


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

    def require_exact(self) -> "Certificate":
        """Return the certificate if its verdict is "exact"; raise AssertionError with the evidence if not."""
        if self.verdict != "exact":
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        lines = [f"{self.subject}: {self.verdict}"]
        if self.verdict == "exact" and self.total_variation is not None:
            paths = sum(check.paths or 0 for check in self.checks)
            lines.append(
                f"  enumerated: {len(self.checks)} worlds, {paths} paths; largest total variation "
                f"{float(self.total_variation):.1e}, allowed {self.tolerance:g}"
            )
        elif self.witness is not None and self.total_variation is not None:
            lines.append(
                f"  {self.method}; largest total variation on a world {readable(self.total_variation)}"
            )
            lines += [f"  {line}" for line in str(self.witness).split("\n")]
        if self.reason:
            lines.append(f"  sampled, because {self.reason}")
        if self.resolution is not None:
            draws = sum(check.draws or 0 for check in self.checks)
            lines.append(
                f"  {draws} texts, alpha {self.alpha:g}; a total variation of {self.resolution:.2g} "
                f"would have been seen with probability 0.99, a smaller one perhaps not"
            )
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

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
        }
