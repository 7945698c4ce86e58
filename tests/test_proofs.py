"""The proofs, read by Coq where there is one; and what can be said of them without."""

import re
import stat
import tomllib

import pytest
from coq import PROOFS, STORED, check, needs_coq, run

# --- without Coq --------------------------------------------------------------------------------------------


def test_the_stored_result_is_of_these_files():
    assert STORED["files"] == check.digests(), "run book/proofs/check.py --save"


def test_the_stored_result_is_of_every_theorem_and_every_alteration():
    assert list(STORED["theorems"]) == check.theorems((PROOFS / "theorems.v").read_text())
    assert "samples" in STORED["theorems"]["token_text"]
    assert "forall s : seq V, distribution" in STORED["theorems"]["token_text"], "its hypotheses are told"
    listed = tomllib.loads((PROOFS / "alterations.toml").read_text())
    assert list(STORED["alterations"]) == [one["name"] for one in listed["alteration"]]
    assert all(refused.startswith("proofs.v, ") for refused in STORED["alterations"].values())


LEMMA = "Lemma hard : False.\nProof.\n"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"{LEMMA}Admitted.", "in hard: Admitted"),
        (f"{LEMMA}admit. Qed.", "in hard: admit"),
        (f"{LEMMA}- by []; give_up.\nQed.", "in hard: by []; give_up"),
        (f"{LEMMA}exact: (fun x => x)", "in hard: the proof has no end"),
        (f"{LEMMA}by [].", "in hard: the proof has no end"),
        (f"{LEMMA}Unset Guard Checking. by []. Qed.", "in hard: Unset Guard Checking"),
        ("Axiom easy : False.", "Axiom easy : False"),
        ("Axiom(**)easy : False.", "Axiom easy : False"),
        ("Local Axiom easy : False.", "Local Axiom easy : False"),
        ("Parameters (a b : nat).", "Parameters (a b : nat)"),
        ("Conjecture easy : False.", "Conjecture easy : False"),
        ("Hypothesis easy : False.", "outside a section, an axiom: Hypothesis easy : False"),
        ("Section S. End S. Variable easy : False.", "outside a section, an axiom: Variable easy : False"),
        ("Section S. Time End S. Variable easy : False.", "Time End S"),
        ("Unset Guard Checking.", "Unset Guard Checking"),
        ("Unset Guard(**)Checking.", "Unset Guard Checking"),
        ("#[bypass_check(guard)] Fixpoint f (n : nat) : False := f n.", "#[bypass_check(guard)] Fixpoint f"),
        ("Declare Module M : T.", "Declare Module M : T"),
        ('Declare ML Module "evil".', "Declare ML Module"),
        ('Load "evil".', "Load"),
        ("Module M. End M.", "Module M"),
        ("Export M.", "Export M"),
        ("Class Cheat (P : Prop) := cheat : P.", "Class Cheat"),
        ("Program Definition bad : False := _.", "Program Definition bad"),
        ('Notation "x = y" := True.', "Notation"),
        ("Theorem fine : True. Proof. exact I. Qed.", "Theorem fine : True"),
        ("From Coq Require Import Classical.", "From Coq Require Import Classical"),
        ("Lemma fine : True. exact I. Qed.", "in fine: exact I"),
    ],
)
def test_what_does_not_belong_is_named(line, named):
    with pytest.raises(check.NotProved) as refused:
        check.refuse_unproved("proofs.v", f"(* Axiom and Admitted are words *)\n{line}\n")
    assert re.match(r"proofs\.v(:\d+)?, ", str(refused.value))
    assert named in str(refused.value)


def test_theorems_have_a_file_of_their_own():
    for word in ("Lemma", "Remark"):
        with pytest.raises(check.NotProved, match=f"theorems.v:1, {word} fine"):
            check.refuse_unproved("theorems.v", f"{word} fine : True. Proof. exact I. Qed.")


def test_sections_comments_and_strings_pass():
    check.refuse_unproved("proofs.v", "(* an (* Axiom *) Admitted. *)\nSection S. (* x *) End S.")
    check.refuse_unproved("proofs.v", "Section S.\nVariable V : nat.\nHypothesis one : V = 1.\nEnd S.")
    check.refuse_unproved("proofs.v", "Lemma admit_nothing : 1 < 2.+1.\nProof. by []. Qed.")
    for name in check.FILES:
        check.refuse_unproved(name, (PROOFS / name).read_text())


