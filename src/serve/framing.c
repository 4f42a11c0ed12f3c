/* evhttp of libevent 2.1 believes the first of several lengths, reads no body where a header's name has a space at its
 * end or a coding is not its own, and goes on with the connection: what it left of such a body would be taken for the
 * next request, which whoever stands between has never seen. So such requests are refused, and their connections
 * closed.
 *
 * Why it could not read a request it does not tell; it answers 413 to chunks that it can not read as well. What can be
 * known from outside is how much had come. */
#define _POSIX_C_SOURCE 200809L
#include "serve/framing.h"

#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

static FramingFault fault(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

static FramingFault fault(int status, const char *format, ...) {
    FramingFault f = {.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(f.message, sizeof f.message, format, args);
    va_end(args);
    return f;
}

/* The first header of that name; *n_other counts those that differ from it, and *n_same those that do not. */
static const char *find(const struct evkeyvalq *headers, const char *name, int *n_other, int *n_same) {
    const char *first = NULL;
    const struct evkeyval *h;
    *n_other = *n_same = 0;
    TAILQ_FOREACH(h, headers, next) {
        if (strcasecmp(h->key, name) != 0) continue;
        if (!first)
            first = h->value;
        else
            ++*(strcmp(first, h->value) == 0 ? n_same : n_other);
    }
    return first;
}

/* The name of a header is a token (RFC 9110 5.6.2). */
static const struct evkeyval *bad_name(const struct evkeyvalq *headers) {
    const struct evkeyval *h;
    TAILQ_FOREACH(h, headers, next) {
        const unsigned char *c = (const unsigned char *)h->key;
        if (!*c) return h;
        for (; *c; c++)
            if (*c <= ' ' || *c >= 127 || strchr("\"(),/:;<=>?@[\\]{}", *c)) return h;
    }
    return NULL;
}

static FramingFault check_body(const struct evkeyvalq *headers, bool *has_body) {
    int other, same;
    const char *coding = find(headers, "Transfer-Encoding", &other, &same);
    if (coding && (other || same || strcasecmp(coding, "chunked") != 0))
        return fault(501, "Transfer-Encoding: %.60s is not read here: only chunked, and once", coding);
    const char *length = find(headers, "Content-Length", &other, &same);
    if (length && coding) return fault(400, "Content-Length and Transfer-Encoding exclude each other");
    if (length && other) return fault(400, "the request has more than one Content-Length");
    if (length && (!*length || length[strspn(length, "0123456789")]))
        return fault(400, "Content-Length: '%.60s' is not a number of bytes", length);
    *has_body = coding || (length && length[strspn(length, "0")]);
    return (FramingFault){0};
}

FramingFault framing_check(const struct evhttp_request *request, bool *ends) {
    const struct evkeyvalq *headers = request->input_headers;
    bool has_body = false;
    int other, same;
    FramingFault f = {0};
    const struct evkeyval *bad = bad_name(headers);
    *ends = true;
    if (bad) return fault(400, "'%.60s' is not the name of a header", bad->key);
    find(headers, "Host", &other, &same);
    if (other || same) return fault(400, "the request has more than one Host");
    f = check_body(headers, &has_body);
    if (f.status) return f;
    *ends = has_body && request->type == EVHTTP_REQ_HEAD; /* whose body evhttp does not read */
    const char *encoding = find(headers, "Content-Encoding", &other, &same);
    if (encoding && *encoding && (other || strcasecmp(encoding, "identity") != 0))
        return fault(415, "Content-Encoding: %.60s is not read here: send the body as it is", encoding);
    return f;
}

FramingFault framing_explain(const UnreadRequest *r) {
    switch (r->status) {
    case 413:
        if (r->received > r->max_body)
            return fault(413, "the body is longer than the %zu bytes that are taken", r->max_body);
        return fault(400,
                     "the body's chunks can not be read: a size that is not plain hexadecimal (extensions are not "
                     "read), or one past the %zu bytes that are taken",
                     r->max_body);
    case 417: return fault(417, "Expect can ask for 100-continue only");
    case 501: return fault(501, "this method is not known here");
    case 503: return fault(503, "out of memory");
    default:
        return fault(400,
                     "the request can not be read: its first line or a header is not as HTTP has them, or they are "
                     "longer than the %zu bytes that are taken",
                     r->max_headers);
    }
}

const char *framing_phrase(int status) {
    switch (status) {
    case 413: return "Content Too Large";
    case 417: return "Expectation Failed";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return "Bad Request";
    }
}

void framing_path(char *out, size_t size, const char *line) {
    size_t end = strcspn(line, "\r\n");
    const char *path = memchr(line, ' ', end);
    size_t n = path ? strcspn(path + 1, " ?\r\n") : 0;
    if (n >= size) n = size - 1;
    if (n) memcpy(out, path + 1, n);
    out[n] = '\0';
}
