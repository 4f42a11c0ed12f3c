/* Which handler answers at which path. */
#include "serve/routes.h"

const HttpRoute routes[] = {
    {"GET", "/", page},
    {"GET", "/page/*", page_file},
    {"GET", "/health", health},
    {"GET", "/metrics", metrics},
    {"GET", "/v1/models", list_models},
    {"GET", "/v1/models/*", get_model},
    {"POST", "/v1/chat/completions", openai_chat},
    {"POST", "/v1/completions", openai_completions},
    {"POST", "/v1/responses", responses_create},
    {"GET", "/v1/responses/*", responses_get},
    {"DELETE", "/v1/responses/*", responses_delete},
    {"POST", "/v1/responses/*", responses_post},
    {"POST", "/v1/embeddings", openai_embeddings},
    {"POST", "/v1/rerank", rerank},
    {"POST", "/rerank", rerank},
    {"POST", "/v1/messages", anthropic_create},
    {"POST", "/v1/messages/count_tokens", anthropic_count_tokens},
    {"POST", "/api/chat", ollama_chat},
    {"POST", "/api/generate", ollama_generate},
    {"GET", "/api/tags", ollama_tags},
    {"GET", "/api/ps", ollama_ps},
    {"POST", "/api/show", ollama_show},
    {"GET", "/api/version", ollama_version},
    {NULL, NULL, NULL},
};
