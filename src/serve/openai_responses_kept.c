/* GET, DELETE and POST /v1/responses/ID...: what was kept of responses. */
#include "serve/responses_output.h"
#include "serve/responses_store.h"
#include "base/memory.h"
#include "serve/routes.h"
#include "serve/sse.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_ITEMS = 20, MAX_ITEMS = 100, MAX_ID = 128 };

static void not_found(Exchange *x, const char *id) {
    ApiError err;
    api_refuse(&err, 404, NULL, "there is no response '%.100s' (any more)", id);
    api_fail(x, API_RESPONSES, &err);
}

/* The path's ID and what stands after it: "", or "/input_items". */
static const char *split_tail(const Exchange *x, char id[MAX_ID]) {
    const char *tail = exchange_tail(x), *slash = strchr(tail, '/');
    size_t n = slash ? (size_t)(slash - tail) : strlen(tail);
    if (n >= MAX_ID) n = MAX_ID - 1;
    memcpy(id, tail, n);
    id[n] = '\0';
    return slash ? slash : "";
}

/* ---- items ---- */

typedef struct Page {
    int limit;
    bool ascending;
    const char *after;
} Page;

static bool read_page(const Exchange *x, Page *page, ApiError *err) {
    const char *limit = exchange_query(x, "limit"), *order = exchange_query(x, "order");
    *page = (Page){.limit = USUAL_ITEMS, .after = exchange_query(x, "after")};
    if (limit) {
        char *end;
        long n = strtol(limit, &end, 10);
        if (*end || n < 1 || n > MAX_ITEMS)
            return api_refuse(err, 400, "limit", "'limit' must be from 1 to %d", MAX_ITEMS);
        page->limit = (int)n;
    }
    page->ascending = order && strcmp(order, "asc") == 0;
    return !order || page->ascending || strcmp(order, "desc") == 0 ||
           api_refuse(err, 400, "order", "'order' must be asc or desc");
}

static const JsonValue *item_at(const JsonValue *items, const Page *page, uint32_t i) {
    return json_item(items, page->ascending ? i : items->length - 1 - i);
}

static const char *id_at(const JsonValue *items, const Page *page, uint32_t i) {
    const char *id = json_string(json_get(item_at(items, page, i), "id"));
    return id ? id : "";
}

static void write_id(Buffer *out, const char *key, const JsonValue *items, const Page *page, uint32_t i, bool any) {
    const char *id = any ? id_at(items, page, i) : NULL;
    buffer_text(out, ", ");
    if (id)
        api_write_text(out, key, id, strlen(id));
    else
        buffer_printf(out, "\"%s\": null", key);
}

static void write_page(const JsonValue *items, const Page *page, Buffer *out) {
    uint32_t first = 0, n = items->length;
    for (uint32_t i = 0; page->after && i < n; i++)
        if (strcmp(id_at(items, page, i), page->after) == 0) first = i + 1;
    uint32_t end = n - first > (uint32_t)page->limit ? first + (uint32_t)page->limit : n;
    buffer_text(out, "{\"object\": \"list\", \"data\": [");
    for (uint32_t i = first; i < end; i++) {
        buffer_text(out, i > first ? ", " : "");
        json_write(out, item_at(items, page, i), NULL);
    }
    buffer_byte(out, ']');
    write_id(out, "first_id", items, page, first, end > first);
    write_id(out, "last_id", items, page, end - 1, end > first);
    buffer_printf(out, ", \"has_more\": %s}", end < n ? "true" : "false");
}

static void reply_items(Exchange *x, const KeptResponse *kept) {
    Page page;
    ApiError err;
    Buffer text = {0}, out = {0};
    JsonDoc *doc = NULL;
    buffer_printf(&text, "[%s]", buffer_string(&kept->input));
    if (read_page(x, &page, &err) && (doc = api_parse_written(&text, &err))) {
        write_page(json_root(doc), &page, &out);
        exchange_reply_json(x, 200, &out);
    } else {
        api_fail(x, API_RESPONSES, &err);
    }
    json_free(doc);
    buffer_clear(&text);
    buffer_clear(&out);
}

/* ---- events ---- */

/* The response as it was before there was anything of it. */
static void write_begin(const JsonValue *response, Buffer *out) {
    static const char *const before[][2] = {
        {"status", "\"in_progress\""}, {"output", "[]"}, {"usage", "null"}, {"incomplete_details", "null"}};
    for (uint32_t i = 0; i < response->length; i++) {
        const JsonMember *m = &response->members[i];
        const char *value = NULL;
        for (size_t k = 0; k < sizeof before / sizeof *before; k++)
            if (strcmp(m->key, before[k][0]) == 0) value = before[k][1];
        buffer_printf(out, "%s\"%s\": ", i ? ", " : "{", m->key);
        if (value)
            buffer_text(out, value);
        else
            json_write(out, &m->value, NULL);
    }
    buffer_byte(out, '}');
}

