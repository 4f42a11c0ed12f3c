/* Every key is compared with what came, whole and without an early end, so that the time tells nothing about any of
 * them. */
#include "serve/access.h"
#include "base/memory.h"
#include "serve/api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_KEY = 512 };

typedef struct KeyList {
    char **keys;
    size_t n, capacity;
} KeyList;

struct Access {
    KeyList given, read;
    char *file; /* NULL: none */
};

static void key_list_clear(KeyList *l) {
    for (size_t i = 0; i < l->n; i++) mem_free(l->keys[i]);
    mem_free(l->keys);
    *l = (KeyList){0};
}

static size_t count_blanks(const char *text) {
    return strspn(text, " \t");
}

/* Without the blanks around it, which HTTP takes from a header as well: a key with them could never be sent. */
static bool key_list_push(KeyList *l, const char *key, size_t n, Error *err) {
    size_t skip = count_blanks(key) < n ? count_blanks(key) : n;
    key += skip;
    n -= skip;
    while (n > 0 && (key[n - 1] == ' ' || key[n - 1] == '\t')) n--;
    if (n == 0 || n > MAX_KEY) return error_set(err, "an API key must have from 1 to %d bytes", MAX_KEY);
    char **keys = mem_room(l->keys, l->n, &l->capacity, sizeof *keys);
    if (keys) l->keys = keys;
    char *copy = keys ? mem_string(key, n) : NULL;
    if (!copy) return error_memory(err, "the API keys");
    l->keys[l->n++] = copy;
    return true;
}

static bool read_lines(FILE *f, KeyList *out, Error *err) {
    char line[MAX_KEY + 2];
    while (fgets(line, sizeof line, f)) {
        const char *key = line + count_blanks(line);
        size_t n = strcspn(key, "\r\n");
        if (n == 0 || *key == '#') continue;
        if (!key_list_push(out, key, n, err)) return false;
    }
    return true;
}

bool access_read(Access *a, Error *err) {
    KeyList read = {0};
    if (!a->file) return true;
    FILE *f = fopen(a->file, "re");
    if (!f) return error_set(err, "%s: %s", a->file, strerror(errno));
    bool ok = read_lines(f, &read, err) || error_prefix(err, "%s", a->file);
    fclose(f);
    if (ok && read.n == 0) ok = error_set(err, "%s: there is no key in it", a->file);
    if (!ok) {
        key_list_clear(&read);
        return false;
    }
    key_list_clear(&a->read);
    a->read = read;
    return true;
}

Access *access_new(const char *const *keys, int n, const char *key_file, Error *err) {
    Access *a = mem_zeroed(1, sizeof *a);
    bool ok = a != NULL || error_memory(err, "the API keys");
    if (ok && key_file) ok = (a->file = mem_string(key_file, strlen(key_file))) || error_memory(err, "the API keys");
    for (int i = 0; ok && i < n; i++) ok = key_list_push(&a->given, keys[i], strlen(keys[i]), err);
    if (ok && access_read(a, err)) return a;
    access_free(a);
    return NULL;
}

void access_free(Access *a) {
    if (!a) return;
    key_list_clear(&a->given);
    key_list_clear(&a->read);
    mem_free(a->file);
    mem_free(a);
}

/* 1 when equal. The time depends on the length of what came only. */
static unsigned is_key(const char *key, const char *came, size_t n) {
    size_t length = strlen(key);
    unsigned difference = length != n;
    for (size_t i = 0; i < n; i++) difference |= (unsigned char)came[i] ^ (unsigned char)key[i % (length + 1)];
    return difference == 0;
}

static bool has_key(const Access *a, const char *came) {
    size_t n = strlen(came);
    unsigned found = 0;
    for (size_t i = 0; i < a->given.n; i++) found |= is_key(a->given.keys[i], came, n);
    for (size_t i = 0; i < a->read.n; i++) found |= is_key(a->read.keys[i], came, n);
    return found != 0;
}

static const char *key_of(Exchange *x) {
    const char *bearer = exchange_header(x, "Authorization");
    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0) return bearer + 7 + count_blanks(bearer + 7);
    return exchange_header(x, "x-api-key");
}

static bool is_open(const char *path) {
    return strcmp(path, "/") == 0 || strncmp(path, "/page/", 6) == 0 || strcmp(path, "/health") == 0;
}

static bool has_changing_method(Exchange *x) {
    const char *method = exchange_method(x);
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 && strcmp(method, "OPTIONS") != 0;
}

/* What a browser itself says of where the page is from; no page can write this header. */
static bool is_own_page(Exchange *x) {
    const char *site = exchange_header(x, "Sec-Fetch-Site");
    return site && (strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0);
}

/* The page's own requests have an Origin of null where a browser takes its Referrer-Policy to mean that. */
static bool rules_admit(Exchange *x, const OriginRules *rules, ApiError *err) {
    const char *host = exchange_header(x, "Host"), *origin = exchange_header(x, "Origin");
    if (!origin_takes_host(rules, host))
        return api_refuse(
            err, 403, NULL,
            "Host: '%.200s' is not a name of this machine, and without --api-key no other is answered to: "
            "start the server with --cors https://%.200s (or http://) to allow it, or with a key",
            host, host);
    if (!origin || !has_changing_method(x) || is_own_page(x) || origin_may_change(rules, origin, host)) return true;
    return api_refuse(
        err, 403, NULL,
        "a page of Origin: '%.200s' may not do this, as no key is asked for: start the server with --cors "
        "%.200s to allow it, or with --api-key",
        origin, origin);
}

static bool key_admits(const Access *a, Exchange *x, ApiError *err) {
    const char *key = key_of(x);
    if (is_open(exchange_path(x))) return true;
    if (key && strlen(key) <= MAX_KEY && has_key(a, key)) return true;
    api_refuse(err, 401, NULL,
               key ? "this API key is not known here" : "an API key is needed: Authorization: Bearer KEY");
    err->code = "invalid_api_key";
    return false;
}

bool access_admits(Access *a, Exchange *x, const OriginRules *rules) {
    ApiError err;
    bool keys = a->given.n + a->read.n > 0;
    if (keys ? key_admits(a, x, &err) : rules_admit(x, rules, &err)) return true;
    api_fail(x, api_of_path(exchange_path(x)), &err);
    return false;
}
