/* The table of mlx-lm's families. Its facts were read from mlx-lm 0.32.2 (the functions sanitize, quant_predicate and
 * cast_predicate of its models), and tests/differential/quantize.py compares every golden's conversion with mlx-lm's
 * own.
 *
 * A rule that also takes forms which mlx-lm would stumble over (experts apart in qwen3_5_moe) gives what it has for the
 * other form of the same weights. */
#include "convert/mlx_family.h"

#include <string.h>

#define EXPERTS(at, to)                                                                                  \
    {LAYOUT_STACK, at ".experts.#.gate_proj.weight", to ".gate_proj.weight", NULL, WHEN_ALWAYS, NULL},   \
        {LAYOUT_STACK, at ".experts.#.up_proj.weight", to ".up_proj.weight", NULL, WHEN_ALWAYS, NULL}, { \
        LAYOUT_STACK, at ".experts.#.down_proj.weight", to ".down_proj.weight", NULL, WHEN_ALWAYS, NULL  \
    }
#define NUMBERED_EXPERTS(at, to)                                                                    \
    {LAYOUT_STACK, at ".experts.#.w1.weight", to ".gate_proj.weight", NULL, WHEN_ALWAYS, NULL},     \
        {LAYOUT_STACK, at ".experts.#.w3.weight", to ".up_proj.weight", NULL, WHEN_ALWAYS, NULL}, { \
        LAYOUT_STACK, at ".experts.#.w2.weight", to ".down_proj.weight", NULL, WHEN_ALWAYS, NULL    \
    }
#define FUSED_EXPERTS(at, to)                                                                                       \
    {LAYOUT_HALVES, at ".experts.gate_up_proj", to ".gate_proj.weight", to ".up_proj.weight", WHEN_ALWAYS, NULL}, { \
        LAYOUT_MOVE, at ".experts.down_proj", to ".down_proj.weight", NULL, WHEN_ALWAYS, NULL                       \
    }
#define SWAPPED_EXPERTS(at, to)                                                               \
    {LAYOUT_HALVES_SWAPPED,                                                                   \
     at ".experts.gate_up_proj",                                                              \
     to ".gate_proj.weight",                                                                  \
     to ".up_proj.weight",                                                                    \
     WHEN_ALWAYS,                                                                             \
     NULL},                                                                                   \
        {LAYOUT_SWAP, at ".experts.down_proj", NULL, NULL, WHEN_ALWAYS, NULL}, {              \
        LAYOUT_MOVE, at ".experts.down_proj", to ".down_proj.weight", NULL, WHEN_ALWAYS, NULL \
    }
#define MOVE(from, to) \
    { LAYOUT_MOVE, from, to, NULL, WHEN_ALWAYS, NULL }
#define DROP(from) \
    { LAYOUT_DROP, from, NULL, NULL, WHEN_ALWAYS, NULL }
#define REFUSE(from, why) \
    { LAYOUT_REFUSE, from, why, NULL, WHEN_ALWAYS, NULL }
#define END \
    { LAYOUT_END, NULL, NULL, NULL, WHEN_ALWAYS, NULL }

const LayoutRule mlx_rules_first[] = {DROP("*rotary_emb.inv_freq"),
                                      DROP("*rope.inv_freq"),
                                      DROP("vision_tower.*"),
                                      DROP("model.vision_tower.*"),
                                      DROP("*multi_modal_projector.*"),
                                      DROP("*audio_tower.*"),
                                      DROP("*embed_audio.*"),
                                      DROP("*embed_vision.*"),
                                      DROP("vision_model.*"),
                                      DROP("visual.*"),
                                      DROP("model.visual.*"),
                                      DROP("mm_projector.*"),
                                      DROP("*vision_embedder.*"),
                                      DROP("mtp.*"),
                                      DROP("*.mtp.*"),
                                      DROP("model.mtp*"),
                                      END};

const LayoutRule mlx_rules_last[] = {{LAYOUT_DROP, "lm_head.weight", NULL, NULL, WHEN_TIED, NULL},
                                     {LAYOUT_DROP, "language_model.lm_head.weight", NULL, NULL, WHEN_TIED, NULL},
                                     {LAYOUT_CONV, "*conv1d.weight", NULL, NULL, WHEN_ALWAYS, NULL},
                                     {LAYOUT_CONV, "*conv_1d.weight", NULL, NULL, WHEN_ALWAYS, NULL},
                                     {LAYOUT_CONV, "*conv.weight", NULL, NULL, WHEN_ALWAYS, NULL},
                                     END};

