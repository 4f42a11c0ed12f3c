/* Fuzz target: any bytes as a GGUF file. Either it is refused, or its values and tensors lie inside the file: arrays of
 * strings are walked and tensors read to their last byte. What the import makes of it in memory is made as well: the
 * model, its config and tokenizer files, the plan of its weights. */
#define _GNU_SOURCE
#include "fuzz/input.h"

#include "convert/gguf_config.h"
#include "convert/gguf_tokenizer.h"
#include "convert/gguf_weights.h"
#include "file/gguf.h"

static volatile unsigned sink;

static void read_value(const GgufValue *v) {
    uint64_t whole = 0, at = 0;
    double number = 0;
    bool truth = false;
    gguf_uint(v, &whole);
    gguf_number(v, &number);
    gguf_bool(v, &truth);
    const char *text;
    size_t length;
    while (gguf_next_string(v, &at, &text, &length))
        for (size_t i = 0; i < length; i++) sink += (unsigned char)text[i];
    for (uint64_t i = 0; v && i < v->count && gguf_item_number(v, i, &number); i++) sink += number > 0;
}

static void import_in_memory(const Gguf *file) {
    static const ImportOptions options, mlx = {.mlx = true};
    GgufModel model;
    Error err;
    Buffer text = {0};
    if (!gguf_model_read(&model, file, &err)) return;
    WeightsPlan *plan = weights_plan(&model, gguf_count(file) % 2 ? &mlx : &options, &err);
    if (plan && weights_plan_quantization(plan, &text, &err)) gguf_config(&model, NULL, &text, &err);
    weights_plan_free(plan);
    gguf_tokenizer_json(&model, &text, &err);
    gguf_tokenizer_config(&model, &text, &err);
    gguf_generation_config(&model, &text, &err);
    gguf_chat_template(&model, &text, &err);
    buffer_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = input_open(data, size, path, sizeof path);
    if (fd < 0) return 0;
    static const char *const keys[] = {"general.architecture", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                                       "a"};
    Error err;
    Gguf *file = gguf_open(path, &err);
    if (file) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) read_value(gguf_find(file, keys[i]));
        for (int i = 0; i < gguf_count(file); i++) {
            const GgufTensor *t = gguf_tensor(file, i);
            for (uint64_t b = 0; b < t->bytes; b++) sink += t->data[b];
        }
        import_in_memory(file);
    }
    gguf_close(file);
    close(fd);
    return 0;
}
