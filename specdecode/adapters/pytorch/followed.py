"""What a program may do with a draw: compare, compute, race, move, convert, and read out.

A comparison with thresholds is made entry by entry, and each may split the path. Whatever is not here is
refused, by name.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from specdecode.adapters.pytorch import names
from specdecode.adapters.pytorch.calls import Call, address, natively, refuse_use, tensors
from specdecode.adapters.pytorch.entries import NARROW, Entries, array_of
from specdecode.adapters.pytorch.races import LogUniform, Noise, winner
from specdecode.exact.uniforms import LazyUniform

__all__ = ["Followed"]


class Followed:
    """Follows the operations of one run that a draw goes into.

    Parameters
    ----------
    path : Path
        Told of every refusal.
    entries : Entries
    uniform : callable
        () -> a uniform, for the winner of a race.
    """

    def __init__(self, path: Any, entries: Entries, uniform: Callable[[], Any]) -> None:
        self._path, self._entries, self._uniform = path, entries, uniform

    def follow(self, call: Call) -> Any:
        """What the call gives, with the draws in it still draws."""
        if call.kwargs.get("out") is not None:
            refuse_use(self._path, f"torch.{call.name}(out=…)")
        handler = _HANDLERS.get(call.name)
        return refuse_use(self._path, f"torch.{call.name}") if handler is None else handler(self, call)

    def _compared(self, call: Call) -> Any:
        a, b = self._operands(call)
        answer = getattr(np, names.COMPARISONS[call.name])(a, b, dtype=object)
        return torch.from_numpy(np.array(answer, dtype=bool))

    def _computed(self, call: Call) -> Any:
        values = np.asarray(_ARITHMETIC[names.ARITHMETIC[call.name]](*self._operands(call)), dtype=object)
        if (call.name.endswith("_") and not call.name.endswith("__")) or call.name.startswith("__i"):
            return self._filled(call.args[0], values)
        return self._entries.write(torch.empty(values.shape, dtype=_computes_in(call)), values)

    def _operands(self, call: Call) -> list[NDArray[Any]]:
        """Entries of one or two operands, their numbers rounded to the dtype the operation computes in."""
        given = _given(call)
        if len(given) > 2 or call.kwargs.get("alpha", 1) != 1 or call.kwargs.get("rounding_mode") is not None:
            refuse_use(self._path, "arithmetic with alpha or rounding_mode")
        dtype = _computes_in(call)
        if dtype in NARROW:
            refuse_use(self._path, f"arithmetic in {dtype}")
        return [self._entries.read(value, dtype) for value in given]

    def _raced(self, call: Call) -> Any:
        call.kwargs["dim"] = call.kwargs.pop("axis", call.kwargs.get("dim"))
        tensor, dim, keep = call.bound("input", "dim", "keepdim", defaults=(None, False))
        values = self._entries.read(tensor)
        rows = values.reshape(-1) if dim is None else np.moveaxis(values, dim, -1)
        found = np.empty(rows.shape[:-1], dtype=np.int64)
        for place in np.ndindex(found.shape):
            entries = list(rows[place])
            if any(isinstance(entry, (LazyUniform, LogUniform)) for entry in entries):
                refuse_use(self._path, f"torch.{call.name} of uniforms")
            if any(isinstance(entry, Noise) for entry in entries):
                found[place] = winner(entries, self._uniform, largest=call.name == "argmax")
            else:  # a greedy row among random ones
                found[place] = int(getattr(torch, call.name)(torch.tensor(entries, dtype=torch.float64)))
        index = torch.from_numpy(np.asarray(found))
        if keep:
            index = index.reshape([1] * tensor.dim()) if dim is None else index.unsqueeze(dim)
        return index

    def _searched(self, call: Call) -> Any:
        """Inverse CDF: how many boundaries of a sorted row lie below each uniform."""
        if call.kwargs.get("sorter") is not None:
            refuse_use(self._path, f"torch.{call.name} with a sorter")
        order = ("input", "boundaries") if call.name == "bucketize" else ("sorted_sequence", "input")
        first, second = call.bound(*order)
        bounds, uniforms = (second, first) if call.name == "bucketize" else (first, second)
        if self._entries.hold(bounds) or not isinstance(uniforms, torch.Tensor):
            refuse_use(self._path, f"torch.{call.name} among draws")
        edges, values = self._entries.read(bounds, uniforms.dtype), self._entries.read(uniforms)
        # A draw ties with no boundary; a number that was written among the draws may.
        right = call.kwargs.get("right") or call.kwargs.get("side") == "right"
        search = bisect_right if right else bisect_left
        found = np.empty(values.shape, dtype=np.int32 if call.kwargs.get("out_int32") else np.int64)
        for place in np.ndindex(values.shape):
            found[place] = search(edges if edges.ndim == 1 else edges[place[:-1]], values[place])
        return torch.from_numpy(found)

    # Copies and writes

    def _moved(self, call: Call) -> Any:
        result = call.natively()
        given = {address(tensor) for tensor in tensors((call.args, call.kwargs))}
        copies = [out for out in tensors(result) if out.numel() and address(out) not in given]
        if not copies:
            return result  # views, of draws or of plain tensors
        table: list[Any] = []
        moved = self._moved_handles(call, table)
        entries = array_of(table)
        for out, handles in zip(tensors(result), tensors(moved)):
            if any(out is copy for copy in copies):
                self._entries.write(out, entries[handles.numpy()])
        return result

    def _moved_handles(self, call: Call, table: list[Any]) -> Any:
        """What the call makes of handles; plain operands get some, too."""

        def handles(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)(handles(part) for part in value)
            return self._entries.handles(value, table)

        if call.name in names.LISTS:
            named = {
                name: handles(value) if name == "tensors" else value for name, value in call.kwargs.items()
            }
            return call.function(*map(handles, call.args[:1]), *call.args[1:], **named)
        if call.name == "where":
            condition, a, b = call.bound("condition", "input", "other")
            if call.function is torch.Tensor.where:
                condition, a = a, condition
            return torch.where(condition, handles(a), handles(b))
        if call.name == "masked_fill":
            tensor, mask, value = call.bound("input", "mask", "value")
            return torch.where(mask, handles(value), handles(tensor))
        return call.function(handles(call.args[0]), *call.args[1:], **call.kwargs)

    def _assigned(self, call: Call) -> Any:
        tensor, where, value = call.bound("input", "mask", "value")
        table: list[Any] = []
        target, source = self._entries.handles(tensor, table), self._entries.handles(value, table)
        where = where.expand(tensor.shape) if call.name == "masked_fill_" else where
        natively(torch.Tensor.__setitem__, target, where, source)
        self._entries.write(tensor, array_of(table)[target.numpy()])
        return tensor if call.name == "masked_fill_" else None

    def _overwritten(self, call: Call) -> Any:
        value = call.args[1] if len(call.args) > 1 else call.kwargs.get("value", call.kwargs.get("src", 0))
        return self._filled(call.args[0], self._entries.read(value))

    def _filled(self, tensor: Any, values: NDArray[Any]) -> Any:
        return self._entries.write(tensor, np.broadcast_to(values, tuple(tensor.shape)))

    def _converted(self, call: Call) -> Any:
        result = call.natively()
        if not isinstance(result, torch.Tensor) or self._entries.hold(result):
            return result
        if result.device.type != "cpu" or result.dtype in NARROW or result.dtype == torch.bool:
            refuse_use(self._path, f"a draw turned to {result.dtype} on {result.device}")
        values = self._entries.read(call.args[0])
        if call.name in ("floor", "trunc") or not result.is_floating_point():
            values = np.frompyfunc(math.floor if call.name == "floor" else int, 1, 1)(values)
        return self._entries.write(result, values)

    # Read out

    def _told(self, call: Call) -> Any:
        return getattr(self._entries.read(call.args[0]), call.name)()

    def _as_numpy(self, call: Call) -> Any:
        if len(call.args) > 1:
            return refuse_use(self._path, f"torch.{call.name}")
        return self._entries.read(call.args[0])

    def _shown(self, call: Call) -> str:
        return "tensor(<draws>)"  # for a log; not to be read as a number


def _handlers() -> dict[str, Callable[[Followed, Call], Any]]:
    groups: list[tuple[Callable[[Followed, Call], Any], Iterable[str]]] = [
        (Followed._moved, names.MOVES),
        (Followed._converted, names.CONVERSIONS),
        (lambda _, call: call.natively(), names.METADATA | names.SHAPE_ONLY),
        (Followed._shown, ("__repr__", "__format__", "__str__")),
        (Followed._as_numpy, ("numpy", "__array__")),
        (Followed._told, ("item", "tolist")),
        (Followed._searched, ("searchsorted", "bucketize")),
        (Followed._assigned, ("__setitem__", "masked_fill_")),
        (Followed._overwritten, ("zero_", "fill_", "copy_")),
        (Followed._raced, ("argmax", "argmin")),
        (Followed._computed, names.ARITHMETIC),
        (Followed._compared, names.COMPARISONS),
    ]
    return {name: handler for handler, group in groups for name in group}


_HANDLERS = _handlers()


def _log(entry: Any) -> Any:
    if isinstance(entry, LazyUniform):
        if (entry._scale, entry._shift) not in ((1, 0), (-1, 1)):
            entry._path.refuse("the logarithm of a uniform that had been scaled or shifted is not followed")
        return LogUniform(entry)
    return entry.log() if isinstance(entry, Noise) else math.log(entry) if entry > 0 else -math.inf


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "neg": np.negative,
    "log": np.frompyfunc(_log, 1, 1),
    "reciprocal": np.frompyfunc(lambda entry: 1 / entry, 1, 1),
    "rsub": lambda a, b: np.subtract(b, a),
    "rdiv": lambda a, b: np.true_divide(b, a),
}


def _given(call: Call) -> list[Any]:
    return [*call.args, *(call.kwargs[name] for name in ("other",) if name in call.kwargs)]


def _computes_in(call: Call) -> Any:
    """The dtype in which torch computes with these operands."""
    given = _given(call)
    dtype = given[0].dtype if len(given) == 1 else torch.result_type(*given[:2])
    return dtype if dtype.is_floating_point else torch.get_default_dtype()
