/* GET /openapi.json: what is served, for programs that make clients and tests of it. The fields come from the table
 * that requests are read by, so the two can not part; the paths are those of routes.c, which the tests compare. */
#include "base/version.h"
#include "serve/fields.h"
#include "serve/routes.h"

#include <string.h>

typedef struct Operation {
    const char *path, *method, *summary;
    Api api;              /* of its body, 0: it has none */
    const char *required; /* the body's fields, quoted, with commas between */
    const char *type;     /* of the answer; NULL: JSON */
    const char *streamed; /* the answer's type when it is a stream */
} Operation;

static const char events[] = "text/event-stream", lines[] = "application/x-ndjson";

static const Operation operations[] = {
    {"/health", "get", "Whether the server lives", 0, NULL, NULL, NULL},
    {"/metrics", "get", "Counters in Prometheus' form", 0, NULL, "text/plain", NULL},
    {"/v1/exactness", "get", "What may change a byte of an answer", 0, NULL, NULL, NULL},
    {"/v1/models", "get", "The models there are", 0, NULL, NULL, NULL},
    {"/v1/models/{id}", "get", "One of them", 0, NULL, NULL, NULL},
    {"/v1/chat/completions", "post", "An answer to a conversation", API_CHAT, "\"messages\"", NULL, events},
    {"/v1/completions", "post", "A text gone on with", API_COMPLETIONS, "\"prompt\"", NULL, events},
    {"/v1/responses", "post", "An answer that is kept", API_RESPONSES, "\"input\"", NULL, events},
    {"/v1/responses/input_tokens", "post", "How long its prompt is", API_RESPONSES, "\"input\"", NULL, NULL},
    {"/v1/responses/{id}", "get", "A kept answer", 0, NULL, NULL, events},
    {"/v1/responses/{id}", "delete", "Forgets it", 0, NULL, NULL, NULL},
    {"/v1/responses/{id}/cancel", "post", "Ends it where it stands", 0, NULL, NULL, NULL},
    {"/v1/responses/{id}/input_items", "get", "What it answers", 0, NULL, NULL, NULL},
    {"/v1/embeddings", "post", "Vectors of texts", API_EMBEDDINGS, "\"input\"", NULL, NULL},
    {"/v1/rerank", "post", "Documents in the order of a query", API_RERANK, "\"query\", \"documents\"", NULL, NULL},
    {"/rerank", "post", "The same", API_RERANK, "\"query\", \"documents\"", NULL, NULL},
    {"/v1/messages", "post", "An answer to a conversation, as Anthropic has it", API_MESSAGES,
     "\"messages\", \"max_tokens\"", NULL, events},
    {"/v1/messages/count_tokens", "post", "How long its prompt is", API_MESSAGES, "\"messages\"", NULL, NULL},
    {"/tokenize", "post", "The tokens of a text or a conversation", API_TOKENS, NULL, NULL, NULL},
    {"/detokenize", "post", "The text of tokens", API_TOKENS, "\"tokens\"", NULL, NULL},
    {"/apply-template", "post", "A conversation as the model reads it", API_TOKENS, "\"messages\"", NULL, NULL},
    {"/api/chat", "post", "An answer to a conversation, as Ollama has it", API_OLLAMA, "\"model\"", NULL, lines},
    {"/api/generate", "post", "A text gone on with, as Ollama has it", API_OLLAMA, "\"model\"", NULL, lines},
    {"/api/embed", "post", "Vectors of texts, as Ollama has them", API_EMBEDDINGS, "\"model\"", NULL, NULL},
    {"/api/embeddings", "post", "The vector of a text, as Ollama once had it", API_OLLAMA, "\"model\"", NULL, NULL},
    {"/api/tags", "get", "The models there are", 0, NULL, NULL, NULL},
    {"/api/ps", "get", "Those in memory", 0, NULL, NULL, NULL},
    {"/api/show", "post", "One of them", API_OLLAMA, NULL, NULL, NULL},
    {"/api/version", "get", "The version", 0, NULL, NULL, NULL},
    {"/api/pull", "post", "Refused, with what to do", API_OLLAMA, NULL, NULL, NULL},
    {"/api/push", "post", "Refused, with what to do", API_OLLAMA, NULL, NULL, NULL},
    {"/api/create", "post", "Refused, with what to do", API_OLLAMA, NULL, NULL, NULL},
    {"/api/copy", "post", "Refused, with what to do", API_OLLAMA, NULL, NULL, NULL},
    {"/api/blobs/{id}", "post", "Refused, with what to do", 0, NULL, NULL, NULL},
    {"/api/delete", "delete", "Refused, with what to do", 0, NULL, NULL, NULL},
};

static void write_parameter(const Operation *o, Buffer *out) {
    if (!strchr(o->path, '{')) return;
    buffer_text(out, ", \"parameters\": [{\"name\": \"id\", \"in\": \"path\", \"required\": true, \"schema\": "
                     "{\"type\": \"string\", \"minLength\": 1}}]");
}

static void write_body(const Operation *o, Buffer *out) {
    if (!o->api) return;
    buffer_text(out, ", \"requestBody\": {\"required\": true, \"content\": {\"application/json\": {\"schema\": "
                     "{\"type\": \"object\", \"properties\": ");
    fields_write_schema(o->api, out);
    if (o->required) buffer_printf(out, ", \"required\": [%s]", o->required);
    buffer_text(out, "}}}}");
}

static void write_operation(const Operation *o, Buffer *out) {
    buffer_printf(out, "\"%s\": {\"summary\": \"%s\"", o->method, o->summary);
    write_parameter(o, out);
    write_body(o, out);
    buffer_printf(out, ", \"responses\": {\"200\": {\"description\": \"the answer\", \"content\": {\"%s\": {}",
                  o->type ? o->type : "application/json");
    if (o->streamed) buffer_printf(out, ", \"%s\": {}", o->streamed);
    buffer_text(out, "}}, \"default\": {\"description\": \"why not, in the protocol's own shape\", \"content\": "
                     "{\"application/json\": {}}}}}");
}

static void write_paths(Buffer *out) {
    const char *path = "";
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const Operation *o = &operations[i];
        bool same = strcmp(path, o->path) == 0; /* another method of it */
        if (!same) buffer_printf(out, "%s\"%s\": {", i ? "}, " : "", o->path);
        if (same) buffer_text(out, ", ");
        write_operation(o, out);
        path = o->path;
    }
    buffer_byte(out, '}');
}

void openapi(Exchange *x, void *context) {
    (void)context;
    Buffer out = {0};
    buffer_printf(&out,
                  "{\"openapi\": \"3.1.0\", \"info\": {\"title\": \"lockstep\", \"version\": \"%s\"}, \"components\": "
                  "{\"securitySchemes\": {\"bearer\": {\"type\": \"http\", \"scheme\": \"bearer\"}}}, \"security\": "
                  "[{}, {\"bearer\": []}], \"paths\": {",
                  LOCKSTEP_VERSION);
    write_paths(&out);
    buffer_text(&out, "}}");
    exchange_reply_json(x, 200, &out);
    buffer_clear(&out);
}
