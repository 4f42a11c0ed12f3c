/* The rope scaling rules. Each transforms the plain inverse frequencies in f32, in the order of operations of
 * transformers' modeling_rope_utils, because positions multiply every rounding difference.
 *
 * A rule is one row of a table: its name and a function. An unknown name is refused with the names known. */
#include "model/rope_rules.h"

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

/* Dynamic NTK changes the base only past max_position_embeddings, and then with every token; the context is limited to
 * that (docs/arithmetic.md), so the table is the plain one. */
static bool apply_dynamic(const Config *section, const RopeInput *in, RopeSpec *spec) {
    (void)in;
    return read_factor(section, spec);
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

static const RopeRule rules[] = {{"default", apply_plain},
                                 {"linear", apply_linear},
                                 {"dynamic", apply_dynamic},
                                 {"llama3", apply_llama3},
                                 {"yarn", apply_yarn}};

Config rope_section(const Config *c) {
    bool older = config_has(c, "rope_scaling"), newer = config_has(c, "rope_parameters");
    if (older && newer) config_fail(c, "has both \"rope_scaling\" and \"rope_parameters\": remove the one not meant");
    return config_section(c, older ? "rope_scaling" : "rope_parameters");
}

static const RopeRule *find_rule(const char *name) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, name) == 0) return &rules[i];
    return NULL;
}

bool rope_read(const Config *section, const RopeInput *in, RopeSpec *out) {
    const char *older_name = config_string_or(section, "type", "default");
    const char *name = config_string_or(section, "rope_type", older_name);
    const RopeRule *rule = find_rule(name);
    RopeSpec spec = {.rule = rule ? rule->name : NULL, .theta = config_number_or(section, "rope_theta", in->theta)};
    if (!rule)
        return config_fail(section, "\"%srope_type\" is \"%.40s\"; known here: default, linear, dynamic, llama3, yarn",
                           section->path, name);
    if (in->dims < 2 || in->dims % 2)
        return config_fail(section, "%d rotated dims of a head: expected an even number", in->dims);
    if (spec.theta < 1) return config_fail(section, "\"rope_theta\" is %g, expected at least 1", spec.theta);
    spec.table = (RopeTable){in->dims, in->interleaved, rope_plain(spec.theta, in->dims), 1};
    if (!spec.table.inv_freq) return config_fail(section, "out of memory for a rotary table");
    *out = spec;
    return rule->apply(section, in, out) && config_ok(section);
}

const char *rope_context_note(const RopeSpec *spec) {
    if (strcmp(spec->rule, "dynamic") != 0) return NULL;
    return "dynamic rope changes its base with every token past max_position_embeddings, so nothing computed before "
           "would still"
           " hold";
}
