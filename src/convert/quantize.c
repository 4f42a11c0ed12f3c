/* Quantising, streamed: a tensor at a time, its rows in parallel, each task from the mapped source straight to its
 * place in the file. Memory is a few rows per thread, whatever the model. A byte in the progress file says that one
 * more tensor stands complete; that is all a later run needs to go on. */
#define _GNU_SOURCE
#include "convert/quantize.h"
#include "base/memory.h"
#include "convert/output_folder.h"
#include "convert/quantize_plan.h"
#include "file/mapping.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TASK_BYTES = 1 << 19, /* of floats that a task holds, and never less than a row */
    BATCH_TASKS = 64,     /* between two looks at the progress */
};

static const char PROGRESS[] = "quantize.progress";

/* A thread's own memory. */
typedef struct Bench {
    uint8_t *gathered; /* a row of the source, where it does not lie together */
    float *x;          /* a row */
    uint8_t *scratch;
    uint8_t *codes, *scales, *biases; /* of a task's rows */
    Error error;
    bool failed;
} Bench;

typedef struct Run {
    const QuantizeOptions *options;
    const QuantizePlan *plan;
    OutputFolder *out;
    Bench *benches;
    int n_benches;
    SafetensorsWriter *writer; /* of the current file */
    const PlannedTensor *tensor;
    int64_t task_rows, first_row;
    uint64_t done;
    int progress; /* file descriptor */
} Run;

/* ---- one task ---- */

static int64_t rows_of_task(const PlannedTensor *t) {
    int64_t rows = TASK_BYTES / (4 * (t->source->cols + 1));
    return rows > 0 ? rows : 1;
}

/* What the layout does to values, rounded to the source's number format as mlx-lm does while it loads. */
static void change_row(const PlannedTensor *t, int64_t row, float *x) {
    int64_t cols = t->source->cols;
    double squares = 0;
    for (int s = 0; s < t->source->n_sections; s++) {
        if (row >= t->source->sections[s].end) continue;
        float scale[2] = {t->source->sections[s].scale, t->source->sections[s].and_scale};
        floats_round(t->from, scale, 2);
        scale[0] *= scale[1];
        floats_round(t->from, scale, 1);
        for (int64_t j = 0; j < cols; j++) x[j] *= scale[0];
        break;
    }
    if (t->source->add_one)
        for (int64_t j = 0; j < cols; j++) x[j] += 1.0f;
    if (t->source->unit_rows) {
        for (int64_t j = 0; j < cols; j++) squares += (double)x[j] * (double)x[j];
        float length = sqrtf((float)squares) + 1e-7f;
        for (int64_t j = 0; j < cols; j++) x[j] /= length;
    }
    floats_round(t->from, x, cols);
}

static void make_row(const PlannedTensor *t, int64_t row, int64_t i, Bench *b) {
    const uint8_t *bytes = layout_row(t->source, row, b->gathered);
    uint8_t *codes = b->codes + (uint64_t)i * t->row.codes;
    int64_t cols = t->source->cols;
    bool changed = t->source->add_one || t->source->unit_rows || t->source->n_sections;
    if (!t->is_float || (!t->quantized && t->from == t->to && !changed)) {
        memcpy(codes, bytes, t->row.codes);
        return;
    }
    floats_read(t->from, bytes, cols, b->x);
    if (changed) change_row(t, row, b->x);
    if (t->from != t->to) floats_round(t->to, b->x, cols);
    if (t->quantized)
        encode_row(&t->form, b->x, codes, b->scales + (uint64_t)i * t->row.scales,
                   b->biases + (uint64_t)i * t->row.biases, b->scratch);
    else
        floats_write(t->to, b->x, cols, codes);
}

static void run_task(void *context, int task, int thread) {
    const Run *r = context;
    const PlannedTensor *t = r->tensor;
    Bench *b = &r->benches[thread];
    int64_t first = r->first_row + task * r->task_rows, end = layout_rows(t->source);
    if (end > first + r->task_rows) end = first + r->task_rows;
    if (b->failed || end <= first) return;
    uint64_t n = (uint64_t)(end - first), at = (uint64_t)first;
    for (int64_t i = first; i < end; i++) make_row(t, i, i - first, b);
    const EncodeBytes *row = &t->row;
    bool ok = safetensors_place(r->writer, t->part, at * row->codes, b->codes, n * row->codes, &b->error);
    if (ok && t->quantized)
        ok = safetensors_place(r->writer, t->part + 1, at * row->scales, b->scales, n * row->scales, &b->error) &&
             (row->biases == 0 ||
              safetensors_place(r->writer, t->part + 2, at * row->biases, b->biases, n * row->biases, &b->error));
    b->failed = !ok;
}

/* ---- benches ---- */

static void most(uint64_t *a, uint64_t b) {
    if (*a < b) *a = b;
}

