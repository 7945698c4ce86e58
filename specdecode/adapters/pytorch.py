"""PyTorch programs under the exact law, unmodified.

A `TorchFunctionMode` stands between a program and torch. It answers every draw from an rng that is handed
over: with the lazy uniforms of `specdecode.exact.law` a tensor of draws holds what is not yet known, and a
comparison with a tensor of thresholds splits the path, entry by entry; `torch.multinomial` and an
exponential race branch on the row. Tensors without draws go to torch untouched.

How a draw stays unknown inside torch: the tensor is an ordinary one, filled with NaN, and the mode keeps, for
its *storage*, one entry a number. A view of it (a row, a reshape, a transpose) is on the same storage and so
is followed without a word of code; a copy is followed by running the same operation on the entries' numbers.
Whatever else is done to it raises `Inexact`; nothing is guessed.

Needs the extra `torch`:  pip install 'specdecode[torch]' --extra-index-url https://download.pytorch.org/whl/cpu
"""

import inspect
import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np

from specdecode import exact
from specdecode.adapters.races import Noise, choose, winner
from specdecode.exact import Comparison, Law
from specdecode.paths import LazyUniform, TooLarge

try:
    import torch
    from torch.overrides import TorchFunctionMode
except ImportError as error:
    raise ImportError(
        "PyTorch programs need torch: pip install 'specdecode[torch]' --extra-index-url "
        "https://download.pytorch.org/whl/cpu (without the index, a CUDA build of gigabytes)"
    ) from error

__all__ = ["as_verifier", "compare", "drawing", "law"]

_MAX_PATHS = 20_000  # a run of a model costs milliseconds where a rule costs microseconds
_MAX_CHOICES = 1000  # tokens of positive probability in one row


def law(program: Callable[[], Hashable], *, max_paths: int = _MAX_PATHS, **limits: Any) -> Law:
    """The exact law of a program that draws through torch.

    Parameters
    ----------
    program : callable
        program() -> a hashable outcome, or a tensor or array, which becomes nested tuples. It is run once a
        path, so whatever a run changes it must itself reset.
    max_paths : int
        Limit on the number of paths.
    **limits
        As for `specdecode.exact.law`.

    Returns
    -------
    Law

    Raises
    ------
    Inexact
        If a draw goes through an operation that is not followed; names it. So does a draw on a GPU.
    NotReproducible, TooLarge
        As `specdecode.exact.law`; TooLarge also if a row has more than 1000 tokens to choose from.

    Guarantee
    ---------
    Under ideal uniforms, exact for the program's own arithmetic: a threshold in float32 is taken at its exact
    value, a row handed to `multinomial` is divided by its exact sum (thm-law in chapter 4). A float32 uniform
    of torch lies on a grid of 2⁻²⁴. A `torch.Generator` of the program's own counts as ideal too, unless two
    draws begin from one state of it. Logits that race with Gumbel noise are exponentiated in float64.

    Examples
    --------
    >>> import torch
    >>> law(lambda: bool(torch.rand(1) < 0.25))
    Law({False: 3/4, True: 1/4})
    >>> law(lambda: torch.multinomial(torch.tensor([1.0, 3.0]), 1))
    Law({(0,): 1/4, (1,): 3/4})
    """
    return exact.law(drawing(program), max_paths=max_paths, **limits)


def compare(
    program_a: Callable[[], Hashable],
    program_b: Callable[[], Hashable],
    *,
    tolerance: float = 1e-6,
    max_paths: int = _MAX_PATHS,
    **limits: Any,
) -> Comparison:
    """Enumerate two torch programs and compare their laws: speculation on and off, say.

    Parameters
    ----------
    program_a, program_b : callable
        As for `law`.
    tolerance : float
        Largest total variation that counts as equal; 1e-6 is float32 rounding over a few tokens.
    max_paths, **limits
        As for `law`.

    Returns
    -------
    Comparison

    Raises
    ------
    Inexact, NotReproducible, TooLarge
        As `law`.

    Guarantee
    ---------
    That of `law`, for each of the two.

    Examples
    --------
    >>> import torch
    >>> row = torch.tensor([0.5, 0.25, 0.25])
    >>> def race():
    ...     return (row / torch.empty(3).exponential_()).argmax()
    >>> compare(lambda: torch.multinomial(row, 1)[0], race).equal
    True
    """
    programs = drawing(program_a), drawing(program_b)
    return exact.compare(*programs, tolerance=tolerance, max_paths=max_paths, **limits)


