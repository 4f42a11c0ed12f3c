/* The llama architecture's row of the import table. */
#ifndef LOCKSTEP_CONVERT_GGUF_LLAMA_H
#define LOCKSTEP_CONVERT_GGUF_LLAMA_H

#include "convert/gguf_model.h"

extern const Architecture gguf_llama;

#endif
