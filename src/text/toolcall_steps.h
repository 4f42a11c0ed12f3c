/* Runs the steps of a form of tool calls over text that is still growing. */
#ifndef LOCKSTEP_TEXT_TOOLCALL_STEPS_H
#define LOCKSTEP_TEXT_TOOLCALL_STEPS_H

#include "base/json_scan.h"
#include "text/toolcall.h"

typedef struct StepRun {
    const Step *program;
    int pc;
    size_t at;       /* where the step stands: everything before it has been read */
    size_t searched; /* of the step at hand: no need to look there again */
    bool begun;      /* the step at hand has taken something already */
    JsonScan scan;
    int depth;  /* of STEP_LIST: open brackets */
    char quote; /* and, in a string, its quote */
    bool escaped, past_head;
    bool object;                 /* arguments are being put together */
    bool string_type, json_type; /* what STEP_TYPE said */
    Buffer key;
    CallList calls; /* read, and not yet taken */
} StepRun;

typedef enum StepResult {
    STEPS_MORE, /* it takes more text to tell */
    STEPS_BAD,  /* this is no call: everything before `at` is text */
    STEPS_CALL, /* `calls` are complete, everything before `at` belongs to them; call calls_reset and go on */
    STEPS_DROPPED,
    STEPS_DONE, /* the section is over, everything before `at` belongs to it */
} StepResult;

void steps_begin(StepRun *r, const Step *program); /* an all-zero r, or one that was used before */
void steps_clear(StepRun *r);

/* Goes on with the text from where the call began, n bytes of it so far; `final`: there will not be more. What comes
 * out depends on the text alone, not on how often this was asked. */
StepResult steps_run(StepRun *r, const char *text, size_t n, bool final, const JsonValue *tools);
/* After STEPS_CALL: the text before `at` is gone. */
void steps_rebase(StepRun *r);

#endif
