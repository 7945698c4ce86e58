"""What was found in released code: a block of the page prints what the page says, and a remedy is exact.

The faults are also kept as small programs that need no library.
"""

import contextlib
import inspect
import io
import re
import warnings
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest

from specdecode import verifiers
from specdecode.certify import certify, same_law
from specdecode.certify.worlds import DENSE, World
from specdecode.drafts import as_draft
from specdecode.models import RepetitionPenalty, next_rows
from specdecode.sampling import draw

PAGE = Path(__file__).parents[1] / "book" / "found-in-transformers.md"
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), flags=re.S)
ABOUT = "5.24.0"  # the version of transformers that the page is about


def test_the_page_has_a_block_for_each_finding():
    assert len(BLOCKS) == len(re.findall(r"(?m)^## ", PAGE.read_text())) == 6


def installed():
    """transformers, if it is the version that the page is about."""
    pytest.importorskip("torch", reason="the extra torch is not installed")
    transformers = pytest.importorskip("transformers", reason="the extra transformers is not installed")
    if transformers.__version__ != ABOUT:
        pytest.skip(f"the page is about transformers {ABOUT}, and this is {transformers.__version__}")
    transformers.logging.set_verbosity_error()
    return transformers


@contextlib.contextmanager
def quietly():
    printed = io.StringIO()
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(printed):
        yield printed


@pytest.mark.parametrize(("code", "said"), BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_prints_what_the_page_says(code, said):
    installed()
    with quietly() as printed:
        exec(compile(code, PAGE.name, "exec"), {"__name__": "page"})
    assert printed.getvalue() == said


# Remedies, made on the source that is installed


def changed(monkeypatch, owner, name, old, new):
    """Put a method in place of the installed one that differs in one expression."""
    source = inspect.getsource(getattr(owner, name))
    assert source.count(old) in (1, 4), f"{name} does not hold {old!r}"
    source = inspect.cleandoc("\n" + source.replace(old, new)) + "\n"
    made = {}
    exec(compile(source, f"{name}, changed", "exec"), inspect.getmodule(owner).__dict__, made)
    monkeypatch.setattr(owner, name, made[name])


GEMMA = "SinglePositionMultiTokenCandidateGenerator", "get_candidates"
REMEDIES = {
    "one-hot rows": (
        "Gemma 4 assistant",
        *GEMMA,
        "drafted_logits.append(outputs.logits)",
        "drafted_logits.append(torch.full_like(outputs.logits, -torch.inf)"
        ".scatter(-1, last_token_id[..., None], 0))",
    ),
    "a sampled draft": (
        "Gemma 4 assistant",
        *GEMMA,
        "outputs.logits.argmax(dim=-1)",
        "torch.multinomial(outputs.logits[:, -1].softmax(-1), 1)",
    ),
    "no more positions than there are": (
        "MTP, short prompt",
        "MTPCandidateGenerator",
        "get_candidates",
        "-num_last_main_model_tokens - self.num_mtp_layers :",
        "-min(num_last_main_model_tokens + self.num_mtp_layers, self.full_seq_last_hidden_states.shape[1]) :",
    ),
    "columns in the order of the head": (
        "tokenizers, out of order",
        "AssistantToTargetTranslator",
        "get_target_logits",
        "target_logits[..., target_logits_supported_indices] = assistant_logits\n",
        "target_logits[..., self._assistant_to_target_input_ids[self.assistant_overlap_token_ids]]"
        " = assistant_logits\n",
    ),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_a_remedy_is_exact(name, monkeypatch):
    installed()
    from experiments.drafters import DRAFTERS, cell
    from transformers.generation import candidate_generator

    drafter, owner, method, old, new = REMEDIES[name]
    # That the installed source differs here is a test of the stored matrix.
    changed(monkeypatch, getattr(candidate_generator, owner), method, old, new)
    after = cell(DRAFTERS[drafter], "plain")
    assert (after.verdict, after.method) == ("equal", "enumerated"), str(after)
    assert after.total_variation < F(1, 10**6)


def guidance_from_the_ids(self, input_ids, scores):
    """The installed processor's arithmetic, on a row that depends on its arguments alone."""
    start = self.__dict__.setdefault("start", input_ids.shape[1] - 1)
    logits = self.model(input_ids[:, start:], use_cache=False).logits[:, -1]
    free, scores = logits.log_softmax(-1), scores.log_softmax(-1)
    return self.guidance_scale * (scores - free) + free


def test_a_processor_without_a_memory_is_exact(monkeypatch):
    installed()
    from experiments.drafters import DRAFTERS, cell
    from transformers.generation.logits_process import (
        UnbatchedClassifierFreeGuidanceLogitsProcessor as Guidance,
    )

    monkeypatch.setattr(Guidance, "__call__", guidance_from_the_ids)
    after = cell(DRAFTERS["assistant"], "guidance")
    assert (after.verdict, after.method) == ("equal", "enumerated"), str(after)


# The faults without the library


WORLD = World("dense", *DENSE, k=2, n_tokens=3)


def test_columns_in_another_order_than_tokens():
    """The token is right, and the row it is tested against has two columns exchanged."""

    def verifier(draft_tokens, draft_dists, target_dists, rng):
        return verifiers.token(draft_tokens, draft_dists[:, [0, 2, 1]], target_dists, rng)

    found = certify(verifier, worlds=[WORLD])
    assert found.verdict == "not exact"
    assert found.total_variation > F(1, 10)


def test_a_processor_that_remembers_what_was_rejected():
    """A penalty on tokens it has been shown, and not on those of the text, sees rejected drafts too."""
    target, draft = RepetitionPenalty(DENSE[0], F(2)), as_draft(DENSE[1])

    def generate(seen, k, rng):
        text = [0]
        while len(text) < 4:
            drafted, q = draft.propose(text, k, rng) if k else ([], np.empty((0, 3), dtype=object))
            p = []
            for i in range(len(drafted) + 1):
                shown = [*text, *drafted[:i]]
                seen.update(shown[1:])
                p.append(next_rows(target, [0, *sorted(seen), shown[-1]], 1)[0])
            text += verifiers.token(drafted, q, np.array(p), rng)
        return tuple(text[1:4])

    shared = same_law(lambda rng: generate(set(), 0, rng), lambda rng: generate(set(), 1, rng))
    assert (shared.verdict, shared.method) == ("not equal", "enumerated")
    assert shared.total_variation > F(1, 100)


def test_a_residual_of_zero_is_a_note():
    """Where rounding alone rejects, dividing by the residual's sum fails; the path is as rare as rounding."""

    def verifier(draft_tokens, draft_dists, target_dists, rng):
        for i, x in enumerate(draft_tokens):
            if not rng.random() < target_dists[i, x] / draft_dists[i, x] * (1 - 1e-15):
                rest = np.maximum(target_dists[i] - draft_dists[i], 0)
                if rest.sum() == 0:
                    raise ZeroDivisionError("the residual is zero")
                return [*draft_tokens[:i], draw(rest / rest.sum(), rng.random())]
        return [*draft_tokens, draw(target_dists[-1], rng.random())]

    found = certify(verifier, worlds=[World("draft = target", DENSE[0], DENSE[0], k=1)])
    assert found.verdict == "exact"
    assert any("the residual is zero" in note for note in found.notes)
