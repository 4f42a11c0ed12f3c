/* safetensors: an 8-byte header length, a JSON header, raw data. Everything in the header is checked against the file
 * before any of it is used: length, JSON, dtypes, shapes times size, order, overlaps, holes, duplicate names. */
#ifndef LOCKSTEP_FILE_SAFETENSORS_H
#define LOCKSTEP_FILE_SAFETENSORS_H

#include "base/error.h"
#include "base/json.h"
#include "file/mapping.h"

typedef enum DType {
    DTYPE_BOOL,
    DTYPE_U8,
    DTYPE_I8,
    DTYPE_F8_E4M3,
    DTYPE_F8_E5M2,
    DTYPE_F8_E8M0,
    DTYPE_U16,
    DTYPE_I16,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_U32,
    DTYPE_I32,
    DTYPE_F32,
    DTYPE_U64,
    DTYPE_I64,
    DTYPE_F64,
    DTYPE_COUNT
} DType;

size_t dtype_bytes(DType t);
const char *dtype_name(DType t); /* as safetensors spells it: "BF16" */

enum { TENSOR_MAX_DIMS = 8 };

typedef struct Tensor {
    const char *name;
    DType dtype;
    int n_dims;
    int64_t shape[TENSOR_MAX_DIMS];
    const uint8_t *data; /* mapped; may be unaligned to its element size: read with memcpy */
    uint64_t bytes;
    const char *file; /* path, for messages */
} Tensor;

/* "[1536, 576]" into out. */
void tensor_shape_text(const Tensor *t, char *out, size_t capacity);

typedef struct Safetensors Safetensors;
Safetensors *safetensors_open(const char *path, Error *err);
void safetensors_close(Safetensors *s);
int safetensors_count(const Safetensors *s);
const Tensor *safetensors_tensor(const Safetensors *s, int i); /* in the order of their data */
const JsonValue *safetensors_metadata(const Safetensors *s);   /* "__metadata__", or NULL */

/* Writes one file from tensors whose data may be produced late and in pieces: declare all, then write each in turn. */
typedef struct SafetensorsWriter SafetensorsWriter;
SafetensorsWriter *safetensors_create(const char *path, const Tensor *tensors, int n_tensors, Error *err);
/* The same with entries of "__metadata__" beside its format. */
typedef struct SafetensorsNote {
    const char *key, *value;
} SafetensorsNote;
SafetensorsWriter *safetensors_create_noted(const char *path, const Tensor *tensors, int n_tensors,
                                            const SafetensorsNote *notes, int n_notes, Error *err);
/* Appends bytes of the current tensor; moves on by itself when it is full. */
bool safetensors_write(SafetensorsWriter *w, const void *bytes, size_t n, Error *err);
/* The same for bytes that come in any order, from several threads, and perhaps over several runs: `resume` keeps what a
 * file of the same tensors holds already. Such a file is not synced when it is finished. Bytes go to [at, at + n) of a
 * tensor, each once. */
SafetensorsWriter *safetensors_create_placed(const char *path, const Tensor *tensors, int n_tensors, bool resume,
                                             Error *err);
bool safetensors_place(SafetensorsWriter *w, int tensor, uint64_t at, const void *bytes, size_t n, Error *err);
/* An earlier run has written all of a tensor. */
void safetensors_place_skip(SafetensorsWriter *w, int tensor);
/* Closes and frees, and keeps the unfinished file for a later run. */
void safetensors_pause(SafetensorsWriter *w);
/* Syncs and closes; an error when bytes are missing. Frees the writer in either case. */
bool safetensors_finish(SafetensorsWriter *w, Error *err);
void safetensors_abandon(SafetensorsWriter *w); /* closes, removes the file, frees */

#endif
