/* GGUF v2 and v3, little-endian: metadata and tensors of a mapped file. Every count, length and range is checked
 * against the file at open; values and tensors then point into the mapping and may be read without a check. */
#ifndef LOCKSTEP_FILE_GGUF_H
#define LOCKSTEP_FILE_GGUF_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Metadata value types, numbered as in the file. */
typedef enum GgufKind {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_KIND_COUNT
} GgufKind;

typedef struct GgufValue {
    GgufKind kind, item; /* item: of an ARRAY's elements */
    uint64_t count;      /* STRING: bytes of text. ARRAY: elements. Else 1. */
    const uint8_t *data; /* in the file: the text, the elements one after another, the number; unaligned */
    uint64_t bytes;      /* of data */
} GgufValue;

/* Tensor types, numbered as in the file (ggml's numbers); only those that something here knows by name. */
enum {
    GGML_F32 = 0,
    GGML_F16 = 1,
    GGML_Q4_0 = 2,
    GGML_Q4_1 = 3,
    GGML_Q5_0 = 6,
    GGML_Q5_1 = 7,
    GGML_Q8_0 = 8,
    GGML_Q2_K = 10,
    GGML_Q3_K = 11,
    GGML_Q4_K = 12,
    GGML_Q5_K = 13,
    GGML_Q6_K = 14,
    GGML_IQ2_XXS = 16,
    GGML_IQ2_XS = 17,
    GGML_IQ3_XXS = 18,
    GGML_IQ1_S = 19,
    GGML_IQ4_NL = 20,
    GGML_IQ3_S = 21,
    GGML_IQ2_S = 22,
    GGML_IQ4_XS = 23,
    GGML_IQ1_M = 29,
    GGML_BF16 = 30,
    GGML_TQ1_0 = 34,
    GGML_TQ2_0 = 35,
    GGML_MXFP4 = 39,
    GGML_Q1_0 = 41,
    GGML_Q2_0 = 42,
};

enum { GGUF_MAX_DIMS = 4 };

typedef struct GgufTensor {
    const char *name;
    uint32_t type;
    int n_dims;
    int64_t shape[GGUF_MAX_DIMS]; /* shape[0] runs fastest: a weight is [in, out]; 1 beyond n_dims */
    const uint8_t *data;
    uint64_t bytes;
} GgufTensor;

typedef struct Gguf Gguf;

/* NULL with the reason; errors start with the path. */
Gguf *gguf_open(const char *path, Error *err);
void gguf_close(Gguf *g);
const char *gguf_path(const Gguf *g);

const GgufValue *gguf_find(const Gguf *g, const char *key); /* NULL when absent */
int gguf_n_keys(const Gguf *g);
const char *gguf_key(const Gguf *g, int i); /* sorted */
int gguf_count(const Gguf *g);
const GgufTensor *gguf_tensor(const Gguf *g, int i); /* in the order of the file's list */
const GgufTensor *gguf_find_tensor(const Gguf *g, const char *name);

/* A number of any integer kind, not negative; of any numeric kind; a bool. False when v is NULL or of another kind. */
bool gguf_uint(const GgufValue *v, uint64_t *out);
bool gguf_number(const GgufValue *v, double *out);
bool gguf_bool(const GgufValue *v, bool *out);
/* Element i of an array of numbers, as gguf_number. */
bool gguf_item_number(const GgufValue *v, uint64_t i, double *out);
/* Walks an array of strings: *at starts at 0 and is moved; false at the end, or when v is no such array. */
bool gguf_next_string(const GgufValue *v, uint64_t *at, const char **text, size_t *length);

/* ggml's name of a type ("Q4_K"), NULL for a number it does not have. */
const char *ggml_type_name(uint32_t type);
/* Values and bytes of one block of a type; 0 for an unknown number. */
uint32_t ggml_block_values(uint32_t type);
uint32_t ggml_block_bytes(uint32_t type);

/* Drops the tensor's pages from memory once it has been read. */
void gguf_release(const GgufTensor *t);

/* Whether a path is a GGUF file by its name or its first bytes. */
bool gguf_is_path(const char *path);
/* "... is a GGUF file: import it first: lockstep import ..."; returns false. */
bool gguf_import_hint(const char *path, Error *err);

#endif
