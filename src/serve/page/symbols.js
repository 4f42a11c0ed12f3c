// The names of LaTeX that math.js knows, by what they become.

const pairs = (kind, text) => Object.fromEntries(text.trim().split(/\s+/).map((item) => {
  const at = item.indexOf(":");
  return [item.slice(0, at), { kind, text: item.slice(at + 1) }];
}));

export const SYMBOLS = {
  ...pairs("letter", `alpha:α beta:β gamma:γ delta:δ epsilon:ϵ varepsilon:ε zeta:ζ eta:η theta:θ vartheta:ϑ iota:ι kappa:κ
    lambda:λ mu:μ nu:ν xi:ξ omicron:ο pi:π varpi:ϖ rho:ρ varrho:ϱ sigma:σ varsigma:ς tau:τ upsilon:υ phi:ϕ varphi:φ chi:χ
    psi:ψ omega:ω ell:ℓ imath:ı jmath:ȷ partial:∂`),
  ...pairs("upright", `Gamma:Γ Delta:Δ Theta:Θ Lambda:Λ Xi:Ξ Pi:Π Sigma:Σ Upsilon:Υ Phi:Φ Psi:Ψ Omega:Ω infty:∞ hbar:ℏ
    nabla:∇ emptyset:∅ varnothing:∅ aleph:ℵ Re:ℜ Im:ℑ wp:℘ top:⊤ bot:⊥ angle:∠ triangle:△ square:□ blacksquare:■ checkmark:✓
    degree:° circ:∘ prime:′ dagger:† star:⋆ bullet:∙ ldots:… dots:… cdots:⋯ vdots:⋮ ddots:⋱ dotsc:… dotsb:⋯ N:ℕ Z:ℤ R:ℝ Q:ℚ C:ℂ
    %:% $:$ #:# &:& _:_ S:§ P:¶ clubsuit:♣ diamondsuit:♢ heartsuit:♡ spadesuit:♠ complement:∁`),
  ...pairs("operator", `times:× cdot:⋅ div:÷ pm:± mp:∓ ast:∗ oplus:⊕ ominus:⊖ otimes:⊗ oslash:⊘ odot:⊙ leq:≤ le:≤ geq:≥ ge:≥
    neq:≠ ne:≠ approx:≈ equiv:≡ sim:∼ simeq:≃ cong:≅ propto:∝ ll:≪ gg:≫ lt:< gt:> leqslant:⩽ geqslant:⩾ prec:≺ succ:≻
    preceq:⪯ succeq:⪰ doteq:≐ triangleq:≜ coloneqq:≔ in:∈ notin:∉ ni:∋ subset:⊂ supset:⊃ subseteq:⊆ supseteq:⊇ subsetneq:⊊
    cup:∪ cap:∩ setminus:∖ backslash:\\ wedge:∧ land:∧ vee:∨ lor:∨ neg:¬ lnot:¬ forall:∀ exists:∃ nexists:∄ therefore:∴ because:∵ perp:⊥
    parallel:∥ mid:∣ nmid:∤ vdash:⊢ models:⊨ asymp:≍ bowtie:⋈ colon:: to:→ rightarrow:→ leftarrow:← gets:← leftrightarrow:↔
    Rightarrow:⇒ Leftarrow:⇐ Leftrightarrow:⇔ implies:⟹ impliedby:⟸ iff:⟺ mapsto:↦ longmapsto:⟼ longrightarrow:⟶
    longleftarrow:⟵ Longrightarrow:⟹ Longleftarrow:⟸ hookrightarrow:↪ uparrow:↑ downarrow:↓ Uparrow:⇑ Downarrow:⇓ updownarrow:↕
    nearrow:↗ searrow:↘ rightleftharpoons:⇌ leadsto:⇝ rightharpoonup:⇀ diamond:⋄ wr:≀ amalg:⨿ sqcup:⊔ sqcap:⊓ uplus:⊎ lesssim:≲
    gtrsim:≳ thicksim:∼ thickapprox:≈ vert:| Vert:‖`),
  ...pairs("fence", `lfloor:⌊ rfloor:⌋ lceil:⌈ rceil:⌉ langle:⟨ rangle:⟩ lbrace:{ rbrace:} {:{ }:} lbrack:[ rbrack:] lvert:| rvert:|
    lVert:‖ rVert:‖ |:‖`),
  ...pairs("space", ",:0.17em >:0.22em ;:0.28em !:-0.17em quad:1em qquad:2em thinspace:0.17em enspace:0.5em"),
  ":": { kind: "space", text: "0.22em" },
  " ": { kind: "space", text: "0.33em" },
  "\n": { kind: "space", text: "0.33em" },
};

export const FUNCTIONS = new Set(("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth exp log ln lg lim limsup liminf " +
  "max min sup inf det dim ker deg gcd arg hom Pr argmax argmin tr rank sgn erf mod").split(" "));

export const LARGE = {
  sum: "∑", prod: "∏", coprod: "∐", int: "∫", iint: "∬", iiint: "∭", oint: "∮", bigcup: "⋃", bigcap: "⋂", bigoplus: "⨁",
  bigotimes: "⨂", bigvee: "⋁", bigwedge: "⋀", bigsqcup: "⨆",
};

// name: [mark, it stands below, it stretches]
export const ACCENTS = {
  hat: ["^", false, false], widehat: ["^", false, true], bar: ["¯", false, false], overline: ["‾", false, true],
  tilde: ["~", false, false], widetilde: ["~", false, true], vec: ["→", false, false], dot: ["˙", false, false],
  ddot: ["¨", false, false], check: ["ˇ", false, false], acute: ["´", false, false], grave: ["`", false, false],
  breve: ["˘", false, false], mathring: ["˚", false, false], overrightarrow: ["→", false, true], overleftarrow: ["←", false, true],
  underline: ["_", true, true],
  overbrace: ["⏞", false, true], underbrace: ["⏟", true, true],
};

const upright = { upright: true };
const bold = { upper: 0x1d400, lower: 0x1d41a };
const calligraphic = {
  upper: 0x1d49c, lower: 0x1d4b6,
  exceptions: { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" },
};
export const ALPHABETS = {
  mathrm: upright, mathbf: bold, boldsymbol: bold, bm: bold, mathcal: calligraphic, mathscr: calligraphic,
  mathbb: { upper: 0x1d538, lower: 0x1d552, exceptions: { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" } },
  mathfrak: { upper: 0x1d504, lower: 0x1d51e, exceptions: { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" } },
  mathsf: { upper: 0x1d5a0, lower: 0x1d5ba }, mathtt: { upper: 0x1d670, lower: 0x1d68a }, mathit: { upper: 0x1d434, lower: 0x1d44e, exceptions: { h: "ℎ" } },
};

export const STRETCHY = { lgroup: "⟮", rgroup: "⟯" };
