/* A server that only this machine reaches is reached by every page in this machine's browser. Two things keep strange
 * pages out. A page whose name was pointed here after it was loaded (DNS rebinding) is of the same origin as the
 * server, but it can not help sending that name as Host. A page of another origin may send a POST without asking
 * first, when it looks like a form's, but it can not help sending its Origin.
 *
 * Programs that are no browser send what they like, and nothing here is for them: keys are. */
#define _POSIX_C_SOURCE 200809L
#include "serve/origin.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { MAX_HOST = 256 };

/* Of host, host:port or [address]:port the host; empty when it is none of them. */
static void host_of(char out[MAX_HOST], const char *authority, size_t length) {
    bool bracket = length > 0 && authority[0] == '[';
    const char *begin = authority + bracket, *limit = authority + length;
    const char *end = memchr(begin, bracket ? ']' : ':', (size_t)(limit - begin));
    out[0] = '\0';
    if (bracket && !end) return;
    if (!end) end = limit;
    const char *rest = end + bracket;
    size_t n = (size_t)(end - begin);
    if (n >= MAX_HOST || (rest < limit && *rest != ':')) return;
    if (rest < limit && strspn(rest + 1, "0123456789") < (size_t)(limit - rest - 1)) return;
    memcpy(out, begin, n);
    out[n] = '\0';
    if (n > 1 && out[n - 1] == '.') out[n - 1] = '\0';
}

bool host_is_local(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    static const char ending[] = ".localhost";
    size_t n = strlen(host), m = sizeof ending - 1;
    if (strcasecmp(host, ending + 1) == 0 || (n > m && strcasecmp(host + n - m, ending) == 0)) return true;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* The next of a list with commas; false after the last. */
static bool next_listed(const char **at, const char **origin, size_t *length) {
    if (!*at || !**at) return false;
    *origin = *at;
    *length = strcspn(*at, ",");
    *at += *length + ((*at)[*length] == ',');
    return true;
}

bool origin_is_listed(const char *listed, const char *origin) {
    const char *one;
    size_t length, n = strlen(origin);
    if (listed && strcmp(listed, "*") == 0) return true;
    while (next_listed(&listed, &one, &length))
        if (length == n && strncmp(one, origin, n) == 0) return true;
    return false;
}

/* A page that may call from there may as well be served from there: by a proxy that passes its Host on. */
static bool host_is_listed(const char *listed, const char *host) {
    const char *one;
    size_t length;
    char name[MAX_HOST];
    while (next_listed(&listed, &one, &length)) {
        const char *mark = memchr(one, ':', length);
        if (!mark || strncmp(mark, "://", 3) != 0) continue;
        host_of(name, mark + 3, length - (size_t)(mark + 3 - one));
        if (name[0] && strcasecmp(name, host) == 0) return true;
    }
    return false;
}

bool origin_takes_host(const OriginRules *r, const char *host) {
    char name[MAX_HOST];
    if (!r->local || !host || !*host) return true;
    if (r->listed && strcmp(r->listed, "*") == 0) return true;
    host_of(name, host, strlen(host));
    return name[0] && (host_is_local(name) || strcasecmp(name, r->bound) == 0 || host_is_listed(r->listed, name));
}

/* "null" is what a page of anybody's sends from a sandboxed frame. An origin that is neither http nor https is of
 * something that was installed here: app://, tauri://, vscode-webview://, an extension. */
bool origin_may_change(const OriginRules *r, const char *origin, const char *host) {
    char name[MAX_HOST];
    if (origin_is_listed(r->listed, origin)) return true;
    const char *mark = strstr(origin, "://");
    if (!mark || mark == origin) return false;
    size_t scheme = (size_t)(mark - origin);
    bool web =
        (scheme == 4 && strncasecmp(origin, "http", 4) == 0) || (scheme == 5 && strncasecmp(origin, "https", 5) == 0);
    if (!web || (host && strcasecmp(mark + 3, host) == 0)) return true;
    host_of(name, mark + 3, strlen(mark + 3));
    return host_is_local(name);
}
