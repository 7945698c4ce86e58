(* The proofs. Nothing here needs to be read to trust the theorems: Coq has read it.

   Expectation: what holds for every program. Rule: one position. Verifiers: a round leaves every fair bet at
   its price. Texts: completing, cutting and repeating rounds. *)

From mathcomp Require Import all_ssreflect all_algebra.
From SpecDecode Require Import programs.
Import GRing.Theory Num.Theory Order.Theory.
Local Open Scope ring_scope.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Expectation.

Variables (R : realFieldType) (V : finType).

Lemma E_draw A p (next : V -> prog R V A) f : E (Draw p next) f = \sum_x p x * E (next x) f.
Proof. by []. Qed.

Lemma E_flip A c (next : bool -> prog R V A) f :
  E (Flip c next) f = c * E (next true) f + (1 - c) * E (next false) f.
Proof. by []. Qed.

Lemma E_bind A B (m : prog R V A) (g : A -> prog R V B) f :
  E (bind m g) f = E m (fun a => E (g a) f).
Proof.
by elim: m => //= [p next IH | c next IH]; rewrite ?IH //; apply: eq_bigr => x _; rewrite IH.
Qed.

Lemma E_scale A (m : prog R V A) c f : E m (fun a => c * f a) = c * E m f.
Proof.
elim: m => //= [p next IH | d next IH].
- by rewrite mulr_sumr; apply: eq_bigr => x _; rewrite IH mulrCA.
- by rewrite !IH mulrDr !(mulrCA c).
Qed.

Lemma E_add A (m : prog R V A) f g : E m (fun a => f a + g a) = E m f + E m g.
Proof.
elim: m => //= [p next IH | d next IH].
- by rewrite -big_split; apply: eq_bigr => x _; rewrite IH mulrDr.
- by rewrite !IH !mulrDr addrACA.
Qed.

Lemma E_const A (m : prog R V A) c : runs m -> E m (fun=> c) = c.
Proof.
elim: m => //= [p next IH [[_ sum1] r] | d next IH [_ r]].
- rewrite (eq_bigr (fun x => p x * c)) => [|x _]; last by rewrite IH.
  by rewrite -mulr_suml sum1 mul1r.
- by rewrite !IH // -mulrDl addrC subrK mul1r.
Qed.

Lemma E_ge0 A (m : prog R V A) f : runs m -> (forall a, 0 <= f a) -> 0 <= E m f.
Proof.
move=> + f0; elim: m => //= [p next IH [[p0 _] r] | d next IH [/andP[d0 d1] r]].
- by apply: sumr_ge0 => x _; apply: mulr_ge0 => //; exact: IH.
- by rewrite addr_ge0 // mulr_ge0 ?subr_ge0 ?IH.
Qed.

(* All outcomes have the property ok. *)

Fixpoint always A (ok : A -> Prop) (m : prog R V A) : Prop :=
  match m with
  | Ret a => ok a
  | Draw _ next => forall x, always ok (next x)
  | Flip _ next => forall b, always ok (next b)
  end.

Lemma E_ext A (ok : A -> Prop) (m : prog R V A) f g :
  always ok m -> (forall a, ok a -> f a = g a) -> E m f = E m g.