def drawing(program: Callable[[], Any]) -> Callable[[Any], Hashable]:
    """A torch program as a program of an rng, so that all of `specdecode.exact` applies to it.

    Parameters
    ----------
    program : callable
        program() -> outcome.

    Returns
    -------
    callable
        (rng) -> the outcome, made hashable. A lazy rng answers the draws of torch; any other only seeds
        them, and torch draws for itself.

    Examples
    --------
    >>> import torch
    >>> from specdecode.testing import assert_same_law
    >>> coin = drawing(lambda: torch.bernoulli(torch.tensor(0.5)).item())
    >>> assert_same_law(coin, lambda rng: float(rng.random() < 0.5)).equal
    True
    """

    def run(rng: Any) -> Hashable:
        return _with_draws(rng, program)

    run.__name__ = run.__qualname__ = getattr(program, "__qualname__", type(program).__name__)
    return run


def as_verifier(function: Callable[..., Any], dtype: Any = None) -> Callable[..., list[int]]:
    """A torch verifier in the shape that `certify` asks for.

    Parameters
    ----------
    function : callable
        function(draft_tokens, draft_dists, target_dists[, generator]) -> emitted token ids, given tensors of
        shape (k,), (k, V) and (k + 1, V); the first int64.
    dtype : torch.dtype, optional
        Of the rows; float32 if left out, for which certify's tolerance is 1e-6.

    Returns
    -------
    callable
        A verifier (`specdecode.verifiers`) on NumPy arrays.

    Raises
    ------
    ValueError
        If `function` takes neither three nor four arguments.

    Examples
    --------
    >>> from specdecode.certify import certify
    >>> def emits_the_draft(draft_tokens, draft_dists, target_dists):
    ...     return draft_tokens[:1]
    >>> certify(as_verifier(emits_the_draft), tolerance=1e-6).verdict
    'not exact'
    """
    dtype = dtype or torch.float32
    takes_generator = _takes_generator(function)

    def verifier(draft_tokens: Any, draft_dists: Any, target_dists: Any, rng: Any) -> list[int]:
        given = [torch.tensor(np.asarray(draft_tokens, dtype=np.int64))]
        given += [
            torch.tensor(np.asarray(rows, dtype=float), dtype=dtype) for rows in (draft_dists, target_dists)
        ]

        def run() -> Any:
            generator = [torch.Generator().manual_seed(_seed(rng) + 1)] if takes_generator else []
            return function(*given, *generator)

        emitted = _with_draws(rng, run)
        return list(emitted[0] if len(emitted) == 1 and isinstance(emitted[0], tuple) else emitted)

    name = getattr(function, "__qualname__", type(function).__name__)
    verifier.__qualname__ = f"as_verifier({name})"
    return verifier


def _takes_generator(function: Callable[..., Any]) -> bool:
    for count in (3, 4):
        try:
            inspect.signature(function).bind(*range(count))
            return count == 4
        except TypeError:
            continue
    raise ValueError(
        f"{getattr(function, '__qualname__', function)} takes neither three nor four arguments; "
        f"want verifier(draft_tokens, draft_dists, target_dists[, generator])"
    )


