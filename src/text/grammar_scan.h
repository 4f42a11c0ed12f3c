/* What the notations of regular expressions and of GBNF have in common. Each reads on from *at and returns NULL, or
 * what is wrong there. */
#ifndef LOCKSTEP_TEXT_GRAMMAR_SCAN_H
#define LOCKSTEP_TEXT_GRAMMAR_SCAN_H

#include <stdbool.h>
#include <stdint.h>

/* A NUL, which a pattern may have like any character, is none of them. */
bool scan_is_one(const char *of, char c);
/* n hexadecimal digits of a code point. */
const char *scan_hex(const char **at, const char *end, int n, uint32_t *code);
/* * + ? or {2}, {2,}, {2,5}, {,5}, which stands at *at; most is -1 where there is no limit. */
const char *scan_repeats(const char **at, const char *end, int *least, int *most);

#endif
