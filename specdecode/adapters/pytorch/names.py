"""The functions of torch by what they do to a draw. What is in no list here is refused.

A function has many spellings (`torch.lt`, `Tensor.less`, `Tensor.__lt__`), and a mode is told the spelling.
"""

__all__ = [
    "ARITHMETIC",
    "COMPARISONS",
    "CONVERSIONS",
    "DRAWS",
    "FOLLOWED",
    "INITIALISERS",
    "LISTS",
    "METADATA",
    "MIRRORS",
    "MOVES",
    "NOT_FOLLOWED",
    "SHAPE_ONLY",
]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


DRAWS = ("rand", "rand_like", "uniform_", "exponential_", "bernoulli", "bernoulli_", "randint", "multinomial")
FOLLOWED = f"followed are {', '.join(DRAWS)}"
NOT_FOLLOWED = _names(
    "randn randn_like normal normal_ randperm randint_like random_ poisson binomial cauchy_ log_normal_ "
    "geometric_"
)
INITIALISERS = _names(
    "uniform_ normal_ trunc_normal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ "
    "orthogonal_ sparse_"
)

# spelling -> the function of NumPy
COMPARISONS = {"lt": "less", "gt": "greater", "le": "less_equal", "ge": "greater_equal"}
COMPARISONS |= {full: full for full in COMPARISONS.values()} | {
    f"__{short}__": full for short, full in COMPARISONS.items()
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
# spelling -> operation
ARITHMETIC = {name: name for name in _SPELLINGS}
ARITHMETIC |= {spelling: name for name, text in _SPELLINGS.items() for spelling in text.split()}

LISTS = _names("cat concat concatenate stack hstack vstack broadcast_tensors")  # moves of a list of tensors
MOVES = LISTS | _names(
    "view view_as reshape reshape_as ravel flatten unflatten squeeze unsqueeze atleast_1d atleast_2d "
    "transpose t permute movedim swapaxes swapdims diagonal expand expand_as broadcast_to narrow select "
    "split chunk unbind unfold as_strided alias detach contiguous clone __getitem__ gather index_select "
    "take_along_dim masked_select masked_fill where repeat tile repeat_interleave flip roll squeeze_ "
    "unsqueeze_ detach_"
)
CONVERSIONS = _names("to type type_as float double half bfloat16 cpu long int floor trunc")
SHAPE_ONLY = _names("zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full")
METADATA = _names(
    "size dim ndimension numel nelement stride storage_offset is_floating_point is_complex is_signed "
    "get_device is_contiguous element_size data_ptr untyped_storage result_type can_cast __len__ __hash__ "
    "_has_compatible_shallow_copy_type __get__ __set__"  # attributes: shape, dtype, .T, .data
)
MIRRORS = _names("numpy __array__ __dlpack__")  # what gives the storage to others, too
