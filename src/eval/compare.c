/* compare: differences of logits in double, row by row. What counts most is not the size of a difference but whether it
 * changes what the model would say where the reference is sure, so rows with a clear winner are counted apart. */
#include "eval/compare.h"
#include "base/memory.h"
#include "file/safetensors.h"
#include "math/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct TopTwo {
    int best;   /* the lowest index among equal maxima */
    double gap; /* to the second; 0 with one value */
} TopTwo;

static TopTwo top_two(const float *x, int n) {
    int best = 0;
    double second = -INFINITY;
    for (int i = 1; i < n; i++) {
        if (x[i] > x[best]) {
            second = x[best];
            best = i;
        } else if (x[i] > second) {
            second = x[i];
        }
    }
    return (TopTwo){best, n > 1 ? x[best] - second : 0};
}

static void compare_row(const float *a, const float *b, int row, const CompareOptions *o, CompareResult *out,
                        double *sum, uint64_t *counted) {
    double row_max = 0;
    int bad = 0;
    for (int i = 0; i < out->vocab; i++) {
        if (!isfinite(b[i])) {
            bad++;
            continue;
        }
        double d = fabs((double)a[i] - (double)b[i]);
        *sum += d;
        ++*counted;
        if (!(d <= row_max)) row_max = d;
    }
    if (row_max > out->max_abs || row == 0) {
        out->max_abs = row_max;
        out->worst_row = row;
    }
    if ((!(row_max <= o->tol) || bad) && out->first_over < 0) out->first_over = row;
    out->non_finite += bad;
    TopTwo reference = top_two(a, out->vocab);
    bool same = reference.best == top_two(b, out->vocab).best, decided = reference.gap >= o->decided;
    out->top1_same += same;
    out->decided_rows += decided;
    out->decided_wrong += decided && !same;
}

void compare_rows(const float *reference, const float *candidate, int rows, int vocab, const CompareOptions *o,
                  CompareResult *out) {
    CompareResult r = {.rows = rows, .vocab = vocab, .first_over = -1};
    double sum = 0;
    uint64_t counted = 0;
    for (int i = 0; i < rows; i++) {
        size_t at = (size_t)i * (size_t)vocab;
        compare_row(reference + at, candidate + at, i, o, &r, &sum, &counted);
    }
    r.mean_abs = counted ? sum / (double)counted : 0;
    r.identical = memcmp(reference, candidate, (size_t)rows * (size_t)vocab * sizeof *reference) == 0;
    r.within = r.first_over < 0;
    memcpy(r.name, out->name, sizeof r.name);
    *out = r;
}

/* ---- files ---- */

static const char *const names[COMPARE_MAX] = {"logits", "short", "long", "long_cont"};

static const Tensor *find_tensor(const Safetensors *s, const char *name) {
    for (int i = 0; i < safetensors_count(s); i++)
        if (strcmp(safetensors_tensor(s, i)->name, name) == 0) return safetensors_tensor(s, i);
    return NULL;
}

static bool same_shape(const Tensor *a, const Tensor *b) {
    return a->n_dims == 2 && b->n_dims == 2 && a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1];
}

/* The tensor itself, or the one prompt of a golden that a lone `logits` can be: told by its shape. */
static const Tensor *find_partner(const Safetensors *s, const Tensor *t) {
    const Tensor *same = find_tensor(s, t->name), *logits = find_tensor(s, "logits");
    if (same) return same;
    if (strcmp(t->name, "logits") != 0) return logits && same_shape(logits, t) ? logits : NULL;
    for (int i = 1; i < COMPARE_MAX; i++) {
        const Tensor *other = find_tensor(s, names[i]);
        if (other && same_shape(other, t)) return other;
    }
    return NULL;
}

static float *read_floats(const Tensor *t, Error *err) {
    uint64_t n;
    if (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_BF16) {
        error_set(err, "%s: tensor \"%s\" has the type %s, expected floats", t->file, t->name, dtype_name(t->dtype));
        return NULL;
    }
    if (!mem_product((uint64_t)t->shape[0], (uint64_t)t->shape[1], &n) || t->shape[0] < 1 || t->shape[1] < 1 ||
        t->shape[0] > INT32_MAX || t->shape[1] > INT32_MAX) {
        error_set(err, "%s: tensor \"%s\" is empty or too large to compare", t->file, t->name);
        return NULL;
    }
    WeightFormat format = t->dtype == DTYPE_F32 ? WEIGHT_F32 : t->dtype == DTYPE_F16 ? WEIGHT_F16 : WEIGHT_BF16;
    WeightSource source = {.format = format, .rows = t->shape[0], .cols = t->shape[1], .codes = t->data};
    float *values = mem_array((size_t)n, sizeof *values);
    if (!values) error_memory(err, "logits");
    for (int64_t i = 0; values && i < t->shape[0]; i++) weight_row(&source, i, values + i * t->shape[1]);
    return values;
}

static bool compare_tensors(const Tensor *a, const Tensor *b, const CompareOptions *o, CompareResult *out, Error *err) {
    char shape_a[128], shape_b[128];
    if (!same_shape(a, b)) {
        tensor_shape_text(a, shape_a, sizeof shape_a);
        tensor_shape_text(b, shape_b, sizeof shape_b);
        return error_set(err, "%s: tensor \"%s\" has shape %s, in %s it has %s", b->file, b->name, shape_b, a->file,
                         shape_a);
    }
    float *x = read_floats(a, err), *y = x ? read_floats(b, err) : NULL;
    if (y) {
        snprintf(out->name, sizeof out->name, "%s", a->name);
        compare_rows(x, y, (int)a->shape[0], (int)a->shape[1], o, out);
    }
    mem_free(x);
    mem_free(y);
    return y != NULL;
}

bool compare_files(const char *reference, const char *candidate, const CompareOptions *o,
                   CompareResult out[COMPARE_MAX], int *n, Error *err) {
    CompareResult results[COMPARE_MAX];
    memset(results, 0, sizeof results);
    Safetensors *a = safetensors_open(reference, err), *b = a ? safetensors_open(candidate, err) : NULL;
    bool ok = a && b;
    int found = 0;
    for (int i = 0; ok && i < COMPARE_MAX; i++) {
        const Tensor *t = find_tensor(a, names[i]), *partner = t ? find_partner(b, t) : NULL;
        if (partner) ok = compare_tensors(t, partner, o, &results[found++], err);
    }
    if (ok && !found)
        ok = error_set(err,
                       "%s and %s: have no tensor of logits in common (logits, short, long, long_cont of one shape)",
                       reference, candidate);
    safetensors_close(a);
    safetensors_close(b);
    if (ok) {
        memcpy(out, results, sizeof results);
        *n = found;
    }
    return ok;
}

void compare_describe(const CompareResult *results, int n, Buffer *out) {
    for (int i = 0; i < n; i++) {
        const CompareResult *r = &results[i];
        buffer_printf(
            out, "%s: %d rows, max_abs %.3e (position %d) mean_abs %.3e top1 %d/%d decided %d disagree_at_decided %d ",
            r->name, r->rows, r->max_abs, r->worst_row, r->mean_abs, r->top1_same, r->rows, r->decided_rows,
            r->decided_wrong);
        if (r->non_finite) buffer_printf(out, "%d values not finite ", r->non_finite);
        if (r->within)
            buffer_text(out, r->identical ? "ok, identical bytes\n" : "ok\n");
        else
            buffer_printf(out, "FAIL (first position over: %d)\n", r->first_over);
    }
}
