/* The plan: read, checked and laid out before a byte is written, because a safetensors header comes first and because
 * all that can be refused is refused here. */
#define _POSIX_C_SOURCE 200809L
#include "convert/quantize_plan.h"
#include "base/hash.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const uint64_t FILE_BYTES = (uint64_t)5 << 30; /* a file of mlx-lm holds no more, unless one tensor does */

/* ---- number formats ---- */

static bool float_type(DType t, ScaleType *out) {
    *out = t == DTYPE_F32 ? SCALE_F32 : t == DTYPE_F16 ? SCALE_F16 : SCALE_BF16;
    return t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
}

static DType float_dtype(ScaleType t) {
    return t == SCALE_F32 ? DTYPE_F32 : t == SCALE_F16 ? DTYPE_F16 : DTYPE_BF16;
}

/* What the config says its weights are; false when it does not. */
static bool config_type(const JsonValue *config, ScaleType *out) {
    static const struct {
        const char *name;
        ScaleType type;
    } types[] = {{"float16", SCALE_F16}, {"bfloat16", SCALE_BF16}, {"float32", SCALE_F32}};
    const JsonValue *v = json_get_set(config, "torch_dtype");
    if (!v) v = json_get_set(json_get(config, "text_config"), "dtype");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (v && json_equals(v, types[i].name)) {
            *out = types[i].type;
            return true;
        }
    return false;
}

/* ---- tensors ---- */

static bool check_float(const LayoutTensor *t, Error *err) {
    const Tensor *source = t->sources[0];
    if (source->dtype != DTYPE_F64 && source->dtype != DTYPE_F8_E4M3 && source->dtype != DTYPE_F8_E5M2 &&
        source->dtype != DTYPE_F8_E8M0)
        return true;
    return error_set(err, "%s: tensor \"%.200s\" is %s: only F32, F16 and BF16 are quantised", source->file,
                     source->name, dtype_name(source->dtype));
}

static bool plan_tensor(QuantizePlan *p, const LayoutTensor *t, PlannedTensor *out, Error *err) {
    const Layout *l = &p->layout;
    const char *as_stored = l->family ? l->family->as_stored : NULL;
    *out = (PlannedTensor){.source = t};
    if (!check_float(t, err)) return false;
    out->is_float = float_type(t->dtype, &out->from);
    out->to = out->from;
    if (out->is_float && !patterns_match(as_stored, t->name)) config_type(checkpoint_config(l->checkpoint), &out->to);
    out->quantized = recipe_choose(&p->recipe, l, t, &out->spec, &out->own);
    size_t width = out->is_float ? scale_type_bytes(out->to) : dtype_bytes(t->dtype);
    out->row = (EncodeBytes){.codes = (uint64_t)t->cols * width};
    if (!out->quantized) return true;
    out->form = (EncodeForm){out->spec.format, out->spec.bits, out->spec.group, t->cols, out->to};
    return encode_row_bytes(&out->form, &out->row, err) ||
           error_prefix(err, "%s: tensor \"%.200s\"", t->sources[0]->file, t->name);
}

/* ---- files ---- */

static bool add_part(QuantizePlan *p, PlannedFile *f, const PlannedTensor *t, const char *suffix, DType dtype,
                     uint64_t row_bytes, Error *err) {
    size_t n = strlen(t->source->name), module = suffix ? module_length(t->source->name) : n;
    Tensor *grown = mem_room(f->tensors, (size_t)f->n, &f->capacity, sizeof *grown);
    char *name = arena_aligned(&p->names, n + 16, 1, 1);
    if (grown) f->tensors = grown;
    if (!grown || !name) return error_memory(err, "the list of tensors");
    snprintf(name, n + 16, "%.*s%s", (int)module, t->source->name, suffix ? suffix : "");
    Tensor *out = &f->tensors[f->n++];
    *out = (Tensor){.name = name, .dtype = dtype, .n_dims = t->source->n_dims};
    memcpy(out->shape, t->source->shape, sizeof out->shape);
    if (out->n_dims > 0) out->shape[out->n_dims - 1] = (int64_t)(row_bytes / dtype_bytes(dtype));
    f->bytes += row_bytes * (uint64_t)layout_rows(t->source);
    return true;
}

static bool add_parts(QuantizePlan *p, PlannedTensor *t, Error *err) {
    PlannedFile *f = &p->files[t->file];
    DType scales = t->spec.format == WEIGHT_AFFINE ? float_dtype(t->to) : DTYPE_U8;
    t->part = f->n;
    if (!t->quantized)
        return add_part(p, f, t, NULL, t->is_float ? float_dtype(t->to) : t->source->dtype, t->row.codes, err);
    return add_part(p, f, t, ".weight", DTYPE_U32, t->row.codes, err) &&
           add_part(p, f, t, ".scales", scales, t->row.scales, err) &&
           (t->row.biases == 0 || add_part(p, f, t, ".biases", scales, t->row.biases, err));
}

