/* Stop strings in a stream: what may be shown, what must wait, and where the text ends. */
#ifndef LOCKSTEP_TEXT_STOP_H
#define LOCKSTEP_TEXT_STOP_H

#include "base/buffer.h"
#include "base/error.h"

typedef struct StopMatcher StopMatcher;

/* A stop string; it is copied. */
typedef struct StopText {
    const char *text;
    size_t length;
} StopText;

/* No stops at all is fine: then everything passes. An empty one is an error. */
StopMatcher *stop_new(const StopText *stops, size_t n, Error *err);
void stop_free(StopMatcher *m);

/* Takes more of the stream and appends to out what may be released: all but the longest tail that can still become a
 * stop string. The first stop string to be complete ends the text before it (of several complete at once, the one that
 * began first); from then on nothing is released. How the stream is cut into pushes changes nothing. False when out of
 * memory. */
bool stop_push(StopMatcher *m, const char *text, size_t n, Buffer *out, Error *err);
/* The index of the stop string that ended the text, -1 while there is none. */
int stop_matched(const StopMatcher *m);
/* The end of the stream: releases the withheld tail, if no stop string matched. */
bool stop_finish(StopMatcher *m, Buffer *out, Error *err);
/* Back to the start of a stream. */
void stop_reset(StopMatcher *m);

#endif
