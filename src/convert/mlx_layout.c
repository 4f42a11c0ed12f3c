/* Every tensor of the checkpoint walks through the rules of its family: renamed, left out, changed in shape or order,
 * in the end one or two views under the names of MLX. A view is strides over the mapped source, so halves, interleaved
 * rows, swapped axes and heads cost nothing until a row is read. */
#include "convert/mlx_layout.h"
#include "base/memory.h"
#include "file/mapping.h"
#include "model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = NAME_MAX_BYTES };

/* A tensor on its way through the rules. */
typedef struct Walk {
    Layout *layout;
    const Tensor *source;
    char name[NAME];
    LayoutTensor view;
    bool done;
} Walk;

/* ---- what a checkpoint says ---- */

static bool any_name(const Checkpoint *c, const char *pattern) {
    for (int i = 0; i < checkpoint_count(c); i++)
        if (patterns_match(pattern, checkpoint_tensor(c, i)->name)) return true;
    return false;
}

static bool has_raw_conv(const Checkpoint *c) {
    for (int i = 0; i < checkpoint_count(c); i++) {
        const Tensor *t = checkpoint_tensor(c, i);
        if (patterns_match("*conv1d.weight", t->name) && t->n_dims > 0 && t->shape[t->n_dims - 1] != 1) return true;
    }
    return false;
}

/* A key of text_config, else of the config itself. */
static const JsonValue *text_key(const Layout *l, const char *key) {
    const JsonValue *config = checkpoint_config(l->checkpoint);
    const JsonValue *v = json_get_set(json_get(config, "text_config"), key);
    return v ? v : json_get_set(config, key);
}

static int64_t text_int(const Layout *l, const char *key, int64_t otherwise) {
    int64_t n = otherwise;
    const JsonValue *v = text_key(l, key);
    return v && json_int(v, &n) && n >= 0 && n <= CONFIG_MAX_SIZE ? n : otherwise;
}

static bool is_tied(const Layout *l) {
    bool tied = (l->family->flags & MLX_TIED) != 0;
    if (l->family->flags & MLX_KEEPS_HEAD) return false;
    json_bool(text_key(l, "tie_word_embeddings"), &tied);
    return tied;
}

static bool is_beside(const Layout *l, const LayoutRule *r, const char *name) {
    char other[NAME];
    int64_t number;
    return pattern_rewrite(r->from, r->which, name, other, sizeof other, &number) &&
           checkpoint_find(l->checkpoint, other);
}

static bool rule_applies(const Layout *l, const LayoutRule *r, const char *name) {
    switch (r->when) {
    case WHEN_ALWAYS: return true;
    case WHEN_TIED: return l->tied;
    case WHEN_RAW_CONV: return has_raw_conv(l->checkpoint);
    case WHEN_HAS: return any_name(l->checkpoint, r->which);
    case WHEN_LACKS: return !any_name(l->checkpoint, r->which);
    case WHEN_BESIDE: return is_beside(l, r, name);
    }
    return false;
}

/* The number after "layers." in a name; -1: none. */
static int64_t layer_of(const char *name) {
    const char *at = strstr(name, "layers.");
    int64_t n = -1;
    for (at = at ? at + 7 : ""; *at >= '0' && *at <= '9' && n < CONFIG_MAX_SIZE; at++)
        n = (n < 0 ? 0 : n) * 10 + (*at - '0');
    return n;
}

static bool is_left_out(const Layout *l, const char *name) {
    int64_t layer = layer_of(name), n_layers = text_int(l, "num_hidden_layers", CONFIG_MAX_SIZE);
    unsigned flags = l->family->flags;
    if (layer < 0) return false;
    if ((flags & MLX_EXTRA_LAYERS) && layer >= n_layers) return true;
    return (flags & MLX_SHARED_KV) && layer >= n_layers - text_int(l, "num_kv_shared_layers", 0) &&
           patterns_match("*.self_attn.k_proj*|*.self_attn.v_proj*|*.self_attn.k_norm*", name);
}

/* ---- views ---- */

static LayoutTensor view_of(const Tensor *t) {
    LayoutTensor v = {.dtype = t->dtype, .n_dims = t->n_dims, .rows = 1, .cols = 1, .col_stride = 1};
    memcpy(v.shape, t->shape, sizeof v.shape);
    for (int i = 0; i < t->n_dims; i++) *(i + 1 < t->n_dims ? &v.rows : &v.cols) *= t->shape[i];
    v.block_rows = v.rows;
    v.block_stride = v.rows * v.cols;
    v.row_stride = v.cols;
    return v;
}

