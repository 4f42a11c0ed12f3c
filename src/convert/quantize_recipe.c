/* The choice per matrix. mlx-lm asks, in this order: does the module have a quantised form, do its inputs divide by the
 * group of the command (not of an exception), and what does the recipe, or else the family, say about it. */
#define _POSIX_C_SOURCE 200809L
#include "convert/quantize_recipe.h"
#include "base/memory.h"
#include "file/mapping.h"
#include "model/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct Mode {
    const char *name;
    WeightFormat format;
    int bits, group;
} modes[] = {{"affine", WEIGHT_AFFINE, 4, 64},
             {"mxfp4", WEIGHT_MXFP4, 4, 32},
             {"nvfp4", WEIGHT_NVFP4, 4, 16},
             {"mxfp8", WEIGHT_MXFP8, 8, 32}};

static const struct Mixed {
    const char *name;
    int low, high;
} mixed[] = {{"mixed_2_6", 2, 6}, {"mixed_3_4", 3, 4}, {"mixed_3_6", 3, 6}, {"mixed_4_6", 4, 6}};

const char *mode_name(WeightFormat format) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (modes[i].format == format) return modes[i].name;
    return "";
}

/* bits, group 0: the mode's. */
static bool spec_make(const char *mode, int bits, int group, QuantSpec *out, Error *err) {
    const struct Mode *m = NULL;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, mode) == 0) m = &modes[i];
    if (!m) return error_set(err, "mode \"%.40s\" is not known: affine, mxfp4, mxfp8 or nvfp4", mode);
    QuantSpec s = {m->format, bits ? bits : m->bits, group ? group : m->group, false};
    if (m->format != WEIGHT_AFFINE && (s.bits != m->bits || s.group != m->group))
        return error_set(err, "%s has %d bits in groups of %d, not %d in groups of %d", mode, m->bits, m->group, s.bits,
                         s.group);
    if (m->format == WEIGHT_AFFINE && (s.bits < 2 || s.bits > 8 || s.bits == 7))
        return error_set(err, "affine has 2, 3, 4, 5, 6 or 8 bits, not %d", s.bits);
    if (m->format == WEIGHT_AFFINE && s.group != 32 && s.group != 64 && s.group != 128)
        return error_set(err, "affine has groups of 32, 64 or 128, not %d", s.group);
    *out = s;
    return true;
}

/* ---- recipe files ---- */

/* One line, without its comment. */
static bool read_line(Recipe *r, char *text, Error *err) {
    char *save = NULL, *words[5] = {NULL};
    int n = 0;
    for (char *w = strtok_r(text, " \t\r", &save); w && n < 5; w = strtok_r(NULL, " \t\r", &save)) words[n++] = w;
    if (n == 0) return true;
    if (n < 2 || n > 4) return error_set(err, "a line is PATTERN BITS [GROUP [MODE]], or PATTERN keep");
    RecipeLine line = {.spec.off = strcmp(words[1], "keep") == 0};
    if (!line.spec.off) {
        char *end;
        long bits = strtol(words[1], &end, 10), group = 0;
        bool numbers = *end == 0 && bits > 0 && bits <= 8;
        if (n > 2) group = strtol(words[2], &end, 10);
        if (!numbers || *end || group < 0 || group > 1024)
            return error_set(err, "\"%.40s\" of \"%.40s\": bits and group are small numbers", words[n > 2 ? 2 : 1],
                             words[0]);
        const char *mode = n > 3 ? words[3] : mode_name(r->base.format);
        if (!spec_make(mode, (int)bits, group ? (int)group : r->base.group, &line.spec, err))
            return error_prefix(err, "%.100s", words[0]);
    }
    size_t bytes = strlen(words[0]) + 1;
    RecipeLine *grown = mem_room(r->lines, (size_t)r->n_lines, &r->capacity, sizeof *grown);
    char *pattern = arena_aligned(&r->texts, bytes, 1, 1);
    if (grown) r->lines = grown;
    if (!grown || !pattern) return error_memory(err, "the recipe");
    line.pattern = memcpy(pattern, words[0], bytes);
    r->lines[r->n_lines++] = line;
    return true;
}

static bool read_text(Recipe *r, char *text, Error *err) {
    int number = 1;
    for (char *next; text; text = next, number++) {
        next = strchr(text, '\n');
        if (next) *next++ = 0;
        text[strcspn(text, "#")] = 0;
        if (!read_line(r, text, err)) return error_prefix(err, "line %d", number);
    }
    return true;
}

static bool read_file(Recipe *r, const char *path, Error *err) {
    Mapping file;
    if (!mapping_open(&file, path, err)) {
        return error_prefix(err, "the recipe (a file, or one of mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6)");
    }
    char *text = mem_string((const char *)file.data, file.size);
    mapping_close(&file);
    bool ok = text ? read_text(r, text, err) : error_memory(err, "the recipe");
    if (text && !ok) error_prefix(err, "%s", path);
    mem_free(text);
    return ok;
}