/* ---- rules of families ---- */

static const LayoutRule experts[] = {EXPERTS("*.mlp", "*.mlp.switch_mlp"), END};
static const LayoutRule experts_in_place[] = {EXPERTS("*.mlp", "*.mlp.experts"), END};
static const LayoutRule experts_numbered[] = {NUMBERED_EXPERTS("*.block_sparse_moe", "*.block_sparse_moe.switch_mlp"),
                                              END};
static const LayoutRule experts_fused[] = {FUSED_EXPERTS("*.mlp", "*.mlp.switch_mlp"), END};
static const LayoutRule latent[] = {
    {LAYOUT_LATENT, "*.kv_b_proj.weight", "*.embed_q.weight", "*.unembed_out.weight", WHEN_ALWAYS, NULL}, END};
static const LayoutRule wrapped[] = {MOVE("model.language_model.*", "language_model.model.*"),
                                     {LAYOUT_PREFIX, "*", "language_model.", NULL, WHEN_ALWAYS, NULL},
                                     END};
static const LayoutRule wrapped_model[] = {MOVE("model.language_model.*", "language_model.model.*"), END};

static const LayoutRule apertus[] = {{LAYOUT_SQUEEZE, "*alpha_p", NULL, NULL, WHEN_ALWAYS, NULL},
                                     {LAYOUT_SQUEEZE, "*alpha_n", NULL, NULL, WHEN_ALWAYS, NULL},
                                     END};
static const LayoutRule baichuan[] = {{LAYOUT_UNIT_ROWS, "lm_head.weight", NULL, NULL, WHEN_ALWAYS, NULL}, END};
static const LayoutRule bailing[] = {MOVE("*.mlp.gate.weight", "*.mlp.gate.gate_proj.weight"),
                                     MOVE("*.mlp.gate.bias", "*.mlp.gate.gate_proj.bias"), END};
static const LayoutRule dbrx[] = {
    {LAYOUT_SPLIT, "*.experts.mlp.w1", "*.experts.#.w1.weight", NULL, WHEN_ALWAYS, NULL},
    {LAYOUT_SPLIT, "*.experts.mlp.v1", "*.experts.#.v1.weight", NULL, WHEN_ALWAYS, NULL},
    {LAYOUT_SPLIT_SWAPPED, "*.experts.mlp.w2", "*.experts.#.w2.weight", NULL, WHEN_ALWAYS, NULL},
    END};
static const LayoutRule deepseek_v41[] = {REFUSE("layers.*", "the published names"), END};
static const LayoutRule ernie_moe[] = {
    DROP("*mtp_block.*"),    DROP("*mtp_linear_proj.*"),        DROP("*mtp_hidden_norm.*"),
    DROP("*mtp_emb_norm.*"), DROP("*e_score_correction_bias*"), END};
static const LayoutRule exaone_moe[] = {MOVE("*.mlp.e_score_correction_bias", "*.mlp.gate.e_score_correction_bias"),
                                        END};
#define SCALE(from, key, otherwise) \
    { LAYOUT_SCALE, from, key, otherwise, WHEN_RAW_CONV, NULL }
/* mlx-lm leaves key_multiplier out, and the values' share of attention_in_multiplier: so does this. */
static const LayoutRule falcon_h1[] = {SCALE("*embed_tokens.weight", "embedding_multiplier", "5.656854249492381"),
                                       SCALE("*lm_head.weight", "lm_head_multiplier", "0.0390625"),
                                       SCALE("*q_proj.weight", "attention_in_multiplier", "1"),
                                       SCALE("*k_proj.weight", "attention_in_multiplier", "1"),
                                       SCALE("*o_proj.weight", "attention_out_multiplier", "0.9375"),
                                       SCALE("*out_proj.weight", "ssm_out_multiplier", "0.23570226039551587"),
                                       SCALE("*gate_proj.weight", "mlp_multipliers[0]", "0.8838834764831844"),
                                       SCALE("*down_proj.weight", "mlp_multipliers[1]", "0.5859375"),
                                       {LAYOUT_SCALE_SSM, "*in_proj.weight", NULL, NULL, WHEN_RAW_CONV, NULL},
                                       END};