static bool new_file(QuantizePlan *p, Error *err) {
    PlannedFile *grown = mem_resize(p->files, (size_t)p->n_files + 1, sizeof *grown);
    if (!grown) return error_memory(err, "the list of files");
    p->files = grown;
    p->files[p->n_files++] = (PlannedFile){0};
    return true;
}

static bool plan_files(QuantizePlan *p, Error *err) {
    for (int i = 0; i < p->n; i++) {
        PlannedTensor *t = &p->tensors[i];
        uint64_t rows = (uint64_t)layout_rows(t->source), bytes = rows * (t->row.codes + t->row.scales + t->row.biases);
        PlannedFile *last = p->n_files ? &p->files[p->n_files - 1] : NULL;
        if ((!last || (last->bytes > 0 && last->bytes + bytes > FILE_BYTES)) && !new_file(p, err)) return false;
        t->file = p->n_files - 1;
        if (!add_parts(p, t, err)) return false;
        p->bytes += bytes;
        p->parameters += rows * (uint64_t)t->source->cols;
    }
    for (int i = 0; i < p->n_files; i++) {
        char *name = p->files[i].name;
        if (p->n_files == 1)
            snprintf(name, sizeof p->files[i].name, "model.safetensors");
        else
            snprintf(name, sizeof p->files[i].name, "model-%05d-of-%05d.safetensors", i + 1, p->n_files);
    }
    return true;
}

static bool check_unquantized(const Checkpoint *c, Error *err) {
    static const char *const keys[] = {"quantization", "quantization_config", "compression_config"};
    const JsonValue *config = checkpoint_config(c);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_get_set(config, keys[i]) || json_get_set(json_get(config, "text_config"), keys[i]))
            return error_set(err, "%s: is quantised already (config.json has \"%s\"): quantize takes float checkpoints",
                             checkpoint_folder(c), keys[i]);
    return true;
}

bool quantize_plan(QuantizePlan *p, const Checkpoint *checkpoint, Error *err) {
    if (!check_unquantized(checkpoint, err) || !layout_make(&p->layout, checkpoint, err)) return false;
    if (!recipe_begin(&p->recipe, &p->layout, err)) return false;
    p->n = p->layout.n;
    p->tensors = mem_zeroed((size_t)p->n, sizeof *p->tensors);
    if (!p->tensors) return error_memory(err, "the list of tensors");
    for (int i = 0; i < p->n; i++)
        if (!plan_tensor(p, &p->layout.tensors[i], &p->tensors[i], err)) return false;
    return plan_files(p, err);
}

void quantize_plan_clear(QuantizePlan *p) {
    for (int i = 0; i < p->n_files; i++) mem_free(p->files[i].tensors);
    mem_free(p->files);
    mem_free(p->tensors);
    arena_clear(&p->names);
    layout_clear(&p->layout);
    recipe_clear(&p->recipe);
}

/* ---- what stands beside the weights ---- */

static void write_spec(Buffer *b, const QuantSpec *s, bool with_mode) {
    buffer_printf(b, "\"group_size\": %d, \"bits\": %d", s->group, s->bits);
    if (with_mode) buffer_printf(b, ", \"mode\": \"%s\"", mode_name(s->format));
}

/* The quantisation block: an entry per module for which something else holds. Those that a recipe leaves as floats are
 * named too, so that the folder says all that was chosen. */
static void write_quantization(const QuantizePlan *p, Buffer *b) {
    buffer_byte(b, '{');
    write_spec(b, &p->recipe.base, true);
    for (int i = 0; i < p->n; i++) {
        const PlannedTensor *t = &p->tensors[i];
        const char *name = t->source->name;
        if (!t->own) continue;
        buffer_text(b, ", ");
        json_write_string(b, name, module_length(name), false);
        buffer_text(b, ": ");
        if (t->quantized) {
            buffer_byte(b, '{');
            write_spec(b, &t->spec, p->recipe.low_bits || t->spec.format != WEIGHT_AFFINE);
            buffer_byte(b, '}');
        } else {
            buffer_text(b, "false");
        }
    }
    buffer_byte(b, '}');
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const JsonMember *)a)->key, ((const JsonMember *)b)->key);
}

