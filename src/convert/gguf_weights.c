/* A GGUF tensor becomes one to four tensors of the checkpoint ("parts": codes, scales, biases or sub-scales, d, dmin).
 * The plan lists them with their shapes, because a safetensors header comes first; writing then makes each part row by
 * row (gguf_part.c). */
#include "convert/gguf_weights.h"
#include "base/arena.h"
#include "base/memory.h"
#include "convert/gguf_blocks.h"
#include "convert/gguf_part.h"
#include "file/mapping.h"
#include "file/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 256, STEP_BYTES = 1 << 22 /* after so much, memory is released and progress reported */, MAX_APART = 64 };

typedef struct QuantEntry {
    const char *module;
    const char *mode; /* NULL: floats, widened from `type` */
    int bits, group;
    uint32_t type;
} QuantEntry;

struct WeightsPlan {
    const GgufModel *model;
    const ImportOptions *options;
    Arena names;
    Tensor *tensors; /* parallel to parts */
    Part *parts;
    QuantEntry *quantized;
    int n, n_quantized;
    uint64_t bytes;
};

static void say(const WeightsPlan *p, const char *line) {
    if (p->options->log) p->options->log(p->options->context, line);
}

/* ---- planning ---- */

static const char *keep_name(WeightsPlan *p, const char *module, const char *suffix, Error *err) {
    size_t n = strlen(module) + strlen(suffix) + 1;
    char *name = arena_array(&p->names, n, 1);
    if (!name)
        error_memory(err, "tensor names");
    else
        snprintf(name, n, "%s%s", module, suffix);
    return name;
}

/* cols 0: a vector. */
static bool add_part(WeightsPlan *p, const char *module, const char *suffix, DType dtype, int64_t cols, Part part,
                     Error *err) {
    const char *name = keep_name(p, module, suffix, err);
    if (!name) return false;
    int64_t width = cols ? cols : 1;
    Tensor t = {.name = name, .dtype = dtype};
    if (part.stack) t.shape[t.n_dims++] = part.stack;
    t.shape[t.n_dims++] = part.stack ? part.rows / part.stack : part.rows;
    if (cols) t.shape[t.n_dims++] = cols;
    if (part.conv) t.shape[t.n_dims++] = 1;
    part.row_bytes = (size_t)width * dtype_bytes(dtype);
    p->tensors[p->n] = t;
    p->parts[p->n++] = part;
    p->bytes += (uint64_t)part.rows * part.row_bytes;
    return true;
}

static bool add_quant_entry(WeightsPlan *p, const char *module, const char *mode, int bits, int group, Error *err) {
    const char *name = keep_name(p, module, "", err);
    if (name) p->quantized[p->n_quantized++] = (QuantEntry){name, mode, bits, group, 0};
    return name != NULL;
}

static bool add_widened(WeightsPlan *p, const char *module, uint32_t type, Error *err) {
    const char *name = keep_name(p, module, "", err);
    if (name) p->quantized[p->n_quantized++] = (QuantEntry){.module = name, .type = type};
    return name != NULL;
}

/* Whether -offset * d stays within f16 for every block. A power of two times a finite half is exact otherwise. */
static bool biases_fit_half(const GgufTensor *t, const BlockFormat *f) {
    const uint8_t *end = t->data + t->bytes;
    const uint8_t *kept = t->data; /* pages before it are dropped again */
    float limit = 65504.0f / (float)f->offset;
    for (const uint8_t *block = t->data; block < end; block += f->bytes) {
        float d = half_to_float((uint16_t)(block[f->scale_at] | block[f->scale_at + 1] << 8));
        if (d > limit || d < -limit) return false;
        if (block - kept < STEP_BYTES) continue;
        mapping_release(kept, STEP_BYTES);
        kept += STEP_BYTES;
    }
    return true;
}

static bool plan_affine(WeightsPlan *p, const char *module, Part part, bool wide, Error *err) {
    int64_t cols = part.source->shape[0];
    const BlockFormat *f = part.format;
    DType dtype = wide ? DTYPE_F32 : DTYPE_F16;
    part.kind = PART_CODES;
    if (!add_part(p, module, ".weight", DTYPE_U32, cols * f->bits / 32, part, err)) return false;
    part.kind = wide ? PART_SCALE_F32 : PART_SCALE;
    if (!add_part(p, module, ".scales", dtype, cols / f->group, part, err)) return false;
    part.kind = wide ? PART_BIAS_F32 : PART_BIAS;
    return add_part(p, module, ".biases", dtype, cols / f->group, part, err) &&
           add_quant_entry(p, module, "affine", f->bits, f->group, err);
}