static const LayoutRule gear[] = {DROP("*embed_scale"),
                                  {LAYOUT_CONV, "*key_conv.weight", NULL, NULL, WHEN_ALWAYS, NULL},
                                  {LAYOUT_CONV, "*value_conv.weight", NULL, NULL, WHEN_ALWAYS, NULL},
                                  END};
static const LayoutRule gemma4[] = {FUSED_EXPERTS("*", "*.experts.switch_glu"),
                                    DROP("*self_attn.rotary_emb*"),
                                    DROP("*input_max*"),
                                    DROP("*input_min*"),
                                    DROP("*output_max*"),
                                    DROP("*output_min*"),
                                    END};
static const LayoutRule gpt2[] = {MOVE("transformer.*", "*"),
                                  DROP("h.#.attn.bias"),
                                  {LAYOUT_SWAP, "h.#.attn.c_attn.weight", NULL, NULL, WHEN_ALWAYS, NULL},
                                  {LAYOUT_SWAP, "h.#.attn.c_proj.weight", NULL, NULL, WHEN_ALWAYS, NULL},
                                  {LAYOUT_SWAP, "h.#.mlp.c_fc.weight", NULL, NULL, WHEN_ALWAYS, NULL},
                                  {LAYOUT_SWAP, "h.#.mlp.c_proj.weight", NULL, NULL, WHEN_ALWAYS, NULL},
                                  {LAYOUT_PREFIX, "*", "model.", NULL, WHEN_ALWAYS, NULL},
                                  END};
static const LayoutRule gpt_neox[] = {DROP("*.attention.bias"),
                                      DROP("*.attention.masked_bias"),
                                      MOVE("gpt_neox.layers.*", "model.h.*"),
                                      MOVE("gpt_neox.*", "model.*"),
                                      {LAYOUT_PREFIX, "*", "model.", NULL, WHEN_ALWAYS, NULL},
                                      END};
static const LayoutRule gptj[] = {DROP("*.attn.bias"), DROP("*.attn.masked_bias"), MOVE("transformer.*", "model.*"),
                                  END};
static const LayoutRule gpt_oss[] = {{LAYOUT_INTERLEAVED_SWAPPED, "*.experts.gate_up_proj",
                                      "*.experts.gate_proj.weight", "*.experts.up_proj.weight", WHEN_ALWAYS, NULL},
                                     {LAYOUT_INTERLEAVED, "*.experts.gate_up_proj_bias", "*.experts.gate_proj.bias",
                                      "*.experts.up_proj.bias", WHEN_ALWAYS, NULL},
                                     {LAYOUT_SWAP, "*.experts.down_proj", NULL, NULL, WHEN_ALWAYS, NULL},
                                     MOVE("*.experts.down_proj", "*.experts.down_proj.weight"),
                                     MOVE("*.experts.down_proj_bias", "*.experts.down_proj.bias"),
                                     END};
static const LayoutRule granite_moe[] = {
    {LAYOUT_HALVES, "*.block_sparse_moe.input_linear.weight", "*.block_sparse_moe.switch_mlp.gate_proj.weight",
     "*.block_sparse_moe.switch_mlp.up_proj.weight", WHEN_ALWAYS, NULL},
    MOVE("*.block_sparse_moe.output_linear.weight", "*.block_sparse_moe.switch_mlp.down_proj.weight"),
    END};
static const LayoutRule granite_hybrid[] = {{LAYOUT_HALVES, "*.shared_mlp.input_linear.weight",
                                             "*.mlp.gate_proj.weight", "*.mlp.up_proj.weight", WHEN_LACKS,
                                             "*.block_sparse_moe.*"},
                                            {LAYOUT_MOVE, "*.shared_mlp.output_linear.weight", "*.mlp.down_proj.weight",
                                             NULL, WHEN_LACKS, "*.block_sparse_moe.*"},
                                            END};
static const LayoutRule hunyuan[] = {EXPERTS("*.mlp", "*.mlp.switch_mlp"),
                                     REFUSE("*.qkv_proj.weight", "queries, keys and values in one matrix"),
                                     REFUSE("*.gate_and_up_proj.weight", "gate and up in one matrix"), END};