/* The last two axes as rows and columns of blocks; false when there are fewer axes, or when the view is no longer the
 * whole tensor in order. */
static bool view_blocks(LayoutTensor *v) {
    if (v->n_dims < 2 || v->col_stride != 1 || v->row_stride != v->cols || v->rows == 0) return false;
    v->block_rows = v->shape[v->n_dims - 2];
    v->block_stride = v->block_rows * v->cols;
    return v->block_rows > 0;
}

static void view_swap(LayoutTensor *v) {
    int64_t *rows = &v->shape[v->n_dims - 2], *cols = &v->shape[v->n_dims - 1];
    int64_t blocks = v->rows / v->block_rows, n = *rows, stride = v->row_stride;
    *rows = *cols;
    *cols = n;
    v->cols = n;
    v->block_rows = *rows;
    v->rows = blocks * *rows;
    v->row_stride = v->col_stride;
    v->col_stride = stride;
}

/* Half `which` (0 or 1) of an axis of the last two. */
static bool view_half(LayoutTensor *v, bool last, bool interleaved, int which) {
    int64_t *size = &v->shape[v->n_dims - (last ? 1 : 2)], *stride = last ? &v->col_stride : &v->row_stride;
    if (*size % 2) return false;
    int64_t blocks = v->rows / v->block_rows;
    *size /= 2;
    v->offset += which * (interleaved ? *stride : *size * *stride);
    if (interleaved) *stride *= 2;
    if (last) {
        v->cols = *size;
    } else {
        v->block_rows = *size;
        v->rows = blocks * *size;
    }
    return true;
}

static void view_reshape(LayoutTensor *v, int n_dims, const int64_t *shape) {
    Tensor t = {.dtype = v->dtype, .n_dims = n_dims};
    bool add_one = v->add_one;
    for (int i = 0; i < n_dims; i++) t.shape[i] = shape[i];
    *v = view_of(&t);
    v->add_one = add_one;
}

static void view_squeeze(LayoutTensor *v) {
    int64_t shape[TENSOR_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < v->n_dims; i++)
        if (v->shape[i] != 1) shape[n++] = v->shape[i];
    view_reshape(v, n, shape);
}

/* ---- emitting ---- */

static bool wrong_shape(const Walk *w, Error *err) {
    char shape[128];
    tensor_shape_text(w->source, shape, sizeof shape);
    return error_set(err, "%s: tensor \"%.200s\" has shape %s, which does not divide as its family's layout wants",
                     w->source->file, w->source->name, shape);
}

static LayoutTensor *find_stack(Layout *l, const char *name) {
    for (int i = l->n; i-- > 0;)
        if (l->tensors[i].stacked && strcmp(l->tensors[i].name, name) == 0) return &l->tensors[i];
    return NULL;
}

static bool add_source(LayoutTensor *t, int64_t at, const Tensor *source, Error *err) {
    if (at >= 1 << 16) return error_set(err, "%s: tensor \"%.200s\": too many experts", source->file, source->name);
    while (t->n_sources <= at) {
        const Tensor **grown = mem_room(t->sources, (size_t)t->n_sources, &t->capacity, sizeof *grown);
        if (!grown) return error_memory(err, "the list of tensors");
        t->sources = grown;
        t->sources[t->n_sources++] = NULL;
    }
    t->sources[at] = source;
    return true;
}

/* A view under a name; number: its place in a stack, or -1. */
static bool emit(Walk *w, const char *name, const LayoutTensor *view, int64_t number, Error *err) {
    Layout *l = w->layout;
    LayoutTensor *t = number >= 0 ? find_stack(l, name) : NULL;
    if (t && (t->dtype != view->dtype || t->rows != view->rows || t->cols != view->cols))
        return error_set(err, "%s: tensor \"%.200s\" has another shape or type than the other experts", w->source->file,
                         w->source->name);
    if (!t) {
        LayoutTensor *grown = mem_room(l->tensors, (size_t)l->n, &l->capacity, sizeof *grown);
        size_t bytes = strlen(name) + 1;
        char *kept = grown ? arena_aligned(&l->names, bytes, 1, 1) : NULL;
        if (grown) l->tensors = grown;
        if (!kept) return error_memory(err, "the list of tensors");
        memcpy(kept, name, bytes);
        t = &l->tensors[l->n++];
        *t = *view;
        t->name = kept;
        t->stacked = number >= 0;
    }
    return add_source(t, number >= 0 ? number : 0, w->source, err);
}

