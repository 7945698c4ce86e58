"""What a program ends in, as something that two runs can share."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Fault", "outcome_of"]


@dataclass(frozen=True)
class Fault:
    """An outcome that is none: the program raised, or returned what nobody asked for."""

    what: str

    @classmethod
    def raised(cls, error: BaseException) -> "Fault":
        """The fault of having raised, in one line."""
        try:
            text = " ".join(str(error).split())[:200]
        except Exception:  # an error may fail to say what it is
            text = "no text"
        return cls(f"raised {type(error).__name__}: {text}")

    def __str__(self) -> str:
        return self.what


def outcome_of(result: Any) -> Any:
    """What a program returned, as something to be hashed: arrays, tensors and lists as nested tuples.

    Examples
    --------
    >>> import numpy as np
    >>> outcome_of([np.array([1, 2]), 3])
    ((1, 2), 3)
    """
    if hasattr(result, "tolist"):
        result = result.tolist()
    if isinstance(result, (list, tuple)):
        return tuple(outcome_of(part) for part in result)
    return result
