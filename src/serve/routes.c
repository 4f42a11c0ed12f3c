/* Which handler answers at which path, and what is said where none does: most who miss have a base URL with a /v1 too
 * few or too many. */
#include "serve/routes.h"
#include "serve/api.h"

#include <string.h>

const HttpRoute routes[] = {
    {"GET", "/", page},
    {"GET", "/page/*", page_file},
    {"GET", "/health", health},
    {"GET", "/metrics", metrics},
    {"GET", "/openapi.json", openapi},
    {"GET", "/v1/exactness", exactness},
    {"GET", "/v1/models", list_models},
    {"GET", "/v1/models/*", get_model},
    {"POST", "/v1/chat/completions", openai_chat},
    {"POST", "/v1/completions", openai_completions},
    {"POST", "/v1/responses", responses_create},
    {"POST", "/v1/responses/input_tokens", responses_count_tokens},
    {"GET", "/v1/responses/*", responses_get},
    {"DELETE", "/v1/responses/*", responses_delete},
    {"POST", "/v1/responses/*", responses_post},
    {"POST", "/v1/embeddings", openai_embeddings},
    {"POST", "/v1/rerank", rerank},
    {"POST", "/rerank", rerank},
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"POST", "/apply-template", apply_template},
    {"POST", "/v1/messages", anthropic_create},
    {"POST", "/v1/messages/count_tokens", anthropic_count_tokens},
    {"POST", "/api/chat", ollama_chat},
    {"POST", "/api/generate", ollama_generate},
    {"POST", "/api/embed", ollama_embed},
    {"POST", "/api/embeddings", ollama_embeddings},
    {"GET", "/api/tags", ollama_tags},
    {"GET", "/api/ps", ollama_ps},
    {"POST", "/api/show", ollama_show},
    {"GET", "/api/version", ollama_version},
    {"POST", "/api/pull", ollama_manage},
    {"POST", "/api/push", ollama_manage},
    {"POST", "/api/create", ollama_manage},
    {"POST", "/api/copy", ollama_manage},
    {"POST", "/api/blobs/*", ollama_manage},
    {"DELETE", "/api/delete", ollama_manage},
    {NULL, NULL, NULL},
};

static bool ends_in(const char *text, size_t n, const char *end, size_t m) {
    return m <= n && memcmp(text + n - m, end, m) == 0;
}

/* The route whose path ends as this one does, or the other way round; NULL: none. */
static const char *near_path(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    for (const HttpRoute *r = routes; n > 1 && r->path; r++) {
        size_t m = strlen(r->path);
        if (m > 1 && (ends_in(path, n, r->path, m) || ends_in(r->path, m, path, n))) return r->path;
    }
    return NULL;
}

void reply_lost(Exchange *x, const char *methods) {
    ApiError err;
    const char *path = exchange_path(x), *near = near_path(path);
    if (*methods) {
        exchange_add_header(x, "Allow", methods);
        api_refuse(&err, 405, NULL, "'%.200s' takes %s, not %s", path, methods, exchange_method(x));
    } else if (near) {
        api_refuse(&err, 404, NULL, "there is nothing at '%.200s': did you mean '%s'?", path, near);
    } else {
        api_refuse(&err, 404, NULL, "there is nothing at '%.200s': GET /openapi.json lists the paths", path);
    }
    api_fail(x, api_of_path(path), &err);
}