static bool is_replaced(const char *key) {
    return strcmp(key, "quantization") == 0 || strcmp(key, "quantization_config") == 0 ||
           strcmp(key, "vision_config") == 0 || strcmp(key, "_name_or_path") == 0;
}

/* The end tokens of generation_config.json count, as in mlx-lm. */
static const JsonValue *end_tokens(const Checkpoint *c) {
    const JsonValue *v = json_get_set(checkpoint_generation_config(c), "eos_token_id");
    int64_t id;
    if (v && json_int(v, &id) && id == 0) return NULL;
    return v && v->type == JSON_ARRAY && v->length == 0 ? NULL : v;
}

/* The config's members, changed and sorted; members has room for 3 more. */
static uint32_t config_members(const QuantizePlan *p, const JsonValue *quantization, JsonMember *members) {
    const JsonValue *config = checkpoint_config(p->layout.checkpoint), *end = end_tokens(p->layout.checkpoint);
    bool has_end = false;
    uint32_t n = 0;
    for (uint32_t i = 0; i < config->length; i++) {
        if (is_replaced(config->members[i].key)) continue;
        members[n] = config->members[i];
        if (end && strcmp(members[n].key, "eos_token_id") == 0) {
            members[n].value = *end;
            has_end = true;
        }
        n++;
    }
    if (end && !has_end) members[n++] = (JsonMember){"eos_token_id", 12, *end};
    members[n++] = (JsonMember){"quantization", 12, *quantization};
    members[n++] = (JsonMember){"quantization_config", 19, *quantization};
    return n;
}

bool quantize_config(const QuantizePlan *p, Buffer *out, Error *err) {
    const JsonValue *config = checkpoint_config(p->layout.checkpoint);
    Buffer text = {0};
    write_quantization(p, &text);
    JsonDoc *quantization = text.failed ? NULL : json_parse(text.data, text.length, 0, err);
    JsonMember *members = mem_array((size_t)config->length + 3, sizeof *members);
    bool ok = quantization && members;
    if (text.failed || !members) error_memory(err, "config.json");
    if (ok) {
        JsonValue root = {.type = JSON_OBJECT};
        root.members = members;
        root.length = config_members(p, json_root(quantization), members);
        qsort(members, root.length, sizeof *members, by_key);
        json_write(out, &root, &(JsonStyle){.ensure_ascii = true, .indent = 4});
        ok = !out->failed || error_memory(err, "config.json");
    }
    mem_free(members);
    json_free(quantization);
    buffer_clear(&text);
    return ok;
}

bool quantize_index(const QuantizePlan *p, Buffer *out, Error *err) {
    const char *comma = "";
    buffer_printf(out,
                  "{\n    \"metadata\": {\n        \"total_size\": %" PRIu64 ",\n        \"total_parameters\": %" PRIu64
                  "\n    },\n    \"weight_map\": {",
                  p->bytes, p->parameters);
    for (int f = 0; f < p->n_files; f++)
        for (int i = 0; i < p->files[f].n; i++) {
            const char *name = p->files[f].tensors[i].name;
            buffer_printf(out, "%s\n        ", comma);
            json_write_string(out, name, strlen(name), true);
            buffer_printf(out, ": \"%s\"", p->files[f].name);
            comma = ",";
        }
    buffer_text(out, "\n    }\n}\n");
    return !out->failed || error_memory(err, "model.safetensors.index.json");
}

/* Weights are not synced tensor by tensor, so what an earlier run wrote counts only until the machine starts anew. */
static uint64_t hash_boot(uint64_t h) {
    char id[64];
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    size_t n = f ? fread(id, 1, sizeof id, f) : 0;
    if (f) fclose(f);
    return hash_bytes(h, id, n);
}

bool quantize_tag(const QuantizePlan *p, Buffer *out, Error *err) {
    uint64_t h = checkpoint_hash(p->layout.checkpoint);
    for (int i = 0; i < p->n; i++) {
        const PlannedTensor *t = &p->tensors[i];
        const Tensor *source = t->source->sources[0];
        struct stat st;
        int64_t numbers[] = {t->quantized, t->spec.format, t->spec.bits, t->spec.group, t->to, t->file, 0, 0};
        if (stat(source->file, &st) == 0) { /* weights are not read for this: other weights have another time */
            numbers[6] = st.st_mtim.tv_sec;
            numbers[7] = st.st_mtim.tv_nsec;
        }
        h = hash_bytes(h, t->source->name, strlen(t->source->name) + 1);
        h = hash_bytes(h, numbers, sizeof numbers);
    }
    h = hash_boot(h);
    buffer_printf(out, "lockstep quantize %016" PRIx64 "\n", h);
    return !out->failed || error_memory(err, "the name of a plan");
}
