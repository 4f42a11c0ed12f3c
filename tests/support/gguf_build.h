/* Builds GGUF files byte by byte, right ones and wrong ones: metadata and tensors are appended, then put together. */
#ifndef LOCKSTEP_TESTS_SUPPORT_GGUF_BUILD_H
#define LOCKSTEP_TESTS_SUPPORT_GGUF_BUILD_H

#include "base/buffer.h"
#include "support/folder.h"

#include <stdint.h>

typedef struct GgufBuild {
    Buffer keys, list, data; /* metadata, tensor list, tensor data */
    uint64_t n_keys, n_tensors;
    uint32_t version; /* 3 */
} GgufBuild;

void build_begin(GgufBuild *b);
void build_clear(GgufBuild *b);
void build_number(Buffer *out, uint64_t v, int bytes); /* little-endian */
void build_string(Buffer *out, const char *text);      /* with its length */

void build_u32(GgufBuild *b, const char *key, uint32_t v);
void build_f32(GgufBuild *b, const char *key, float v);
void build_bool(GgufBuild *b, const char *key, bool v);
void build_text(GgufBuild *b, const char *key, const char *text);
void build_i32s(GgufBuild *b, const char *key, const int32_t *v, uint64_t n);
void build_texts(GgufBuild *b, const char *key, const char *const *texts, uint64_t n);

/* A tensor of a type whose rows of `cols` values take row_bytes; rows 0: a vector. Its data is `bytes`, or a pattern of
 * finite numbers when NULL; padded to 32. */
void build_tensor(GgufBuild *b, const char *name, uint32_t type, uint64_t rows, uint64_t cols, const void *bytes,
                  uint64_t n_bytes);
/* A line of the tensor list as given, without data. */
void build_entry(GgufBuild *b, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset);

/* The file's bytes. */
void build_join(const GgufBuild *b, Buffer *out);
void build_write(const GgufBuild *b, const TestFolder *folder, const char *name);

/* The metadata of a llama with 1 layer, hidden 64, ffn 32, 2 heads and 1 key head of 16, a byte-level vocabulary of 8.
 */
void build_llama_keys(GgufBuild *b);
/* Its tensors, as F32, but for `skip` (NULL: none). */
void build_llama_tensors(GgufBuild *b, const char *skip);

#endif
