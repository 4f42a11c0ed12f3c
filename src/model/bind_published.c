/* Binding the tensors of published quantised forms (published.h): which of them a module has, their shapes, and how a
 * PackedSource reads them. A module is quantised exactly when the checkpoint has its codes; config.json says how they
 * are meant, and must not say that there are none. */
#include "math/format_read.h"
#include "model/bind_plan.h"

#include <stdio.h>
#include <string.h>

/* A module being planned. */
typedef struct Asked {
    Binder *b;
    const char *module;
    bool bare; /* its weight is NAME, not NAME.weight */
    const PublishedWeights *how;
    LinearPlan *plan;
} Asked;

static const unsigned WORDS = 1u << DTYPE_I32 | 1u << DTYPE_U32;
static const unsigned BYTES = 1u << DTYPE_U8 | 1u << DTYPE_F8_E8M0;

static void part_name(const Asked *a, const char *suffix, char out[NAME_MAX_BYTES + 32]) {
    snprintf(out, NAME_MAX_BYTES + 32, "%s%s", a->module, suffix);
}

static const Tensor *find_part(const Asked *a, const char *suffix) {
    char name[NAME_MAX_BYTES + 32];
    part_name(a, suffix, name);
    return checkpoint_find(a->b->names->checkpoint, name);
}

static const Tensor *want(const Asked *a, int part, const char *suffix, int64_t rows, int64_t cols, unsigned allowed,
                          const void **data) {
    return a->plan->parts[part] = bind_part(a->b, a->plan, a->module, suffix, rows, cols, allowed, data);
}

static PackedScale scale_type(DType t) {
    switch (t) {
    case DTYPE_F16: return PACKED_F16;
    case DTYPE_BF16: return PACKED_BF16;
    case DTYPE_F8_E4M3: return PACKED_E4M3;
    case DTYPE_U8:
    case DTYPE_F8_E8M0: return PACKED_E8M0;
    default: return PACKED_F32;
    }
}

