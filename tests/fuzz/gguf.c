/* Fuzz target: any bytes as a GGUF file. Either it is refused, or its values and tensors lie inside the file: arrays of
 * strings are walked and tensors read to their last byte. */
#define _GNU_SOURCE
#include "fuzz/input.h"

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
    }
    gguf_close(file);
    close(fd);
    return 0;
}