Proof.
move=> + fg; elim: m => /= [a /fg // | p next IH om | d next IH om]; rewrite ?IH //.
by apply: eq_bigr => x _; rewrite IH.
Qed.

Lemma always_true A (m : prog R V A) : always (fun=> True) m.
Proof. by elim: m. Qed.

Lemma eq_E A (m : prog R V A) f g : f =1 g -> E m f = E m g.
Proof. by move=> fg; apply: (E_ext (always_true m)) => a _; apply: fg. Qed.

Lemma always_bind A B ok ok' (m : prog R V A) (g : A -> prog R V B) :
  always ok m -> (forall a, ok a -> always ok' (g a)) -> always ok' (bind m g).
Proof. by move=> + og; elim: m => /= [a /og | p next IH om x | d next IH om b] //; apply: IH. Qed.

Lemma runs_bind A B (m : prog R V A) (g : A -> prog R V B) :
  runs m -> (forall a, runs (g a)) -> runs (bind m g).
Proof.
move=> + rg; elim: m => //= [p next IH [dp r] | d next IH [dc r]]; split=> // x; exact: IH.
Qed.

End Expectation.

Section Rule.

Variables (R : realFieldType) (V : finType).
Implicit Types (p q w : V -> R) (c : R).

Lemma excess_ge0 p q x : 0 <= excess p q x.
Proof. by rewrite subr_ge0 /overlap minEle; case: ifP => // /negbT; rewrite -ltNge => /ltW. Qed.

Lemma overlap_excess p q x : overlap p q x + excess p q x = p x.
Proof. by rewrite addrC subrK. Qed.

Lemma acceptance_overlap w q x : 0 <= w x -> q x * acceptance (w x) (q x) = overlap w q x.
Proof.
rewrite /acceptance /overlap => w0; case: eqP => [-> | /eqP q0]; last by rewrite mulrC divfK.
by rewrite mul0r minEle; case: ifP => // w_le0; apply/eqP; rewrite eq_le w0.
Qed.

Lemma ratio_coin (a b : R) : 0 <= a <= b -> b != 0 -> 0 <= a / b <= 1.
Proof.
move=> /andP[a0 ab] b0; have bp : 0 < b^-1 by rewrite invr_gt0 lt_def b0 (le_trans a0).
by rewrite mulr_ge0 ?(ltW bp) //= -subr_ge0 -(divff b0) -mulrBl mulr_ge0 ?subr_ge0 ?(ltW bp).
Qed.

Lemma acceptance_coin (a b : R) : 0 <= a -> 0 <= b -> 0 <= acceptance a b <= 1.
Proof.
rewrite /acceptance => a0 b0; case: eqP => [_ | /eqP]; first by rewrite ler01 lexx.
by apply: ratio_coin; rewrite minEle; case: ifP => [-> | _]; rewrite ?a0 // b0 lexx.
Qed.

Lemma ler_mull (a b c : R) : 0 <= c -> a <= b -> c * a <= c * b.
Proof. by move=> c0 ab; rewrite -subr_ge0 -mulrBr mulr_ge0 ?subr_ge0. Qed.

Lemma acceptance_part (a b c : R) : 0 <= c <= 1 -> 0 <= a -> 0 <= b ->
  c * acceptance a b <= acceptance (c * a) b.
Proof.
rewrite /acceptance => /andP[c0 c1] a0 b0; case: eqP => _; first by rewrite mulr1.
rewrite mulrA ![_ / b]mulrC; apply: ler_mull; first by rewrite invr_ge0.
have small (d : R) : 0 <= d -> c * d <= d.
  by move=> d0; rewrite -subr_ge0 -{1}[d]mul1r -mulrBl mulr_ge0 ?subr_ge0.
rewrite !minEle; case: (leP a b) => ab; case: ifP => // _.
- exact: le_trans (small a a0) ab.
- exact: ler_mull (ltW ab).
- exact: small.
Qed.

Lemma sum_overlap w q : \sum_x overlap w q x = \sum_x w x - \sum_x excess w q x.
Proof. by rewrite -sumrB; apply: eq_bigr => x _; rewrite /excess subKr. Qed.

Lemma part1 p : part 1 p =1 p.
Proof. by move=> x; rewrite /part mul1r. Qed.

Lemma sum_part c p : distribution p -> \sum_x part c p x = c.
Proof. by case=> _ p1; rewrite -mulr_sumr p1 mulr1. Qed.

Lemma part_ge0 c p x : 0 <= c -> distribution p -> 0 <= part c p x.
Proof. by move=> c0 [p0 _]; rewrite mulr_ge0. Qed.

Lemma not_overlap c p q : distribution p ->
  1 - \sum_x overlap (part c p) q x = \sum_x excess (part c p) q x + 1 - c.
Proof. by move=> dp; rewrite sum_overlap sum_part // opprB addrCA addrA. Qed.

(* Where nothing exceeds, every excess is nothing: the fallback of `replacement` is never missed. *)

Lemma sum_excess_ge0 w q : 0 <= \sum_x excess w q x.
Proof. by rewrite sumr_ge0 // => x _; rewrite excess_ge0. Qed.

Lemma excess_replacement c p q x :
  (\sum_y excess (part c p) q y) * replacement c p q x = excess (part c p) q x.
Proof.
rewrite /replacement; case: eqP => [z | /eqP nz]; last by rewrite /residual mulrC divfK.
by rewrite z mul0r; have/psumr_eq0P -> // := z => y _; rewrite excess_ge0.
Qed.

Lemma replacement_distribution c p q : distribution p -> distribution (replacement c p q).
Proof.
rewrite /replacement => dp; case: eqP => // /eqP nz; split=> [x |]; last first.
  by rewrite -mulr_suml divff.
by rewrite mulr_ge0 ?excess_ge0 // invr_ge0 sum_excess_ge0.
Qed.

(* Kept or replaced, one drafted token becomes h of p: what `overlap` and `excess` share out. *)

Lemma overlap_and_replaced c p q (h : V -> R) :
  (\sum_x overlap (part c p) q x * h x)
    + (\sum_x excess (part c p) q x) * (\sum_x replacement c p q x * h x)
  = c * (\sum_x p x * h x).
Proof.
rewrite !mulr_sumr -big_split /=; apply: eq_bigr => x _.
by rewrite mulrA excess_replacement -mulrDl overlap_excess mulrA.
Qed.

Lemma rejected p q : distribution p -> distribution q ->
  \sum_x q x * (1 - acceptance (p x) (q x)) = \sum_x excess p q x.
Proof.
move=> [p0 p1] [_ q1]; rewrite -[RHS](subKr 1) -p1 -sum_overlap p1 -[in RHS]q1 -sumrB.
by apply: eq_bigr => x _; rewrite mulrBr mulr1 acceptance_overlap.
Qed.

(* No coupling of p and q agrees more often than the rule accepts. *)

Lemma coupling_accepts p q (joint : V -> V -> R) : distribution p ->
  (forall x y, 0 <= joint x y) -> (forall x, \sum_y joint x y = q x) -> (forall y, \sum_x joint x y = p y) ->
  \sum_x joint x x <= \sum_x q x * acceptance (p x) (q x).
Proof.
move=> dp j0 jq jp; apply: ler_sum => x _; rewrite acceptance_overlap; last exact: dp.1.
have le_row : joint x x <= q x by rewrite -jq (bigD1 x) //= -subr_ge0 addrAC subrr add0r sumr_ge0.
have le_col : joint x x <= p x by rewrite -jp (bigD1 x) //= -subr_ge0 addrAC subrr add0r sumr_ge0.
by rewrite /overlap minEle; case: ifP.
Qed.

Lemma identity p q x : distribution p -> distribution q ->
  q x * acceptance (p x) (q x) + (\sum_y q y * (1 - acceptance (p y) (q y))) * residual p q x = p x.
Proof.
move=> dp dq; rewrite acceptance_overlap; last exact: dp.1.
rewrite rejected // /residual.
case: (eqVneq (\sum_y excess p q y) 0) => [z | nz]; last first.
  by rewrite [X in _ + X]mulrCA mulfV // mulr1 overlap_excess.
rewrite z mul0r addr0 -[RHS](overlap_excess p q).
by have/psumr_eq0P -> // := z; rewrite ?addr0 // => y _; rewrite excess_ge0.
Qed.

Lemma identity_without_residual p q x : distribution p -> distribution q ->
  \sum_y excess p q y = 0 -> q x * acceptance (p x) (q x) = p x.
Proof. by move=> dp dq z; rewrite -[RHS](identity x dp dq) rejected // z mul0r addr0. Qed.

Lemma one_token_runs p q : distribution p -> distribution q -> runs (one_token p q).
Proof.
move=> dp dq; split=> // x; split=> [|[]] //=.
  by apply: acceptance_coin; [exact: dp.1 | exact: dq.1].
by split=> //; exact: replacement_distribution.
Qed.

Lemma one_token_law p q : distribution p -> distribution q -> same_law (one_token p q) (draw p).
Proof.
move=> dp dq h; pose r := \sum_y replacement 1 p q y * h y.
transitivity (\sum_x (overlap (part 1 p) q x * h x + q x * (1 - acceptance (p x) (q x)) * r)).
  apply: eq_bigr => x _; rewrite -acceptance_overlap; last exact: part_ge0 ler01 dp.
  by rewrite part1 -!mulrA -mulrDr.
rewrite big_split -mulr_suml rejected //= -[RHS]mul1r -[RHS](overlap_and_replaced _ _ q).
by congr (_ + _ * _); apply: eq_bigr => x _; rewrite /excess /overlap part1.
Qed.

End Rule.

Section Verifiers.

Variables (R : realFieldType) (V : finType) (P Q : seq V -> V -> R).
Hypothesis rowP : forall s, distribution (P s).
Hypothesis rowQ : forall s, distribution (Q s).
Implicit Types (s xs ys : seq V) (c g : R) (k n : nat) (more : seq V -> bool) (h : seq V -> R).

(* h is a fair bet on the tokens after s: whatever they have been, one more token of the target's leaves its
   expected value unchanged. A verifier is exact if a round leaves every fair bet at its price. *)

Definition fair s h := forall ys, h ys = \sum_y P (s ++ ys) y * h (rcons ys y).

Definition exact (verify : seq V -> seq V -> prog R V (seq V)) :=
  forall k more s h, fair s h -> E (bind (propose Q k more s) (verify s)) h = h [::].

Definition spoken (ys : seq V) := ys <> [::].

Lemma fair_after s h x : fair s h -> fair (rcons s x) (fun ys => h (x :: ys)).
Proof. by move=> fh ys; rewrite (fh (x :: ys)) cat_rcons. Qed.

Lemma fair0 s h : fair s h -> \sum_y P s y * h [:: y] = h [::].
Proof. by move=> fh; rewrite (fh [::]) cats0. Qed.

Lemma fair1 s h x : fair s h -> \sum_y P (rcons s x) y * h [:: x; y] = h [:: x].
Proof. by move=> fh; rewrite (fh [:: x]) cats1. Qed.

Lemma runs_propose k more s : runs (propose Q k more s).
Proof.
elim: k more s => //= k IH more s; case: ifP => //= _; split=> // x.
by apply: runs_bind => // *; apply: IH.
Qed.

Lemma E_propose k more s f : more [::] ->
  E (propose Q k.+1 more s) f
  = \sum_x Q s x * E (propose Q k (fun xs => more (x :: xs)) (rcons s x)) (fun xs => f (x :: xs)).
Proof. by move=> /= ->; rewrite E_draw; apply: eq_bigr => x _; rewrite E_bind. Qed.

(* The token rule. *)

Lemma E_token s x xs h (a := acceptance (P s x) (Q s x)) :
  E (token P Q s (x :: xs)) h
  = a * E (token P Q (rcons s x) xs) (fun ys => h (x :: ys))
    + (1 - a) * \sum_y replacement 1 (P s) (Q s) y * h [:: y].
Proof. by rewrite /= E_bind. Qed.

Lemma token_exact : exact (token P Q).
Proof.
elim=> [|k IH] more s h fh; first exact: fair0.
case asks: (more [::]); last by rewrite /= asks; exact: fair0.
rewrite E_bind E_propose // -[RHS](fair0 fh) -[RHS](one_token_law (rowP s) (rowQ s) (fun y => h [:: y])).
apply: eq_bigr => x _; congr (_ * _); rewrite (eq_E _ (E_token _ _ ^~ _)) E_add E_scale -E_bind.
by rewrite (IH _ _ _ (fair_after x fh)) E_const //; exact: runs_propose.
Qed.

(* The block rule. *)

Lemma E_longest c s x xs f (c' := acceptance (c * P s x) (Q s x))
    (coin := if xs is [::] then c' else keeps P Q c' (rcons s x)) :
  E (longest P Q c s (x :: xs)) f
  = E (longest P Q c' (rcons s x) xs)
      (fun longer => if longer is [::] then coin * f [:: x] + (1 - coin) * f [::] else f (x :: longer)).
Proof.
rewrite /= -/c' -/coin !E_bind -!E_scale -E_add; apply: eq_E => -[|y ys] //=.
by rewrite -mulrDl addrC subrK mul1r.
Qed.

Lemma last_row_cons c s x xs kept :
  last_row P Q c s (x :: xs) (x :: kept)
  = last_row P Q (acceptance (c * P s x) (Q s x)) (rcons s x) xs kept.
Proof. by rewrite /last_row /= cat_rcons eqSS. Qed.

Lemma propose_spoken k more s : more [::] -> always spoken (propose Q k.+1 more s).
Proof. by move=> /= -> x; apply: (always_bind (always_true _)). Qed.

(* With a share c left, the block ends at s or later with probability c: its own coin adds what is missing
   of c when the later ones have said no. *)

Lemma keeps_missing c s : 0 <= c <= 1 ->
  (\sum_x excess (part c (P s)) (Q s) x + 1 - c) * keeps P Q c s = \sum_x excess (part c (P s)) (Q s) x.
Proof.
rewrite /keeps => /andP[_ c1]; case: eqP => [z | /eqP nz]; last by rewrite mulrC divfK.
rewrite z mul0r; apply/esym/eqP; rewrite eq_le sum_excess_ge0 andbT.
by move/eqP: z; rewrite -addrA -[1 - c]opprB subr_eq0 => /eqP ->; rewrite subr_le0.
Qed.

Lemma coin c s x : 0 <= c -> 0 <= acceptance (c * P s x) (Q s x) <= 1.
Proof. by move=> c0; rewrite acceptance_coin ?mulr_ge0 ?(rowP s).1 ?(rowQ s).1. Qed.

Lemma kept_or_not c s (f h : V -> R) g (c' := fun x => acceptance (c * P s x) (Q s x)) :
  0 <= c -> (forall x, f x = c' x * h x + (1 - c' x) * g) ->
  \sum_x Q s x * f x
  = (\sum_x overlap (part c (P s)) (Q s) x * h x) + (1 - \sum_x overlap (part c (P s)) (Q s) x) * g.
Proof.
move=> c0 fE; rewrite -[in RHS](rowQ s).2 -sumrB mulr_suml -big_split /=; apply: eq_bigr => x _.
have <- : Q s x * c' x = overlap (part c (P s)) (Q s) x by apply: acceptance_overlap; exact: part_ge0.
by rewrite fE mulrDr !mulrA mulrBr mulr1.
Qed.

(* What the block rule makes of a draft, when a block that keeps nothing is worth g. *)

Definition worth c s h g xs : R :=
  E (longest P Q c s xs) (fun kept =>
    if kept is [::] then g else \sum_y last_row P Q c s xs kept y * h (rcons kept y)).

Lemma worth_last c s h g x (c' := acceptance (c * P s x) (Q s x)) :
  fair s h -> worth c s h g [:: x] = c' * h [:: x] + (1 - c') * g.
Proof. by move=> fh; rewrite /worth E_longest /= /last_row /= cats1 fair1. Qed.

Lemma worth_longer c s h g x xs (c' := acceptance (c * P s x) (Q s x)) (k := keeps P Q c' (rcons s x))
    (r := \sum_y replacement c' (P (rcons s x)) (Q (rcons s x)) y * h [:: x; y]) :
  spoken xs ->
  worth c s h g (x :: xs) = worth c' (rcons s x) (fun ys => h (x :: ys)) (k * r + (1 - k) * g) xs.
Proof.
case: xs => // x' xs _; rewrite /worth E_longest; apply: eq_E => -[|y ys]; rewrite last_row_cons //=.
by rewrite /last_row /= cats0.
Qed.

Lemma block_after k more s c h g x (c' := acceptance (c * P s x) (Q s x)) :
  fair s h -> 0 <= c ->
  E (propose Q k more (rcons s x)) (fun xs => worth c s h g (x :: xs)) = c' * h [:: x] + (1 - c') * g.
Proof.
elim: k more s h c g x @c' => [|k IH] more s h c g x c' fh c0; first exact: worth_last.
case asks: (more [::]); last by rewrite /= asks; exact: worth_last.
rewrite (E_ext (propose_spoken _ _ asks) (@worth_longer c s h g x)) E_propose // -/c'.
have c'01 : 0 <= c' <= 1 by exact: coin.
have c'0 : 0 <= c' by case/andP: c'01.
rewrite (kept_or_not c'0 (fun y => IH _ _ _ _ _ y (fair_after x fh) c'0)).
rewrite not_overlap // mulrDr !mulrA keeps_missing // addrA overlap_and_replaced fair1 // mulrBr mulr1.
by rewrite keeps_missing // -[X in X - _]addrA [X in X - _]addrC addrK.
Qed.

Lemma block_balance k more s h c g : more [::] -> fair s h -> 0 <= c ->
  E (propose Q k.+1 more s) (worth c s h g)
  = (\sum_x overlap (part c (P s)) (Q s) x * h [:: x]) + (1 - \sum_x overlap (part c (P s)) (Q s) x) * g.
Proof.
by move=> asks fh c0; rewrite E_propose //; apply: kept_or_not => // x; exact: block_after.
Qed.

Lemma block_exact : exact (block P Q).
Proof.
case=> [|k] more s h fh; rewrite E_bind.
  by rewrite /= /last_row /= cats0 fair0.
case asks: (more [::]); last by rewrite /= asks /= /last_row /= cats0 fair0.
pose r := \sum_y replacement 1 (P s) (Q s) y * h [:: y].
rewrite (E_ext (g := worth 1 s h r) (propose_spoken _ _ asks)) => [|[//|x xs] _]; last first.
  rewrite E_bind; apply: eq_E => -[|y ys]; rewrite E_bind //=.
  by rewrite /last_row /= cats0.
rewrite block_balance ?ler01 // not_overlap // addrK overlap_and_replaced mul1r fair0 //.
Qed.

(* Each rule can run, and speaks. *)

Lemma token_runs s xs : runs (token P Q s xs).
Proof.
elim: xs s => //= x xs IH s; split=> [|[]] /=.
- by rewrite acceptance_coin ?(rowP s).1 ?(rowQ s).1.
- by apply: runs_bind => // *; exact: IH.
- by split=> // ; exact: replacement_distribution.
Qed.

Lemma token_spoken s xs : always spoken (token P Q s xs).
Proof. by case: xs => //= x xs [] //; apply: (always_bind (always_true _)). Qed.

Lemma keeps_coin c s : 0 <= c <= 1 -> 0 <= keeps P Q c s <= 1.
Proof.
move=> /andP[c0 c1]; rewrite /keeps; case: eqP => [_ | /eqP]; first by rewrite ler01 lexx.
by apply: ratio_coin; rewrite sum_excess_ge0 /= -subr_ge0 -addrA addrAC subrr add0r subr_ge0.
Qed.

Lemma longest_runs c s xs : 0 <= c <= 1 -> runs (longest P Q c s xs).
Proof.
elim: xs c s => //= x xs IH c s /andP[c0 _]; have c'01 := coin s x c0; split=> [|b].
  by case: xs {IH} => // *; exact: keeps_coin.
by apply: runs_bind => *; first exact: IH.
Qed.

Lemma last_row_distribution c s xs kept : distribution (last_row P Q c s xs kept).
Proof. by rewrite /last_row; case: ifP => // _; exact: replacement_distribution. Qed.

Lemma block_runs s xs : runs (block P Q s xs).
Proof.
apply: runs_bind => [|kept]; first by apply: longest_runs; rewrite ler01 lexx.
by split=> //; exact: last_row_distribution.
Qed.

Lemma block_spoken s xs : always spoken (block P Q s xs).
Proof. by apply: (always_bind (always_true _)) => kept _ /= y; case: kept. Qed.

(* The rules that do not read the draft's rows are exact for each draft by itself. *)

Lemma exact_each (verify : seq V -> seq V -> prog R V (seq V)) :
  (forall s xs h, fair s h -> E (verify s xs) h = h [::]) -> exact verify.
Proof.
move=> each k more s h fh; rewrite E_bind (eq_E _ (fun xs => each s xs h fh)).
by apply: E_const; exact: runs_propose.
Qed.

Lemma sum_certain (x : V) (f : V -> R) : \sum_y certain R x y * f y = f x.
Proof.
by rewrite (bigD1 x) //= big1 ?addr0 => [|y /negbTE yx]; rewrite /certain ?yx ?mul0r // eqxx mul1r.
Qed.

Lemma certain_distribution (x : V) : distribution (certain R x).
Proof.
split=> [y|]; first by rewrite ler0n.
by rewrite -[RHS](sum_certain x (fun=> 1)); apply: eq_bigr => y _; rewrite mulr1.
Qed.

Lemma one_hot_exact : exact (one_hot P).
Proof.
apply: exact_each => s xs; elim: xs s => [|x xs IH] s h fh; first exact: fair0.
rewrite -[RHS](fair0 fh) -[RHS](one_token_law (rowP s) (certain_distribution x) (fun y => h [:: y])).
rewrite [RHS]sum_certain /= E_bind /= IH; last exact: fair_after.
by rewrite /certain eqxx.
Qed.

Lemma one_hot_runs s xs : runs (one_hot P s xs).
Proof.
elim: xs s => //= x xs IH s; split=> [|[]] /=.
- by rewrite acceptance_coin ?(rowP s).1 ?ler01.
- by apply: runs_bind => // *; exact: IH.
- by split=> // ; exact: replacement_distribution.
Qed.

Lemma one_hot_spoken s xs : always spoken (one_hot P s xs).
Proof. by case: xs => //= x xs [] //; apply: (always_bind (always_true _)). Qed.

Lemma sampler_match_exact : exact (sampler_match P).
Proof.
apply: exact_each => s xs; elim: xs s => [|x xs IH] s h fh; first exact: fair0.
rewrite -[RHS](fair0 fh) E_bind; apply: eq_bigr => y _ /=; case: eqP => [-> | //].
by rewrite E_bind /= IH //; exact: fair_after.
Qed.

Lemma sampler_match_runs s xs : runs (sampler_match P s xs).
Proof.
elim: xs s => [|x xs IH] s; split=> //= y; case: ifP => //= _.
by apply: runs_bind => // *; exact: IH.
Qed.

Lemma sampler_match_spoken s xs : always spoken (sampler_match P s xs).
Proof. by case: xs => //= x xs y; case: ifP => // _; apply: (always_bind (always_true _)). Qed.

(* The block rule accepts no fewer: with the share c left it is worth c rounds of the token rule. *)

Definition length_of (ys : seq V) : R := (size ys)%:R.

Definition token_length k more s : R := E (propose Q k more s) (fun xs => E (token P Q s xs) length_of).

Definition longest_length c k more s : R :=
  E (propose Q k more s) (fun xs => E (longest P Q c s xs) length_of).

Lemma length_cons x ys : length_of (x :: ys) = 1 + length_of ys.
Proof. by rewrite /length_of /= -add1n natrD. Qed.

Lemma token_length_ge0 k more s : 0 <= token_length k more s.
Proof.
apply: E_ge0 (runs_propose _ _ _) _ => xs; apply: E_ge0 (token_runs _ _) _ => ys.
by rewrite /length_of ler0n.
Qed.

Lemma token_length_step k more s : more [::] ->
  token_length k.+1 more s
  = 1 + \sum_x Q s x * (acceptance (P s x) (Q s x) * token_length k (fun xs => more (x :: xs)) (rcons s x)).
Proof.
move=> asks; rewrite /token_length E_propose // -[X in _ = X + _](rowQ s).2 -big_split; apply: eq_bigr => x _.
rewrite -[X in _ = X + _]mulr1 -mulrDr; congr (_ * _).
have one : \sum_y replacement 1 (P s) (Q s) y * length_of [:: y] = 1.
  by rewrite -[RHS](replacement_distribution 1 (Q s) (rowP s)).2; apply: eq_bigr => y _; rewrite mulr1.
have more1 xs : E (token P Q (rcons s x) xs) (fun ys => length_of (x :: ys))
    = 1 + E (token P Q (rcons s x) xs) length_of.
  rewrite -(E_const 1 (token_runs (rcons s x) xs)) -E_add.
  by apply: eq_E => ys; rewrite length_cons.
rewrite (eq_E _ (fun xs => E_token s x xs length_of)) one mulr1 E_add E_scale.
rewrite (E_const _ (runs_propose _ _ _)) (eq_E _ more1) E_add (E_const _ (runs_propose _ _ _)).
by rewrite [X in X + _]mulrDr mulr1 addrC addrA subrK.
Qed.

Lemma longest_length_step c k more s : more [::] -> 0 <= c ->
  longest_length c k.+1 more s
  = \sum_x Q s x * (acceptance (c * P s x) (Q s x)
      + longest_length (acceptance (c * P s x) (Q s x)) k (fun xs => more (x :: xs)) (rcons s x)).
Proof.
move=> asks c0; rewrite /longest_length E_propose //; apply: eq_bigr => x _; congr (_ * _).
have fair1 : fair s (fun=> 1) by move=> ys; rewrite -mulr_suml (rowP _).2 mul1r.
have := @block_after k (fun xs => more (x :: xs)) s c _ 0 x fair1 c0.
rewrite mulr0 addr0 mulr1 => after; rewrite -[X in _ = X + _]after -E_add; apply: eq_E => xs.
have last1 kept : \sum_y last_row P Q c s (x :: xs) kept y * 1 = 1.
  by rewrite -[RHS](last_row_distribution c s (x :: xs) kept).2; apply: eq_bigr => y _; rewrite mulr1.
rewrite /worth !E_longest -E_add; apply: eq_E => -[|y ys]; rewrite last1.
  by rewrite -[length_of [:: x]]/(1 : R) -[length_of [::]]/(0 : R) mulr0 !addr0.
by rewrite length_cons.
Qed.

Lemma longest_length_ge k more s c : 0 <= c <= 1 ->
  c * token_length k more s <= c + longest_length c k more s.
Proof.
have nothing s' d : d * E (bind (draw (P s')) (fun y => Ret R V [:: y])) length_of <= d + 0.
  suff -> : E (bind (draw (P s')) (fun y => Ret R V [:: y])) length_of = 1 by rewrite mulr1 addr0.
  by rewrite -[RHS](rowP s').2; apply: eq_bigr => y _; exact: mulr1.
elim: k more s c => [|k IH] more s c c01; first exact: nothing.
case asks: (more [::]); last by rewrite /token_length /longest_length /= asks; exact: nothing.
have c0 : 0 <= c by case/andP: c01.
rewrite token_length_step // longest_length_step // mulrDr mulr1 -subr_ge0 opprD addrACA subrr add0r.
rewrite subr_ge0 mulr_sumr; apply: ler_sum => x _; rewrite mulrCA; apply: ler_mull; first exact: (rowQ s).1.
apply: le_trans (IH _ _ _ (coin s x c0)).
rewrite mulrA ![_ * token_length _ _ _]mulrC; apply: ler_mull; first exact: token_length_ge0.
by apply: acceptance_part => //; [exact: (rowP s).1 | exact: (rowQ s).1].
Qed.

Lemma block_no_shorter k more s :
  E (bind (propose Q k more s) (token P Q s)) length_of
  <= E (bind (propose Q k more s) (block P Q s)) length_of.
Proof.
rewrite !E_bind -/(token_length k more s).
have := @longest_length_ge k more s 1; rewrite ler01 lexx mul1r => /(_ isT).
have one xs : E (block P Q s xs) length_of = 1 + E (longest P Q 1 s xs) length_of.
  have runs1 : runs (longest P Q 1 s xs) by apply: longest_runs; rewrite ler01 lexx.
  rewrite E_bind -[X in X + _](E_const 1 runs1) -E_add; apply: eq_E => kept.
  rewrite -[RHS]mul1r -[X in _ = X * _](last_row_distribution 1 s xs kept).2 mulr_suml E_bind.
  by apply: eq_bigr => y _; rewrite /length_of /= size_rcons -add1n natrD.
by rewrite (eq_E _ one) E_add E_const //; exact: runs_propose.
Qed.

End Verifiers.

Section Texts.

Variables (R : realFieldType) (V : finType) (P Q : seq V -> V -> R) (stop : pred V).
Hypothesis rowP : forall s, distribution (P s).
Hypothesis rowQ : forall s, distribution (Q s).
Implicit Types (s xs ys : seq V) (n j : nat).

Lemma runs_plain n s : runs (plain P stop n s).
Proof.
elim: n s => //= n IH s; split=> // y; case: ifP => //= _.
by apply: runs_bind => // *; exact: IH.
Qed.

Lemma E_plain n s f :
  E (plain P stop n.+1 s) f
  = \sum_y P s y * (if stop y then f [:: y] else E (plain P stop n (rcons s y)) (fun ys => f (y :: ys))).
Proof. by rewrite E_bind; apply: eq_bigr => y _ /=; case: (stop y); rewrite ?E_bind. Qed.

(* The probability of a text under `plain` is a product of rows. *)

Lemma plain_chain n s ys :
  E (plain P stop n s) (fun zs => (zs == ys)%:R) = if whole stop n ys then chain P s ys else 0.
Proof.
have never m t (f : seq V -> R) : (forall zs, f zs = 0) -> E (plain P stop m t) f = 0.
  by move=> f0; rewrite (eq_E _ f0) E_const //; exact: runs_plain.
elim: n s ys => [|n IH] s [|y ys] //.
  by rewrite E_plain big1 // => x _; case: (stop x); rewrite ?never // mulr0.
rewrite E_plain (bigD1 y) //= big1 => [|x /negbTE xy]; last first.
  by rewrite eqseq_cons xy; case: (stop x); rewrite ?never ?mulr0 // => zs; rewrite eqseq_cons xy.
rewrite addr0; case: (stop y).
  by rewrite eqseq_cons eqxx eq_sym; case: eqP => [->|]; rewrite ?mulr0 ?mulr1.
rewrite (eq_E _ (g := fun zs => (zs == ys)%:R)) => [|zs]; last by rewrite eqseq_cons eqxx.
by rewrite IH; case: ifP; rewrite ?mulr0.
Qed.

Lemma runs_complete n s ys : runs (complete P stop n s ys).
Proof. by rewrite /complete; case: ifP => // _; apply: runs_bind => *; [exact: runs_plain | ]. Qed.

Lemma complete0 s ys f : E (complete P stop 0 s ys) f = f [::].
Proof. by rewrite /complete /cut take0. Qed.

Lemma complete_nil n s f : E (complete P stop n s [::]) f = E (plain P stop n s) f.
Proof. by rewrite /complete /= subn0 cats0 E_bind. Qed.

Lemma cut_cons n y ys : cut stop n.+1 (y :: ys) = if stop y then [:: y] else y :: cut stop n ys.
Proof. by rewrite /cut /=; case: (stop y); rewrite //= take0. Qed.

Lemma complete_cons n s y ys f :
  E (complete P stop n.+1 s (y :: ys)) f
  = if stop y then f [:: y] else E (complete P stop n (rcons s y) ys) (fun zs => f (y :: zs)).
Proof.
rewrite /complete cut_cons; case stopped: (stop y); first by rewrite /= stopped.
by rewrite /= stopped /= subSS cat_rcons; case: ifP => // _; rewrite !E_bind.
Qed.

Lemma P_const s c : \sum_y P s y * c = c.
Proof. by rewrite -mulr_suml (rowP s).2 mul1r. Qed.

Lemma fair_complete n s f : fair P s (fun ys => E (complete P stop n s ys) f).
Proof.
move=> ys; elim: ys n s f => [|y ys IH] [|n] s f.
- by rewrite complete0 P_const.
- by rewrite complete_nil cats0 E_plain; apply: eq_bigr => y _; rewrite complete_cons complete_nil.
- by rewrite complete0 P_const.
rewrite complete_cons; case stopped: (stop y).
  by rewrite -[LHS](P_const (s ++ y :: ys)); apply: eq_bigr => z _; rewrite complete_cons stopped.
by rewrite IH cat_rcons; apply: eq_bigr => z _; rewrite complete_cons stopped.
Qed.

Variable verify : seq V -> seq V -> prog R V (seq V).
Hypothesis verify_exact : exact P Q verify.

Lemma round_exact k more s n :
  same_law (ys <- (xs <- propose Q k more s ;; verify s xs) ;; complete P stop n s ys)
           (plain P stop n s).
Proof. by move=> f; rewrite E_bind (verify_exact _ _ (fair_complete n s f)) complete_nil. Qed.

Hypothesis verify_runs : forall s xs, runs (verify s xs).

Lemma round_samples k more s n
    (m := ys <- (xs <- propose Q k more s ;; verify s xs) ;; complete P stop n s ys) :
  runs m /\ same_law m (plain P stop n s).
Proof.
split; last exact: round_exact.
apply: runs_bind => [|ys]; last exact: runs_complete.
by apply: runs_bind => [|xs]; [exact: runs_propose | exact: verify_runs].
Qed.

Variables (k : history V -> seq V -> nat) (more : history V -> seq V -> seq V -> bool).
Hypothesis verify_spoken : forall s xs, always (@spoken V) (verify s xs).

Lemma rounds_exact j before n s : (n <= j)%N ->
  same_law (rounds Q stop k more verify j before n s) (plain P stop n s).
Proof.
elim: j before n s => [|j IH] before [|n] s //= n_le_j f.
rewrite -(round_exact (k before s) (more before s) s n.+1 f) !E_bind; apply: eq_E => xs.
rewrite E_bind; apply: E_ext (verify_spoken s xs) _ => -[//|y ys] _.
rewrite /complete; case: ifP => // _; rewrite !E_bind IH // leq_subLR.
by rewrite (leq_trans n_le_j) // /cut /= addSn ltnS leq_addl.
Qed.

Lemma runs_rounds j before n s : runs (rounds Q stop k more verify j before n s).
Proof.
elim: j before n s => [|j IH] before [|n] s //=.
apply: runs_bind => [|xs]; first exact: runs_propose.
apply: runs_bind => // ys; case: ifP => // _.
by apply: runs_bind => *; first exact: IH.
Qed.

Lemma generate_samples n s (m := generate Q stop k more verify n s) :
  runs m /\ same_law m (plain P stop n s).
Proof. by split; [exact: runs_rounds | exact: rounds_exact]. Qed.

End Texts.
