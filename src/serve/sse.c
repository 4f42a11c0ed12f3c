/* Events go out one by one, as they come: a client waits for each. */
#include "serve/sse.h"

#include <string.h>

void sse_begin(Exchange *x) {
    exchange_stream_begin(x, "text/event-stream; charset=utf-8");
}

static void send_line(Exchange *x, const char *event, const char *data, size_t n) {
    Buffer out = {0};
    if (event) buffer_printf(&out, "event: %s\n", event);
    buffer_text(&out, "data: ");
    buffer_append(&out, data, n);
    buffer_text(&out, "\n\n");
    if (!out.failed) exchange_send(x, out.data, out.length);
    buffer_clear(&out);
}

void sse_send(Exchange *x, const char *event, const Buffer *data) {
    if (!data->failed) send_line(x, event, buffer_string(data), data->length);
}

void sse_send_text(Exchange *x, const char *data) {
    send_line(x, NULL, data, strlen(data));
}

void sse_comment(Exchange *x, const char *text) {
    Buffer out = {0};
    buffer_printf(&out, ": %s\n\n", text);
    if (!out.failed) exchange_send(x, out.data, out.length);
    buffer_clear(&out);
}
