/* The rope scaling rules. Each transforms the plain inverse frequencies in f32, in the order of operations of
 * transformers' modeling_rope_utils, because positions multiply every rounding difference.
 *
 * A rule is one row of a table: its name and a function. An unknown name is refused with the names known. */
#include "model/rope_rules.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

typedef struct RopeRule {
    const char *name;
    bool (*apply)(const Config *section, const RopeInput *in, RopeSpec *spec);
} RopeRule;

static const double PI = 3.14159265358979323846;

static bool read_factor(const Config *section, RopeSpec *spec) {
    spec->factor = config_number(section, "factor");
    return spec->factor >= 1 || config_fail(section, "\"%sfactor\" is below 1", section->path);
}

static int read_original(const Config *section, const RopeInput *in) {
    int own = config_size_or(section, "original_max_position_embeddings", in->max_position);
    return in->original ? in->original : own;
}

static bool apply_plain(const Config *section, const RopeInput *in, RopeSpec *spec) {
    (void)in;
    spec->factor = config_number_or(section, "factor", 1); /* some savers leave one; the references do not use it */
    return true;
}

static bool apply_linear(const Config *section, const RopeInput *in, RopeSpec *spec) {
    if (!read_factor(section, spec)) return false;
    for (int i = 0; i < in->dims / 2; i++) spec->table.inv_freq[i] /= (float)spec->factor;
    return true;
}

/* Hunyuan's form: the type says dynamic, but a fixed alpha stretches the base once, whatever the length. Its savers
 * leave yarn's keys beside it, which neither reference uses. */
static bool apply_alpha(const Config *section, const RopeInput *in, double alpha, RopeSpec *spec) {
    static const char *const unused[] = {"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) config_number_or(section, unused[i], 1);
    if (alpha <= 0) return config_fail(section, "\"%salpha\" is %g, expected more than 0", section->path, alpha);
    if (in->dims < 4) return config_fail(section, "a rope \"alpha\" needs at least 4 rotated dims, not %d", in->dims);
    spec->rule = "ntk-alpha";
    spec->factor = alpha;
    mem_free(spec->table.inv_freq);
    double theta = spec->theta * rope_pow(alpha, (double)in->dims / (in->dims - 2));
    spec->table.inv_freq = rope_plain(theta, in->dims);
    return spec->table.inv_freq || config_fail(section, "out of memory for a rotary table");
}

/* Dynamic NTK changes the base only past max_position_embeddings, and then with every token; the context is limited to
 * that (docs/arithmetic.md), so the table is the plain one. */
static bool apply_dynamic(const Config *section, const RopeInput *in, RopeSpec *spec) {
    double alpha = config_number_or(section, "alpha", 0);
    return alpha != 0 ? apply_alpha(section, in, alpha, spec) : read_factor(section, spec);
}

/* Llama 3.1: long wavelengths are divided, short ones kept, those between interpolated. */
static bool apply_llama3(const Config *section, const RopeInput *in, RopeSpec *spec) {
    double low = config_number(section, "low_freq_factor"), high = config_number(section, "high_freq_factor");
    int original = read_original(section, in);
    if (!read_factor(section, spec)) return false;
    if (low <= 0 || high <= low)
        return config_fail(section, "\"%slow_freq_factor\" %g and high_freq_factor %g do not make a range",
                           section->path, low, high);
    float longest = (float)(original / low), shortest = (float)(original / high), factor = (float)spec->factor;
    for (int i = 0; i < in->dims / 2; i++) {
        float f = spec->table.inv_freq[i], wavelength = (float)(2 * PI) / f;
        if (wavelength > longest) {
            f = f / factor;
        } else if (wavelength >= shortest) {
            float smooth = ((float)original / wavelength - (float)low) / (float)(high - low);
            f = (1 - smooth) * f / factor + smooth * f;
        }
        spec->table.inv_freq[i] = f;
    }
    return true;
}

/* YaRN (Peng et al., arXiv:2309.00071). The dimension that turns `rotations` times within the original context: */
static double yarn_dimension(double rotations, const RopeInput *in, double theta, int original) {
    return in->dims * rope_log(original / (rotations * 2 * PI)) / (2 * rope_log(theta));
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * rope_log(factor) + 1;
}

/* The scale of cos and sin: given, or from mscale and mscale_all_dim when both are set and not 0, or from the factor.
 */
static double yarn_scale(const Config *section, double factor) {
    double mscale = config_number_or(section, "mscale", 0), all_dim = config_number_or(section, "mscale_all_dim", 0);
    double given = config_number_or(section, "attention_factor", 0);
    if (config_has(section, "attention_factor")) return given;
    if (mscale != 0 && all_dim != 0) return yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim);
    return yarn_mscale(factor, 1);
}