static bool plan_super_blocks(WeightsPlan *p, const char *module, Part part, Error *err) {
    int64_t cols = part.source->shape[0];
    const BlockFormat *f = part.format;
    DType sub = f->sub_signed ? DTYPE_I8 : DTYPE_U8;
    part.kind = PART_CODES;
    if (!add_part(p, module, ".weight", DTYPE_U32, cols * f->bits / 32, part, err)) return false;
    part.kind = PART_SUB;
    if (!add_part(p, module, ".scales", sub, cols / 256 * f->sub_bytes, part, err)) return false;
    part.kind = PART_SCALE;
    if (!add_part(p, module, ".d", DTYPE_F16, cols / 256, part, err)) return false;
    part.kind = PART_DMIN;
    return (f->min_at < 0 || add_part(p, module, ".dmin", DTYPE_F16, cols / 256, part, err)) &&
           add_quant_entry(p, module, f->mode, f->bits, f->group, err);
}

static bool plan_levels(WeightsPlan *p, const char *module, Part part, Error *err) {
    int64_t cols = part.source->shape[0];
    const BlockFormat *f = part.format;
    part.kind = PART_CODES;
    if (!add_part(p, module, ".weight", DTYPE_U32, cols * f->bits / 32, part, err)) return false;
    part.kind = PART_LEVEL;
    return add_part(p, module, ".scales", DTYPE_U8, cols / f->group, part, err) &&
           add_quant_entry(p, module, f->mode, f->bits, f->group, err);
}

static bool plan_quantized(WeightsPlan *p, const char *module, Part part, Error *err) {
    const BlockFormat *f = part.format;
    if (f->levels) return plan_levels(p, module, part, err);
    const char *type = ggml_type_name(f->type);
    char line[NAME + 100];
    bool wide = block_scales_are_wide(f);
    if (f->floats) {
        snprintf(line, sizeof line, "%s: %s widened to F32, its scales are of fewer than 32 values", module, type);
        say(p, line);
        part.kind = PART_FLOATS;
        return add_part(p, module, ".weight", DTYPE_F32, part.source->shape[0], part, err) &&
               add_widened(p, module, f->type, err);
    }
    if (f->sub_bytes && !p->options->mlx) return plan_super_blocks(p, module, part, err);
    if (f->sub_bytes && f->group == 16) {
        snprintf(line, sizeof line, "%s: %s widened to F16, MLX has no groups of 16", module, type);
        say(p, line);
        part.kind = PART_WIDE;
        return add_part(p, module, ".weight", DTYPE_F16, part.source->shape[0], part, err);
    }
    if (f->sub_bytes) {
        snprintf(line, sizeof line, "%s: scales of %s widened to F32, one pair per 32 values", module, type);
        say(p, line);
        wide = true;
    } else if (!wide && f->min_at < 0 && !biases_fit_half(part.source, f)) {
        snprintf(line, sizeof line, "%s: scales of %s widened to F32, the biases pass the range of F16", module, type);
        say(p, line);
        wide = true;
    }
    return plan_affine(p, module, part, wide, err);
}

/* Rows and matrices of a tensor; a vector's rows are its values, so that a bias can be put in order like a weight, and
 * only experts' make a stack: others have dimensions for ggml's sake. */
static void set_rows(Part *part, const GgufTensor *t, bool vector, bool stacked) {
    part->rows = vector ? t->shape[0] : 1;
    for (int i = 1; i < t->n_dims; i++) part->rows *= t->shape[i];
    if (t->n_dims == (vector ? 2 : 3) && (stacked || !vector)) part->stack = t->shape[t->n_dims - 1];
}

static bool plan_matrix(WeightsPlan *p, const char *name, Part part, Error *err) {
    const GgufTensor *t = part.source;
    return part.format ? plan_quantized(p, name, part, err)
                       : add_part(p, name, ".weight", gguf_float_dtype(t->type), t->shape[0], part, err);
}