/* Two halves of an axis. */
static bool emit_halves(Walk *w, const LayoutRule *r, const char *to, Error *err) {
    bool last = r->action != LAYOUT_HALVES, interleaved = r->action >= LAYOUT_INTERLEAVED;
    bool swapped = r->action == LAYOUT_HALVES_SWAPPED || r->action == LAYOUT_INTERLEAVED_SWAPPED;
    char other[NAME];
    int64_t number;
    if (!pattern_rewrite(r->from, r->other, w->name, other, sizeof other, &number)) return wrong_shape(w, err);
    for (int i = 0; i < 2; i++) {
        LayoutTensor v = w->view;
        if (!view_blocks(&v) || !view_half(&v, last, interleaved, i)) return wrong_shape(w, err);
        if (swapped) view_swap(&v);
        if (!emit(w, i ? other : to, &v, -1, err)) return false;
    }
    return true;
}

/* kv_b_proj [heads * (nope + v), rank] gives keys [heads, rank, nope] and values [heads, v, rank]. */
static bool emit_latent(Walk *w, const LayoutRule *r, const char *to, Error *err) {
    const Layout *l = w->layout;
    int64_t heads = text_int(l, "num_attention_heads", 0), own = text_int(l, "head_dim", 0), number;
    int64_t nope = text_int(l, "qk_nope_head_dim", own), values = text_int(l, "v_head_dim", own);
    LayoutTensor v = w->view;
    char other[NAME];
    if (heads == 0 || nope == 0 || values == 0 || v.n_dims != 2 || v.rows != heads * (nope + values) ||
        !pattern_rewrite(r->from, r->other, w->name, other, sizeof other, &number))
        return wrong_shape(w, err);
    int64_t shape[3] = {heads, nope + values, v.cols};
    view_reshape(&v, 3, shape);
    if (!view_blocks(&v)) return wrong_shape(w, err);
    v.rows = heads * nope;
    v.block_rows = v.shape[1] = nope;
    LayoutTensor keys = v;
    view_swap(&keys);
    v.rows = heads * values;
    v.block_rows = v.shape[1] = values;
    v.offset = nope * v.cols;
    return emit(w, to, &keys, -1, err) && emit(w, other, &v, -1, err);
}

/* [experts * rows, cols] gives [rows, cols] for each expert. */
static bool emit_split(Walk *w, const LayoutRule *r, const char *to, Error *err) {
    const JsonValue *config = checkpoint_config(w->layout->checkpoint);
    const char *mark = strchr(to, '#');
    int64_t n = 0;
    LayoutTensor v = w->view;
    json_int(json_get(json_get(config, "ffn_config"), "moe_num_experts"), &n);
    if (!mark || n <= 0 || n > 1 << 16 || v.n_dims != 2 || v.rows % n || v.rows == 0) return wrong_shape(w, err);
    view_reshape(&v, 2, (int64_t[]){v.rows / n, v.cols});
    for (int64_t e = 0; e < n; e++) {
        char name[NAME];
        LayoutTensor one = v;
        int length = snprintf(name, sizeof name, "%.*s%d%s", (int)(mark - to), to, (int)e, mark + 1);
        one.offset = e * v.rows * v.cols;
        if (length >= NAME || !view_blocks(&one)) return wrong_shape(w, err);
        if (r->action == LAYOUT_SPLIT_SWAPPED) view_swap(&one);
        if (!emit(w, name, &one, -1, err)) return false;
    }
    return true;
}

/* ---- rules ---- */

static bool refuse(const Walk *w, const LayoutRule *r, Error *err) {
    return error_set(err,
                     "%s: tensor \"%.200s\": %s, a form that lockstep quantize does not translate; convert the model "
                     "to MLX layout first (mlx_lm.convert without -q)",
                     w->source->file, w->name, r->to);
}

/* A number of the config at "key" or "key[1]", else the default. */
static float config_scale(const Layout *l, const char *path, const char *otherwise) {
    char key[64];
    const char *open = strchr(path, '[');
    double value = strtod(otherwise, NULL);
    snprintf(key, sizeof key, "%.*s", open ? (int)(open - path) : (int)strlen(path), path);
    const JsonValue *v = text_key(l, key);
    json_number(open ? json_item(v, (uint32_t)atoi(open + 1)) : v, &value);
    return (float)value;
}

