"""The mode between a PyTorch program and torch: it answers the draws and follows what is done with them.

A tensor of draws is an ordinary tensor, filled with NaN. For its *storage* the mode keeps one *entry* a
number: a lazy uniform, noise for a race, or a plain number. So a view (a row, a reshape, a transpose) is on
the same storage and is followed without a word of code. A copy is followed by running the same operation on
*handles*, whole numbers that stand for entries. A comparison with thresholds is made entry by entry, and each
may split the path. Whatever else reaches a draw is refused, by name; that includes what runs below the
functions of torch, inside TorchScript or vmap, which a second mode watches.

Numbers of the program are rounded as torch would round them, to the dtype in which an operation computes. A
draw itself is not rounded: uniforms are ideal, and float16 and bfloat16 ones, far from it, are refused.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from specdecode.adapters.races import LogUniform, Noise, choose, winner
from specdecode.paths import Inexact, LazyUniform, NotReproducible, Path, TooLarge

__all__ = ["Draws"]

_MAX_CHOICES = 1000  # tokens of positive probability in one row
_NARROW = (torch.float16, torch.bfloat16)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COMPARISONS = {"lt": "less", "gt": "greater", "le": "less_equal", "ge": "greater_equal"}
_COMPARISONS |= {full: full for full in _COMPARISONS.values()} | {
    f"__{short}__": full for short, full in _COMPARISONS.items()
}
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "neg": np.negative,
    "log": np.frompyfunc(lambda entry: _log(entry), 1, 1),
    "reciprocal": np.frompyfunc(lambda entry: 1 / entry, 1, 1),
    "rsub": lambda a, b: np.subtract(b, a),
    "rdiv": lambda a, b: np.true_divide(b, a),
}
_SPELLINGS = {
    "add": "__add__ __radd__ add_ __iadd__",
    "sub": "subtract __sub__ sub_ subtract_ __isub__",
    "mul": "multiply __mul__ __rmul__ mul_ multiply_ __imul__",
    "div": "divide true_divide __div__ __truediv__ div_ divide_ true_divide_ __idiv__ __itruediv__",
    "neg": "negative __neg__ neg_ negative_",
    "log": "log_",
    "reciprocal": "reciprocal_",
    "rsub": "__rsub__",
    "rdiv": "__rdiv__ __rtruediv__",
}
_OPERATION = {name: name for name in _ARITHMETIC}
_OPERATION |= {spelling: name for name, text in _SPELLINGS.items() for spelling in text.split()}
_LISTS = _names("cat concat concatenate stack hstack vstack broadcast_tensors")
_MOVES = _LISTS | _names(
    "view view_as reshape reshape_as ravel flatten unflatten squeeze unsqueeze atleast_1d atleast_2d "
    "transpose t permute movedim swapaxes swapdims diagonal expand expand_as broadcast_to narrow select "
    "split chunk unbind unfold as_strided alias detach contiguous clone __getitem__ gather index_select "
    "take_along_dim masked_select masked_fill where repeat tile repeat_interleave flip roll squeeze_ "
    "unsqueeze_ detach_"
)
_CONVERSIONS = _names("to type type_as float double half bfloat16 cpu long int floor trunc")
_SHAPE_ONLY = _names("zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full")
_METADATA = _names(
    "size dim ndimension numel nelement stride storage_offset is_floating_point is_complex is_signed "
    "get_device is_contiguous element_size data_ptr untyped_storage result_type can_cast __len__ __hash__ "
    "_has_compatible_shallow_copy_type"
)
_NOT_FOLLOWED = _names(
    "randn randn_like normal normal_ randperm randint_like random_ poisson binomial cauchy_ log_normal_ "
    "geometric_"
)
_INITIALISERS = _names(
    "uniform_ normal_ trunc_normal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ "
    "orthogonal_ sparse_"
)
_MIRRORS = _names("numpy __array__ __dlpack__")  # what gives the storage to others, too


def _log(entry: Any) -> Any:
    if isinstance(entry, LazyUniform):
        if (entry._scale, entry._shift) not in ((1, 0), (-1, 1)):
            entry._path.refuse("the logarithm of a uniform that had been scaled or shifted is not followed")
        return LogUniform(entry)
    return entry.log() if isinstance(entry, Noise) else math.log(entry) if entry > 0 else -math.inf


class _AsTorch(Exception):
    """Carries an error that torch itself raises, past what the mode makes of its own errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _Below(TorchDispatchMode):
    """Watches the operations under the functions of torch, where a draw must not arrive unseen."""

    def __init__(self, draws: "Draws") -> None:
        super().__init__()
        self._draws = draws

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._draws.watch(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


class Draws(TorchFunctionMode):
    """Answers the draws of torch from an rng; a context manager for one run of a program.

    Parameters
    ----------
    rng : specdecode.exact.LazyGenerator
        Its path is told of every refusal, so that a program that swallows one is not believed.

    Notes
    -----
    On leaving, tensors of the program's own that hold draws get back what they held before, and a generator
    that was seeded, or drawn from unseen, is told. Threads that the program starts are not watched.
    """

    def __init__(self, rng: Any) -> None:
        super().__init__()
        self._rng, self._path = rng, rng._path
        self._lazy = isinstance(rng._path, Path)
        self._inside = 0  # while the mode itself works
        self._table: dict[int, tuple[Any, np.ndarray, Any]] = {}  # address -> (tensor, entries, what it held)
        self._mirrored: dict[int, Any] = {}  # storages that NumPy sees, too
        self._left: dict[Any, Any] = {
            None: torch.get_rng_state()
        }  # states of generators, after their last draw
        self._used: set[bytes] = set()  # every state that a draw began from
        self._others = _states_of_others()
        self._below = _Below(self)

    def __enter__(self) -> "Draws":
        super().__enter__()
        self._below.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._below.__exit__(kind, error, trace)
        super().__exit__(kind, error, trace)
        for whole, entries, held in self._table.values():
            known = np.array([not _is_unknown(entry) for entry in entries])
            numbers = [float(entry) if sure else 0.0 for entry, sure in zip(entries, known)]
            whole.copy_(torch.where(torch.from_numpy(known), _rounded(numbers, whole.dtype), held))
        if error is None:
            if not torch.equal(self._left[None], torch.get_rng_state()):
                self._refuse_stray()
            if self._others != _states_of_others():
                self._path.refuse("it drew from Python's or NumPy's own generator; draw through torch alone")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        handler = self._handler(func, name, args, kwargs)
        if handler is None:
            if name in _MIRRORS:
                self._mirrored[_address(args[0])] = args[0]
            return func(*args, **kwargs)
        self._inside += 1
        try:
            for alias in ("input", "self"):
                if alias in kwargs and name not in ("where",):
                    args = (kwargs.pop(alias), *args)
            return handler(func, name, args, kwargs)
        except (Inexact, NotReproducible, TooLarge):
            raise
        except _AsTorch as carried:
            raise carried.error from None
        except Exception as error:
            self._path.refuse(
                f"torch.{name} called this way is not followed ({type(error).__name__}: {error})"
            )
        finally:
            self._inside -= 1

    def _handler(self, func: Any, name: str, args: Any, kwargs: Any) -> Callable[..., Any] | None:
        """What answers a call, or None where torch does."""
        if name in _DRAWS and func in (getattr(torch, name, None), getattr(torch.Tensor, name, None)):
            return getattr(self, f"_draw_{name}")
        if name in _INITIALISERS and getattr(func, "__module__", "") == "torch.nn.init":
            return self._initialised
        if name in _NOT_FOLLOWED or kwargs.get("generator") is not None:
            self._path.refuse(f"torch.{name} is not followed; {_FOLLOWED}")
        if not self._table or not any(self._is_lazy(tensor) for tensor in _tensors((args, kwargs))):
            return None
        if name in _METADATA or name in ("__get__", "__set__"):  # attributes: shape, dtype, .T, .data
            return self._natively
        return self._follow

    def watch(self, func: Any, args: Any, kwargs: Any) -> None:
        """Refuse an operation that has a draw in its hands and was not seen from above."""
        if self._inside or not self._table or func.__name__.split(".")[0] in ("detach", "alias", "view"):
            return
        if any(self._is_lazy(tensor) for tensor in _tensors((args, kwargs))):
            self._path.refuse(
                f"a draw went into {func} below the functions of torch, where it is not followed"
            )

    def _natively(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except Exception as error:
            raise _AsTorch(error) from error

    # Draws

    def _begin(self, tensor: Any, generator: Any = None) -> None:
        """Note a draw. The real generator is advanced too, so that a state used twice is seen."""
        if tensor.device.type != "cpu":
            self._path.refuse(
                f"a draw on the device {tensor.device} is not followed; run the program on the CPU"
            )
        if torch._C._functorch.peek_interpreter_stack() is not None:
            self._path.refuse("a draw inside vmap, or another transform of torch.func, is not followed")
        generator = None if generator is torch.default_generator else generator
        state = torch.get_rng_state() if generator is None else generator.get_state()
        if generator is None and not torch.equal(self._left[None], state):
            self._refuse_stray()
        if state.numpy().tobytes() in self._used:
            self._path.refuse("two draws began from the same state of a generator: a seed was used again")
        self._used.add(state.numpy().tobytes())
        torch.rand(1, generator=generator)
        self._left[generator] = torch.get_rng_state() if generator is None else generator.get_state()

    def _refuse_stray(self) -> NoReturn:
        self._path.refuse(f"it seeds torch's generator itself, or draws where it is not seen; {_FOLLOWED}")

    def _fresh(self, tensor: Any, make: Callable[[], Any], generator: Any) -> Any:
        """Write new draws into every place of a tensor."""
        if tensor.dtype in _NARROW:
            self._path.refuse(f"draws in {tensor.dtype} are far from ideal; draw in float32, or wider")
        if not tensor.is_floating_point():
            raise _AsTorch(RuntimeError(f"draws in {tensor.dtype} are not implemented"))
        if _address(tensor) in self._mirrored or not tensor.untyped_storage().resizable():
            self._path.refuse(
                "a draw was written into memory that NumPy sees, too; use a tensor of torch's own"
            )
        self._begin(tensor, generator)
        values = np.empty(tuple(tensor.shape), dtype=object)
        for place in np.ndindex(values.shape):
            values[place] = make()
        return self._write(tensor, values)

    def _uniform(self) -> Any:
        return self._rng.random()

    def _uniforms(self, tensor: Any, generator: Any, low: Any = 0, high: Any = 1) -> Any:
        width, shift = Fraction(float(high)) - Fraction(float(low)), Fraction(float(low))
        if width < 0:
            raise _AsTorch(RuntimeError(f"uniform_ expects from <= to, but got from={low} > to={high}"))

        def make() -> Any:
            u = _on_grid(self._uniform(), tensor.dtype)
            return u if (width, shift) == (1, 0) else u * width + shift

        return self._fresh(tensor, make, generator)

    def _draw_rand(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        generator = kwargs.pop("generator", None)
        return self._uniforms(self._natively(torch.empty, name, args, kwargs), generator)

    def _draw_rand_like(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        generator = kwargs.pop("generator", None)
        return self._uniforms(self._natively(torch.empty_like, name, args, kwargs), generator)

    def _draw_uniform_(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        tensor, low, high = _bound(args, kwargs, ("input", "from", "to"), (0.0, 1.0))
        return self._uniforms(tensor, kwargs.get("generator"), low, high)

    def _draw_exponential_(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        tensor, rate = _bound(args, kwargs, ("input", "lambd"), (1.0,))
        if not rate > 0:
            raise _AsTorch(RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate}"))
        least = torch.finfo(tensor.dtype).tiny if tensor.is_floating_point() else 0.0

        def make() -> Any:
            if self._lazy:
                return Noise(self._path) / rate
            return max(-math.log1p(-self._uniform()), least) / rate  # torch's noise is never 0

        return self._fresh(tensor, make, kwargs.get("generator"))

    def _initialised(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Weights are often drawn only to be overwritten. Until they are, any use of them is refused."""
        tensor = args[0] if args else kwargs["tensor"]
        make = (lambda: Noise(self._path, form="a weight")) if self._lazy else self._uniform
        return self._fresh(tensor, make, kwargs.get("generator"))

    def _draw_bernoulli(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        rows, p = _bound(args, kwargs, ("input", "p"), (None,))
        values = self._chances(rows if p is None else p, rows.shape)
        self._begin(rows, kwargs.get("generator"))
        coins = [float(self._uniform() < chance) for chance in values]
        return torch.tensor(coins, dtype=torch.float64).to(rows.dtype).reshape(rows.shape)

    def _draw_bernoulli_(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        tensor, p = _bound(args, kwargs, ("input", "p"), (0.5,))
        values = self._chances(p, tensor.shape)
        self._begin(tensor, kwargs.get("generator"))
        coins = np.empty(len(values), dtype=object)
        coins[:] = [float(self._uniform() < chance) for chance in values]
        return self._write(tensor, coins.reshape(tuple(tensor.shape)))

    def _chances(self, p: Any, shape: Any) -> list[float]:
        if self._is_lazy(p):
            self._refuse("torch.bernoulli of a draw")
        values = torch.as_tensor(p, dtype=torch.float64).expand(shape).flatten().tolist()
        if not all(0 <= chance <= 1 for chance in values):
            raise _AsTorch(RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false."))
        return values

    def _draw_randint(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        bounds = [int(kwargs.pop(name)) for name in ("low", "high") if name in kwargs]
        given = list(args)
        size = kwargs.pop("size", None)
        if size is None:
            size = given.pop()
        bounds = [int(bound) for bound in given] + bounds
        low, high = (0, *bounds) if len(bounds) == 1 else bounds
        generator = kwargs.pop("generator", None)
        if high <= low:
            raise _AsTorch(
                RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
            )
        drawn = self._natively(torch.empty, name, (size,), {"dtype": torch.int64, **kwargs})
        self._begin(drawn, generator)
        numbers = [low + int(self._uniform() * (high - low)) for _ in range(drawn.numel())]
        return drawn.copy_(torch.tensor(numbers, dtype=torch.int64).reshape(drawn.shape))

    def _draw_multinomial(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        rows, count, replace = _bound(args, kwargs, ("input", "num_samples", "replacement"), (False,))
        if self._is_lazy(rows):
            self._refuse("torch.multinomial on a row that holds a draw")
        if kwargs.get("out") is not None:
            self._refuse("torch.multinomial(out=…)")
        if not rows.is_floating_point() or rows.dim() not in (1, 2) or count <= 0:
            self._natively(torch.multinomial, name, (rows, count, replace), {})  # raises what torch raises
        self._begin(rows, kwargs.get("generator"))
        drawn = [self._choices(row, count, replace) for row in rows.reshape(-1, rows.shape[-1]).tolist()]
        return torch.tensor(drawn, dtype=torch.int64).reshape(*rows.shape[:-1], count)

    def _choices(self, row: list[float], count: int, replace: bool) -> list[int]:
        if not all(math.isfinite(entry) and entry >= 0 for entry in row):
            raise _AsTorch(RuntimeError("probability tensor contains either `inf`, `nan` or element < 0"))
        weights = [Fraction(entry) for entry in row]
        positive = sum(weight > 0 for weight in weights)
        if positive == 0:
            raise _AsTorch(RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)"))
        if not replace and positive < count:
            self._refuse("torch.multinomial without replacement of more tokens than have a chance")
        if positive > _MAX_CHOICES:
            self._path.refuse(
                f"a token is drawn from {positive} of positive probability, which makes {positive}ⁿ texts of "
                f"n tokens, and at most {_MAX_CHOICES} are followed in one draw; use a tiny random model of "
                f"the same class (vocab_size=3 in its config), or a top_k that leaves a few",
                TooLarge,
            )
        drawn = []
        for _ in range(count):
            drawn.append(choose(weights, self._uniform))
            if not replace:
                weights[drawn[-1]] = Fraction(0)
        return drawn

    # What follows a draw

    def _follow(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        if kwargs.get("out") is not None:
            self._refuse(f"torch.{name}(out=…)")
        if name in _COMPARISONS:
            return self._compared(name, args, kwargs)
        if name in _OPERATION:
            return self._computed(name, args, kwargs)
        if name in ("argmax", "argmin"):
            return self._raced(func, name, args, kwargs)
        if name in ("zero_", "fill_", "copy_"):
            value = args[1] if len(args) > 1 else kwargs.get("value", kwargs.get("src", 0))
            return self._write(args[0], np.broadcast_to(self._value(value), tuple(args[0].shape)))
        if name in ("__setitem__", "masked_fill_"):
            return self._assigned(name, *_bound(args, kwargs, ("input", "mask", "value"), ()))
        if name in ("searchsorted", "bucketize"):
            return self._searched(name, args, kwargs)
        if name == "item":
            return self._value(args[0]).item()
        if name == "tolist":
            return self._value(args[0]).tolist()
        if name in ("numpy", "__array__") and len(args) == 1:
            return self._value(args[0])
        if name in ("__repr__", "__format__", "__str__"):
            return "tensor(<draws>)"  # for a log; not to be read as a number
        if name in _SHAPE_ONLY:
            return self._natively(func, name, args, kwargs)
        if name in _CONVERSIONS:
            return self._converted(func, name, args, kwargs)
        if name in _MOVES:
            return self._moved(func, name, args, kwargs)
        return self._refuse(f"torch.{name}")

    def _refuse(self, what: str) -> NoReturn:
        self._path.refuse(
            f"{what} is not followed exactly; a draw may be compared with a threshold, moved about, scaled "
            f"and shifted by numbers, or race (row / exponential noise, logits + Gumbel noise, then argmax)"
        )

    def _compared(self, name: str, args: Any, kwargs: Any) -> Any:
        a, b = self._operands(args, kwargs)
        answer = getattr(np, _COMPARISONS[name])(a, b, dtype=object)
        return torch.from_numpy(np.array(answer, dtype=bool))

    def _computed(self, name: str, args: Any, kwargs: Any) -> Any:
        operands = self._operands(args, kwargs)
        values = np.asarray(_ARITHMETIC[_OPERATION[name]](*operands), dtype=object)
        if (name.endswith("_") and not name.endswith("__")) or name.startswith("__i"):
            return self._write(args[0], np.broadcast_to(values, tuple(args[0].shape)))
        return self._write(torch.empty(values.shape, dtype=_computes_in(args, kwargs)), values)

    def _operands(self, args: Any, kwargs: Any) -> list[np.ndarray]:
        """Entries of one or two operands, their numbers rounded to the dtype the operation computes in."""
        given = [*args, *(kwargs[name] for name in ("other",) if name in kwargs)]
        if len(given) > 2 or kwargs.get("alpha", 1) != 1 or kwargs.get("rounding_mode") is not None:
            self._refuse("arithmetic with alpha or rounding_mode")
        dtype = _computes_in(args, kwargs)
        if dtype in _NARROW:
            self._refuse(f"arithmetic in {dtype}")
        return [self._value(value, dtype) for value in given]

    def _raced(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        kwargs["dim"] = kwargs.pop("axis", kwargs.get("dim"))
        tensor, dim, keep = _bound(args, kwargs, ("input", "dim", "keepdim"), (None, False))
        values = self._value(tensor)
        rows = values.reshape(-1) if dim is None else np.moveaxis(values, dim, -1)
        found = np.empty(rows.shape[:-1], dtype=np.int64)
        for place in np.ndindex(found.shape):
            entries = list(rows[place])
            if any(isinstance(entry, (LazyUniform, LogUniform)) for entry in entries):
                self._refuse(f"torch.{name} of uniforms")
            if any(isinstance(entry, Noise) for entry in entries):
                found[place] = winner(entries, self._uniform, largest=name == "argmax")
            else:  # a greedy row among random ones
                found[place] = int(getattr(torch, name)(torch.tensor(entries, dtype=torch.float64)))
        index = torch.from_numpy(np.asarray(found))
        if keep:
            index = index.reshape([1] * tensor.dim()) if dim is None else index.unsqueeze(dim)
        return index

    def _searched(self, name: str, args: Any, kwargs: Any) -> Any:
        """Inverse CDF: how many boundaries of a sorted row lie below each uniform. Ties have no mass."""
        names = ("input", "sorted_sequence") if name == "bucketize" else ("sorted_sequence", "input")
        first, second = _bound(args, kwargs, names, ())
        bounds, uniforms = (second, first) if name == "bucketize" else (first, second)
        if self._is_lazy(bounds) or not isinstance(uniforms, torch.Tensor):
            self._refuse(f"torch.{name} among draws")
        edges, values = self._value(bounds, uniforms.dtype), self._value(uniforms)
        found = np.empty(values.shape, dtype=np.int64)
        for place in np.ndindex(values.shape):
            row = list(edges if edges.ndim == 1 else edges[place[:-1]])
            low, high = 0, len(row)
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if values[place] < row[middle] else (middle + 1, high)
            found[place] = low
        return torch.from_numpy(found)

    def _converted(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        result = self._natively(func, name, args, kwargs)
        if not isinstance(result, torch.Tensor) or self._is_lazy(result):
            return result
        if result.device.type != "cpu" or result.dtype in _NARROW or result.dtype == torch.bool:
            self._refuse(f"a draw turned to {result.dtype} on {result.device}")
        values = self._value(args[0]).copy()
        if name in ("floor", "trunc") or not result.is_floating_point():
            whole = math.floor if name == "floor" else int
            values = np.frompyfunc(whole, 1, 1)(values)
        return self._write(result, np.asarray(values, dtype=object))

    # Copies: the same operation on a tensor of handles, each the number of an entry.

    def _moved(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        natively = self._natively(func, name, args, kwargs)
        given = {_address(tensor) for tensor in _tensors((args, kwargs))}
        copies = [out for out in _tensors(natively) if out.numel() and _address(out) not in given]
        if not copies:
            return natively  # views, of draws or of plain tensors
        table: list[Any] = []

        def handles(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)(handles(part) for part in value)
            return self._handles(value, table)

        if name in _LISTS:
            handled = func(*map(handles, args[:1]), *args[1:], **_each(kwargs, "tensors", handles))
        elif name == "where":
            condition, a, b = _bound(args, kwargs, ("condition", "input", "other"), ())
            if func is torch.Tensor.where:
                condition, a = a, condition
            handled = torch.where(condition, handles(a), handles(b))
        elif name == "masked_fill":
            tensor, mask, value = _bound(args, kwargs, ("input", "mask", "value"), ())
            handled = torch.where(mask, handles(value), handles(tensor))
        else:
            handled = func(handles(args[0]), *args[1:], **kwargs)
        entries = _as_entries(table)
        for out, handle in zip(_tensors(natively), _tensors(handled)):
            if any(out is copy for copy in copies):
                self._write(out, np.asarray(entries[handle.numpy()], dtype=object).reshape(tuple(out.shape)))
        return natively

    def _handles(self, value: Any, table: list[Any]) -> Any:
        values = self._value(value)
        first = len(table)
        table.extend(values.flat)
        return torch.arange(first, len(table)).reshape(tuple(values.shape))

    def _assigned(self, name: str, tensor: Any, where: Any, value: Any) -> Any:
        table: list[Any] = []
        target, source = self._handles(tensor, table), self._handles(value, table)
        where = where.expand(tensor.shape) if name == "masked_fill_" else where
        self._natively(torch.Tensor.__setitem__, name, (target, where, source), {})
        self._write(tensor, _as_entries(table)[target.numpy()])
        return tensor if name == "masked_fill_" else None

    # The table of entries

    def _is_lazy(self, tensor: Any) -> bool:
        return isinstance(tensor, torch.Tensor) and _address(tensor) in self._table

    def _value(self, value: Any, dtype: Any = None) -> np.ndarray:
        """The entries of a tensor in its shape, or of a number; numbers rounded to a dtype if given one."""
        if not isinstance(value, torch.Tensor):
            found = np.array(value, dtype=object)
        elif value.device.type != "cpu":
            self._path.refuse(f"a tensor on the device {value.device} met a draw; run the program on the CPU")
        elif _address(value) not in self._table:
            plain = value.detach()
            plain = plain.double() if plain.is_floating_point() else plain
            found = np.array(plain.tolist(), dtype=object).reshape(tuple(value.shape))
        else:
            owner, entries, _ = self._table[_address(value)]
            if owner.dtype != value.dtype:
                self._refuse("a view of a draw as another dtype")
            steps = [step * entries.itemsize for step in value.stride()]
            here = entries[value.storage_offset() :]
            found = np.lib.stride_tricks.as_strided(here, tuple(value.shape), steps)
        return found if dtype is None else _rounded_entries(found, dtype)

    def _write(self, tensor: Any, values: np.ndarray) -> Any:
        """Put entries into a tensor: numbers into its storage, the rest into the table."""
        if not tensor.numel():
            return tensor
        values = _rounded_entries(np.asarray(values, dtype=object).reshape(tuple(tensor.shape)), tensor.dtype)
        lazy = any(_is_unknown(entry) for entry in values.flat)
        if not lazy and not self._is_lazy(tensor):
            numbers = torch.tensor([float(entry) for entry in values.flat], dtype=torch.float64)
            tensor.detach().copy_(numbers.reshape(tensor.shape))
            return tensor
        if not self._is_lazy(tensor):
            whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.detach().untyped_storage())
            self._table[_address(tensor)] = (whole, _as_entries(whole.double().tolist()), whole.clone())
        self._value(tensor)[...] = values
        tensor.detach().fill_(math.nan)
        whole, entries, _ = self._table[_address(tensor)]
        if not any(_is_unknown(entry) for entry in entries):  # the last draw in it has been overwritten
            del self._table[_address(tensor)]
            whole.copy_(torch.tensor(entries.tolist(), dtype=torch.float64))
        return tensor


_DRAWS = tuple(name.removeprefix("_draw_") for name in vars(Draws) if name.startswith("_draw_"))
_FOLLOWED = f"followed are {', '.join(_DRAWS)}"


def _bound(args: Any, kwargs: Any, names: Sequence[str], defaults: Sequence[Any]) -> list[Any]:
    """Arguments in the order of their names, those left out from the end taken from `defaults`."""
    found, first = list(args), len(names) - len(defaults)
    for i in range(len(found), len(names)):
        if names[i] in kwargs:
            found.append(kwargs[names[i]])
        elif i >= first:
            found.append(defaults[i - first])
        else:
            raise TypeError(f"missing {names[i]}")
    if len(found) > len(names):
        raise TypeError(f"{len(found)} arguments; want at most {len(names)}")
    return found


def _each(kwargs: dict[str, Any], name: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    return {key: change(value) if key == name else value for key, value in kwargs.items()}


def _as_entries(values: Sequence[Any]) -> np.ndarray:
    entries = np.empty(len(values), dtype=object)
    entries[:] = values
    return entries


def _is_unknown(entry: Any) -> bool:
    return isinstance(entry, (LazyUniform, LogUniform, Noise))


def _rounded(numbers: Sequence[Any], dtype: Any) -> Any:
    return torch.tensor([float(number) for number in numbers], dtype=torch.float64).to(dtype)


def _rounded_entries(values: np.ndarray, dtype: Any) -> np.ndarray:
    """The same entries, the plain numbers among them rounded to a dtype."""
    plain = [not _is_unknown(entry) for entry in values.flat]
    if not any(plain) or not dtype.is_floating_point:
        return values
    rounded = _as_entries(list(values.flat))
    rounded[plain] = _rounded(rounded[plain], dtype).double().tolist()
    return rounded.reshape(values.shape)


def _computes_in(args: Any, kwargs: Any) -> Any:
    """The dtype in which torch computes with these operands."""
    given = [*args, *(kwargs[name] for name in ("other",) if name in kwargs)]
    dtype = given[0].dtype if len(given) == 1 else torch.result_type(*given[:2])
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def _address(tensor: Any) -> int:
    """The address of a tensor's storage; 0 for what has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # sparse and other tensors without a storage
        return 0


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _on_grid(uniform: Any, dtype: Any) -> Any:
    """A plain uniform as torch would have drawn it in this dtype, below 1; a lazy one as it is."""
    if isinstance(uniform, LazyUniform):
        return uniform
    scale = 2.0 ** (24 if dtype == torch.float32 else 53)
    return math.floor(uniform * scale) / scale


def _states_of_others() -> tuple[Any, Any]:
    state = np.random.get_state(legacy=True)
    return random.getstate(), (state[1].tobytes(), state[2:])