/* Two modules whose rows take turns in the source, n times: gate and up of n experts, b and a of n heads. */
static bool plan_halves(WeightsPlan *p, const char *module, const char *const names[2], Part part, int64_t n,
                        Error *err) {
    char name[NAME];
    const GgufTensor *t = part.source;
    if (part.rows % (2 * n))
        return error_set(err, "tensor \"%s\" has too few rows for two in each of its parts", t->name);
    part.rows /= 2;
    part.turns = n;
    for (int i = 0; i < 2; i++) {
        part.second = i == 1;
        snprintf(name, sizeof name, "%.200s%s", module, names[i]);
        if (!plan_matrix(p, name, part, err)) return false;
    }
    return true;
}

/* The vector planned last as [first, second, the rest] (second 0: without). */
static void set_shape(WeightsPlan *p, int64_t first, int64_t second) {
    Tensor *t = &p->tensors[p->n - 1];
    int64_t n = t->shape[0];
    t->n_dims = 0;
    t->shape[t->n_dims++] = first;
    if (second) t->shape[t->n_dims++] = second;
    t->shape[t->n_dims++] = n / first / (second ? second : 1);
}

/* RWKV's six, in the order of their letters, as rows of a batch of one. */
static bool plan_mixes(WeightsPlan *p, const char *module, Part part, Error *err) {
    static const char *const names[] = {".x_r", ".x_w", ".x_k", ".x_v", ".x_a", ".x_g"};
    enum { N = sizeof names / sizeof *names };
    if (part.rows % N)
        return error_set(err, "tensor \"%s\" does not have the values of six vectors", part.source->name);
    part.of = part.rows;
    part.rows /= N;
    for (int i = 0; i < N; i++, part.first += part.rows) {
        if (!add_part(p, module, names[i], gguf_float_dtype(part.source->type), 0, part, err)) return false;
        set_shape(p, 1, 1);
    }
    return true;
}

/* The matrices of a stack by their numbers. */
static bool plan_apart(WeightsPlan *p, const char *module, Part part, Error *err) {
    int64_t n = part.source->shape[2];
    if (n > MAX_APART) return error_set(err, "tensor \"%s\" has %" PRId64 " matrices", part.source->name, n);
    part.of = part.rows;
    part.rows /= n;
    part.stack = 0;
    for (int64_t i = 0; i < n; i++, part.first += part.rows) {
        char name[NAME];
        snprintf(name, sizeof name, "%.200s.%" PRId64, module, i);
        if (!plan_matrix(p, name, part, err)) return false;
    }
    return true;
}

static bool is_zero_row(const GgufTensor *t, int64_t r) {
    float values[256];
    const BlockFormat *f = block_format(t->type);
    int64_t step = f ? f->values : 1;
    const uint8_t *row = t->data + t->bytes / (uint64_t)t->shape[1] * (uint64_t)r;
    size_t bytes = f ? (size_t)f->bytes : dtype_bytes(gguf_float_dtype(t->type));
    for (int64_t i = 0; i < t->shape[0]; i += step, row += bytes) {
        gguf_dequantize_row(t->type, row, step, values);
        for (int64_t k = 0; k < step; k++)
            if (values[k] != 0) return false;
    }
    return true;
}

int64_t gguf_rows_before_padding(const GgufTensor *t) {
    int64_t n = t->shape[1];
    while (n > 1 && is_zero_row(t, n - 1)) n--;
    return n;
}

/* Queries, keys and values, or their biases. */
static bool plan_qkv(WeightsPlan *p, const char *module, bool bias, Part part, Error *err) {
    static const char *const names[] = {".q_proj", ".k_proj", ".v_proj"};
    const GgufTensor *t = part.source;
    int64_t queries = p->model->size[SIZE_QUERY], keys = p->model->size[SIZE_KEY];
    if (part.rows != queries + 2 * keys)
        return error_set(err, "tensor \"%s\" does not have the rows of queries, keys and values", t->name);
    part.of = part.rows;
    for (int i = 0; i < 3; i++, part.first += part.rows) {
        char name[NAME];
        snprintf(name, sizeof name, "%.200s%s", module, names[i]);
        part.rows = i ? keys : queries;
        bool ok = bias ? add_part(p, name, ".bias", gguf_float_dtype(t->type), 0, part, err)
                       : plan_matrix(p, name, part, err);
        if (!ok) return false;
    }
    return true;
}