/* Sections z, x, B, C and dt of in_proj. */
static bool scale_sections(Walk *w, Error *err) {
    static const char *const keys[5] = {"ssm_multipliers[0]", "ssm_multipliers[1]", "ssm_multipliers[2]",
                                        "ssm_multipliers[3]", "ssm_multipliers[4]"};
    static const char *const defaults[5] = {"0.3535533905932738", "0.25", "0.3535533905932738", "0.5",
                                            "0.3535533905932738"};
    const Layout *l = w->layout;
    int64_t inner = text_int(l, "mamba_d_ssm", 1536), heads = text_int(l, "mamba_n_heads", 24);
    int64_t state = text_int(l, "mamba_n_groups", 1) * text_int(l, "mamba_d_state", 128);
    int64_t sizes[5] = {inner, inner, state, state, heads}, end = 0;
    for (int i = 0; i < 5; i++) {
        end += sizes[i];
        w->view.sections[i].end = end;
        w->view.sections[i].scale = config_scale(l, keys[i], defaults[i]);
        w->view.sections[i].and_scale = config_scale(l, "ssm_in_multiplier", "1.25");
    }
    w->view.n_sections = 5;
    return end == w->view.rows || wrong_shape(w, err);
}

static bool apply_shape(Walk *w, const LayoutRule *r, Error *err) {
    LayoutTensor *v = &w->view;
    int64_t n = v->rows * v->cols, head_dim = text_int(w->layout, "head_dim", 0);
    int64_t heads[2] = {head_dim ? n / head_dim : 0, head_dim};
    switch (r->action) {
    case LAYOUT_CONV:
        if (v->n_dims != 3 || v->shape[1] != 1 || v->shape[2] == 1) return true;
        view_reshape(v, 3, (int64_t[]){v->shape[0], v->shape[2], 1});
        return true;
    case LAYOUT_ADD_ONE: v->add_one = v->n_dims == 1; return true;
    case LAYOUT_SCALE:
        v->sections[0].end = v->rows;
        v->sections[0].scale = config_scale(w->layout, r->to, r->other);
        v->sections[0].and_scale = 1;
        v->n_sections = 1;
        return true;
    case LAYOUT_SCALE_SSM: return scale_sections(w, err);
    case LAYOUT_UNIT_ROWS: v->unit_rows = true; return true;
    case LAYOUT_SQUEEZE: view_squeeze(v); return true;
    case LAYOUT_FLATTEN: view_reshape(v, 1, &n); return true;
    case LAYOUT_HEADS:
        if (head_dim == 0 || n % head_dim) return wrong_shape(w, err);
        view_reshape(v, 2, heads);
        return true;
    default:
        if (!view_blocks(v)) return wrong_shape(w, err);
        view_swap(v);
        return true;
    }
}

/* Emits and ends the walk, or goes on. */
static bool apply_rule(Walk *w, const LayoutRule *r, Error *err) {
    char to[NAME];
    int64_t number;
    const char *given = r->to && r->action != LAYOUT_REFUSE ? r->to : "";
    if (!pattern_rewrite(r->from, given, w->name, to, sizeof to, &number) ||
        !rule_applies(w->layout, r, w->source->name))
        return true;
    switch (r->action) {
    case LAYOUT_MOVE: memcpy(w->name, to, sizeof to); return true;
    case LAYOUT_PREFIX:
        if (strncmp(w->name, given, strlen(given)) == 0) return true;
        if (strlen(w->name) + strlen(given) >= NAME) return refuse(w, r, err);
        memmove(w->name + strlen(given), w->name, strlen(w->name) + 1);
        memcpy(w->name, given, strlen(given));
        return true;
    case LAYOUT_DROP: w->done = true; return true;
    case LAYOUT_REFUSE: return refuse(w, r, err);
    case LAYOUT_COPY: return any_name(w->layout->checkpoint, r->to) || emit(w, r->to, &w->view, -1, err);
    case LAYOUT_JOIN:
        w->done = w->view.joined = true;
        return w->view.n_dims > 0 ? emit(w, to, &w->view, *r->other - '0', err) : wrong_shape(w, err);
    case LAYOUT_STACK: w->done = true; return emit(w, to, &w->view, number, err);
    case LAYOUT_HALVES:
    case LAYOUT_HALVES_SWAPPED:
    case LAYOUT_INTERLEAVED:
    case LAYOUT_INTERLEAVED_SWAPPED: w->done = true; return emit_halves(w, r, to, err);
    case LAYOUT_SPLIT:
    case LAYOUT_SPLIT_SWAPPED: w->done = true; return emit_split(w, r, to, err);
    case LAYOUT_LATENT: w->done = true; return emit_latent(w, r, to, err);
    default: return apply_shape(w, r, err);
    }
}

