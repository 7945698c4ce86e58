(* What the theorems speak of: the rule, the verifiers and the generator, as programs that draw and flip.

   Definitions only. Each has the name of its twin in specdecode/proof/programs.py, where it runs on
   fractions. Rows are over any real field R, tokens come from any finite type V, and a model is any function
   from the text so far to a row. *)

From mathcomp Require Import all_ssreflect all_algebra.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Programs.

Variables (R : realFieldType) (V : finType).

Implicit Types (p q w : V -> R) (s xs ys : seq V) (k n : nat).

(* A program returns, or draws a token from a row, or flips a coin that says yes with probability c. *)

Inductive prog (A : Type) : Type :=
| Ret of A
| Draw of (V -> R) & (V -> prog A)
| Flip of R & (bool -> prog A).

(* The expected value of f of the outcome: this functional is the program's law. *)

Fixpoint E A (m : prog A) (f : A -> R) : R :=
  match m with
  | Ret a => f a
  | Draw p next => \sum_x p x * E (next x) f
  | Flip c next => c * E (next true) f + (1 - c) * E (next false) f
  end.

Definition same_law A (m m' : prog A) : Prop := forall f, E m f = E m' f.

Fixpoint bind A B (m : prog A) (g : A -> prog B) : prog B :=
  match m with
  | Ret a => g a
  | Draw p next => Draw p (fun x => bind (next x) g)
  | Flip c next => Flip c (fun b => bind (next b) g)
  end.

Notation "x <- m ;; m'" := (bind m (fun x => m')) (at level 61, m at next level, right associativity).

Definition draw p : prog V := Draw p (@Ret V).

Definition flip (c : R) : prog bool := Flip c (@Ret bool).

(* A program can run if it draws from distributions only, and its coins have probabilities. *)

Definition distribution p : Prop := (forall x, 0 <= p x) /\ \sum_x p x = 1.

Fixpoint runs A (m : prog A) : Prop :=
  match m with
  | Ret _ => True
  | Draw p next => distribution p /\ forall x, runs (next x)
  | Flip c next => 0 <= c <= 1 /\ forall b, runs (next b)
  end.

(* The rule. *)

Definition overlap p q : V -> R := fun x => Num.min (p x) (q x).

Definition excess p q : V -> R := fun x => p x - overlap p q x.

Definition acceptance (a b : R) : R := if b == 0 then 1 else Num.min a b / b.

Definition residual p q : V -> R := fun x => excess p q x / \sum_y excess p q y.

(* What is left of p when earlier tokens have left the share c of it (pi in chapter 8); p itself where
   nothing is. *)

Definition part (c : R) p : V -> R := fun x => c * p x.

Definition replacement (c : R) p q : V -> R :=
  if \sum_x excess (part c p) q x == 0 then p else residual (part c p) q.

Definition one_token p q : prog V :=
  x <- draw q ;;
  kept <- flip (acceptance (p x) (q x)) ;;
  if kept then Ret x else draw (replacement 1 p q).

(* A round: propose, verify. P is the target and Q the draft; s is the text before. *)

Variables P Q : seq V -> V -> R.

(* Up to k drafted tokens, while the policy, told what has been drafted, asks for more. *)

Fixpoint propose k (more : seq V -> bool) s : prog (seq V) :=
  if k is k'.+1 then
    if more [::] then
      x <- draw (Q s) ;;
      xs <- propose k' (fun xs => more (x :: xs)) (rcons s x) ;;
      Ret (x :: xs)
    else Ret [::]
  else Ret [::].

Fixpoint token s xs : prog (seq V) :=
  if xs is x :: xs' then
    kept <- flip (acceptance (P s x) (Q s x)) ;;
    if kept then
      ys <- token (rcons s x) xs' ;;
      Ret (x :: ys)
    else
      y <- draw (replacement 1 (P s) (Q s)) ;;
      Ret [:: y]
  else
    y <- draw (P s) ;;
    Ret [:: y].

(* The block rule: the longest beginning of xs that its own coin keeps. c is the share the tokens so far
   have left; every coin is flipped, whatever the others said. *)

Definition keeps (c : R) s : R :=
  let left := \sum_x excess (part c (P s)) (Q s) x in
  if left + 1 - c == 0 then 1 else left / (left + 1 - c).

Fixpoint longest (c : R) s xs : prog (seq V) :=
  if xs is x :: xs' then
    let c' := acceptance (c * P s x) (Q s x) in
    kept <- flip (if xs' is [::] then c' else keeps c' (rcons s x)) ;;
    longer <- longest c' (rcons s x) xs' ;;
    Ret (if longer is [::] then if kept then [:: x] else [::] else x :: longer)
  else Ret [::].

Fixpoint share (c : R) s xs : R :=
  if xs is x :: xs' then share (acceptance (c * P s x) (Q s x)) (rcons s x) xs' else c.

Definition last_row (c : R) s xs kept : V -> R :=
  if size kept == size xs then P (s ++ kept)
  else replacement (share c s kept) (P (s ++ kept)) (Q (s ++ kept)).

Definition block s xs : prog (seq V) :=
  kept <- longest 1 s xs ;;
  y <- draw (last_row 1 s xs kept) ;;
  Ret (rcons kept y).

(* Two rules that do not read the draft's rows. *)

Definition certain x : V -> R := fun y => (y == x)%:R.

Fixpoint one_hot s xs : prog (seq V) :=
  if xs is x :: xs' then
    kept <- flip (acceptance (P s x) 1) ;;
    if kept then
      ys <- one_hot (rcons s x) xs' ;;
      Ret (x :: ys)
    else
      y <- draw (replacement 1 (P s) (certain x)) ;;
      Ret [:: y]
  else
    y <- draw (P s) ;;
    Ret [:: y].

Fixpoint sampler_match s xs : prog (seq V) :=
  y <- draw (P s) ;;
  if xs is x :: xs' then
    if y == x then
      ys <- sampler_match (rcons s x) xs' ;;
      Ret (x :: ys)
    else Ret [:: y]
  else Ret [:: y].

(* Texts of n new tokens at most, ended by the first stop token. *)

Variable stop : pred V.

Fixpoint plain n s : prog (seq V) :=
  if n is n'.+1 then
    y <- draw (P s) ;;
    if stop y then Ret [:: y]
    else
      ys <- plain n' (rcons s y) ;;
      Ret (y :: ys)
  else Ret [::].

(* Which texts `plain` can give, and with what probability: the chain rule. *)

Fixpoint whole n ys : bool :=
  if ys is y :: ys' then
    if n is n'.+1 then if stop y then ys' == [::] else whole n' ys' else false
  else n == 0%N.

Fixpoint chain s ys : R := if ys is y :: ys' then P s y * chain (rcons s y) ys' else 1.

Definition cut n ys : seq V := let kept := take n ys in take (find stop kept).+1 kept.

(* The tokens ys, cut, and continued by the target where the cut leaves room. *)

Definition complete n s ys : prog (seq V) :=
  let kept := cut n ys in
  if has stop kept then Ret kept
  else
    zs <- plain (n - size kept) (s ++ kept) ;;
    Ret (kept ++ zs).

(* The generator: rounds, at most j of them, until the text is long enough or has stopped. A policy sees
   the rounds before (drafted and emitted tokens), the text, and what it has drafted in this round; k is the
   most it may ask for. *)

Definition history := seq (seq V * seq V).

Variables (k : history -> seq V -> nat) (more : history -> seq V -> seq V -> bool).
Variable verify : seq V -> seq V -> prog (seq V).

Fixpoint rounds j (before : history) n s : prog (seq V) :=
  if (j, n) is (j'.+1, _.+1) then
    xs <- propose (k before s) (more before s) s ;;
    ys <- verify s xs ;;
    let kept := cut n ys in
    if has stop kept then Ret kept
    else
      zs <- rounds j' (rcons before (xs, ys)) (n - size kept) (s ++ kept) ;;
      Ret (kept ++ zs)
  else Ret [::].

Definition generate n s : prog (seq V) := rounds n [::] n s.

End Programs.

Notation "x <- m ;; m'" := (bind m (fun x => m')) (at level 61, m at next level, right associativity).