/* Finds what is put below a gate: the tensor whose name has "up" for "gate". */
static bool find_below(const WeightsPlan *p, Part *part, Error *err) {
    const GgufTensor *t = part->source, *below;
    const char *gate = strstr(t->name, "_gate");
    char name[NAME];
    snprintf(name, sizeof name, "%.*s_up%s", (int)(gate - t->name), t->name, gate + 5);
    below = gguf_find_tensor(p->model->file, name);
    if (!below || below->type != t->type || memcmp(below->shape, t->shape, sizeof t->shape) != 0)
        return error_set(err, "tensor \"%s\" is not there in the type and shape of \"%s\", with which it is one tensor",
                         name, t->name);
    part->below = below;
    part->rows *= 2;
    return true;
}

static void name_module(const Architecture *arch, const TensorRule *rule, int64_t layer, int64_t expert,
                        char out[NAME]) {
    int n = snprintf(out, NAME, "%s", arch->root ? arch->root : "");
    gguf_rule_name(rule->to, layer, expert, "", out + n, NAME - (size_t)n);
}

/* What is undone of the order of rows. */
static bool set_order(const GgufModel *m, const TensorRule *rule, Part *part, Error *err) {
    const GgufTensor *t = part->source;
    if (m->arch->permuted && rule->order == ROWS_OF_QUERY) part->heads = m->n_heads;
    if (m->arch->permuted && rule->order == ROWS_OF_KEY) part->heads = m->n_kv_heads;
    if (!m->turned || rule->order < ROWS_OF_VALUES) return true;
    part->value_heads = m->value_heads;
    part->key_heads = m->groups;
    part->value_dim = rule->order == ROWS_OF_VALUE_HEADS ? 1 : m->value_dim;
    part->columns = rule->order == COLUMNS_OF_VALUES;
    int64_t all = part->value_heads * part->value_dim;
    return (part->columns ? t->shape[0] == all : part->rows >= all) ||
           error_set(err, "tensor \"%s\" does not have the %d heads that the metadata implies", t->name,
                     (int)m->value_heads);
}

static bool plan_tensor(WeightsPlan *p, const GgufTensor *t, Error *err) {
    char module[NAME];
    TensorPlace at;
    const GgufModel *m = p->model;
    if (gguf_is_extra(m, t->name)) return true;
    if (!gguf_place(m->arch, t->name, &at)) return true; /* rope factors: in config.json */
    const TensorRule *rule = at.rule;
    if (!rule->to) return true; /* planned with its other half */
    if (rule->flags & RULE_LATER && at.layer == 0) return true;
    bool vector = at.bias || rule->in == SIZE_NONE, whole = rule->flags & RULE_WHOLE;
    Part part = {.source = t, .format = block_format(t->type), .kind = PART_RAW};
    DType dtype = gguf_float_dtype(t->type);
    name_module(m->arch, rule, at.layer, at.expert, module);
    set_rows(&part, t, vector, rule->flags & RULE_STACKED);
    part.conv = rule->flags & RULE_CONV && !vector;
    if (!set_order(m, rule, &part, err)) return false;
    if (rule->flags & RULE_ABOVE_UP && !find_below(p, &part, err)) return false;
    static const char *const halves[][2] = {{".gate_proj", ".up_proj"}, {".in_proj_b", ".in_proj_a"}};
    if (rule->flags & RULE_GATE_UP) return plan_halves(p, module, halves[0], part, part.stack ? part.stack : 1, err);
    if (rule->flags & RULE_PADDED) {
        part.of = part.rows;
        part.rows = gguf_rows_before_padding(t);
    }
    if (rule->flags & RULE_APART) return plan_apart(p, module, part, err);
    if (rule->flags & RULE_QKV) return plan_qkv(p, module, at.bias, part, err);
    if (rule->flags & RULE_MIXES) return plan_mixes(p, module, part, err);
    if (rule->flags & RULE_B_A) return plan_halves(p, module, halves[1], part, m->groups, err);
    if (part.format) return plan_quantized(p, module, part, err);
    if (rule->flags & (RULE_MINUS_ONE | RULE_LOG_OF_NEG)) {
        part.kind = rule->flags & RULE_MINUS_ONE ? PART_MINUS_ONE : PART_LOG_OF_NEG;
        dtype = DTYPE_F32;
    }
    if (!add_part(p, module, whole ? "" : at.bias ? ".bias" : ".weight", dtype, vector ? 0 : t->shape[0], part, err))
        return false;
    if (rule->flags & RULE_BY_HEAD) set_shape(p, m->size[SIZE_HIDDEN] / m->head_dim, 0);
    return true;
}

