/* Unicode normal forms of UTF-8 text, with the tables of the reference. */
#ifndef LOCKSTEP_TEXT_NORMAL_FORM_H
#define LOCKSTEP_TEXT_NORMAL_FORM_H

#include "base/buffer.h"

#include <stdint.h>

typedef struct NormalForm {
    bool compatible, compose;
} NormalForm; /* NFC: compose; NFKD: compatible; NFKC: both; NFD: neither */

typedef struct CodeList {
    uint32_t *codes;
    size_t n, capacity;
} CodeList;
void code_list_clear(CodeList *list);

/* Appends the normal form of text (valid UTF-8) to out; `work` is kept from call to call. False when out of memory. */
bool normal_form(NormalForm form, const char *text, size_t n, CodeList *work, Buffer *out);

#endif
