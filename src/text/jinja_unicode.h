/* Characters as Python's str methods see them: classes and full case mappings. */
#ifndef LOCKSTEP_TEXT_JINJA_UNICODE_H
#define LOCKSTEP_TEXT_JINJA_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CHAR_ALPHA = 1,
    CHAR_DECIMAL = 2,
    CHAR_DIGIT = 4,
    CHAR_NUMERIC = 8,
    CHAR_LOWER = 16,
    CHAR_UPPER = 32,
    CHAR_TITLE = 64,
    CHAR_PRINTABLE = 128,
    CHAR_SPACE = 256,
    CHAR_IGNORABLE = 512, /* case-ignorable: skipped when looking for a final sigma */
    CHAR_ID_START = 1024,
    CHAR_ID_CONTINUE = 2048,
    CHAR_ALNUM = CHAR_ALPHA | CHAR_DECIMAL | CHAR_DIGIT | CHAR_NUMERIC,
};

typedef enum CaseMap { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_FOLD } CaseMap;

unsigned jinja_char_class(uint32_t code);
/* The mapping of one character: 1..3 code points into out, how many returned. The final sigma is the caller's. */
int jinja_char_case(uint32_t code, CaseMap map, uint32_t out[3]);

#endif
