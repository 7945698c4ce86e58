"""What is known of the numbers in tensors that hold draws.

A tensor of draws is an ordinary tensor, filled with NaN. For its *storage* one *entry* a number is kept: a
lazy uniform, noise for a race, or a plain number. So a view (a row, a reshape, a transpose) is on the same
storage and is followed without a word of code. A copy is followed by running the same operation on *handles*,
whole numbers that stand for entries.

Numbers are rounded as torch would round them, to the dtype in which an operation computes. A draw itself is
not rounded: uniforms are ideal.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from specdecode.adapters.pytorch.calls import address, refuse_use
from specdecode.adapters.pytorch.races import LogUniform, Noise
from specdecode.exact.uniforms import LazyUniform

__all__ = ["NARROW", "Entries", "array_of", "is_unknown"]

NARROW = (torch.float16, torch.bfloat16)  # uniforms on so coarse a grid are far from ideal


class _Storage(NamedTuple):
    whole: Any  # a tensor of all of it
    entries: NDArray[Any]
    before: Any  # its numbers, before the first draw was written into it


class Entries:
    """The entries of all storages that hold a draw; its length is how many there are.

    Parameters
    ----------
    path : Path
        Told of every refusal.
    """

    def __init__(self, path: Any) -> None:
        self._path = path
        self._storages: dict[int, _Storage] = {}  # by address
        self._shared: dict[int, Any] = {}  # storages that NumPy sees, too

    def __len__(self) -> int:
        return len(self._storages)

    def hold(self, value: Any) -> bool:
        """Whether a tensor is on a storage that holds a draw."""
        return isinstance(value, torch.Tensor) and address(value) in self._storages

    def share(self, tensor: Any) -> None:
        """Note that others see the storage of this tensor."""
        self._shared[address(tensor)] = tensor

    def shared(self, tensor: Any) -> bool:
        """Whether others see its storage."""
        return address(tensor) in self._shared or not tensor.untyped_storage().resizable()

    def read(self, value: Any, dtype: Any = None) -> NDArray[Any]:
        """The entries of a tensor in its shape, or of a number; numbers rounded to a dtype if given one."""
        if not isinstance(value, torch.Tensor):
            found = np.array(value, dtype=object)
        elif value.device.type != "cpu":
            self._path.refuse(f"a tensor on the device {value.device} met a draw; run the program on the CPU")
        elif not self.hold(value):
            plain = value.detach()
            plain = plain.double() if plain.is_floating_point() else plain
            found = np.array(plain.tolist(), dtype=object).reshape(tuple(value.shape))
        else:
            storage = self._storages[address(value)]
            if storage.whole.dtype != value.dtype:
                refuse_use(self._path, "a view of a draw as another dtype")
            steps = [step * storage.entries.itemsize for step in value.stride()]
            here = storage.entries[int(value.storage_offset()) :]
            found = np.lib.stride_tricks.as_strided(here, tuple(value.shape), steps)
        return found if dtype is None else _rounded(found, dtype)

    def write(self, tensor: Any, values: Any) -> Any:
        """Put entries into a tensor: numbers into its storage, the rest here; returns the tensor."""
        if not tensor.numel():
            return tensor
        values = _rounded(np.asarray(values, dtype=object).reshape(tuple(tensor.shape)), tensor.dtype)
        if not self.hold(tensor):
            if not any(is_unknown(entry) for entry in values.flat):
                numbers = torch.tensor([float(entry) for entry in values.flat], dtype=torch.float64)
                tensor.detach().copy_(numbers.reshape(tensor.shape))
                return tensor
            whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.detach().untyped_storage())
            entries = array_of(whole.double().tolist())
            self._storages[address(tensor)] = _Storage(whole, entries, whole.clone())
        self.read(tensor)[...] = values
        tensor.detach().fill_(math.nan)
        storage = self._storages[address(tensor)]
        if not any(is_unknown(entry) for entry in storage.entries):  # its last draw has been overwritten
            del self._storages[address(tensor)]
            storage.whole.copy_(torch.tensor(storage.entries.tolist(), dtype=torch.float64))
        return tensor

    def handles(self, value: Any, table: list[Any]) -> Any:
        """A tensor of the same shape that holds, in place of each entry, its index in the table."""
        values, first = self.read(value), len(table)
        table.extend(values.flat)
        return torch.arange(first, len(table)).reshape(tuple(values.shape))

    def give_back(self) -> None:
        """Put into every storage what it held before, in the places where there is a draw now."""
        for whole, entries, before in self._storages.values():
            known = torch.tensor([not is_unknown(entry) for entry in entries])
            numbers = [0.0 if is_unknown(entry) else entry for entry in entries]
            whole.copy_(torch.where(known, _as_tensor(numbers, whole.dtype), before))


def array_of(values: Sequence[Any]) -> NDArray[Any]:
    """A flat array of objects, whatever NumPy would make of them."""
    entries = np.empty(len(values), dtype=object)
    entries[:] = values
    return entries


def is_unknown(entry: Any) -> bool:
    """Whether an entry is a draw and not a plain number."""
    return isinstance(entry, (LazyUniform, LogUniform, Noise))


def _as_tensor(numbers: Iterable[Any], dtype: Any) -> Any:
    return torch.tensor([float(number) for number in numbers], dtype=torch.float64).to(dtype)


def _rounded(values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The same entries, the plain numbers among them rounded to a dtype."""
    plain = [not is_unknown(entry) for entry in values.flat]
    if not any(plain) or not dtype.is_floating_point:
        return values
    rounded = array_of(list(values.flat))
    rounded[plain] = _as_tensor(rounded[plain], dtype).double().tolist()
    return rounded.reshape(values.shape)