static bool benches_make(Run *r, Error *err) {
    uint64_t cols = 1, codes = 1, scales = 1, scratch = 1;
    for (int i = 0; i < r->plan->n; i++) {
        const PlannedTensor *t = &r->plan->tensors[i];
        int64_t all = layout_rows(t->source), rows = rows_of_task(t);
        uint64_t n = (uint64_t)(all < rows ? all : rows);
        most(&cols, (uint64_t)t->source->cols);
        most(&codes, n * t->row.codes);
        most(&scales, n * t->row.scales);
        most(&scratch, t->row.scratch);
    }
    r->n_benches = pool_threads(r->options->pool);
    r->benches = mem_zeroed((size_t)r->n_benches, sizeof *r->benches);
    if (!r->benches) return error_memory(err, "quantising");
    for (int i = 0; i < r->n_benches; i++) {
        Bench *b = &r->benches[i];
        b->gathered = mem_array(cols, 8);
        b->x = mem_aligned(cols, sizeof *b->x);
        b->scratch = mem_aligned(scratch, 1);
        b->codes = mem_array(codes, 1);
        b->scales = mem_array(scales, 1);
        b->biases = mem_array(scales, 1);
        if (!b->gathered || !b->x || !b->scratch || !b->codes || !b->scales || !b->biases)
            return error_memory(err, "quantising");
    }
    return true;
}

static void benches_free(Run *r) {
    for (int i = 0; r->benches && i < r->n_benches; i++) {
        Bench *b = &r->benches[i];
        mem_free(b->gathered);
        mem_free(b->x);
        mem_free(b->scratch);
        mem_free(b->codes);
        mem_free(b->scales);
        mem_free(b->biases);
    }
    mem_free(r->benches);
}

/* ---- tensors and files ---- */

static bool go_on(Run *r, Error *err) {
    const QuantizeOptions *o = r->options;
    for (int i = 0; i < r->n_benches; i++)
        if (r->benches[i].failed) return error_set(err, "%s", r->benches[i].error.text);
    if (!o->progress || o->progress(o->context, r->done, r->plan->bytes)) return true;
    return error_set(err, "stopped; the same command goes on from here (%s holds what is done)", r->out->part.data);
}

static uint64_t row_bytes(const PlannedTensor *t) {
    return t->row.codes + t->row.scales + t->row.biases;
}

static bool write_tensor(Run *r, const PlannedTensor *t, Error *err) {
    int64_t rows = layout_rows(t->source), batch = BATCH_TASKS * rows_of_task(t);
    r->tensor = t;
    r->task_rows = rows_of_task(t);
    for (r->first_row = 0; r->first_row < rows; r->first_row += batch) {
        int64_t n = rows - r->first_row < batch ? rows - r->first_row : batch;
        pool_run(r->options->pool, run_task, r, (int)((n + r->task_rows - 1) / r->task_rows));
        r->done += (uint64_t)n * row_bytes(t);
        if (!go_on(r, err)) return false;
    }
    layout_release(t->source);
    return write(r->progress, ".", 1) == 1 ||
           error_set(err, "%s/%s: cannot be written: %s", r->out->part.data, PROGRESS, strerror(errno));
}

/* Marks the parts of a tensor that an earlier run wrote. */
static void skip_tensor(Run *r, const PlannedTensor *t) {
    int n = !t->quantized ? 1 : t->row.biases ? 3 : 2;
    for (int i = 0; i < n; i++) safetensors_place_skip(r->writer, t->part + i);
    r->done += (uint64_t)layout_rows(t->source) * row_bytes(t);
}

/* The tensors of one file, from *next on; the first `n_done` of the plan are there already. */
static bool write_file(Run *r, int file, int *next, int n_done, Error *err) {
    const PlannedFile *f = &r->plan->files[file];
    Buffer path = {0};
    buffer_printf(&path, "%s/%s", r->out->part.data, f->name);
    if (path.failed) return error_memory(err, "a path");
    r->writer = safetensors_create_placed(path.data, f->tensors, f->n, *next < n_done, err);
    buffer_clear(&path);
    bool ok = r->writer != NULL;
    for (; ok && *next < r->plan->n && r->plan->tensors[*next].file == file; ++*next) {
        if (*next < n_done)
            skip_tensor(r, &r->plan->tensors[*next]);
        else
            ok = write_tensor(r, &r->plan->tensors[*next], err);
    }
    if (ok) return safetensors_finish(r->writer, err);
    safetensors_pause(r->writer);
    return false;
}

/* Opens the progress file for more, and counts the tensors it speaks of. */
static bool open_progress(Run *r, size_t tag_bytes, int *n_done, Error *err) {
    Buffer path = {0};
    struct stat st;
    buffer_printf(&path, "%s/%s", r->out->part.data, PROGRESS);
    if (path.failed) return error_memory(err, "a path");
    r->progress = open(path.data, O_WRONLY | O_APPEND | O_CLOEXEC);
    bool ok = r->progress >= 0 && fstat(r->progress, &st) == 0;
    if (!ok) error_set(err, "%s: %s", path.data, strerror(errno));
    if (ok) *n_done = (int)(st.st_size - (off_t)tag_bytes);
    buffer_clear(&path);
    return ok;
}