bool recipe_read(Recipe *r, const char *mode, int bits, int group, const char *recipe, Error *err) {
    *r = (Recipe){0};
    if (!spec_make(mode, bits, group, &r->base, err)) return false;
    if (!recipe) return true;
    for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++) {
        if (strcmp(recipe, mixed[i].name) != 0) continue;
        if (r->base.format != WEIGHT_AFFINE) return error_set(err, "%s goes with the mode affine only", recipe);
        r->low_bits = mixed[i].low;
        r->high_bits = mixed[i].high;
        return true;
    }
    return read_file(r, recipe, err);
}

void recipe_clear(Recipe *r) {
    mem_free(r->lines);
    arena_clear(&r->texts);
}

/* ---- choosing ---- */

size_t module_length(const char *name) {
    size_t n = strlen(name);
    return n > 7 && strcmp(name + n - 7, ".weight") == 0 ? n - 7 : 0;
}

/* Part i of a dotted name as a number; -1: there is none, or it is no number. */
static int part_number(const char *name, int i) {
    while (i-- > 0 && name) {
        name = strchr(name, '.');
        if (name) name++;
    }
    if (!name || *name < '0' || *name > '9') return -1;
    char *end;
    long n = strtol(name, &end, 10);
    return (*end == '.' || *end == 0) && n < 1 << 20 ? (int)n : -1;
}

/* The recipes of mlx-lm count layers of the whole model; the number stands where the first down_proj has one. */
bool recipe_begin(Recipe *r, const Layout *l, Error *err) {
    if (r->low_bits == 0) return true;
    r->layer_part = -1;
    for (int i = 0; i < l->n && r->layer_part < 0; i++) {
        if (!strstr(l->tensors[i].name, "down_proj")) continue;
        for (int part = 0; part < 8 && r->layer_part < 0; part++)
            if (part_number(l->tensors[i].name, part) >= 0) r->layer_part = part;
    }
    if (r->layer_part < 0)
        return error_set(err, "%s: has no down_proj, which mixed recipes are about", checkpoint_folder(l->checkpoint));
    for (int i = 0; i < l->n; i++) {
        int layer = part_number(l->tensors[i].name, r->layer_part);
        if (layer >= r->n_layers) r->n_layers = layer + 1;
    }
    return true;
}

static int mixed_bits(const Recipe *r, const char *module) {
    int eighth = r->n_layers / 8, layer = part_number(module, r->layer_part);
    if (layer < 0) layer = 0;
    bool often = layer < eighth || layer >= 7 * r->n_layers / 8 || ((layer - eighth) % 3 + 3) % 3 == 2;
    bool values = strstr(module, "v_proj") || strstr(module, "v_a_proj") || strstr(module, "v_b_proj");
    bool high = strstr(module, "lm_head") || (often && (values || strstr(module, "down_proj")));
    return high ? r->high_bits : r->low_bits;
}

/* Whether the layer of a module has a convolution: a linear one does. */
static bool layer_is_linear(const Layout *l, const char *module) {
    char name[NAME_MAX_BYTES];
    const char *dot = strrchr(module, '.');
    snprintf(name, sizeof name, "%.*s.q_conv1d.weight", dot ? (int)(dot - module) : 0, module);
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->tensors[i].name, name) == 0) return true;
    return false;
}

static bool family_choice(const Recipe *r, const Layout *l, const char *module, QuantSpec *spec, bool *own) {
    *spec = r->base;
    if (!l->family) return true;
    if (patterns_match(l->family->kept, module)) return false;
    if (patterns_match(l->family->kept_full, module) && !layer_is_linear(l, module)) return false;
    if (patterns_match(l->family->finer, module)) {
        *spec = (QuantSpec){WEIGHT_AFFINE, 8, 64, false};
        *own = true;
    }
    return true;
}

bool recipe_choose(const Recipe *r, const Layout *l, const LayoutTensor *t, QuantSpec *spec, bool *own) {
    char module[NAME_MAX_BYTES];
    size_t n = module_length(t->name);
    bool is_float = t->dtype == DTYPE_F32 || t->dtype == DTYPE_F16 || t->dtype == DTYPE_BF16;
    *own = false;
    if (!is_float || n == 0 || n >= sizeof module || t->n_dims < 2) return false;
    if (t->cols == 0 || layout_rows(t) == 0 || t->cols % r->base.group) return false;
    memcpy(module, t->name, n);
    module[n] = 0;
    if (patterns_match("*norm", module) || (l->family && patterns_match(l->family->plain, module))) return false;
    for (int i = 0; i < r->n_lines; i++) {
        if (!patterns_match(r->lines[i].pattern, module)) continue;
        *spec = r->lines[i].spec;
        *own = true;
        return !spec->off;
    }
    if (r->low_bits == 0) return family_choice(r, l, module, spec, own);
    *spec = (QuantSpec){WEIGHT_AFFINE, mixed_bits(r, module), r->base.group, false};
    *own = true;
    return true;
}
