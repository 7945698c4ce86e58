"""The draws of torch, answered from an rng.

Each method has the name of the function that it answers, and takes what that takes.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from specdecode.adapters.pytorch.calls import TorchError, bound, natively, refuse_use
from specdecode.adapters.pytorch.entries import NARROW, Entries, array_of
from specdecode.adapters.pytorch.generators import Generators
from specdecode.adapters.pytorch.races import Noise, choose
from specdecode.exact.uniforms import LazyUniform, Path, TooLarge

__all__ = ["Answers"]

_MAX_CHOICES = 1000  # tokens of positive probability in one row


class Answers:
    """What answers the draws of one run.

    Parameters
    ----------
    rng : specdecode.exact.LazyGenerator
    entries : Entries
        Where the draws are written.
    generators : Generators
        Told of every draw.
    """

    def __init__(self, rng: Any, entries: Entries, generators: Generators) -> None:
        self._rng, self._path = rng, rng._path
        self._lazy = isinstance(rng._path, Path)  # not so where plain numbers are replayed
        self._entries, self._generators = entries, generators

    def uniform(self) -> Any:
        """A uniform on [0, 1), not yet rounded to any dtype."""
        return self._rng.random()

    def rand(self, *size: Any, generator: Any = None, **how: Any) -> Any:
        return self._uniforms(natively(torch.empty, *size, **how), generator)

    def rand_like(self, tensor: Any, *, generator: Any = None, **how: Any) -> Any:
        return self._uniforms(natively(torch.empty_like, tensor, **how), generator)

    def uniform_(self, tensor: Any, *ends: Any, generator: Any = None, **named: Any) -> Any:
        low, high = bound(ends, named, ("from", "to"), (0.0, 1.0))  # `from` cannot be a parameter's name
        return self._uniforms(tensor, generator, low, high)

    def exponential_(self, tensor: Any, lambd: float = 1.0, *, generator: Any = None) -> Any:
        if not lambd > 0:
            raise TorchError(RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}"))
        least = torch.finfo(tensor.dtype).tiny if tensor.is_floating_point() else 0.0

        def make() -> Any:
            if self._lazy:
                return self._noise() / lambd
            return max(-math.log1p(-self.uniform()), least) / lambd  # torch's noise is never 0

        return self._fresh(tensor, make, generator)

    def initialised(self, tensor: Any, *how: Any, generator: Any = None, **named: Any) -> Any:
        """Weights are often drawn only to be overwritten. Until they are, any use of them is refused."""
        make = (lambda: self._noise("a weight")) if self._lazy else self.uniform
        return self._fresh(tensor, make, generator)

    def _noise(self, form: str = "time") -> Noise:
        """Noise without a value, which no real number can stand for."""
        self._path.playable = False
        return Noise(self._path, form)

    def bernoulli(self, rows: Any, p: Any = None, *, generator: Any = None) -> Any:
        coins = self._coins(rows, rows if p is None else p, generator)
        return torch.tensor(coins, dtype=torch.float64).to(rows.dtype).reshape(rows.shape)

    def bernoulli_(self, tensor: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
        return self._entries.write(tensor, array_of(self._coins(tensor, p, generator)))

    def randint(self, *given: Any, size: Any = None, generator: Any = None, **how: Any) -> Any:
        *ends, size = given if size is None else (*given, size)
        ends = [int(end) for end in (*ends, *(how.pop(end) for end in ("low", "high") if end in how))]
        low, high = ends if len(ends) == 2 else (0, *ends)
        if high <= low:
            raise TorchError(
                RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
            )
        drawn = natively(torch.empty, size, **({"dtype": torch.int64} | how))
        self._generators.begin(drawn, generator)
        numbers = [low + int(self.uniform() * (high - low)) for _ in range(drawn.numel())]
        return drawn.copy_(torch.tensor(numbers, dtype=torch.int64).reshape(drawn.shape))

    def multinomial(
        self,
        rows: Any,
        num_samples: int,
        replacement: bool = False,
        *,
        generator: Any = None,
        out: Any = None,
    ) -> Any:
        if self._entries.hold(rows):
            refuse_use(self._path, "torch.multinomial on a row that holds a draw")
        if out is not None:
            refuse_use(self._path, "torch.multinomial(out=…)")
        if not rows.is_floating_point() or rows.dim() not in (1, 2) or num_samples <= 0:
            natively(torch.multinomial, rows, num_samples, replacement)  # raises what torch raises
        self._generators.begin(rows, generator)
        drawn = [
            self._tokens(row, num_samples, replacement) for row in rows.reshape(-1, rows.shape[-1]).tolist()
        ]
        return torch.tensor(drawn, dtype=torch.int64).reshape(*rows.shape[:-1], num_samples)

    def _fresh(self, tensor: Any, make: Callable[[], Any], generator: Any) -> Any:
        """Write new draws into every place of a tensor."""
        if tensor.dtype in NARROW:
            self._path.refuse(f"draws in {tensor.dtype} are far from ideal; draw in float32, or wider")
        if not tensor.is_floating_point():
            raise TorchError(RuntimeError(f"draws in {tensor.dtype} are not implemented"))
        if self._entries.shared(tensor):
            self._path.refuse(
                "a draw was written into memory that NumPy sees, too; use a tensor of torch's own"
            )
        self._generators.begin(tensor, generator)
        return self._entries.write(tensor, array_of([make() for _ in range(tensor.numel())]))

    def _uniforms(self, tensor: Any, generator: Any, low: Any = 0, high: Any = 1) -> Any:
        width, shift = Fraction(float(high)) - Fraction(float(low)), Fraction(float(low))
        if width < 0:
            raise TorchError(RuntimeError(f"uniform_ expects from <= to, but got from={low} > to={high}"))

        def make() -> Any:
            u = _on_grid(self.uniform(), tensor.dtype)
            return u if width == 1 and shift == 0 else u * width + shift

        return self._fresh(tensor, make, generator)

    def _coins(self, tensor: Any, p: Any, generator: Any) -> list[float]:
        """1 with probability p, for each place of a tensor."""
        if self._entries.hold(p):
            refuse_use(self._path, "torch.bernoulli of a draw")
        chances = torch.as_tensor(p, dtype=torch.float64).expand(tensor.shape).flatten().tolist()
        if not all(0 <= chance <= 1 for chance in chances):
            raise TorchError(RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false."))
        self._generators.begin(tensor, generator)
        return [float(self.uniform() < chance) for chance in chances]

    def _tokens(self, row: list[float], count: int, replace: bool) -> list[int]:
        """Tokens drawn from a row of weights."""
        if not all(math.isfinite(entry) and entry >= 0 for entry in row):
            raise TorchError(RuntimeError("probability tensor contains either `inf`, `nan` or element < 0"))
        weights = [Fraction(entry) for entry in row]
        positive = sum(weight > 0 for weight in weights)
        if positive == 0:
            raise TorchError(RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)"))
        if not replace and positive < count:
            refuse_use(self._path, "torch.multinomial without replacement of more tokens than have a chance")
        if positive > _MAX_CHOICES:
            self._path.refuse(
                f"a token is drawn from {positive} of positive probability, which makes {positive}ⁿ texts of "
                f"n tokens, and at most {_MAX_CHOICES} are followed in one draw; use a tiny random model of "
                f"the same class (vocab_size=3 in its config), or a top_k that leaves a few",
                TooLarge,
            )
        drawn: list[int] = []
        for _ in range(count):
            drawn.append(choose(weights, self.uniform))
            if not replace:
                weights[drawn[-1]] = Fraction(0)
        return drawn


def _on_grid(uniform: Any, dtype: Any) -> Any:
    """A plain uniform as torch would have drawn it in this dtype, below 1; a lazy one as it is."""
    if isinstance(uniform, LazyUniform):
        return uniform
    scale = 2.0 ** (24 if dtype == torch.float32 else 53)
    return math.floor(uniform * scale) / scale