static const LayoutRule jamba[] = {EXPERTS("*.feed_forward", "*.feed_forward.switch_mlp"), END};
static const LayoutRule kimi_linear[] = {
    NUMBERED_EXPERTS("*.block_sparse_moe", "*.mlp.switch_mlp"),
    MOVE("*.block_sparse_moe.gate.e_score_correction_bias", "*.mlp.e_score_correction_bias"),
    MOVE("*.block_sparse_moe.*", "*.mlp.*"),
    {LAYOUT_FLATTEN, "*.dt_bias", NULL, NULL, WHEN_ALWAYS, NULL},
    {LAYOUT_CONV, "*_conv1d.weight", NULL, NULL, WHEN_ALWAYS, NULL},
    MOVE("*_conv1d.weight", "*_conv.conv.weight"),
    END};
#define KIMI_JOIN(which, place)                                                                                     \
    {LAYOUT_JOIN, "*.self_attn." which "_proj.weight", "*.self_attn.qkv_proj.weight", place,                        \
     WHEN_BESIDE, "*.self_attn.q_conv1d.weight"},                                                                   \
        {LAYOUT_CONV, "*.self_attn." which "_conv1d.weight", NULL, NULL, WHEN_ALWAYS, NULL}, {                      \
        LAYOUT_JOIN, "*.self_attn." which "_conv1d.weight", "*.self_attn.qkv_conv.conv.weight", place, WHEN_ALWAYS, \
            NULL                                                                                                    \
    }
static const LayoutRule kimi_k3[] = {
    {LAYOUT_PREFIX, "*", "language_model.", NULL, WHEN_ALWAYS, NULL},
    DROP("language_model.mtp*"),
    DROP("language_model.model.mtp*"),
    MOVE("*_res.proj_weight", "*_res_proj.weight"),
    MOVE("*_res.norm_weight", "*_res_norm.weight"),
    NUMBERED_EXPERTS("*.block_sparse_moe", "*.mlp.switch_mlp"),
    MOVE("*.block_sparse_moe.gate.e_score_correction_bias", "*.mlp.e_score_correction_bias"),
    MOVE("*.block_sparse_moe.*", "*.mlp.*"),
    {LAYOUT_FLATTEN, "*.dt_bias", NULL, NULL, WHEN_ALWAYS, NULL},
    {LAYOUT_FLATTEN, "*.A_log", NULL, NULL, WHEN_ALWAYS, NULL},
    KIMI_JOIN("q", "0"),
    KIMI_JOIN("k", "1"),
    KIMI_JOIN("v", "2"),
    END};
static const LayoutRule laguna[] = {MOVE("language_model.*", "*"), MOVE("*.mlp.gate.weight", "*.mlp.gate.proj.weight"),
                                    MOVE("*.mlp.experts.e_score_correction_bias", "*.mlp.gate.e_score_correction_bias"),
                                    END};
static const LayoutRule lfm2_moe[] = {MOVE("*w1.weight", "*gate_proj.weight"), MOVE("*w2.weight", "*down_proj.weight"),
                                      MOVE("*w3.weight", "*up_proj.weight"),
                                      EXPERTS("*.feed_forward", "*.feed_forward.switch_mlp"), END};
static const LayoutRule llama4[] = {SWAPPED_EXPERTS("*.feed_forward", "*.feed_forward.experts"), END};
static const LayoutRule longcat_ngram[] = {
    MOVE("model.embed_tokens.weight", "model.ngram_embeddings.word_embeddings.weight"), END};
static const LayoutRule minicpm[] = {
    {LAYOUT_COPY, "model.embed_tokens.weight", "lm_head.weight", NULL, WHEN_ALWAYS, NULL}, END};
static const LayoutRule muse_glimmer[] = {DROP("vision_adapter*"),
                                          DROP("vision_projection*"),
                                          MOVE("language_model.model.*", "model.*"),
                                          MOVE("language_model.lm_head.*", "lm_head.*"),
                                          MOVE("model.language_model.*", "model.*"),
                                          END};
