/* The chat in the browser. Its files are in the program, and the policy that goes with each lets the browser load from,
 * and talk to, this server only: whatever a model writes, nothing of it runs and nothing leaves the machine. The page
 * holds no secret, so it needs no key; what it asks the API for does. */
#include "serve/page.h"
#include "serve/routes.h"

#include <string.h>

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

static const char *type_of(const char *name) {
    static const struct {
        const char *ending, *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".woff2", "font/woff2"},
        {".txt", "text/plain; charset=utf-8"},
    };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (strcmp(dot, types[i].ending) == 0) return types[i].type;
    return "application/octet-stream";
}

static void send_file(Exchange *x, const PageFile *f) {
    const char *known = exchange_header(x, "If-None-Match");
    exchange_add_header(x, "Content-Security-Policy", policy);
    exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    exchange_add_header(x, "Referrer-Policy", "no-referrer");
    exchange_add_header(x, "Cross-Origin-Opener-Policy", "same-origin");
    exchange_add_header(x, "Cache-Control", "no-cache"); /* kept, but asked for again: a new program has new files */
    exchange_add_header(x, "ETag", f->etag);
    if (known && strstr(known, f->etag))
        exchange_reply(x, 304, NULL, "", 0);
    else
        exchange_reply(x, 200, type_of(f->name), (const char *)f->bytes, f->n);
}

static void send_named(Exchange *x, const char *name) {
    for (const PageFile *f = page_files; f->name; f++) {
        if (strcmp(f->name, name) != 0) continue;
        send_file(x, f);
        return;
    }
    ApiError err;
    api_refuse(&err, 404, NULL, "the page has no file '%s'", name);
    api_fail(x, API_CHAT, &err);
}

void page(Exchange *x, void *context) {
    (void)context;
    send_named(x, "index.html");
}

void page_file(Exchange *x, void *context) {
    (void)context;
    send_named(x, exchange_tail(x));
}