static void send_begin(ResponseOutput *o, const char *type, const JsonValue *response) {
    response_event_begin(o, type);
    buffer_text(&o->event, ", \"response\": ");
    write_begin(response, &o->event);
    response_event_send(o, type);
}

/* The events that a stream has had, but for what came in pieces, which comes whole. */
static void replay(Exchange *x, const KeptResponse *kept, const JsonValue *response, int first) {
    ResponseOutput o = {.stream = x, .first = first};
    const JsonValue *items = json_get(response, "output");
    bool cut = json_equals(json_get(response, "status"), "incomplete");
    const char *end = cut ? "response.incomplete" : "response.completed";
    sse_begin(x);
    send_begin(&o, "response.created", response);
    send_begin(&o, "response.in_progress", response);
    for (uint32_t i = 0; json_item(items, i); i++) response_replay(&o, json_item(items, i));
    response_event_begin(&o, end);
    buffer_printf(&o.event, ", \"response\": %s", buffer_string(&kept->response));
    response_event_send(&o, end);
    exchange_stream_end(x);
    response_clear(&o);
}

/* "stream" and "starting_after", the number of the last event that the client has had. */
static bool read_replay(const Exchange *x, bool *streams, int *first, ApiError *err) {
    const char *stream = exchange_query(x, "stream"), *after = exchange_query(x, "starting_after");
    *streams = stream && strcmp(stream, "true") == 0;
    *first = 0;
    if (stream && !*streams && strcmp(stream, "false") != 0)
        return api_refuse(err, 400, "stream", "'stream' must be true or false");
    if (!after) return true;
    char *end;
    long n = strtol(after, &end, 10);
    if (!*after || *end || n < 0 || n >= INT_MAX)
        return api_refuse(err, 400, "starting_after", "'starting_after' must be the number of an event");
    *first = (int)n + 1;
    return *streams || api_refuse(err, 400, "starting_after", "'starting_after' needs 'stream': true");
}

static void reply_response(Exchange *x, const KeptResponse *kept) {
    ApiError err;
    bool streams;
    int first;
    JsonDoc *doc = NULL;
    if (!read_replay(x, &streams, &first, &err) || (streams && !(doc = api_parse_written(&kept->response, &err))))
        api_fail(x, API_RESPONSES, &err);
    else if (streams)
        replay(x, kept, json_root(doc), first);
    else
        exchange_reply_json(x, 200, &kept->response);
    json_free(doc);
}

/* ---- handlers ---- */

void responses_get(Exchange *x, void *context) {
    char id[MAX_ID];
    const char *rest = split_tail(x, id);
    const KeptResponse *kept = response_store_find(server_responses(context), id);
    if (kept && !*rest)
        reply_response(x, kept);
    else if (kept && strcmp(rest, "/input_items") == 0)
        reply_items(x, kept);
    else
        not_found(x, exchange_tail(x));
}

void responses_delete(Exchange *x, void *context) {
    Buffer out = {0};
    if (!response_store_delete(server_responses(context), exchange_tail(x))) {
        not_found(x, exchange_tail(x));
        return;
    }
    buffer_text(&out, "{");
    api_write_text(&out, "id", exchange_tail(x), strlen(exchange_tail(x)));
    buffer_text(&out, ", \"object\": \"response\", \"deleted\": true}");
    exchange_reply_json(x, 200, &out);
    buffer_clear(&out);
}

/* Only responses in the background can be cancelled; others end when their client leaves. */
void responses_post(Exchange *x, void *context) {
    char id[MAX_ID];
    const char *rest = split_tail(x, id);
    ApiError err;
    if (strcmp(exchange_tail(x), "compact") == 0) {
        api_refuse(&err, 404, NULL,
                   "compacting is not supported here: send a shorter input, or 'truncation': \"auto\"");
        api_fail(x, API_RESPONSES, &err);
        return;
    }
    if (strcmp(rest, "/cancel") != 0 || !response_store_find(server_responses(context), id)) {
        not_found(x, exchange_tail(x));
        return;
    }
    api_refuse(&err, 400, NULL, "the response '%s' does not run in the background, so it can not be cancelled", id);
    api_fail(x, API_RESPONSES, &err);
}
