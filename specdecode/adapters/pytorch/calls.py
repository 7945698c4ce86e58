"""One call of a function of torch: its operands, by whatever names, and how torch itself would answer it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

__all__ = ["Call", "TorchError", "address", "bound", "natively", "refuse_use", "tensors"]


class Call(NamedTuple):
    """What a program asked of torch.

    Parameters
    ----------
    function : callable
    name : str
        Its name, as in `specdecode.adapters.pytorch.names`.
    args : tuple
        The tensor that it is called on comes first.
    kwargs : dict
    """

    function: Callable[..., Any]
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @classmethod
    def made(cls, function: Callable[..., Any], name: str, args: Any, kwargs: Mapping[str, Any]) -> "Call":
        """The call, its first tensor put first where it came by name."""
        args, kwargs = tuple(args), dict(kwargs)
        for alias in ("input", "self"):
            if alias in kwargs and name not in ("where", "searchsorted"):  # there it is the second
                args = (kwargs.pop(alias), *args)
        return cls(function, name, args, kwargs)

    def bound(self, *names: str, defaults: Sequence[Any] = ()) -> list[Any]:
        """Its arguments in this order; see `bound`."""
        return bound(self.args, self.kwargs, names, defaults)

    def natively(self) -> Any:
        """What torch itself answers."""
        return natively(self.function, *self.args, **self.kwargs)


class TorchError(Exception):
    """Carries an error that torch itself raises, past what the mode makes of its own errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def natively(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What torch answers to a call; its errors are the program's."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise TorchError(error) from error


def bound(
    args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str], defaults: Sequence[Any] = ()
) -> list[Any]:
    """Arguments in the order of their names, those left out from the end taken from `defaults`.

    Examples
    --------
    >>> bound((1,), {"high": 3}, ("low", "middle", "high"), defaults=(2, 4))
    [1, 2, 3]
    """
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


def address(tensor: Any) -> int:
    """The address of a tensor's storage; 0 for what has none."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # sparse and other tensors without a storage
        return 0


def tensors(value: Any) -> Iterator[Any]:
    """All tensors in arguments, or in a result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def refuse_use(path: Any, what: str) -> Any:
    """Refuse a use of a draw, by name, and say which uses there are; never returns."""
    return path.refuse(
        f"{what} is not followed exactly; a draw may be compared with a threshold, moved about, scaled "
        f"and shifted by numbers, or race (row / exponential noise, logits + Gumbel noise, then argmax)"
    )
