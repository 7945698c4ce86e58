"""Broken proofs, other theorems, axioms and false lists: Coq, or the check of what it says, refuses each."""

import re

import pytest
from coq import STORED, change, check, needs_coq, run

pytestmark = needs_coq


def test_a_broken_proof_is_named(proofs):
    change(proofs / "proofs.v", "Proof. by rewrite addrC subrK. Qed.", "Proof. by rewrite addrC. Qed.")
    told = run("--quick", "--folder", proofs)
    assert told.returncode == 1
    assert re.match(r"not proved: proofs\.v:\d+, in overlap_excess: \S", told.stderr)


def test_a_theorem_that_is_false_is_named(proofs):
    change(
        proofs / "theorems.v", ": samples (one_token p q) (draw p).", ": samples (one_token p q) (draw q)."
    )
    told = run("--quick", "--folder", proofs)
    assert told.returncode == 1
    assert re.match(r"not proved: theorems\.v:\d+, in one_token_exact: \S", told.stderr)


def test_a_weaker_theorem_is_named(proofs):
    text = (proofs / "theorems.v").read_text()
    statement = "samples (generate Q stop k more (token P Q) n s) (plain P stop n s)"
    theorem = re.search(rf"Theorem token_text : {re.escape(statement)}\..*?Qed\.", text, re.S)[0]
    weaker = f"Theorem token_text : {statement} \\/ n = n.\nProof. by right. Qed."
    (proofs / "theorems.v").write_text(text.replace(theorem, weaker))
    asked_first = {"token_text": STORED["theorems"]["token_text"]} | STORED["theorems"]
    with pytest.raises(check.NotProved, match="theorem token_text does not say what is stored"):
        check.check(proofs, stored=STORED | {"theorems": asked_first}, alterations=False)


UNSAFE = "Unset Guard Checking.\nFixpoint anything (P : Prop) (n : nat) {struct n} : P := anything P n.\n"


@pytest.mark.parametrize(
    ("before", "proof", "rests_on"),
    [
        ("", "admit. Admitted.", "bad"),
        ("Axiom easy : False.\n", "exact easy. Qed.", "easy : False"),
        (UNSAFE, "exact (anything _ 0). Qed.", "anything is assumed to be guarded"),
    ],
)
def test_coq_says_what_a_theorem_rests_on(tmp_path, before, proof, rests_on):
    """What the reading of the files would refuse, Print Assumptions sees too, and coqchk."""
    (tmp_path / "programs.v").write_text("")
    (tmp_path / "theorems.v").write_text(f"{before}Theorem bad : False. Proof. {proof}\n")
    for name in ("programs.v", "theorems.v"):
        check.coqc(tmp_path, name)
    assert rests_on in check.assumptions(tmp_path, ["bad"])["bad"]
    with pytest.raises(check.NotProved, match="coqchk"):
        check.read_by_coqchk(tmp_path)


def test_an_unused_axiom_is_found_by_coqchk(tmp_path):
    """Where no theorem rests on it, Print Assumptions is silent."""
    (tmp_path / "programs.v").write_text("")
    check.coqc(tmp_path, "programs.v")
    fine = "Theorem fine : True. Proof. exact I. Qed.\n"
    (tmp_path / "theorems.v").write_text(fine)
    check.coqc(tmp_path, "theorems.v")
    check.read_by_coqchk(tmp_path)
    (tmp_path / "theorems.v").write_text(f"Axiom unused : False.\n{fine}")
    check.coqc(tmp_path, "theorems.v")
    assert check.assumptions(tmp_path, ["fine"]) == {"fine": ""}
    with pytest.raises(check.NotProved, match=r"coqchk, Axioms: SpecDecode\.theorems\.unused"):
        check.read_by_coqchk(tmp_path)


def test_a_wrong_definition_that_is_proved_would_be_named(proofs):
    """A list of alterations with one that alters nothing the theorems speak of."""
    (proofs / "alterations.toml").write_text(
        '[[alteration]]\nname = "a twin"\ndifference = "nothing"\ndefinition = "sampler_match"\n'
        'coq = { old = "Ret (x :: ys)", new = "Ret (y :: ys)" }\n\n'
        '[[harmless]]\nname = "none"\ndifference = "none"\ndefinition = "cut"\n'
        'coq = { old = "take n ys in", new = "take n ys in" }\n'
    )
    with pytest.raises(check.NotProved, match="the proofs go through although nothing"):
        check.check_alterations(proofs)
    text = (proofs / "alterations.toml").read_text()
    (proofs / "alterations.toml").write_text(text.replace('take n ys in" }', 'ys in" }'))
    change(proofs / "alterations.toml", '"Ret (y :: ys)"', '"Ret (x :: x :: ys)"')
    with pytest.raises(check.NotProved, match=r"proofs.v, complete0 refuses a harmless alteration: none"):
        check.check_alterations(proofs)
    change(
        proofs / "alterations.toml",
        'old = "Ret (x :: ys)", new = "Ret (x :: x :: ys)"',
        'old = "y == x", new = "y == 0"',
    )
    with pytest.raises(check.NotProved, match=r"altered by 'a twin': programs\.v"):
        check.check_alterations(proofs)