static bool plan_zeros_of(WeightsPlan *p, const TensorRule *rule, int64_t layer, Error *err) {
    const GgufModel *m = p->model;
    char name[NAME], module[NAME], line[NAME + 100];
    gguf_rule_name(rule->from, layer, -1, ".weight", name, sizeof name);
    if (!gguf_find_tensor(m->file, name)) return true;
    gguf_rule_name(rule->from, layer, -1, ".bias", name, sizeof name);
    if (gguf_find_tensor(m->file, name)) return true;
    name_module(m->arch, rule, layer, -1, module);
    int64_t stack = rule->flags & RULE_STACKED ? m->size[SIZE_EXPERTS] : 0;
    Part part = {.kind = PART_ZEROS, .rows = m->size[rule->out] * (stack ? stack : 1), .stack = stack};
    if (!add_part(p, module, ".bias", DTYPE_F32, 0, part, err)) return false;
    snprintf(line, sizeof line, "%s: its bias is not in the file, zeros are written", module);
    say(p, line);
    return true;
}

/* A checkpoint's config knows only "all of these have a bias". */
static bool plan_zeros(WeightsPlan *p, Error *err) {
    const GgufModel *m = p->model;
    for (int list = 0; list < MAX_RULE_LISTS && m->arch->rules[list]; list++)
        for (const TensorRule *rule = m->arch->rules[list]; rule->from; rule++)
            for (int64_t layer = 0; rule->bias_group && m->biases[rule->bias_group] && layer < m->n_layers; layer++)
                if (!plan_zeros_of(p, rule, layer, err)) return false;
    return true;
}

static int count_rules(const Architecture *arch) {
    int n = 0;
    for (int list = 0; list < MAX_RULE_LISTS && arch->rules[list]; list++)
        for (const TensorRule *rule = arch->rules[list]; rule->from; rule++) n++;
    return n;
}

/* A tensor becomes at most three modules of four parts, or twelve of fewer; and a stack that is taken apart more. */
static bool plan_allocate(WeightsPlan *p, Error *err) {
    const GgufModel *m = p->model;
    int64_t n = 12 * (int64_t)gguf_count(m->file) + m->n_layers * count_rules(m->arch);
    for (int i = 0; i < gguf_count(m->file); i++) {
        TensorPlace at;
        if (gguf_place(m->arch, gguf_tensor(m->file, i)->name, &at) && at.rule->flags & RULE_APART) n += 4 * MAX_APART;
    }
    p->tensors = mem_array((size_t)n, sizeof *p->tensors);
    p->parts = mem_array((size_t)n, sizeof *p->parts);
    p->quantized = mem_array((size_t)n, sizeof *p->quantized);
    return (p->tensors && p->parts && p->quantized) || error_memory(err, "the plan of an import");
}

/* MLX has one order of value heads alone. */
static bool check_options(const WeightsPlan *p, Error *err) {
    return !p->options->mlx || !p->model->tiled ||
           error_set(err,
                     "has value heads of %d in another order than MLX, and groups that span them: import it without "
                     "--mlx",
                     (int)p->model->value_dim);
}

WeightsPlan *weights_plan(const GgufModel *model, const ImportOptions *options, Error *err) {
    WeightsPlan *p = mem_zeroed(1, sizeof *p);
    if (!p) {
        error_memory(err, "the plan of an import");
        return NULL;
    }
    p->model = model;
    p->options = options;
    arena_init(&p->names);
    bool ok = plan_allocate(p, err) && check_options(p, err);
    if (model->n_extra) say(p, "the layers that predict further tokens are left out");
    for (int i = 0; ok && i < gguf_count(model->file); i++) ok = plan_tensor(p, gguf_tensor(model->file, i), err);
    if (ok && plan_zeros(p, err)) return p;
    weights_plan_free(p);
    return NULL;
}

void weights_plan_free(WeightsPlan *p) {
    if (!p) return;
    arena_clear(&p->names);
    mem_free(p->tensors);
    mem_free(p->parts);
    mem_free(p->quantized);
    mem_free(p);
}

/* ---- the quantization block ---- */

