/* From arguments to what the engine takes: a loaded model, sampling settings, prompts. */
#ifndef LOCKSTEP_CLI_SETUP_H
#define LOCKSTEP_CLI_SETUP_H

#include "cli/flags.h"
#include "engine/dialog.h"
#include "engine/generate.h"
#include "engine/load.h"
#include "text/reply.h"

/* What the common flags say, with MODEL as the first argument. */
bool setup_options(const Args *args, LoadOptions *out, Error *err);
void setup_options_clear(LoadOptions *o);
/* Opens MODEL, the first argument, with the common flags. */
bool setup_load(const Args *args, LoadNeed tokenizer, LoadNeed chat_template, Loaded *out, Error *err);

/* Everything of a request but its prompt: what the flags say over `base`, the model's end tokens, stop strings. */
typedef struct RequestFlags {
    Request request;
    bool seed_drawn; /* sampling without --seed: the seed to report */
    LogitBias *bias;
    StopText *stops;
} RequestFlags;
bool setup_request(const Args *args, const Loaded *loaded, const Sampling *base, RequestFlags *out, Error *err);
void setup_request_clear(RequestFlags *r);

/* The variables of a chat template from the flags --messages, --tools, --kwargs and --no-generation-prompt. */
JsonDoc *setup_variables_flags(const Args *args, Error *err);
/* What --verbose ends with: checkpoint, settings, hash of the last logits, GB/s of weights read by the steps (one token
 * each in an answer). */
void report_verbose(const Loaded *loaded, const Args *args, uint64_t logits_hash, int steps, double seconds);

#endif
