/* JSON that arrives in pieces: where a value ends and whether it is one, without a tree; and walking over such a text.
 * Unlike json_parse this is the strict grammar of RFC 8259 (no NaN, no Infinity), because it judges what is passed on
 * as JSON. Strings are not checked for UTF-8. */
#ifndef LOCKSTEP_BASE_JSON_SCAN_H
#define LOCKSTEP_BASE_JSON_SCAN_H

#include "base/buffer.h"

#include <stdint.h>

enum { JSON_SCAN_DEPTH = 128 };

/* What JSON counts as white space, and the first byte of [p, end) that is none (end: there is none). */
bool json_is_space(char c);
const char *json_skip_space(const char *p, const char *end);

/* All zero: before a value. */
typedef struct JsonScan {
    uint8_t state, left;
    bool key;         /* the string at hand is one */
    const char *word; /* what is left of true, false or null */
    int depth;
    uint32_t objects[JSON_SCAN_DEPTH / 32]; /* one bit per open container */
} JsonScan;

typedef enum ScanResult { SCAN_MORE, SCAN_DONE, SCAN_BAD } ScanResult;

/* Goes on at text[*at] and leaves *at after the value's last byte (DONE), at the first byte that can not stand there
 * (BAD), or at n (MORE). How the text is cut changes nothing. A number ends only at the byte after it. */
ScanResult json_scan(JsonScan *s, const char *text, size_t n, size_t *at);
/* After MORE: the text so far is a whole number. */
bool json_scan_number(const JsonScan *s);
/* The whole text is one value in valid UTF-8, with no space around it. */
bool json_is_value(const char *text, size_t n);

typedef struct JsonSpan {
    const char *text;
    size_t length;
} JsonSpan;

/* Steps through the members or items of an object or array. The text must be one value that the scan has passed.
 * json_walk_next gives false at the end; a key is as written, quotes included, and empty in an array. */
typedef struct JsonWalk {
    const char *at, *end;
    bool object;
} JsonWalk;
JsonWalk json_walk(const char *text, size_t n);
bool json_walk_next(JsonWalk *w, JsonSpan *key, JsonSpan *value);

bool json_span_is(JsonSpan string, const char *text); /* the string's text, as long as it has no escapes */
/* Appends the text of a string; false when the value is none, or (with out->failed) when out of memory. The scan must
 * have passed it, and it must be valid UTF-8. */
bool json_span_string(JsonSpan v, Buffer *out);

#endif