static bool walk_tensor(Layout *l, const Tensor *source, Error *err) {
    Walk w = {.layout = l, .source = source, .view = view_of(source)};
    const LayoutRule *lists[5] = {mlx_rules_first, NULL, NULL, NULL, mlx_rules_last};
    if (strlen(source->name) >= NAME)
        return error_set(err, "%s: tensor \"%.100s...\": its name is too long", source->file, source->name);
    memcpy(w.name, source->name, strlen(source->name) + 1);
    if (!l->family) return emit(&w, w.name, &w.view, -1, err);
    for (int i = 0; i < 3; i++) lists[1 + i] = l->family->rules[i];
    for (int i = 0; i < 5; i++)
        for (const LayoutRule *r = lists[i]; r && r->action != LAYOUT_END && !w.done; r++)
            if (!apply_rule(&w, r, err)) return false;
    return w.done || is_left_out(l, w.name) || emit(&w, w.name, &w.view, -1, err);
}

/* Stacks get their first axis. */
static bool finish_stacks(Layout *l, Error *err) {
    for (int i = 0; i < l->n; i++) {
        LayoutTensor *t = &l->tensors[i];
        if (!t->stacked) continue;
        for (int e = 0; e < t->n_sources; e++)
            if (!t->sources[e])
                return error_set(err, "%s: part %d of \"%.200s\" is missing", checkpoint_folder(l->checkpoint), e,
                                 t->name);
        if (t->joined) {
            t->shape[0] *= t->n_sources;
            continue;
        }
        if (t->n_dims + 1 > TENSOR_MAX_DIMS) return error_set(err, "\"%.200s\" has too many axes", t->name);
        memmove(t->shape + 1, t->shape, (size_t)t->n_dims * sizeof *t->shape);
        t->shape[0] = t->n_sources;
        t->n_dims++;
    }
    return true;
}

/* Bailing's "norm_head": each column of the head is divided by its length whenever the checkpoint is loaded. Codes can
 * not be treated so (mlx-lm would divide the packed words), and done before, it would be done twice. */
static bool has_normed_head(const Checkpoint *checkpoint) {
    bool on = false;
    return json_bool(json_get(checkpoint_config(checkpoint), "norm_head"), &on) && on;
}

bool layout_make(Layout *l, const Checkpoint *checkpoint, Error *err) {
    *l = (Layout){.checkpoint = checkpoint, .family = mlx_family_find(checkpoint_config(checkpoint))};
    l->tied = l->family && is_tied(l);
    if (has_normed_head(checkpoint))
        return error_set(
            err,
            "%s: \"norm_head\" is on, so that the head's columns are normalised at every load, which codes "
            "can not be; such a checkpoint stays as it is",
            checkpoint_folder(checkpoint));
    for (int i = 0; i < checkpoint_count(checkpoint); i++)
        if (!walk_tensor(l, checkpoint_tensor(checkpoint, i), err)) return false;
    return finish_stacks(l, err);
}

void layout_clear(Layout *l) {
    for (int i = 0; i < l->n; i++) mem_free(l->tensors[i].sources);
    mem_free(l->tensors);
    arena_clear(&l->names);
}

int64_t layout_rows(const LayoutTensor *t) {
    return t->rows * t->n_sources;
}

const uint8_t *layout_row(const LayoutTensor *t, int64_t row, uint8_t *scratch) {
    const Tensor *source = t->sources[row / t->rows];
    size_t size = dtype_bytes(t->dtype);
    row %= t->rows;
    int64_t at = t->offset + row / t->block_rows * t->block_stride + row % t->block_rows * t->row_stride;
    const uint8_t *p = source->data + (size_t)at * size;
    if (t->col_stride == 1) return p;
    for (int64_t i = 0; i < t->cols; i++)
        memcpy(scratch + (size_t)i * size, p + (size_t)(i * t->col_stride) * size, size);
    return scratch;
}

void layout_release(const LayoutTensor *t) {
    for (int i = 0; i < t->n_sources; i++) mapping_release(t->sources[i]->data, t->sources[i]->bytes);
}
