/* How an embedding model's rows become one vector: GGUF has a number for it, sentence-transformers a list of modules.
 * That the vector is normalised is not in the file; llama.cpp does it whatever the model, and so do nearly all. */
#include "convert/gguf_sentence.h"

#include <inttypes.h>

enum { POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST, N_POOLING };

static uint64_t pooling_of(const GgufModel *m) {
    uint64_t n = POOLING_NONE;
    gguf_uint(gguf_model_find(m, "pooling_type"), &n);
    return n;
}

bool gguf_sentence_modules(const GgufModel *m, Buffer *out, Error *err) {
    uint64_t n = pooling_of(m);
    if (n >= N_POOLING)
        return error_set(err, "pools its rows by rule %" PRIu64 ", which can not be imported; known: mean, cls, last",
                         n);
    if (n == POOLING_NONE) return true;
    buffer_text(out, "[\n  {\"idx\": 0, \"name\": \"0\", \"path\": \"\", \"type\": "
                     "\"sentence_transformers.models.Transformer\"},\n"
                     "  {\"idx\": 1, \"name\": \"1\", \"path\": \"1_Pooling\", \"type\": "
                     "\"sentence_transformers.models.Pooling\"},\n"
                     "  {\"idx\": 2, \"name\": \"2\", \"path\": \"2_Normalize\", \"type\": "
                     "\"sentence_transformers.models.Normalize\"}\n]\n");
    return !out->failed || error_memory(err, "modules.json");
}

bool gguf_sentence_pooling(const GgufModel *m, Buffer *out, Error *err) {
    static const char *const modes[N_POOLING] = {NULL, "pooling_mode_mean_tokens", "pooling_mode_cls_token",
                                                 "pooling_mode_lasttoken"};
    uint64_t n = pooling_of(m);
    if (n == POOLING_NONE || n >= N_POOLING) return true;
    buffer_printf(out, "{\n  \"word_embedding_dimension\": %" PRId64, m->size[SIZE_HIDDEN]);
    for (uint64_t i = 1; i < N_POOLING; i++) buffer_printf(out, ",\n  \"%s\": %s", modes[i], i == n ? "true" : "false");
    buffer_text(out, "\n}\n");
    return !out->failed || error_memory(err, "1_Pooling/config.json");
}