static bool apply_yarn(const Config *section, const RopeInput *in, RopeSpec *spec) {
    int original = read_original(section, in);
    spec->factor = config_number_or(section, "factor", (double)in->max_position / original);
    double fast = config_number_or(section, "beta_fast", 0), slow = config_number_or(section, "beta_slow", 0);
    bool truncate = config_bool_or(section, "truncate", true);
    spec->table.scale = (float)yarn_scale(section, spec->factor);
    if (spec->factor <= 0 || fast < 0 || slow < 0 || spec->theta <= 1 || !(spec->table.scale > 0))
        return config_fail(section, "\"%.50s\" has a factor, beta, scale or theta that yarn cannot use", section->path);
    double low = yarn_dimension(fast != 0 ? fast : 32, in, spec->theta, original);
    double high = yarn_dimension(slow != 0 ? slow : 1, in, spec->theta, original);
    if (truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, in->dims - 1);
    if (low == high) high += 0.001;
    for (int i = 0; i < in->dims / 2; i++) {
        float power = (float)rope_pow(spec->theta, 2.0 * i / in->dims);
        float ramp = fminf(fmaxf(((float)i - (float)low) / (float)(high - low), 0), 1), keep = 1 - ramp;
        spec->table.inv_freq[i] = 1 / ((float)spec->factor * power) * (1 - keep) + 1 / power * keep;
    }
    return true;
}

/* LongRoPE (Ding et al., arXiv:2402.13753). */
static bool read_factors(const Config *section, const char *key, int n, float *out) {
    const JsonValue *list = config_array(section, key, n);
    if (!list) return config_fail(section, "has no \"%s%s\", which longrope needs", section->path, key);
    for (int i = 0; i < n; i++) {
        double factor;
        if (!json_number(json_item(list, (uint32_t)i), &factor) || !isfinite((float)factor) || !((float)factor > 0))
            return config_fail(section, "\"%s%s\" item %d is no number above 0", section->path, key, i);
        out[i] = (float)factor;
    }
    return true;
}

static bool read_long_table(const Config *section, const char *key, const RopeInput *in, double theta,
                            float *inv_freq) {
    if (!read_factors(section, key, in->dims / 2, inv_freq)) return false;
    for (int i = 0; i < in->dims / 2; i++) inv_freq[i] = 1 / (inv_freq[i] * (float)rope_pow(theta, 2.0 * i / in->dims));
    return true;
}

/* Of cos and sin: given for each table (phimoe), or once, or from the factor by which the context grew. */
static bool read_long_scales(const Config *section, const RopeInput *in, RopeSpec *spec) {
    double grown = config_number_or(section, "factor", (double)in->max_position / spec->boundary);
    double scale = grown <= 1 ? 1 : sqrt(1 + rope_log(grown) / rope_log(spec->boundary));
    scale = config_number_or(section, "attention_factor", scale);
    if (config_has(section, "short_mscale") != config_has(section, "long_mscale"))
        return config_fail(section, "\"%.20s\" has one of short_mscale and long_mscale: both or neither are needed",
                           section->path);
    spec->factor = grown;
    spec->table.scale = (float)config_number_or(section, "short_mscale", scale);
    spec->long_table.scale = (float)config_number_or(section, "long_mscale", scale);
    if (isfinite(spec->table.scale) && spec->table.scale > 0 && isfinite(spec->long_table.scale) &&
        spec->long_table.scale > 0)
        return true;
    return config_fail(section, "\"%.20s\" has an attention_factor, mscale or original length that longrope cannot use",
                       section->path);
}

static bool apply_longrope(const Config *section, const RopeInput *in, RopeSpec *spec) {
    spec->boundary = read_original(section, in);
    spec->long_table = spec->table;
    spec->long_table.inv_freq = mem_array((size_t)in->dims / 2, sizeof(float));
    if (!spec->long_table.inv_freq) return config_fail(section, "out of memory for a rotary table");
    return read_long_table(section, "short_factor", in, spec->theta, spec->table.inv_freq) &&
           read_long_table(section, "long_factor", in, spec->theta, spec->long_table.inv_freq) &&
           read_long_scales(section, in, spec);
}

/* Gemma 4: exponents run over the whole head, pairs span it, and the pairs past the rotated part stand still. */
static bool apply_proportional(const Config *section, const RopeInput *in, RopeSpec *spec) {
    double partial = config_number_or(section, "partial_rotary_factor", in->partial != 0 ? in->partial : 1);
    spec->factor = config_number_or(section, "factor", 1);
    if (!(partial > 0) || partial > 1)
        return config_fail(section, "\"%spartial_rotary_factor\" is %g, expected more than 0 and at most 1",
                           section->path, partial);
    if (spec->factor < 1) return config_fail(section, "\"%sfactor\" is below 1", section->path);
    int rotated = (int)floor(partial * in->dims / 2);
    for (int i = 0; i < in->dims / 2; i++)
        spec->table.inv_freq[i] = i < rotated ? spec->table.inv_freq[i] / (float)spec->factor : 0;
    return true;
}