static bool same_entry(const QuantEntry *a, const QuantEntry *b) {
    return a->mode && b->mode && a->bits == b->bits && a->group == b->group && strcmp(a->mode, b->mode) == 0;
}

/* The commonest form; the first of equals. */
static const QuantEntry *most_common(const WeightsPlan *p) {
    const QuantEntry *best = NULL;
    int best_count = 0;
    for (int i = 0; i < p->n_quantized; i++) {
        int count = 0;
        bool seen = !p->quantized[i].mode;
        for (int j = 0; j < p->n_quantized; j++) {
            bool same = same_entry(&p->quantized[i], &p->quantized[j]);
            seen = seen || (same && j < i);
            count += same;
            if (seen) break; /* counted when it first came */
        }
        if (!seen && count > best_count) {
            best = &p->quantized[i];
            best_count = count;
        }
    }
    return best;
}

static void write_entry(const QuantEntry *e, Buffer *out) {
    buffer_printf(out, "\"group_size\": %d, \"bits\": %d, \"mode\": \"%s\"", e->group, e->bits, e->mode);
}

/* Why modules are floats, which `inspect` shows. */
static void write_widened(const WeightsPlan *p, Buffer *out) {
    int n = 0;
    for (int i = 0; i < p->n_quantized; i++) {
        const QuantEntry *e = &p->quantized[i];
        if (e->mode) continue;
        buffer_printf(out, "%s\"%s\": \"%s, whose scales are of fewer than 32 values\"",
                      n++ ? ", " : ",\n    \"widened\": {", e->module, ggml_type_name(e->type));
    }
    if (n) buffer_byte(out, '}');
}

bool weights_plan_quantization(const WeightsPlan *p, Buffer *out, Error *err) {
    const QuantEntry *common = most_common(p);
    if (!common) return true;
    buffer_byte(out, '{');
    write_entry(common, out);
    for (int i = 0; i < p->n_quantized; i++) {
        const QuantEntry *e = &p->quantized[i];
        if (!e->mode || same_entry(e, common)) continue;
        buffer_printf(out, ",\n    \"%s\": {", e->module);
        write_entry(e, out);
        buffer_byte(out, '}');
    }
    write_widened(p, out);
    buffer_byte(out, '}');
    return !out->failed || error_memory(err, "config.json");
}

/* ---- writing ---- */

static bool report(const WeightsPlan *p, uint64_t done, Error *err) {
    if (!p->options->progress || p->options->progress(p->options->context, done, p->bytes)) return true;
    return error_set(err, "the import was stopped");
}

static bool write_part(const WeightsPlan *p, int i, SafetensorsWriter *w, uint8_t *row, uint64_t *done, Error *err) {
    const Part *part = &p->parts[i];
    uint64_t from_row = part->source ? part_source_row_bytes(part) : part->row_bytes, since = 0;
    for (int64_t r = 0; r < part->rows; r++) {
        const uint8_t *bytes = part_row(part, r, row);
        if (!bytes)
            return error_set(err, "tensor \"%s\" has a %s: the file is damaged", part->source ? part->source->name : "",
                             part->format ? "scale that is not finite" : "value that it can not have");
        if (!safetensors_write(w, bytes, part->row_bytes, err)) return false;
        *done += part->row_bytes;
        since += from_row;
        if (since < STEP_BYTES && r + 1 < part->rows) continue;
        if (part->source) gguf_release(part->source);
        if (!report(p, *done, err)) return false;
        since = 0;
    }
    return true;
}

static bool write_parts(const WeightsPlan *p, SafetensorsWriter *w, Error *err) {
    size_t longest = 0;
    uint64_t done = 0;
    for (int i = 0; i < p->n; i++)
        if (p->parts[i].row_bytes > longest) longest = p->parts[i].row_bytes;
    uint8_t *row = mem_array(longest, 2);
    bool ok = (row || error_memory(err, "a row of weights")) && report(p, 0, err);
    for (int i = 0; ok && i < p->n; i++) ok = write_part(p, i, w, row, &done, err);
    mem_free(row);
    return ok;
}

bool weights_write(const WeightsPlan *p, const char *path, Error *err) {
    SafetensorsWriter *w = safetensors_create(path, p->tensors, p->n, err);
    if (!w) return false;
    if (write_parts(p, w, err)) return safetensors_finish(w, err);
    safetensors_abandon(w);
    return false;
}
