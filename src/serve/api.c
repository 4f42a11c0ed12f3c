/* Errors: one structure here, one shape for each protocol. Overload is 503 with Retry-After, and 529 where Anthropic's
 * clients expect that. */
#define _POSIX_C_SOURCE 200809L
#include "serve/api.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

Api api_of_path(const char *path) {
    if (strncmp(path, "/v1/messages", 12) == 0) return API_MESSAGES;
    return strncmp(path, "/api/", 5) == 0 ? API_OLLAMA : API_CHAT;
}

bool api_refuse(ApiError *e, int status, const char *param, const char *format, ...) {
    va_list args;
    char text[900];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    *e = (ApiError){.status = status};
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    return error_set(&e->message, "%s", text);
}

bool api_refuse_error(ApiError *e, int status, const char *param, const Error *why) {
    return api_refuse(e, status, param, "%s", why->text);
}

/* LangChain and litellm look for the beginning, in lower case. */
bool api_refuse_length(ApiError *e, const char *param, const char *what, size_t n, size_t most, const char *advice) {
    api_refuse(e, 400, param, "This model's maximum context length is %zu tokens. However, %s has %zu tokens: %s", most,
               what, n, advice);
    e->code = "context_length_exceeded";
    e->n_tokens = n;
    e->most_tokens = most;
    return false;
}

const JsonValue *api_body(Exchange *x, const void *state, ApiError *err) {
    Error why = {""};
    const JsonValue *body = state ? exchange_body(x, &why) : NULL;
    if (!state)
        api_refuse(err, 500, NULL, "out of memory");
    else if (!body)
        api_refuse_error(err, 400, NULL, &why);
    return body;
}

JsonDoc *api_parse_written(const Buffer *json, ApiError *err) {
    Error why = {"out of memory"};
    JsonDoc *doc = json->failed ? NULL : json_parse(json->data, json->length, 0, &why);
    if (!doc) api_refuse_error(err, 500, NULL, &why);
    return doc;
}

void api_write_text(Buffer *out, const char *key, const char *text, size_t n) {
    buffer_printf(out, "\"%s\": ", key);
    json_write_string(out, text, n, false);
}

void api_write_time(Buffer *out, const char *key, int64_t seconds, long nanoseconds) {
    struct tm t;
    time_t when = (time_t)seconds;
    char text[32] = "";
    if (gmtime_r(&when, &t)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t);
    buffer_printf(out, "\"%s\": \"%s", key, text);
    if (nanoseconds > 0) buffer_printf(out, ".%09ld", nanoseconds);
    buffer_text(out, "Z\"");
}

static const char *openai_type(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 503: return "overloaded_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

static const char *anthropic_type(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

/* It may quote what came, a header or a path, which need not be the UTF-8 that JSON must be. */
static void write_message(Buffer *out, const char *key, const char *text) {
    Buffer valid = {0};
    utf8_append_lossy(&valid, text, strlen(text));
    out->failed = out->failed || valid.failed;
    api_write_text(out, key, buffer_string(&valid), valid.length);
    buffer_clear(&valid);
}

static void write_openai(Buffer *out, const ApiError *e) {
    buffer_text(out, "{\"error\": {");
    write_message(out, "message", e->message.text);
    buffer_printf(out, ", \"type\": \"%s\", \"param\": ", openai_type(e->status));
    if (e->param[0])
        json_write_string(out, e->param, strlen(e->param), false);
    else
        buffer_text(out, "null");
    buffer_printf(out, ", \"code\": %s%s%s}}", e->code ? "\"" : "", e->code ? e->code : "null", e->code ? "\"" : "");
}

static void write_anthropic(Buffer *out, const char *request_id, const ApiError *e) {
    buffer_printf(out, "{\"type\": \"error\", \"error\": {\"type\": \"%s\", ", anthropic_type(e->status));
    Buffer message = {0};
    if (e->n_tokens > 0) /* Claude Code and LangChain look for these words */
        buffer_printf(&message, "prompt is too long: %zu tokens > %zu maximum", e->n_tokens, e->most_tokens);
    else
        buffer_printf(&message, "%s%s%s", e->param, e->param[0] ? ": " : "", e->message.text);
    write_message(out, "message", buffer_string(&message));
    buffer_clear(&message);
    buffer_printf(out, "}, \"request_id\": \"%s\"}", request_id);
}

static void write_ollama(Buffer *out, const ApiError *e) {
    buffer_text(out, "{");
    write_message(out, "error", e->message.text);
    buffer_text(out, "}");
}

void api_write_error(Buffer *out, Api api, const char *request_id, const ApiError *e) {
    if (api == API_MESSAGES)
        write_anthropic(out, request_id, e);
    else if (api == API_OLLAMA)
        write_ollama(out, e);
    else
        write_openai(out, e);
}

void api_fail(Exchange *x, Api api, const ApiError *e) {
    if (e->status == API_LATER) {
        e->later(x, e->context);
        return;
    }
    Buffer out = {0};
    api_write_error(&out, api, exchange_id(x), e);
    if (api == API_MESSAGES) exchange_add_header(x, "request-id", exchange_id(x));
    if (e->status == 503) exchange_add_header(x, "Retry-After", "1");
    exchange_reply_json(x, e->status == 503 && api == API_MESSAGES ? 529 : e->status, &out);
    buffer_clear(&out);
}

JsonDoc *api_rewrite_list(const JsonValue *items, ApiTakeItem *take, ApiError *err) {
    Buffer out = {0};
    bool ok = true;
    buffer_byte(&out, '[');
    for (uint32_t i = 0; ok && i < items->length; i++) ok = take(&out, json_item(items, i), i, err);
    buffer_byte(&out, ']');
    JsonDoc *doc = ok ? api_parse_written(&out, err) : NULL;
    buffer_clear(&out);
    return doc;
}