static const RopeRule rules[] = {{"default", apply_plain},
                                 {"linear", apply_linear},
                                 {"dynamic", apply_dynamic},
                                 {"llama3", apply_llama3},
                                 {"yarn", apply_yarn},
                                 {"longrope", apply_longrope},
                                 {"proportional", apply_proportional}};

Config rope_section(const Config *c) {
    bool older = config_has(c, "rope_scaling"), newer = config_has(c, "rope_parameters");
    if (older && newer) config_fail(c, "has both \"rope_scaling\" and \"rope_parameters\": remove the one not meant");
    return config_section(c, older ? "rope_scaling" : "rope_parameters");
}

static bool has_sections(const Config *section) {
    for (uint32_t i = 0; section->object && i < section->object->length; i++)
        if (section->object->members[i].value.type == JSON_OBJECT) return true;
    return false;
}

Config rope_kind_section(const Config *section, const char *kind) {
    if (!has_sections(section)) return *section;
    if (!config_has(section, kind)) config_fail(section, "has no \"%s%.40s\"", section->path, kind);
    return config_section(section, kind);
}

int rope_partial_dims(const Config *c, const Config *section, int head_dim, double otherwise) {
    double factor = config_number_or(c, "partial_rotary_factor", otherwise);
    factor = config_number_or(section, "partial_rotary_factor", factor);
    int dims = factor > 0 && factor <= 1 ? (int)(head_dim * factor) : 0;
    if (dims >= 2 && dims % 2 == 0) return dims;
    config_fail(c, "\"partial_rotary_factor\" %g of a head of %d dims is not an even number of at least 2", factor,
                head_dim);
    return 2;
}

/* The rule's name here for the names that checkpoints have. "yarn" with longrope's lists is what the first Phi-3 files
 * called longrope. */
static const char *rule_name(const Config *section, const char *otherwise) {
    static const char *const other_names[][2] = {
        {"su", "longrope"}, {"mrope", "default"}, {"deepseek_yarn", "yarn"}, {"telechat3-yarn", "yarn"}};
    const char *older_name = config_string_or(section, "type", otherwise ? otherwise : "default");
    const char *name = config_string_or(section, "rope_type", older_name);
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(name, other_names[i][0]) == 0) name = other_names[i][1];
    return strcmp(name, "yarn") == 0 && config_has(section, "short_factor") ? "longrope" : name;
}

static const RopeRule *find_rule(const Config *section, const char *otherwise) {
    const char *name = rule_name(section, otherwise);
    Buffer known = {0};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, name) == 0) return &rules[i];
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        buffer_printf(&known, "%s%s", i ? ", " : "", rules[i].name);
    config_fail(section, "\"%srope_type\" is \"%.40s\"; known here: %s", section->path, name, buffer_string(&known));
    buffer_clear(&known);
    return NULL;
}

/* How images and video count positions: for text all three counts are the position. */
static void pass_over_mrope(const Config *section) {
    config_array(section, "mrope_section", -1);
    config_bool_or(section, "mrope_interleaved", false);
}

bool rope_read(const Config *section, const RopeInput *in, RopeSpec *out) {
    const RopeRule *rule = find_rule(section, in->rule);
    if (!rule) return false;
    double own = config_number_or(section, "rope_theta", in->theta);
    RopeSpec spec = {.rule = rule->name, .theta = in->fixed_theta ? in->theta : own, .factor = 1};
    if (in->dims < 2 || in->dims % 2)
        return config_fail(section, "%d rotated dims of a head: expected an even number", in->dims);
    if (spec.theta < 1) return config_fail(section, "\"rope_theta\" is %g, expected at least 1", spec.theta);
    spec.table = (RopeTable){in->dims, in->interleaved, rope_plain(spec.theta, in->dims), 1};
    if (!spec.table.inv_freq) return config_fail(section, "out of memory for a rotary table");
    pass_over_mrope(section);
    *out = spec;
    return rule->apply(section, in, out) && config_ok(section);
}

void rope_turn_backwards(RopeSpec *spec) {
    for (int i = 0; i < spec->table.dims / 2; i++) spec->table.inv_freq[i] = -spec->table.inv_freq[i];
    for (int i = 0; i < spec->long_table.dims / 2; i++) spec->long_table.inv_freq[i] = -spec->long_table.inv_freq[i];
}

void rope_clear(RopeSpec *spec) {
    mem_free(spec->table.inv_freq);
    mem_free(spec->long_table.inv_freq);
    *spec = (RopeSpec){0};
}

const char *rope_context_note(const RopeSpec *spec) {
    if (strcmp(spec->rule, "dynamic") != 0) return NULL;
    return "dynamic rope changes its base with every token past max_position_embeddings, so nothing computed before "
           "would still hold";
}
