/* Fuzz target: any bytes as a safetensors file. Either it is refused, or every tensor it names lies inside the file:
 * each is read to its last byte, which AddressSanitizer and the end of the mapping check. */
#define _GNU_SOURCE
#include "fuzz/input.h"

#include "file/safetensors.h"

static volatile unsigned sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = input_open(data, size, path, sizeof path);
    if (fd < 0) return 0;
    Error err;
    Safetensors *file = safetensors_open(path, &err);
    for (int i = 0; file && i < safetensors_count(file); i++) {
        const Tensor *t = safetensors_tensor(file, i);
        char shape[128];
        tensor_shape_text(t, shape, sizeof shape);
        for (uint64_t b = 0; b < t->bytes; b++) sink += t->data[b];
    }
    safetensors_close(file);
    close(fd);
    return 0;
}