static const LayoutRule nemotron_h[] = {
    {LAYOUT_STACK, "*.mixer.experts.#.up_proj.weight", "*.mixer.switch_mlp.fc1.weight", NULL, WHEN_ALWAYS, NULL},
    {LAYOUT_STACK, "*.mixer.experts.#.down_proj.weight", "*.mixer.switch_mlp.fc2.weight", NULL, WHEN_ALWAYS, NULL},
    END};
static const LayoutRule phixtral[] = {
    {LAYOUT_STACK, "*.moe.mlp.#.fc1.weight", "*.moe.switch_mlp.fc1.weight", NULL, WHEN_ALWAYS, NULL},
    {LAYOUT_STACK, "*.moe.mlp.#.fc2.weight", "*.moe.switch_mlp.fc2.weight", NULL, WHEN_ALWAYS, NULL},
    {LAYOUT_STACK, "*.moe.mlp.#.fc1.bias", "*.moe.switch_mlp.fc1.bias", NULL, WHEN_ALWAYS, NULL},
    {LAYOUT_STACK, "*.moe.mlp.#.fc2.bias", "*.moe.switch_mlp.fc2.bias", NULL, WHEN_ALWAYS, NULL},
    END};
#define QWEN_NORM(name, when, which) \
    { LAYOUT_ADD_ONE, name, NULL, NULL, when, which }
static const LayoutRule qwen3_5_norms[] = {QWEN_NORM("*.input_layernorm.weight", WHEN_RAW_CONV, NULL),
                                           QWEN_NORM("*.post_attention_layernorm.weight", WHEN_RAW_CONV, NULL),
                                           QWEN_NORM("*model.norm.weight", WHEN_RAW_CONV, NULL),
                                           QWEN_NORM("*.q_norm.weight", WHEN_RAW_CONV, NULL),
                                           QWEN_NORM("*.k_norm.weight", WHEN_RAW_CONV, NULL),
                                           END};
static const LayoutRule qwen3_5_experts[] = {FUSED_EXPERTS("*.mlp", "*.mlp.switch_mlp"),
                                             EXPERTS("*.mlp", "*.mlp.switch_mlp"),
                                             QWEN_NORM("*.input_layernorm.weight", WHEN_RAW_CONV, NULL),
                                             QWEN_NORM("*.post_attention_layernorm.weight", WHEN_RAW_CONV, NULL),
                                             QWEN_NORM("*model.norm.weight", WHEN_RAW_CONV, NULL),
                                             QWEN_NORM("*.q_norm.weight", WHEN_RAW_CONV, NULL),
                                             QWEN_NORM("*.k_norm.weight", WHEN_RAW_CONV, NULL),
                                             END};
#define NEXT_APART "*.mlp.experts.0.up_proj.weight"
static const LayoutRule qwen3_next[] = {QWEN_NORM("*.input_layernorm.weight", WHEN_HAS, NEXT_APART),
                                        QWEN_NORM("*.post_attention_layernorm.weight", WHEN_HAS, NEXT_APART),
                                        QWEN_NORM("*model.norm.weight", WHEN_HAS, NEXT_APART),
                                        QWEN_NORM("*.q_norm.weight", WHEN_HAS, NEXT_APART),
                                        QWEN_NORM("*.k_norm.weight", WHEN_HAS, NEXT_APART),
                                        END};
static const LayoutRule qwen3_vl_moe[] = {SWAPPED_EXPERTS("*.mlp", "*.mlp.switch_mlp"), END};
static const LayoutRule rwkv7[] = {{LAYOUT_HEADS, "*k_k*", NULL, NULL, WHEN_ALWAYS, NULL},
                                   {LAYOUT_HEADS, "*k_a*", NULL, NULL, WHEN_ALWAYS, NULL},
                                   {LAYOUT_HEADS, "*g_norm*", NULL, NULL, WHEN_ALWAYS, NULL},
                                   END};
