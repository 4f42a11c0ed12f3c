/* A checkpoint is a folder: config.json, generation_config.json, tokenizer files, and the tensors of
 * model*.safetensors, or of the files named by model.safetensors.index.json. Tensors of other .safetensors files in the
 * folder are not part of it. */
#ifndef LOCKSTEP_FILE_CHECKPOINT_H
#define LOCKSTEP_FILE_CHECKPOINT_H

#include "file/safetensors.h"

typedef struct Checkpoint Checkpoint;

/* Opens and checks every part but reads no weights. NULL with the reason; a .gguf path gets the import command. */
Checkpoint *checkpoint_open(const char *folder, Error *err);
void checkpoint_close(Checkpoint *c);
const char *checkpoint_folder(const Checkpoint *c);
const JsonValue *checkpoint_config(const Checkpoint *c);            /* config.json, an object */
const JsonValue *checkpoint_generation_config(const Checkpoint *c); /* NULL when absent */
int checkpoint_count(const Checkpoint *c);
const Tensor *checkpoint_tensor(const Checkpoint *c, int i);
const Tensor *checkpoint_find(const Checkpoint *c, const char *name); /* NULL when absent; hashed */
/* 64-bit hash over config.json, tensor names, shapes and file sizes: names the checkpoint in reports. */
uint64_t checkpoint_hash(const Checkpoint *c);

#endif
