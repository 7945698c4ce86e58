"""Any causal language model from the library transformers, as a `Model`.

The adapter asks the library for logits and nothing else: temperature and filters are applied by this package
(`specdecode.sampling`), so that what a row is does not depend on anyone's generation settings. The cache
follows the tokens, as everywhere here: a pass keeps what it shares with the tokens of the pass before, and
a cache that cannot be cut back (sliding windows, recurrent states) is thrown away instead.

To certify `model.generate` itself, see `specdecode.adapters.pytorch`.

Needs the extra `transformers`:
    pip install 'specdecode[transformers]' --extra-index-url https://download.pytorch.org/whl/cpu
"""

from typing import Any

import numpy as np

from specdecode.checks import TokenIds, as_count, as_tokens
from specdecode.models import common_prefix

_INSTALL = "pip install 'specdecode[transformers]' --extra-index-url https://download.pytorch.org/whl/cpu"

try:
    import torch
    import transformers
except ImportError as error:
    raise ImportError(f"models of transformers need it and torch: {_INSTALL}") from error
if tuple(int(part) for part in transformers.__version__.split(".")[:2]) < (5, 24):
    raise ImportError(f"transformers is {transformers.__version__}; want 5.24 or newer: {_INSTALL}")

from transformers.cache_utils import DynamicCache, DynamicLayer  # noqa: E402 - older versions have another

__all__ = ["TransformersModel"]


class TransformersModel:
    """A causal language model of transformers, as a pure function of its prefix.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A decoder with a language-model head, in evaluation mode, on any device. It is not changed.

    Attributes
    ----------
    vocab_size : int
        V, the width of its logits.

    Raises
    ------
    ValueError
        If it is an encoder–decoder, or in training mode, where dropout would make it random.

    Guarantee
    ---------
    The same tokens give the same rows up to float32 rounding of the library's own passes: a pass over several
    positions and several passes of one add up in another order. Logits are taken to float32, then to float64,
    and the softmax is done there.

    Examples
    --------
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    >>> model = TransformersModel(LlamaForCausalLM(LlamaConfig(vocab_size=3, **sizes)).eval())
    >>> model.next_dists([0, 1, 2], 2).shape
    (2, 3)
    """

    def __init__(self, model: Any) -> None:
        if not hasattr(getattr(model, "config", None), "is_encoder_decoder"):
            raise ValueError(f"model is a {type(model).__name__}; want a PreTrainedModel of transformers")
        if model.config.is_encoder_decoder:
            raise ValueError(f"{type(model).__name__} is an encoder–decoder; want a causal language model")
        if model.training:
            raise ValueError(
                f"{type(model).__name__} is in training mode, where it is random; call model.eval()"
            )
        self.vocab_size = int(model.config.get_text_config().vocab_size)
        self._model = model
        self._keeps = {"logits_to_keep"} if model._supports_logits_to_keep() else set()
        self._forget()

    def fresh(self) -> "TransformersModel":
        """The same model with a cache of its own, for another sequence."""
        return TransformersModel(self._model)

    def next_dist(self, prefix: TokenIds) -> np.ndarray:
        """Distribution of the next token, shape (V,)."""
        row: np.ndarray = self.next_dists(prefix, 1)[0]
        return row

    def next_dists(self, tokens: TokenIds, n: int) -> np.ndarray:
        """Rows after each of the last n prefixes, shape (n, V), in one pass.

        Raises
        ------
        ValueError
            If there are fewer than n tokens, or one is outside the vocabulary.
        """
        tokens, n = as_tokens(tokens, "tokens", self.vocab_size), as_count(n, "n", least=1)
        if len(tokens) < n:
            raise ValueError(f"{len(tokens)} tokens for {n} rows; want at least one token for each")
        cache, kept = self._cut_back(tokens, n)
        self._forget()  # a pass that fails leaves a cache nobody should trust
        options = dict.fromkeys(self._keeps, n)
        ids = torch.tensor([tokens[kept:]], device=self._model.device)
        with torch.inference_mode():
            logits = self._model(input_ids=ids, cache=cache, use_cache=True, **options).logits[0, -n:]
            rows: np.ndarray = logits.float().double().softmax(dim=-1).cpu().numpy()
        self._cache, self._tokens = cache, tokens
        return rows

    def _forget(self) -> None:
        self._cache, self._tokens = DynamicCache(config=self._model.config), []

    def _cut_back(self, tokens: list[int], n: int) -> tuple[Any, int]:
        """The cache of what these tokens share with the last ones, and how many that is."""
        kept = min(common_prefix(tokens, self._tokens), len(tokens) - n)
        surplus = len(self._tokens) - kept
        if surplus:
            if not all(type(layer) is DynamicLayer for layer in self._cache.layers):
                return DynamicCache(config=self._model.config), 0
            self._cache.crop(-surplus)
        return self._cache, kept