static int64_t divide_up(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

/* The group of a module whose config says 0 for a whole row. */
static int64_t group_of(const Asked *a) {
    return a->how->group ? a->how->group : a->plan->source.cols;
}

/* An optional tensor that gives every input its group. */
static bool plan_groups(const Asked *a, const char *suffix) {
    Shape shape = {1, {a->plan->source.cols}};
    char name[NAME_MAX_BYTES + 32];
    if (!find_part(a, suffix)) return true;
    part_name(a, suffix, name);
    a->plan->parts[3] = bind_tensor(a->b, name, &shape, WORDS);
    if (!a->plan->parts[3]) return false;
    a->plan->packed.group_of = a->plan->parts[3]->data;
    return true;
}

/* ---- AWQ and GPTQ ---- */

/* Bits and group as the shapes of a GPTQ module's tensors imply them, where config.json says that modules differ. */
static bool infer_sizes(const Asked *a, PackedSource *s) {
    const Tensor *codes = find_part(a, ".qweight"), *scales = find_part(a, ".scales");
    int64_t words = codes && codes->n_dims == 2 ? codes->shape[0] : 0;
    int64_t groups = scales && scales->n_dims == 2 ? scales->shape[0] : 0;
    if (words < 1 || groups < 1 || words > s->cols || groups > s->cols)
        return bind_fail(a->b, "\"%s\": the shapes of qweight and scales give no bits and groups", a->module);
    s->bits = (int)(words * 32 / s->cols);
    s->group = divide_up(s->cols, groups);
    return true;
}

static bool plan_gptq(const Asked *a) {
    PackedSource *s = &a->plan->packed;
    int64_t rows = s->rows, cols = s->cols;
    s->form = PACKED_COLUMNS;
    s->bits = a->how->bits;
    s->group = group_of(a);
    s->zero_form = a->b->quantization.published.zeros_less_one ? ZEROS_COLUMNS_LESS_ONE : ZEROS_COLUMNS;
    if (a->b->quantization.published.sizes_vary && !infer_sizes(a, s)) return false;
    if (s->bits != 2 && s->bits != 3 && s->bits != 4 && s->bits != 8)
        return bind_fail(a->b, "\"%s\": GPTQ weights of %d bits are not known", a->module, s->bits);
    if (cols * s->bits % 32)
        return bind_fail(a->b, "\"%s\": %lld inputs of %d bits do not fill words of 32", a->module, (long long)cols,
                         s->bits);
    int64_t groups = divide_up(cols, s->group);
    s->row_stride = 1;
    s->group_stride = rows;
    return want(a, 0, ".qweight", cols * s->bits / 32, rows, WORDS, &s->codes) &&
           want(a, 1, ".scales", groups, rows, FLOAT_TYPES, &s->scales) &&
           want(a, 2, ".qzeros", groups, divide_up(rows * s->bits, 32), WORDS, &s->zeros) && plan_groups(a, ".g_idx");
}

static bool plan_awq(const Asked *a) {
    PackedSource *s = &a->plan->packed;
    int64_t rows = s->rows, cols = s->cols;
    s->form = PACKED_AWQ;
    s->bits = 4;
    s->group = group_of(a);
    s->zero_form = ZEROS_AWQ;
    s->row_stride = 1;
    s->group_stride = rows;
    if (rows % 8) return bind_fail(a->b, "\"%s\": %lld outputs do not fill words of 8", a->module, (long long)rows);
    int64_t groups = divide_up(cols, s->group);
    return want(a, 0, ".qweight", cols, rows / 8, WORDS, &s->codes) &&
           want(a, 1, ".scales", groups, rows, FLOAT_TYPES, &s->scales) &&
           want(a, 2, ".qzeros", groups, rows / 8, WORDS, &s->zeros);
}

/* ---- scales of the other forms ---- */

/* The scales in whichever of the shapes a form may have them: one for the matrix, one per output, one per group of
 * inputs, or one per block. */
static bool plan_scales(const Asked *a, const char *suffix, unsigned allowed) {
    PackedSource *s = &a->plan->packed;
    const PublishedWeights *how = a->how;
    const Tensor *t = find_part(a, suffix);
    char name[NAME_MAX_BYTES + 32], found[160];
    int64_t slots = a->plan->n_slots, count = 1, per_row = how->block_cols ? how->block_cols : group_of(a);
    part_name(a, suffix, name);
    if (!t) return bind_fail(a->b, "%s: has no tensor \"%s\"", checkpoint_folder(a->b->names->checkpoint), name);
    for (int i = 0; i < t->n_dims && count < INT64_MAX >> 32; i++) count *= t->shape[i] < 1 << 28 ? t->shape[i] : 0;
    int64_t each = count % slots ? 0 : count / slots, across = divide_up(s->cols, per_row);
    int64_t down = how->block_rows ? divide_up(s->rows, how->block_rows) : s->rows;
    bool blocks = how->block_rows || how->group;
    if (blocks && each == down * across) {
        s->rows_per_scale = how->block_rows ? how->block_rows : 1;
        s->group = per_row;
        s->row_stride = across;
        s->group_stride = 1;
    } else if (!blocks && (each == 1 || each == s->rows)) {
        s->group = s->cols;
        s->row_stride = each == 1 ? 0 : 1;
        s->group_stride = 0;
    } else {
        tensor_shape_text(t, found, sizeof found);
        return bind_fail(a->b, "%s: tensor \"%s\" has shape %s, config.json implies %lld by %lld scales", t->file, name,
                         found, (long long)down, (long long)(blocks ? across : 1));
    }
    if (!(allowed >> t->dtype & 1))
        return bind_fail(a->b, "%s: tensor \"%s\" has the type %s, which is not one it can have here", t->file, name,
                         dtype_name(t->dtype));
    a->plan->parts[1] = t;
    s->scale_type = scale_type(t->dtype);
    s->scales = t->data + t->bytes / (uint64_t)slots * (uint64_t)a->plan->slot;
    return bind_mark_used(a->b, t);
}

/* ---- FP8, int8 and ternary: codes in NAME.weight ---- */

static const char *weight_suffix(const Asked *a, const char *suffix) {
    return a->bare ? "" : suffix;
}

/* DeepSeek's name says what dividing by it would have done; both are multiplied by. */
static bool plan_fp8(const Asked *a) {
    PackedSource *s = &a->plan->packed;
    const char *suffix = a->bare ? "_scale_inv" : ".weight_scale_inv";
    if (!find_part(a, suffix)) suffix = a->bare ? "_scale" : ".weight_scale";
    s->form = PACKED_FP8;
    s->bits = 8;
    return want(a, 0, weight_suffix(a, ".weight"), s->rows, s->cols, 1u << DTYPE_F8_E4M3, &s->codes) &&
           plan_scales(a, suffix, FLOAT_TYPES | 1u << DTYPE_F8_E8M0);
}

static bool plan_bytes(const Asked *a) {
    PackedSource *s = &a->plan->packed;
    s->form = PACKED_BYTES;
    s->bits = 8;
    if (!want(a, 0, ".weight", s->rows, s->cols, 1u << DTYPE_I8, &s->codes) ||
        !plan_scales(a, ".weight_scale", FLOAT_TYPES))
        return false;
    if (!a->how->asymmetric) return true;
    const Tensor *scales = a->plan->parts[1];
    Shape shape = {scales->n_dims, {0}}; /* zeros lie as scales do */
    char name[NAME_MAX_BYTES + 32];
    memcpy(shape.dims, scales->shape, sizeof shape.dims);
    part_name(a, ".weight_zero_point", name);
    const Tensor *zeros = a->plan->parts[2] = bind_tensor(a->b, name, &shape, 1u << DTYPE_I8);
    if (!zeros) return false;
    s->zero_form = ZEROS_BYTES;
    s->zeros = zeros->data + zeros->bytes / (uint64_t)a->plan->n_slots * (uint64_t)a->plan->slot;
    return true;
}

static bool plan_ternary(const Asked *a) {
    PackedSource *s = &a->plan->packed;
    s->form = PACKED_TERNARY;
    s->bits = 2;
    s->inverse = a->b->quantization.published.inverse;
    if (s->rows % 4)
        return bind_fail(a->b, "\"%s\": %lld outputs are not four to a byte", a->module, (long long)s->rows);
    return want(a, 0, ".weight", s->rows / 4, s->cols, 1u << DTYPE_U8, &s->codes) &&
           plan_scales(a, ".weight_scale", FLOAT_TYPES);
}

/* ---- compressed-tensors: codes in NAME.weight_packed ---- */

/* The matrix's own shape, as the checkpoint repeats it. */
static bool check_shape_tensor(const Asked *a) {
    Shape shape = {1, {2}};
    char name[NAME_MAX_BYTES + 32];
    int64_t said[2];
    if (!find_part(a, ".weight_shape")) return true;
    part_name(a, ".weight_shape", name);
    const Tensor *t = bind_tensor(a->b, name, &shape, 1u << DTYPE_I64);
    if (!t) return false;
    memcpy(said, t->data, sizeof said);
    return (said[0] == a->plan->packed.rows && said[1] == a->plan->packed.cols) ||
           bind_fail(a->b, "%s: \"%s\" says %lld by %lld, config.json implies %lld by %lld", t->file, name,
                     (long long)said[0], (long long)said[1], (long long)a->plan->packed.rows,
                     (long long)a->plan->packed.cols);
}

static bool plan_packed(const Asked *a) {
    PackedSource *s = &a->plan->packed;
    s->form = PACKED_ROWS;
    s->bits = a->how->bits;
    s->words = divide_up(s->cols * s->bits, 32);
    if (!want(a, 0, ".weight_packed", s->rows, s->words, WORDS, &s->codes) ||
        !plan_scales(a, ".weight_scale", FLOAT_TYPES) || !check_shape_tensor(a) || !plan_groups(a, ".weight_g_idx"))
        return false;
    if (!a->how->asymmetric) return true;
    if (s->row_stride == 0)
        return bind_fail(a->b, "\"%s\": one packed zero point for a whole matrix is not known", a->module);
    s->zero_form = ZEROS_ROWS;
    return want(a, 2, ".weight_zero_point", divide_up(s->rows * s->bits, 32), divide_up(s->cols, s->group), WORDS,
                &s->zeros) != NULL;
}

static bool plan_nvfp4(const Asked *a) {
    PackedSource *s = &a->plan->packed;
    Shape one = {1, {1}};
    char name[NAME_MAX_BYTES + 32];
    s->form = PACKED_FP4;
    s->bits = 4;
    if (s->cols % 2) return bind_fail(a->b, "\"%s\": an odd number of inputs", a->module);
    if (!want(a, 0, ".weight_packed", s->rows, s->cols / 2, 1u << DTYPE_U8, &s->codes) ||
        !plan_scales(a, ".weight_scale", 1u << DTYPE_F8_E4M3))
        return false;
    part_name(a, ".weight_global_scale", name);
    const Tensor *t = bind_tensor(a->b, name, &one, 1u << DTYPE_F32);
    if (!t) return false;
    memcpy(&s->divisor, t->data, sizeof s->divisor);
    return s->divisor != 0 || bind_fail(a->b, "%s: \"%s\" is 0", t->file, name);
}

/* ---- forms that are MLX's but for the names ---- */

static bool plan_microscaling(const Asked *a, WeightFormat format, const char *codes, unsigned code_types) {
    WeightSource *s = &a->plan->source;
    WeightRowBytes bytes;
    s->format = format;
    if (a->how->group != 32) return bind_fail(a->b, "\"%s\": microscaling groups are of 32 inputs", a->module);
    if (!weight_row_bytes(s, &bytes, a->b->err)) return error_prefix(a->b->err, "\"%s\"", a->module);
    a->plan->packed = (PackedSource){.rows = 0};
    return want(a, 0, codes, s->rows, (int64_t)bytes.codes, code_types, &s->codes) &&
           want(a, 1, ".weight_scale", s->rows, (int64_t)bytes.scales, BYTES, &s->scales);
}

/* gpt-oss: blocks are [experts, outputs, inputs / 32, 16], where the plain matrices are [experts, inputs, outputs]. */
static bool plan_blocks(const Asked *a) {
    LinearPlan *p = a->plan;
    WeightSource *s = &p->source;
    char name[NAME_MAX_BYTES + 32];
    if (p->transposed) {
        int64_t rows = s->cols;
        s->cols = s->rows;
        s->rows = rows;
        p->transposed = false;
    }
    s->format = WEIGHT_MXFP4;
    p->packed = (PackedSource){.rows = 0};
    if (s->cols % 32) return bind_fail(a->b, "\"%s\": %lld inputs are no blocks of 32", a->module, (long long)s->cols);
    Shape codes = {4, {p->n_slots, s->rows, s->cols / 32, 16}}, scales = {3, {p->n_slots, s->rows, s->cols / 32}};
    part_name(a, "_blocks", name);
    if (!(p->parts[0] = bind_tensor(a->b, name, &codes, 1u << DTYPE_U8))) return false;
    part_name(a, "_scales", name);
    if (!(p->parts[1] = bind_tensor(a->b, name, &scales, BYTES))) return false;
    s->codes = p->parts[0]->data + p->parts[0]->bytes / (uint64_t)p->n_slots * (uint64_t)p->slot;
    s->scales = p->parts[1]->data + p->parts[1]->bytes / (uint64_t)p->n_slots * (uint64_t)p->slot;
    return true;
}

/* ---- a module ---- */

static bool has_type(const Tensor *t, unsigned types) {
    return t && types >> t->dtype & 1;
}

/* Whether the checkpoint has the module quantised, in any of the forms of this file. */
static bool is_quantised(const Asked *a) {
    const Tensor *weight = find_part(a, a->bare ? "" : ".weight");
    return find_part(a, ".qweight") || find_part(a, ".weight_packed") || (a->bare && find_part(a, "_blocks")) ||
           has_type(weight, 1u << DTYPE_F8_E4M3 | 1u << DTYPE_I8 | 1u << DTYPE_U8);
}

static bool plan_stored(const Asked *a) {
    switch (a->how->storage) {
    case STORED_AWQ: return plan_awq(a);
    case STORED_GPTQ: return plan_gptq(a);
    case STORED_FP8: return plan_fp8(a);
    case STORED_TERNARY: return plan_ternary(a);
    case STORED_BLOCKS: return plan_blocks(a);
    case STORED_PACKED: return plan_packed(a);
    case STORED_BYTES: return plan_bytes(a);
    case STORED_NVFP4: return plan_nvfp4(a);
    case STORED_MXFP4: return plan_microscaling(a, WEIGHT_MXFP4, ".weight_packed", 1u << DTYPE_U8);
    case STORED_MXFP8: return plan_microscaling(a, WEIGHT_MXFP8, ".weight", 1u << DTYPE_F8_E4M3);
    case STORED_ONLINE:
    case STORED_FLOATS: break;
    }
    return false;
}

/* Some packers give every layer a bias, of zeros where the model has none. */
static bool pass_zero_bias(const Asked *a) {
    const Tensor *t = find_part(a, ".bias");
    if (!t || !has_type(t, FLOAT_TYPES)) return true;
    for (uint64_t i = 0; i < t->bytes; i++)
        if (t->data[i]) return true; /* then it is a tensor that has no place */
    return bind_mark_used(a->b, t);
}

bool bind_plan_published(Binder *b, const LinearSpec *spec, const char *module, LinearPlan *plan, bool *found) {
    const Published *p = &b->quantization.published;
    Asked a = {b, module, spec->bare, NULL, plan};
    *found = is_quantised(&a);
    if (!*found) return true;
    if (!published_module(p, module, &a.how, b->err)) return false;
    if (!a.how)
        return bind_fail(b, "%s: \"%s\" is quantised, but config.json says that it is not",
                         checkpoint_folder(b->names->checkpoint), module);
    plan->packed = (PackedSource){.rows = plan->source.rows, .cols = plan->source.cols, .rows_per_scale = 1};
    plan->origin = p->method;
    if (a.how->storage == STORED_ONLINE)
        return bind_fail(b, "\"%s\" is packed, but quantization_mode is online", module);
    if (!plan_stored(&a)) return error_prefix(b->err, "read as %s", p->method);
    if (plan->packed.rows && plan->parts[1]) plan->packed.scale_type = scale_type(plan->parts[1]->dtype);
    return spec->bias || pass_zero_bias(&a);
}

/* Every linear layer but the head, unless a list says which: embeddings are none, nor are matrices without modules. */
bool bind_plan_online(Binder *b, const LinearSpec *spec, const char *module, LinearPlan *plan) {
    const Published *p = &b->quantization.published;
    const Blueprint *all = b->blueprint;
    const PublishedWeights *how;
    if (spec->bare || spec == &all->embedding || spec == &all->positions || spec == &all->per_layer.embedding ||
        (p->skips_head && spec == &all->head))
        return true;
    if (!published_module(p, module, &how, b->err)) return false;
    plan->ternary = how && how->storage == STORED_ONLINE;
    if (plan->ternary) plan->origin = p->method;
    return true;
}
