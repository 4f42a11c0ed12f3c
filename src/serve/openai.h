/* What OpenAI's answers have in common. */
#ifndef LOCKSTEP_SERVE_OPENAI_H
#define LOCKSTEP_SERVE_OPENAI_H

#include "serve/ask.h"
#include "text/reply.h"
#include "text/tokenizer.h"

enum { OPENAI_CALL_ID = 72 };

/* prefix and 24 characters that no other answer has. */
void openai_new_id(char *out, size_t size, const char *prefix);
/* The id of a call: the model's own where its form has one, else a new one. */
void openai_call_id(const ReplyEvent *call, char out[OPENAI_CALL_ID]);

/* {"id": ..., "object": ..., "created": ..., "model": ..., without its end. */
void openai_write_head(Buffer *out, const char *id, const char *object, int64_t created, const char *model);
/* "usage": {...} */
void openai_write_usage(Buffer *out, const Ask *ask);
/* One item of logprobs.content. */
void openai_write_score(Buffer *out, const Tokenizer *t, const TokenScore *score, bool hash);
/* "token": ..., of one id: its text (as UTF-8) and its true bytes. */
void openai_write_token(Buffer *out, const Tokenizer *t, int32_t id);

/* The engine failed: the error as the answer, or in the middle of the stream. The exchange is gone. */
void openai_fail_late(Exchange *x, Api api, const char *why);

#endif
