/* Whose browser pages may ask where no key is asked for. */
#ifndef LOCKSTEP_SERVE_ORIGIN_H
#define LOCKSTEP_SERVE_ORIGIN_H

#include <stdbool.h>

typedef struct OriginRules {
    const char *bound;  /* the address or name that is listened at, as it was given */
    const char *listed; /* the origins of --cors with commas between; "*": all; NULL: none */
    bool local;         /* nobody but this machine reaches the server */
} OriginRules;

/* Names and addresses that every browser takes for this machine, whatever a name server says. */
bool host_is_local(const char *host);
/* Whether --cors names the origin. */
bool origin_is_listed(const char *listed, const char *origin);
/* Whether a request with this Host header (NULL: none) was meant for this server. */
bool origin_takes_host(const OriginRules *r, const char *host);
/* Whether what changes something may come from a page of this origin. host: the Host header, or NULL. */
bool origin_may_change(const OriginRules *r, const char *origin, const char *host);

#endif