static const LayoutRule spark[] = {MOVE("model.embed_tokens.weight", "model.embedding.weight"), END};
static const LayoutRule step3p5[] = {{LAYOUT_ADD_ONE, "*norm*.weight", NULL, NULL, WHEN_HAS, "*.moe.*"},
                                     MOVE("*.moe.gate_proj.*", "*.mlp.switch_mlp.gate_proj.*"),
                                     MOVE("*.moe.up_proj.*", "*.mlp.switch_mlp.up_proj.*"),
                                     MOVE("*.moe.down_proj.*", "*.mlp.switch_mlp.down_proj.*"),
                                     MOVE("*.moe.gate.*", "*.mlp.gate.gate.*"),
                                     MOVE("*.moe.router_bias", "*.mlp.gate.router_bias"),
                                     MOVE("*.mlp.share_expert.*", "*.share_expert.*"),
                                     MOVE("*.share_expert.*", "*.mlp.share_expert.*"),
                                     END};
static const LayoutRule talkie[] = {DROP("*rotary*"), DROP("*cos"), DROP("*sin"), END};

/* ---- families ---- */

#define ROUTER_BIAS "*e_score_correction_bias*"
#define GATE "*.mlp.gate"

static const MlxFamily families[] = {
    {.model_types = "llama|mistral|iquestcoder|xverse|bitnet|exaone|glm|gpt_bigcode|granitemoe_dense|lille-130m|mamba|"
                    "falcon_mamba|"
                    "ministral3|olmo2|plamo2|plamo3|qwen2|seed_oss|starcoder2|smollm3|youtu_llm",
     .flags = MLX_TIED},
    {.model_types =
         "cohere|cohere2|ernie4_5|exaone4|gemma|gemma2|gemma3n|glm4|helium|hunyuan_v1_dense|internlm2|"
         "internlm3|"
         "iquestloopcoder|lfm2|lfm2-vl|lfm2_vl|mamba2|mimo|minicpm3|nanbeige|nanochat|nemotron|nemotron-nas|olmo|olmo3|"
         "olmo_hybrid|openelm|phi|phi3|phi3small|plamo|qwen|qwen3|stablelm|telechat3|afm7",
     .plain = "model.gate_projections.*"},
    {.model_types = "Klear", .rules = {experts_in_place}, .finer = GATE, .as_stored = "*expert_bias*"},
    {.model_types = "afmoe", .rules = {experts_in_place}, .finer = "*router.gate*", .as_stored = "*expert_bias*"},
    {.model_types = "baichuan_m1", .rules = {baichuan}},
    {.model_types = "apertus", .rules = {apertus}},
    {.model_types = "bailing_hybrid",
     .flags = MLX_EXTRA_LAYERS,
     .rules = {experts, bailing, latent},
     .kept = "*attention.embed_q|*attention.unembed_out",
     .finer = "*mlp.gate.gate_proj",
     .as_stored = "*expert_bias*"},
    {.model_types = "bailing_moe|bailing_moe_linear",
     .rules = {experts, bailing},
     .finer = "*mlp.gate.gate_proj",
     .as_stored = "*expert_bias*"},
    {.model_types = "bailing_moe_v3",
     .flags = MLX_EXTRA_LAYERS,
     .rules = {experts, latent},
     .plain = GATE,
     .kept = "model.word_embeddings|lm_head|*attention.q_a_proj|*attention.q_b_proj|*attention.kv_a_proj_with_mqa|*"
             "attention.embed_q|*attention.unembed_out|*attention.b_proj",
     .kept_full = "*attention.q_proj|*attention.g_proj"},
    {.model_types = "dbrx", .rules = {dbrx}},
    {.model_types = "deepseek|deepseek_v2", .rules = {experts}, .plain = GATE},
    {.model_types = "deepseek_v3|joyai_llm_flash|kimi_k2|deepseek_v32|glm_moe_dsa|glm4_moe_lite|kimi_k25",
     .flags = MLX_EXTRA_LAYERS,
     .rules = {experts, latent},
     .plain = GATE,
     .as_stored = ROUTER_BIAS},
    {.model_types = "deepseek_v41|deepseek_v41_text",
     .rules = {deepseek_v41},
     .plain = GATE,
     .as_stored = "*attn_hc.*|*ffn_hc.*|*sinks*|*compressor.*|" ROUTER_BIAS},
    {.model_types = "dots1", .rules = {experts_in_place}, .plain = GATE},
    {.model_types = "ernie4_5_moe", .rules = {ernie_moe, experts}},
    {.model_types = "exaone_moe", .rules = {exaone_moe, experts}, .plain = GATE, .as_stored = ROUTER_BIAS},
    {.model_types = "falcon_h1", .flags = MLX_TIED, .rules = {falcon_h1}},
    {.model_types = "gear", .flags = MLX_TIED, .rules = {gear}},
    {.model_types = "gemma3_text|recurrent_gemma", .flags = MLX_KEEPS_HEAD},
    {.model_types = "gemma3", .flags = MLX_KEEPS_HEAD, .rules = {wrapped_model}},
    {.model_types = "gemma4|gemma4_unified",
     .flags = MLX_TIED | MLX_SHARED_KV,
     .rules = {wrapped_model, gemma4},
     .finer = "*router.proj"},
    {.model_types = "gemma4_text", .flags = MLX_TIED | MLX_SHARED_KV, .rules = {gemma4}, .finer = "*router.proj"},
    {.model_types = "glm4_moe|solar_open",
     .flags = MLX_EXTRA_LAYERS,
     .rules = {experts},
     .plain = GATE,
     .as_stored = ROUTER_BIAS},
    {.model_types = "gpt2", .rules = {gpt2}},
    {.model_types = "gpt_neox", .rules = {gpt_neox}},
    {.model_types = "gptj", .rules = {gptj}},
    {.model_types = "gpt_oss", .rules = {gpt_oss}, .finer = "*router"},
    {.model_types = "granite", .flags = MLX_TIED, .finer = "*self_attn.o_proj|*mlp.down_proj|lm_head"},
    {.model_types = "granitemoe",
     .flags = MLX_TIED,
     .rules = {granite_moe},
     .finer = "*block_sparse_moe.router.layer|*self_attn.o_proj|*mlp.down_proj|lm_head"},
    {.model_types = "granitemoehybrid",
     .flags = MLX_TIED,
     .rules = {granite_moe, granite_hybrid},
     .finer = "*router.layer"},
    {.model_types = "hunyuan", .rules = {hunyuan}},
    {.model_types = "jamba", .flags = MLX_TIED, .rules = {jamba}, .finer = "*router"},
    {.model_types = "kimi_k3",
     .flags = MLX_EXTRA_LAYERS,
     .rules = {kimi_k3, latent},
     .kept = "*res_proj",
     .finer = GATE,
     .as_stored = ROUTER_BIAS "|*A_log|*dt_bias"},
    {.model_types = "kimi_linear",
     .rules = {kimi_linear, latent},
     .finer = GATE,
     .as_stored = ROUTER_BIAS "|*A_log|*dt_bias"},
    {.model_types = "kimi_vl", .rules = {experts}, .plain = GATE, .as_stored = ROUTER_BIAS},
    {.model_types = "laguna", .rules = {laguna, experts}, .finer = "*mlp.gate.proj", .as_stored = ROUTER_BIAS},
    {.model_types = "lfm2_moe", .rules = {lfm2_moe}, .finer = "*feed_forward.gate", .as_stored = "*expert_bias*"},
    {.model_types = "llama4|llama4_text", .rules = {llama4}},
    {.model_types = "longcat_flash", .rules = {experts, latent}, .finer = "*classifier", .as_stored = ROUTER_BIAS},
    {.model_types = "longcat_flash_ngram",
     .rules = {longcat_ngram, experts, latent},
     .finer = "*classifier",
     .as_stored = ROUTER_BIAS},
    {.model_types = "mellum|qwen3_moe", .rules = {experts}, .finer = GATE},
    {.model_types = "mimo_v2_flash", .rules = {experts}, .plain = GATE, .as_stored = ROUTER_BIAS},
    {.model_types = "minicpm", .rules = {minicpm}},
    {.model_types = "minimax|minimax_m2",
     .rules = {experts_numbered},
     .finer = "*block_sparse_moe.gate",
     .as_stored = ROUTER_BIAS},
    {.model_types = "mistral3|llava", .flags = MLX_TIED, .rules = {wrapped}},
    {.model_types = "mistral4", .rules = {experts_fused, experts, latent}},
    {.model_types = "mixtral|phimoe", .rules = {experts_numbered}},
    {.model_types = "muse_glimmer", .rules = {muse_glimmer}},
    {.model_types = "nemotron_h", .rules = {nemotron_h}, .plain = "*.mixer.gate", .as_stored = ROUTER_BIAS "|*A_log*"},
    {.model_types = "olmoe", .flags = MLX_TIED, .rules = {experts}},
    {.model_types = "qwen2_moe", .rules = {experts}},
    {.model_types = "phixtral|phi-msft", .rules = {phixtral}},
    {.model_types = "qwen2_vl|qwen2_5_vl|qwen3_vl", .rules = {wrapped}},
    {.model_types = "qwen3_5|qwen3_5_text", .rules = {wrapped, qwen3_5_norms}, .as_stored = "*A_log"},
    {.model_types = "qwen3_5_moe|qwen3_5_moe_text",
     .rules = {wrapped, qwen3_5_experts},
     .finer = "*mlp.gate|*shared_expert_gate",
     .as_stored = "*A_log"},
    {.model_types = "qwen3_next", .rules = {qwen3_next, experts}, .finer = "*mlp.gate|*shared_expert_gate"},
    {.model_types = "qwen3_vl_moe", .rules = {wrapped, qwen3_vl_moe}, .finer = GATE},
    {.model_types = "rwkv7", .rules = {rwkv7}, .finer = "*lora.2*|*embeddings*"},
    {.model_types = "spark2_5", .flags = MLX_TIED, .rules = {spark}, .kept = "*self_attn.g_proj"},
    {.model_types = "step3p5",
     .flags = MLX_EXTRA_LAYERS,
     .rules = {step3p5},
     .finer = "*mlp.gate.gate*",
     .as_stored = "*router_bias*"},
    {.model_types = "talkie", .rules = {talkie}},
};

