/* The import, step by step: read what the file says (everything that can be refused is refused before a byte is
 * written), write the small files, stream the weights, rename. */
#include "convert/import_gguf.h"
#include "convert/gguf_config.h"
#include "convert/gguf_sentence.h"
#include "convert/gguf_tokenizer.h"
#include "convert/gguf_weights.h"
#include "convert/output_folder.h"

#include <string.h>

typedef bool FileText(const GgufModel *model, Buffer *out, Error *err);

/* A text file of the result; an empty text writes none. */
static bool write_text(const OutputFolder *o, const char *name, FileText *make, const GgufModel *m, Error *err) {
    Buffer text = {0};
    bool ok = make(m, &text, err) && (text.length == 0 || output_file(o, name, text.data, text.length, err));
    buffer_clear(&text);
    return ok;
}

static bool write_config(const OutputFolder *o, const GgufModel *m, const WeightsPlan *plan, Error *err) {
    Buffer quantization = {0}, text = {0};
    bool ok = weights_plan_quantization(plan, &quantization, err) &&
              gguf_config(m, quantization.length ? quantization.data : NULL, &text, err) &&
              output_file(o, "config.json", text.data, text.length, err);
    buffer_clear(&quantization);
    buffer_clear(&text);
    return ok;
}

static bool write_weights(const OutputFolder *o, const WeightsPlan *plan, Error *err) {
    Buffer path = {0};
    buffer_printf(&path, "%s/model.safetensors", o->part.data);
    bool ok = path.failed ? error_memory(err, "a path") : weights_write(plan, path.data, err);
    buffer_clear(&path);
    return ok;
}

static bool write_all(const OutputFolder *o, const GgufModel *m, const ImportOptions *options, Error *err) {
    if (!write_text(o, "tokenizer.json", gguf_tokenizer_json, m, err) ||
        !write_text(o, "tokenizer_config.json", gguf_tokenizer_config, m, err) ||
        !write_text(o, "generation_config.json", gguf_generation_config, m, err) ||
        !write_text(o, "chat_template.jinja", gguf_chat_template, m, err) || !gguf_sentence_write(m, o, err))
        return false;
    WeightsPlan *plan = weights_plan(m, options, err);
    bool ok = plan && write_config(o, m, plan, err) && write_weights(o, plan, err);
    weights_plan_free(plan);
    return ok;
}

bool import_gguf(const char *path, const char *out_dir, const ImportOptions *options, Error *err) {
    static const ImportOptions defaults;
    if (!options) options = &defaults;
    Gguf *file = gguf_open(path, err);
    if (!file) return false;
    GgufModel model;
    OutputFolder out = {0};
    bool ok = gguf_model_read(&model, file, err);
    if (!ok) error_prefix(err, "%s", path);
    if (ok && model.tiled && options->mlx) gguf_model_turn(&model, true);
    ok = ok && output_begin(&out, out_dir, options->force, err);
    if (ok && !write_all(&out, &model, options, err)) {
        /* A write error names the file it concerns; all else is about the source. */
        ok = (err && strstr(err->text, out.part.data)) ? false : error_prefix(err, "%s", path);
    }
    ok = ok && output_commit(&out, err);
    output_end(&out);
    gguf_close(file);
    return ok;
}