def fake_coq(folder, version, complaint="", code=0):
    tool = folder / "coqc"
    tool.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = --print-version ]; then echo "{version} 4.13.1"; exit 0; fi\n'
        f"echo '{complaint}' >&2; exit {code}\n"
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    (folder / "sh").symlink_to("/bin/sh")


def test_a_missing_coq(tmp_path):
    told = run(path=tmp_path)
    assert told.returncode == 2
    assert told.stderr.startswith(
        "cannot check: no coqc on the path; want Coq with Mathematical Components: "
    )
    assert "apt-get install --no-install-recommends coq libcoq-mathcomp" in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize("version", ["8.15.2", "9.0.0", "nonsense"])
def test_another_coq(tmp_path, version):
    fake_coq(tmp_path, version)
    told = run("--quick", path=tmp_path)
    assert told.returncode == 2
    assert told.stderr.startswith(
        f"cannot check: coqc is version {version}; these files have been read by 8.16"
    )


def test_a_coq_without_mathematical_components(tmp_path):
    complaint = (
        'File "./programs.v", line 7, characters 0-55:\nError: Cannot find a physical path bound to'
        "\nlogical path all_ssreflect with prefix mathcomp."
    )
    fake_coq(tmp_path, "8.16.1", complaint, 1)
    told = run("--quick", path=tmp_path)
    assert told.returncode == 2
    assert told.stderr.startswith(
        "cannot check: Coq 8.16.1 has no Mathematical Components that it can load; want "
    )


def test_a_coq_that_says_nothing(tmp_path):
    """An answer that is not understood is not a proof."""
    fake_coq(tmp_path, "8.16.1")
    told = run("--quick", path=tmp_path)
    assert told.returncode == 1
    assert "Coq answered 0 times about the axioms of" in told.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "alterations.toml: an entry without 'alteration'"),
        ("alteration = []\nharmless = []", "alterations.toml: want at least one [[alteration]]"),
        ("alteration = [", "alterations.toml: "),
        ('[[alteration]]\nname = "x"\n[[harmless]]\nname = "y"', "an entry without 'definition'"),
    ],
)
def test_a_list_of_alterations_that_cannot_be_read(proofs, tmp_path, text, said):
    fake_coq(tmp_path, "8.16.1")
    (proofs / "alterations.toml").write_text(text)
    told = run("--folder", proofs, path=tmp_path)
    assert told.returncode == 2
    assert said in told.stderr
    assert told.stderr.count("\n") == 1


def test_a_folder_that_is_not_there(tmp_path):
    fake_coq(tmp_path, "8.16.1")
    told = run("--folder", tmp_path / "nowhere", path=tmp_path)
    assert told.returncode == 2
    assert told.stderr.startswith("cannot check: programs.v: ")


def test_only_the_whole_result_of_this_folder_is_stored(proofs):
    assert run("--save", "--quick").returncode == run("--save", "--folder", proofs).returncode == 2


def test_a_missing_or_a_new_theorem_is_named():
    names, stored = list(STORED["theorems"]), STORED["theorems"]
    with pytest.raises(check.NotProved, match="theorem gone is not there any more"):
        check.refuse_other_statements(PROOFS, names, stored | {"gone": "True"})
    fewer = {name: says for name, says in stored.items() if name != "token_text"}
    with pytest.raises(check.NotProved, match="theorem token_text is new"):
        check.refuse_other_statements(PROOFS, names, fewer)


def test_an_alteration_that_no_longer_applies(proofs):
    text = (proofs / "programs.v").read_text()
    one = {"definition": "excess", "coq": {"old": "max", "new": "min"}}
    with pytest.raises(ValueError, match="excess has 'max' 0 times; want once"):
        check.altered(text, one)
    with pytest.raises(ValueError, match="defines no surplus"):
        check.altered(text, one | {"definition": "surplus"})


def test_every_alteration_alters_one_definition():
    text = (PROOFS / "programs.v").read_text()
    listed = tomllib.loads((PROOFS / "alterations.toml").read_text())
    for one in listed["alteration"] + listed["harmless"]:
        changed = check.altered(text, one)
        assert changed != text
        assert changed.count("\nDefinition ") == text.count("\nDefinition ")


# --- with Coq -----------------------------------------------------------------------------------------------


@needs_coq
def test_coq_reads_the_proofs():
    told = run("--coqchk")
    assert told.returncode == 0, told.stderr
    assert f"{len(STORED['theorems'])} theorems, no axiom, nothing admitted" in told.stdout
    assert "coqchk: the same, of everything they rest on" in told.stdout
    assert f"{len(STORED['alterations'])} altered programs, each refused" in told.stdout