def _with_draws(rng: Any, program: Callable[[], Any]) -> Any:
    """Run a program on the draws of a lazy rng, or on torch's own, seeded by a plain one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_seed(rng))
        if not isinstance(rng, exact.LazyGenerator):
            return _plain(program())
        mode = _Draws(rng)
        with mode:
            outcome = _plain(program())  # a draw in it must be told from a number
        mode.finish()
        return outcome


def _seed(rng: Any) -> int:
    return 0x5EC0DE if isinstance(rng, exact.LazyGenerator) else int(rng.integers(2**62))


def _plain(outcome: Any) -> Any:
    """An outcome that can be hashed: tensors, arrays and lists as nested tuples."""
    if hasattr(outcome, "tolist"):
        outcome = outcome.tolist()
    if isinstance(outcome, (list, tuple)):
        return tuple(_plain(part) for part in outcome)
    return outcome


# The mode. An *entry* is what a lazy tensor has in a place: a lazy uniform, noise, or a plain number.

_COMPARISONS = {"lt": "less", "gt": "greater", "le": "less_equal", "ge": "greater_equal"}
_COMPARISONS |= {full: full for full in _COMPARISONS.values()} | {
    f"__{short}__": full for short, full in _COMPARISONS.items()
}
_ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "subtract": np.subtract,
    "mul": np.multiply,
    "multiply": np.multiply,
    "div": np.true_divide,
    "divide": np.true_divide,
    "true_divide": np.true_divide,
    "neg": np.negative,
    "negative": np.negative,
    "log": np.frompyfunc(lambda entry: _log(entry), 1, 1),
    "reciprocal": np.frompyfunc(lambda entry: 1 / entry, 1, 1),
    "rsub": lambda a, b: np.subtract(b, a),
    "__rsub__": lambda a, b: np.subtract(b, a),
    "__rdiv__": lambda a, b: np.true_divide(b, a),
    "__rtruediv__": lambda a, b: np.true_divide(b, a),
}
_ARITHMETIC |= {
    f"__{name}__": _ARITHMETIC[name]
    for name in ("add", "sub", "mul", "truediv", "neg")
    if name in _ARITHMETIC
}
_ARITHMETIC |= {"__radd__": np.add, "__rmul__": np.multiply, "__truediv__": np.true_divide}
_IN_PLACE = {f"{name}_": name for name in ("add", "sub", "mul", "div", "neg", "log", "reciprocal")}
_IN_PLACE |= {
    "__iadd__": "add",
    "__isub__": "sub",
    "__imul__": "mul",
    "__idiv__": "div",
    "__itruediv__": "div",
}
_MOVES = set(
    "view view_as reshape reshape_as ravel flatten unflatten squeeze unsqueeze atleast_1d atleast_2d "
    "transpose t permute movedim swapaxes swapdims diagonal expand expand_as broadcast_to "
    "broadcast_tensors narrow select split chunk unbind unfold as_strided alias detach contiguous clone "
    "__getitem__ gather index_select take_along_dim masked_select masked_fill where cat concat "
    "concatenate stack hstack vstack repeat tile repeat_interleave flip roll".split()
)
_CONVERSIONS = set("to type type_as float double half bfloat16 cpu".split())
_METADATA = set(
    "size dim ndimension numel nelement stride storage_offset is_floating_point is_complex is_signed "
    "get_device is_contiguous element_size data_ptr result_type can_cast __len__ __repr__ __hash__ "
    "__format__ _has_compatible_shallow_copy_type".split()
)


def _log(entry: Any) -> Any:
    if isinstance(entry, LazyUniform):
        entry._path.spend(entry._which)
        if (entry._scale, entry._shift) not in ((1, 0), (-1, 1)):
            entry._path.refuse("the logarithm of a uniform that had been scaled or shifted is not followed")
        return Noise(entry._path, sign=-1)  # log u = −E
    return entry.log() if isinstance(entry, Noise) else math.log(entry) if entry > 0 else -math.inf


class _Draws(TorchFunctionMode):
    """Answers the draws of torch from an rng, and follows what the program does with them."""

    def __init__(self, rng: Any):
        super().__init__()
        self._rng, self._path = rng, rng._path
        self._entries: dict[
            int, tuple[Any, np.ndarray]
        ] = {}  # storage's address -> (a tensor on it, its entries)
        self._states = {"default": torch.get_rng_state()}  # as left by the last draw, of each generator
        self._used: set[bytes] = set()  # every state a draw began from

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        draw = _DRAWS.get(name)
        if draw is not None and _is_torch(func, name):
            return draw(self, func, args, kwargs)
        if name in _INITIALISERS and getattr(func, "__module__", "") == "torch.nn.init":
            # Weights are often drawn only to be overwritten. Until they are, any use of them is refused.
            return self._fresh(args[0] if args else kwargs["tensor"], self._unusable, kwargs.get("generator"))
        if name in _NOT_FOLLOWED or kwargs.get("generator") is not None:
            self._path.refuse(f"torch.{name} is not followed; {_FOLLOWED}")
        if not self._entries or not any(self._is_lazy(tensor) for tensor in _tensors(args, kwargs)):
            return func(*args, **kwargs)
        return self._follow(func, name, args, kwargs)

    # Draws

    def _fresh(self, like: Any, make: Callable[[], Any], generator: Any) -> Any:
        """Write new draws into every place of a tensor."""
        self._begin(like.device, generator)
        values = np.empty(tuple(like.shape), dtype=object)
        for place in np.ndindex(values.shape):
            values[place] = make()
        self._write(like, values)
        return like

    def _begin(self, device: Any, generator: Any = None) -> None:
        """Note a draw. The real generator is advanced too, so that a state used twice is seen."""
        if device.type != "cpu":
            self._path.refuse(f"a draw on the device {device} is not followed; run the program on the CPU")
        key: Any = generator if generator is not None else "default"
        state = torch.get_rng_state() if generator is None else generator.get_state()
        left = self._states.get(key)
        if left is None or not torch.equal(left, state):
            if generator is None:
                self._refuse_stray()
            if state.numpy().tobytes() in self._used:
                self._path.refuse("two draws began from the same state of a generator: a seed was used again")
        self._used.add(state.numpy().tobytes())
        torch.rand(1, generator=generator)
        self._states[key] = torch.get_rng_state() if generator is None else generator.get_state()

    def finish(self) -> None:
        """After the run: no draw may have gone past the mode."""
        if not torch.equal(self._states["default"], torch.get_rng_state()):
            self._refuse_stray()

    def _refuse_stray(self) -> None:
        self._path.refuse(f"it seeds torch's generator itself, or draws where it is not seen; {_FOLLOWED}")

    def _uniform(self) -> Any:
        return self._rng.random()

    def _uniforms(self, tensor: Any, generator: Any, low: float = 0.0, high: float = 1.0) -> Any:
        dtype = tensor.dtype
        if (low, high) == (0, 1):
            return self._fresh(tensor, lambda: _on_grid(self._uniform(), dtype), generator)
        width, shift = Fraction(high) - Fraction(low), Fraction(low)
        return self._fresh(tensor, lambda: _on_grid(self._uniform(), dtype) * width + shift, generator)

    def _exponential(self) -> Any:
        u = self._uniform()
        if not isinstance(u, LazyUniform):
            return max(-math.log1p(-u), torch.finfo(torch.float32).tiny)  # torch's noise is never 0
        self._path.spend(u._which)
        return Noise(self._path)

    def _unusable(self) -> Any:
        u = self._uniform()
        if isinstance(u, LazyUniform):
            self._path.spend(u._which)
        return u

    def rand(self, func: Any, args: Any, kwargs: Any) -> Any:
        generator = kwargs.pop("generator", None)
        return self._uniforms(torch.empty(*args, **kwargs), generator)

    def rand_like(self, func: Any, args: Any, kwargs: Any) -> Any:
        generator = kwargs.pop("generator", None)
        return self._uniforms(torch.empty_like(*args, **kwargs), generator)

    def uniform_(self, func: Any, args: Any, kwargs: Any) -> Any:
        def bounds(tensor: Any, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> tuple:
            return tensor, low, high, generator

        tensor, low, high, generator = bounds(*args, **kwargs)
        return self._uniforms(tensor, generator, low, high)

    def exponential_(self, func: Any, args: Any, kwargs: Any) -> Any:
        def rate(tensor: Any, lambd: float = 1.0, *, generator: Any = None) -> tuple:
            return tensor, lambd, generator

        tensor, lambd, generator = rate(*args, **kwargs)
        return self._fresh(tensor, lambda: self._exponential() / lambd, generator)

    def bernoulli(self, func: Any, args: Any, kwargs: Any) -> Any:
        def shape(tensor: Any, p: Any = None, *, generator: Any = None) -> tuple:
            return tensor, p, generator

        tensor, p, generator = shape(*args, **kwargs)
        rows = tensor if p is None else torch.full_like(tensor, p)
        self._begin(rows.device, generator)
        coins = [float(self._uniform() < entry) for entry in rows.double().flatten().tolist()]
        return torch.tensor(coins, dtype=tensor.dtype).reshape(rows.shape)

    def bernoulli_(self, func: Any, args: Any, kwargs: Any) -> Any:
        def shape(tensor: Any, p: Any = 0.5, *, generator: Any = None) -> tuple:
            return tensor, p, generator

        tensor, p, generator = shape(*args, **kwargs)
        rows = torch.as_tensor(p, dtype=torch.float64).expand(tensor.shape)
        return tensor.copy_(self.bernoulli(func, (rows,), {"generator": generator}))

    def randint(self, func: Any, args: Any, kwargs: Any) -> Any:
        generator = kwargs.pop("generator", None)
        numbers = [kwargs.pop(name) for name in ("low", "high") if name in kwargs]
        size = kwargs.pop("size", None)
        numbers += [argument for argument in args if isinstance(argument, int)]
        if size is None:
            size = next(argument for argument in args if not isinstance(argument, int))
        low, high = (0, *numbers) if len(numbers) == 1 else numbers
        if high <= low:
            raise RuntimeError(
                f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
            )
        out = torch.empty(size, **{"dtype": torch.int64, **kwargs})
        self._begin(out.device, generator)
        drawn = [low + int(self._uniform() * (high - low)) for _ in range(out.numel())]
        return out.copy_(torch.tensor(drawn, dtype=torch.int64).reshape(out.shape))

    def multinomial(self, func: Any, args: Any, kwargs: Any) -> Any:
        def shape(rows: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> tuple:
            return rows, num_samples, replacement, generator

        rows, num_samples, replacement, generator = shape(*args, **kwargs)
        if self._is_lazy(rows):
            self._refuse("torch.multinomial on a row that holds a draw")
        self._begin(rows.device, generator)
        drawn = [
            self._choices(row, num_samples, replacement) for row in rows.reshape(-1, rows.shape[-1]).tolist()
        ]
        return torch.tensor(drawn, dtype=torch.int64).reshape(*rows.shape[:-1], num_samples)

    def _choices(self, row: list[float], num_samples: int, replacement: bool) -> list[int]:
        if not all(math.isfinite(entry) and entry >= 0 for entry in row):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        weights = [Fraction(entry) for entry in row]
        positive = sum(weight > 0 for weight in weights)
        if positive == 0:
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        if not replacement and positive < num_samples:
            raise RuntimeError(
                "invalid multinomial distribution (with replacement=False, not enough categories to sample)"
            )
        if positive > _MAX_CHOICES:
            self._path.refuse(
                f"a token is drawn from {positive} of positive probability, which makes {positive}ⁿ texts of "
                f"n tokens, and at most {_MAX_CHOICES} are followed in one draw; use a tiny random model of "
                f"the same class (vocab_size=3 in its config), or a top_k that leaves a few",
                TooLarge,
            )
        drawn = []
        for _ in range(num_samples):
            drawn.append(choose(weights, self._uniform))
            if not replacement:
                weights[drawn[-1]] = Fraction(0)
        return drawn

    # What follows a draw

    def _follow(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name in ("__get__", "__set__") or name in _METADATA:  # attributes: shape, dtype, .T, .data
            return func(*args, **kwargs)
        if kwargs.get("out") is not None:
            self._refuse(f"torch.{name}(out=…)")
        if name in _COMPARISONS:
            a, b = self._operands(args, kwargs)
            answer = getattr(np, _COMPARISONS[name])(a, b, dtype=object)
            return torch.from_numpy(np.array(answer, dtype=bool))
        if name in _ARITHMETIC:
            return self._computed(_ARITHMETIC[name], args, kwargs, args)
        if name in _IN_PLACE:
            values = _ARITHMETIC[_IN_PLACE[name]](*self._operands(args, kwargs))
            return self._write(
                args[0], np.broadcast_to(np.asarray(values, dtype=object), tuple(args[0].shape))
            )
        if name in ("argmax", "argmin"):
            return self._raced(name, *args, **kwargs)
        if name in ("zero_", "fill_", "copy_"):
            value = self._value(args[1] if len(args) > 1 else kwargs.get("value", 0))
            return self._write(args[0], np.broadcast_to(value, tuple(args[0].shape)))
        if name in ("__setitem__", "masked_fill_"):
            return self._assigned(name, *args, **kwargs)
        if name == "item":
            return self._value(args[0]).item()
        if name in ("tolist", "numpy", "__array__"):
            value = self._value(args[0])
            return value.tolist() if name == "tolist" else value.copy()
        if name in _CONVERSIONS:
            return self._converted(func, args, kwargs)
        if name in _MOVES:
            return self._moved(func, args, kwargs)
        return self._refuse(f"torch.{name}")

    def _refuse(self, what: str) -> None:
        self._path.refuse(
            f"{what} is not followed exactly; a draw may be compared with a threshold, moved about, scaled "
            f"and shifted by numbers, or race (row / exponential noise, logits + Gumbel noise, then argmax)"
        )

    def _is_lazy(self, tensor: Any) -> bool:
        return _address(tensor) in self._entries

    def _value(self, value: Any) -> np.ndarray:
        """The entries of a tensor, lazy or not, in its shape; a number as an array of one."""
        if not isinstance(value, torch.Tensor):
            return np.array(value, dtype=object)
        if value.device.type != "cpu":
            self._path.refuse(f"a tensor on the device {value.device} met a draw; run the program on the CPU")
        known = self._entries.get(_address(value))
        if known is None:
            plain = value.detach()
            plain = plain.double() if plain.is_floating_point() else plain
            return np.array(plain.tolist(), dtype=object).reshape(tuple(value.shape))
        owner, entries = known
        if owner.dtype != value.dtype:
            self._refuse("a view of a draw as another dtype")
        strides = [step * entries.itemsize for step in value.stride()]
        return np.lib.stride_tricks.as_strided(entries[value.storage_offset() :], tuple(value.shape), strides)

    def _operands(self, args: Any, kwargs: Any) -> list[np.ndarray]:
        if kwargs.get("alpha", 1) != 1 or kwargs.get("rounding_mode") is not None:
            self._refuse("arithmetic with alpha or rounding_mode")
        named = [kwargs[name] for name in ("other",) if name in kwargs]
        return [self._value(argument) for argument in (*args, *named)]

    def _computed(self, compute: Callable[..., Any], args: Any, kwargs: Any, tensors: Any) -> Any:
        values = np.asarray(compute(*self._operands(args, kwargs)), dtype=object)
        dtype = next(tensor.dtype for tensor in _tensors(tensors, {}) if tensor.is_floating_point())
        return self._write(torch.empty(values.shape, dtype=dtype), values)

    def _write(self, tensor: Any, values: np.ndarray) -> Any:
        """Put entries into a tensor: numbers into its storage, the rest into the table."""
        if not tensor.numel():
            return tensor
        lazy = any(_is_unknown(entry) for entry in values.flat)
        if not lazy and not self._is_lazy(tensor):
            numbers = [float(entry) for entry in values.flat]
            tensor.detach().copy_(torch.tensor(numbers, dtype=torch.float64).reshape(tensor.shape))
            return tensor
        if not self._is_lazy(tensor):
            whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.detach().untyped_storage())
            entries = np.empty(whole.numel(), dtype=object)
            entries[:] = whole.double().tolist()
            self._entries[_address(tensor)] = (whole, entries)
        self._value(tensor)[...] = values
        tensor.detach().fill_(math.nan)
        whole, entries = self._entries[_address(tensor)]
        if not any(_is_unknown(entry) for entry in entries):  # the last draw in it has been overwritten
            del self._entries[_address(tensor)]
            whole.copy_(torch.tensor(entries.tolist(), dtype=torch.float64))
        return tensor

    def _raced(self, name: str, tensor: Any, dim: Any = None, keepdim: bool = False) -> Any:
        values = self._value(tensor)
        if dim is None:
            values, dim = values.reshape(-1), 0
        rows = np.moveaxis(values, dim, -1)
        found = np.empty(rows.shape[:-1], dtype=np.int64)
        for place in np.ndindex(found.shape):
            if not any(isinstance(entry, Noise) for entry in rows[place]):
                self._refuse(f"torch.{name} of uniforms")
            found[place] = winner(rows[place].tolist(), self._uniform, largest=name == "argmax")
        index = torch.from_numpy(found)
        return index.unsqueeze(dim) if keepdim else index

    # Copies: the same operation on a tensor of handles, each the number of an entry.

    def _handles(self, value: Any, table: list) -> Any:
        values = self._value(value)
        first = len(table)
        table.extend(values.flat)
        return torch.arange(first, len(table)).reshape(tuple(values.shape))

    def _moved(self, func: Any, args: Any, kwargs: Any) -> Any:
        natively = func(*args, **kwargs)
        table: list = []

        def swap(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                return self._handles(value, table)
            if isinstance(value, float):
                table.append(value)
                return len(table) - 1
            if isinstance(value, (list, tuple)):
                return type(value)(swap(part) for part in value)
            return value

        if all(self._is_lazy(tensor) for tensor in _tensors([natively], {})):
            return natively  # views
        handled = func(*map(swap, args), **{name: swap(value) for name, value in kwargs.items()})
        entries = np.empty(len(table), dtype=object)
        entries[:] = table
        for tensor, handle in zip(_tensors([natively], {}), _tensors([handled], {})):
            if not self._is_lazy(tensor):
                self._write(tensor, entries[handle.numpy()])
        return natively

    def _converted(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if result.device.type != "cpu" or not result.is_floating_point():
            self._refuse(f"a draw turned to {result.dtype} on {result.device}")
        return result if self._is_lazy(result) else self._write(result, self._value(args[0]).copy())

    def _assigned(self, name: str, tensor: Any, where: Any, value: Any) -> Any:
        table: list = []
        target = self._handles(tensor, table)
        source = self._handles(torch.as_tensor(value, dtype=tensor.dtype), table)
        target[where] = source
        entries = np.empty(len(table), dtype=object)
        entries[:] = table
        self._write(tensor, entries[target.numpy()])
        return tensor if name == "masked_fill_" else None


_DRAWS = {
    name: getattr(_Draws, name)
    for name in (
        "rand",
        "rand_like",
        "uniform_",
        "exponential_",
        "bernoulli",
        "bernoulli_",
        "randint",
        "multinomial",
    )
}
_FOLLOWED = f"followed are {', '.join(_DRAWS)}"
_NOT_FOLLOWED = set(
    "randn randn_like normal normal_ randperm randint_like random_ poisson binomial cauchy_ log_normal_ "
    "geometric_".split()
)
_INITIALISERS = set(
    "uniform_ normal_ trunc_normal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ "
    "orthogonal_ sparse_".split()
)


def _is_torch(func: Any, name: str) -> bool:
    return func in (getattr(torch, name, None), getattr(torch.Tensor, name, None))


def _is_unknown(entry: Any) -> bool:
    return isinstance(entry, (LazyUniform, Noise))


def _address(tensor: Any) -> int:
    """The address of a tensor's storage; 0 for what has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # sparse and other tensors without a storage
        return 0


def _tensors(args: Any, kwargs: Any) -> list:
    found = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(_tensors(value, {}))
    return found


def _on_grid(uniform: Any, dtype: Any) -> Any:
    """A plain uniform as torch would have drawn it in this dtype, below 1; a lazy one as it is."""
    if isinstance(uniform, LazyUniform):
        return uniform
    scale = 2.0 ** {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}.get(dtype, 53)
    return math.floor(uniform * scale) / scale
