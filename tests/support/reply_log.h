/* The events of an answer as one line of text: T(text) R(reasoning) C(name|id|arguments). Neighbouring pieces of one
 * kind are joined, so that two ways of cutting an answer compare as strings. In a header, because fuzz targets link
 * nothing of tests/support. */
#ifndef LOCKSTEP_TESTS_SUPPORT_REPLY_LOG_H
#define LOCKSTEP_TESTS_SUPPORT_REPLY_LOG_H

#include "text/reply.h"

/* All zero: empty. */
typedef struct ReplyLog {
    Buffer text;
    char open;   /* 'T' or 'R': what the next piece may be joined to */
    int n_calls; /* begun */
    bool wrong;  /* events in an order that the header does not promise */
    bool in_call;
} ReplyLog;

static inline void reply_log_close(ReplyLog *l) {
    if (l->open) buffer_byte(&l->text, ')');
    l->open = 0;
}

static inline bool reply_log_take(void *context, const ReplyEvent *e, Error *err) {
    ReplyLog *l = context;
    (void)err;
    if (e->part == REPLY_TEXT || e->part == REPLY_REASONING) {
        char kind = e->part == REPLY_TEXT ? 'T' : 'R';
        l->wrong |= l->in_call || e->length == 0;
        if (l->open != kind) {
            reply_log_close(l);
            buffer_printf(&l->text, "%c(", kind);
        }
        l->open = kind;
        buffer_append(&l->text, e->text, e->length);
        return true;
    }
    l->wrong |= l->in_call != (e->part != REPLY_CALL) || e->call != l->n_calls - l->in_call;
    if (e->part == REPLY_CALL) {
        reply_log_close(l);
        l->n_calls++;
        l->in_call = true;
        buffer_text(&l->text, "C(");
        buffer_append(&l->text, e->text, e->length);
        buffer_byte(&l->text, '|');
        buffer_append(&l->text, e->id, e->id_length);
        buffer_byte(&l->text, '|');
    } else if (e->part == REPLY_ARGUMENTS) {
        buffer_append(&l->text, e->text, e->length);
    } else {
        l->in_call = false;
        buffer_byte(&l->text, ')');
    }
    return true;
}

#endif
