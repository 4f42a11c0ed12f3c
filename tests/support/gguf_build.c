/* The GGUF builder of tests. It checks nothing, since half of what it makes is meant to be wrong. */
#include "support/gguf_build.h"
#include "file/gguf.h"

#include <string.h>

void build_begin(GgufBuild *b) {
    memset(b, 0, sizeof *b);
    b->version = 3;
}

void build_clear(GgufBuild *b) {
    buffer_clear(&b->keys);
    buffer_clear(&b->list);
    buffer_clear(&b->data);
}

void build_number(Buffer *out, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) buffer_byte(out, (char)(v >> 8 * i));
}

void build_string(Buffer *out, const char *text) {
    build_number(out, strlen(text), 8);
    buffer_text(out, text);
}

static void key(GgufBuild *b, const char *name, uint32_t kind) {
    build_string(&b->keys, name);
    build_number(&b->keys, kind, 4);
    b->n_keys++;
}

void build_u32(GgufBuild *b, const char *name, uint32_t v) {
    key(b, name, GGUF_U32);
    build_number(&b->keys, v, 4);
}

void build_f32(GgufBuild *b, const char *name, float v) {
    key(b, name, GGUF_F32);
    buffer_append(&b->keys, &v, 4);
}

void build_bool(GgufBuild *b, const char *name, bool v) {
    key(b, name, GGUF_BOOL);
    build_number(&b->keys, v, 1);
}

void build_text(GgufBuild *b, const char *name, const char *text) {
    key(b, name, GGUF_STRING);
    build_string(&b->keys, text);
}

static void array(GgufBuild *b, const char *name, uint32_t item, uint64_t n) {
    key(b, name, GGUF_ARRAY);
    build_number(&b->keys, item, 4);
    build_number(&b->keys, n, 8);
}

void build_i32s(GgufBuild *b, const char *name, const int32_t *v, uint64_t n) {
    array(b, name, GGUF_I32, n);
    for (uint64_t i = 0; i < n; i++) build_number(&b->keys, (uint32_t)v[i], 4);
}

void build_texts(GgufBuild *b, const char *name, const char *const *texts, uint64_t n) {
    array(b, name, GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++) build_string(&b->keys, texts[i]);
}

void build_entry(GgufBuild *b, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                 uint64_t offset) {
    build_string(&b->list, name);
    build_number(&b->list, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++) build_number(&b->list, dims[i], 8);
    build_number(&b->list, type, 4);
    build_number(&b->list, offset, 8);
    b->n_tensors++;
}

void build_tensor(GgufBuild *b, const char *name, uint32_t type, uint64_t rows, uint64_t cols, const void *bytes,
                  uint64_t n_bytes) {
    uint64_t dims[2] = {cols, rows};
    build_entry(b, name, rows ? 2 : 1, dims, type, b->data.length);
    if (bytes) buffer_append(&b->data, bytes, n_bytes);
    for (uint64_t i = 0; !bytes && i < n_bytes; i++) /* 0x3c in the upper byte: finite as f32, f16 and bf16 */
        buffer_byte(&b->data, i % 2 ? 0x3c : (char)(i * 7));
    while (b->data.length % 32) buffer_byte(&b->data, 0);
}

void build_join(const GgufBuild *b, Buffer *out) {
    buffer_text(out, "GGUF");
    build_number(out, b->version, 4);
    build_number(out, b->n_tensors, 8);
    build_number(out, b->n_keys, 8);
    buffer_append(out, b->keys.data, b->keys.length);
    buffer_append(out, b->list.data, b->list.length);
    while (out->length % 32) buffer_byte(out, 0);
    buffer_append(out, b->data.data, b->data.length);
}

void build_write(const GgufBuild *b, const TestFolder *folder, const char *name) {
    Buffer all = {0};
    build_join(b, &all);
    test_write(folder, name, all.data, all.length);
    buffer_clear(&all);
}

void build_llama_keys(GgufBuild *b) {
    static const char *const tokens[] = {"a", "b", "ab", "\xC4\xA0", "<s>", "</s>", "<tool>", "[PAD7]"};
    static const int32_t types[] = {1, 1, 1, 1, 3, 3, 4, 5};
    static const char *const merges[] = {"a b"};
    build_text(b, "general.architecture", "llama");
    build_u32(b, "llama.block_count", 1);
    build_u32(b, "llama.context_length", 128);
    build_u32(b, "llama.embedding_length", 64);
    build_u32(b, "llama.feed_forward_length", 32);
    build_u32(b, "llama.attention.head_count", 2);
    build_u32(b, "llama.attention.head_count_kv", 1);
    build_u32(b, "llama.attention.key_length", 16);
    build_u32(b, "llama.attention.value_length", 16);
    build_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    build_text(b, "tokenizer.ggml.model", "gpt2");
    build_texts(b, "tokenizer.ggml.tokens", tokens, 8);
    build_i32s(b, "tokenizer.ggml.token_type", types, 8);
    build_texts(b, "tokenizer.ggml.merges", merges, 1);
}

void build_llama_tensors(GgufBuild *b, const char *skip) {
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } tensors[] = {
        {"token_embd.weight", 8, 64},     {"output_norm.weight", 0, 64},        {"blk.0.attn_norm.weight", 0, 64},
        {"blk.0.ffn_norm.weight", 0, 64}, {"blk.0.attn_q.weight", 32, 64},      {"blk.0.attn_k.weight", 16, 64},
        {"blk.0.attn_v.weight", 16, 64},  {"blk.0.attn_output.weight", 64, 32}, {"blk.0.ffn_gate.weight", 32, 64},
        {"blk.0.ffn_up.weight", 32, 64},  {"blk.0.ffn_down.weight", 64, 32},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (!skip || strcmp(tensors[i].name, skip) != 0)
            build_tensor(b, tensors[i].name, GGML_F32, tensors[i].rows, tensors[i].cols, NULL,
                         4 * (tensors[i].rows ? tensors[i].rows : 1) * tensors[i].cols);
}