static bool write_weights(Run *r, size_t tag_bytes, Error *err) {
    int next = 0, n_done = 0;
    bool ok = open_progress(r, tag_bytes, &n_done, err) && benches_make(r, err);
    for (int i = 0; ok && i < r->plan->n_files; i++) ok = write_file(r, i, &next, n_done, err);
    benches_free(r);
    if (r->progress >= 0) close(r->progress);
    return ok;
}

/* ---- the other files ---- */

/* Whether a file of the source folder goes along: tokenizer, template, generation settings, license, code; not weights
 * of any kind, and not what is written anew. */
static bool goes_along(const char *name) {
    static const char *const no[] = {
        ".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".gguf", ".h5", ".msgpack",
        ".onnx"};
    size_t n = strlen(name);
    if (*name == '.' || strcmp(name, "config.json") == 0 || strcmp(name, PROGRESS) == 0) return false;
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        size_t m = strlen(no[i]);
        if (n >= m && strcmp(name + n - m, no[i]) == 0) return false;
    }
    return true;
}

static bool copy_file(const OutputFolder *o, const char *folder, const char *name, Error *err) {
    Buffer path = {0};
    Mapping file;
    struct stat st;
    buffer_printf(&path, "%s/%s", folder, name);
    bool ok = !path.failed || error_memory(err, "a path");
    bool plain = ok && stat(path.data, &st) == 0 && S_ISREG(st.st_mode);
    if (plain && st.st_size == 0) {
        ok = output_file(o, name, "", 0, err);
    } else if (plain && (ok = mapping_open(&file, path.data, err))) {
        ok = output_file(o, name, file.data, file.size, err);
        mapping_close(&file);
    }
    buffer_clear(&path);
    return ok;
}

static bool copy_files(const OutputFolder *o, const char *folder, Error *err) {
    DIR *dir = opendir(folder);
    if (!dir) return error_set(err, "%s: %s", folder, strerror(errno));
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(dir));)
        if (goes_along(e->d_name)) ok = copy_file(o, folder, e->d_name, err);
    closedir(dir);
    return ok;
}

typedef bool PlanText(const QuantizePlan *plan, Buffer *out, Error *err);

static bool write_text(const OutputFolder *o, const char *name, PlanText *make, const QuantizePlan *p, Error *err) {
    Buffer text = {0};
    bool ok = make(p, &text, err) && output_file(o, name, text.data, text.length, err);
    buffer_clear(&text);
    return ok;
}

static bool remove_progress(const OutputFolder *o, Error *err) {
    Buffer path = {0};
    buffer_printf(&path, "%s/%s", o->part.data, PROGRESS);
    bool ok = !path.failed || error_memory(err, "a path");
    if (ok && unlink(path.data) != 0) ok = error_set(err, "%s: %s", path.data, strerror(errno));
    buffer_clear(&path);
    return ok;
}

/* ---- all of it ---- */

static void say_family(const QuantizeOptions *o, const QuantizePlan *p) {
    const char *type = json_string(json_get(checkpoint_config(p->layout.checkpoint), "model_type"));
    char line[256];
    if (p->layout.family || !o->log) return;
    snprintf(line, sizeof line,
             "mlx-lm has no model_type \"%.80s\": tensors keep their names, every matrix is quantised",
             type ? type : "");
    o->log(o->context, line);
}

static bool write_all(QuantizePlan *plan, OutputFolder *out, const char *out_dir, const QuantizeOptions *options,
                      Error *err) {
    Run run = {.options = options, .plan = plan, .out = out, .progress = -1};
    const char *folder = checkpoint_folder(plan->layout.checkpoint);
    Buffer tag = {0};
    bool found;
    bool ok = quantize_tag(plan, &tag, err) && output_resume(out, out_dir, PROGRESS, tag.data, &found, err);
    if (ok && found && options->log) options->log(options->context, "going on from an earlier run");
    ok = ok && copy_files(out, folder, err) && write_text(out, "config.json", quantize_config, plan, err) &&
         write_text(out, "model.safetensors.index.json", quantize_index, plan, err) &&
         write_weights(&run, tag.length, err) && remove_progress(out, err) && output_commit(out, err);
    buffer_clear(&tag);
    return ok;
}

bool quantize_folder(const char *folder, const char *out_dir, const QuantizeOptions *options, Error *err) {
    QuantizePlan plan = {0};
    OutputFolder out = {0};
    Checkpoint *checkpoint = NULL;
    const char *mode = options->mode ? options->mode : "affine";
    bool ok = recipe_read(&plan.recipe, mode, options->bits, options->group, options->recipe, err) &&
              (checkpoint = checkpoint_open(folder, err)) && quantize_plan(&plan, checkpoint, err);
    if (ok) say_family(options, &plan);
    ok = ok && write_all(&plan, &out, out_dir, options, err);
    output_end(&out);
    quantize_plan_clear(&plan);
    checkpoint_close(checkpoint);
    return ok;
}
