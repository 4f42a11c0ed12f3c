/* The table of paths. */
#ifndef LOCKSTEP_SERVE_ROUTES_H
#define LOCKSTEP_SERVE_ROUTES_H

#include "serve/server.h"

extern const HttpRoute routes[];

/* One handler each; their context is the Server. */
HttpHandler openai_chat, openai_completions, openai_embeddings, rerank;
HttpHandler tokenize, detokenize, apply_template;
HttpHandler responses_create, responses_count_tokens, responses_get, responses_delete, responses_post;
HttpHandler anthropic_create, anthropic_count_tokens;
HttpHandler ollama_chat, ollama_generate, ollama_embed, ollama_embeddings;
HttpHandler ollama_tags, ollama_show, ollama_ps, ollama_version, ollama_manage;
HttpHandler health, exactness, metrics, openapi;
HttpHandler page, page_file;
HttpHandler list_models, get_model;

/* The answer to a request that none of them takes. */
void reply_lost(Exchange *x, const char *methods);

#endif