static bool is_listed(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == '|' || p[n] == 0)) return true;
    return false;
}

const MlxFamily *mlx_family_find(const JsonValue *config) {
    const char *type = json_string(json_get(config, "model_type"));
    const JsonValue *class = json_item(json_get(config, "architectures"), 0);
    if (type && strcmp(type, "bailing_hybrid") == 0 && json_equals(class, "BailingMoeV3ForCausalLM"))
        type = "bailing_moe_v3";
    for (size_t i = 0; type && i < sizeof families / sizeof *families; i++)
        if (is_listed(families[i].model_types, type)) return &families[i];
    return NULL;
}

/* ---- patterns ---- */

enum { MAX_RUNS = 4 };

typedef struct Match {
    const char *run[MAX_RUNS];
    size_t length[MAX_RUNS];
    int64_t number;
} Match;

/* `end` ends the pattern ('|' or NUL). */
static bool match_at(const char *p, const char *end, const char *name, int n_runs, Match *m) {
    for (; p < end && *p != '*' && *p != '#'; p++, name++)
        if (*p != *name) return false;
    if (p == end) return *name == 0;
    if (*p == '#') {
        int digits = 0;
        m->number = 0;
        for (; name[digits] >= '0' && name[digits] <= '9' && digits < 9; digits++)
            m->number = m->number * 10 + (name[digits] - '0');
        return digits > 0 && match_at(p + 1, end, name + digits, n_runs, m);
    }
    if (n_runs == MAX_RUNS) return false;
    for (size_t n = 0;; n++) {
        m->run[n_runs] = name;
        m->length[n_runs] = n;
        if (match_at(p + 1, end, name + n, n_runs + 1, m)) return true;
        if (!name[n]) return false;
    }
}

bool patterns_match(const char *patterns, const char *name) {
    for (const char *p = patterns; p && *p;) {
        const char *end = strchr(p, '|');
        Match m;
        if (match_at(p, end ? end : p + strlen(p), name, 0, &m)) return true;
        p = end ? end + 1 : NULL;
    }
    return false;
}

bool pattern_rewrite(const char *from, const char *to, const char *name, char *out, size_t capacity, int64_t *number) {
    Match m = {.number = -1};
    int run = 0;
    size_t n = 0;
    if (!match_at(from, from + strlen(from), name, 0, &m)) return false;
    for (; *to; to++) {
        bool star = *to == '*' && run < MAX_RUNS && m.run[run];
        size_t length = star ? m.length[run] : 1;
        if (n + length >= capacity) return false;
        memcpy(out + n, star ? m.run[run] : to, length);
        n += length;
        run += star;
    }
    out[n] = 0;
    *number = m.number;
    return true;
}
