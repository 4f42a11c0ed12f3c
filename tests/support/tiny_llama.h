/* A tiny llama checkpoint made on the spot, with one thing wrong or different where a test asks for it: 2 layers,
 * hidden 32, 2 heads of 16 over 1 key-value head, mlp 48, vocabulary 40, float32, pseudo-random weights. */
#ifndef LOCKSTEP_TESTS_SUPPORT_TINY_LLAMA_H
#define LOCKSTEP_TESTS_SUPPORT_TINY_LLAMA_H

#include "model/model.h"
#include "support/folder.h"

enum { TINY_VOCAB = 40, TINY_HIDDEN = 32, TINY_CONTEXT = 600 };

typedef enum TinyHead { TINY_HEAD_NONE, TINY_HEAD_COPY, TINY_HEAD_OWN } TinyHead;

typedef struct TinyLlama {
    const char *config;   /* more of config.json, each with a comma before: ",\"tie_word_embeddings\": true"; or NULL */
    const char *replaced; /* a key of the base config to leave out: "hidden_size"; or NULL */
    TinyHead head;
    const char *omit;    /* a tensor to leave out */
    const char *reshape; /* a tensor to give one row less */
    const char *extra;   /* a tensor [3] that has no place */
    const char *poison;  /* a tensor whose value number poison_at becomes poison_value */
    int poison_at;
    float poison_value;
} TinyLlama;

/* Writes config.json and model.safetensors into the folder. */
void tiny_write(const TestFolder *folder, const TinyLlama *t);

/* An opened model, or NULL with err; for tests that end it with tiny_close. */
typedef struct TinyModel {
    Checkpoint *checkpoint;
    Pool *pool;
    Model *model;
} TinyModel;
bool tiny_open(TinyModel *m, const TestFolder *folder, const ModelOptions *o, Error *err);
/* The same for a checkpoint whose folder does not matter (it is gone again: the weights stay mapped). Ends the test
 * when it can not. */
void tiny_make(TinyModel *m, const TinyLlama *t, const ModelOptions *o);
void tiny_close(TinyModel *m);

#endif
