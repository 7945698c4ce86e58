(* The theorems. To trust them, read this file and programs.v, and let Coq read proofs.v. *)

From mathcomp Require Import all_ssreflect all_algebra.
From SpecDecode Require Import programs.
From SpecDecode Require proofs. (* not imported: nothing in proofs.v can change what a statement says *)
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* m can run, and has the law of m'. *)

Definition samples (R : realFieldType) (V : finType) (A : Type) (m m' : prog R V A) : Prop :=
  runs m /\ same_law m m'.

Section OneToken.

Variables (R : realFieldType) (V : finType) (p q : V -> R).
Hypotheses (row_p : distribution p) (row_q : distribution q).

(* What is kept, and what replaces the rest, add up to p: kept alone where nothing exceeds. *)

Theorem one_token_identity x :
  q x * acceptance (p x) (q x) + (\sum_y q y * (1 - acceptance (p y) (q y))) * residual p q x = p x.
Proof. exact: proofs.identity. Qed.

Theorem one_token_without_residual x : \sum_y excess p q y = 0 -> q x * acceptance (p x) (q x) = p x.
Proof. exact: proofs.identity_without_residual. Qed.

Theorem one_token_exact : samples (one_token p q) (draw p).
Proof. split; [exact: proofs.one_token_runs | exact: proofs.one_token_law]. Qed.

(* No joint law of a drafted and an emitted token lets the two agree more often than the rule accepts. *)

Theorem no_rule_accepts_more (joint : V -> V -> R) :
  (forall x y, 0 <= joint x y) -> (forall x, \sum_y joint x y = q x) -> (forall y, \sum_x joint x y = p y) ->
  \sum_x joint x x <= \sum_x q x * acceptance (p x) (q x).
Proof. exact: proofs.coupling_accepts. Qed.

End OneToken.

Section Sequences.

Variables (R : realFieldType) (V : finType) (P Q : seq V -> V -> R) (stop : pred V).
Hypotheses (rows_P : forall s, distribution (P s)) (rows_Q : forall s, distribution (Q s)).

(* What "the target's law" means: a text has the probability that the chain rule gives it. *)

Definition indicator (text ys : seq V) : R := (ys == text)%:R.

Theorem plain_is_the_chain_rule n s text :
  E (plain P stop n s) (indicator text) = if whole stop n text then chain P s text else 0.
Proof. exact: proofs.plain_chain. Qed.

(* A round, whatever stops its draft, completed by the target, has the target's law. *)

Section Rounds.

Variables (k : nat) (more : seq V -> bool) (n : nat) (s : seq V).

Definition completed verify : prog R V (seq V) :=
  ys <- (xs <- propose Q k more s ;; verify s xs) ;; complete P stop n s ys.

Theorem token_round : samples (completed (token P Q)) (plain P stop n s).
Proof. by apply: proofs.round_samples => //; [exact: proofs.token_exact | exact: proofs.token_runs]. Qed.

Theorem block_round : samples (completed (block P Q)) (plain P stop n s).
Proof. by apply: proofs.round_samples => //; [exact: proofs.block_exact | exact: proofs.block_runs]. Qed.

Theorem one_hot_round : samples (completed (one_hot P)) (plain P stop n s).
Proof. by apply: proofs.round_samples => //; [exact: proofs.one_hot_exact | exact: proofs.one_hot_runs]. Qed.

Theorem sampler_match_round : samples (completed (sampler_match P)) (plain P stop n s).
Proof.
by apply: proofs.round_samples => //; [exact: proofs.sampler_match_exact | exact: proofs.sampler_match_runs].
Qed.

Theorem block_emits_no_fewer (size_of := fun ys : seq V => (size ys)%:R : R) :
  E (xs <- propose Q k more s ;; token P Q s xs) size_of
  <= E (xs <- propose Q k more s ;; block P Q s xs) size_of.
Proof. exact: proofs.block_no_shorter. Qed.

End Rounds.

(* Rounds, repeated and cut at n tokens or the first stop token, have the target's law. The draft length may
   depend on the rounds before, on the text, and on what has been drafted. *)

Section Texts.

Variables (k : history V -> seq V -> nat) (more : history V -> seq V -> seq V -> bool).
Variables (n : nat) (s : seq V).

Theorem token_text : samples (generate Q stop k more (token P Q) n s) (plain P stop n s).
Proof.
by apply: proofs.generate_samples => //;
  [exact: proofs.token_exact | exact: proofs.token_runs | exact: proofs.token_spoken].
Qed.

Theorem block_text : samples (generate Q stop k more (block P Q) n s) (plain P stop n s).
Proof.
by apply: proofs.generate_samples => //;
  [exact: proofs.block_exact | exact: proofs.block_runs | exact: proofs.block_spoken].
Qed.

Theorem one_hot_text : samples (generate Q stop k more (one_hot P) n s) (plain P stop n s).
Proof.
by apply: proofs.generate_samples => //;
  [exact: proofs.one_hot_exact | exact: proofs.one_hot_runs | exact: proofs.one_hot_spoken].
Qed.

Theorem sampler_match_text : samples (generate Q stop k more (sampler_match P) n s) (plain P stop n s).
Proof.
by apply: proofs.generate_samples => //;
  [exact: proofs.sampler_match_exact | exact: proofs.sampler_match_runs | exact: proofs.sampler_match_spoken].
Qed.

End Texts.
End Sequences.
