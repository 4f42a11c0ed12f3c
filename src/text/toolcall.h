/* Tool calls as models write them. A form (Hermes, Mistral, Harmony, ...) is a row of data: the marks at which a call
 * begins, and the steps that read it. text/reply.h runs it over an answer. */
#ifndef LOCKSTEP_TEXT_TOOLCALL_H
#define LOCKSTEP_TEXT_TOOLCALL_H

#include "base/buffer.h"
#include "base/json.h"

typedef struct Call {
    Buffer name, id;  /* id: empty where the form has none */
    Buffer arguments; /* the text of a JSON object */
} Call;

typedef struct CallList {
    Call *items;
    size_t n, capacity;
    bool failed; /* out of memory, then or in one of the buffers */
} CallList;

/* A new call at the end, empty; NULL (and failed) when out of memory. */
Call *calls_push(CallList *l);
void calls_reset(CallList *l); /* none, with what they held freed */
void calls_clear(CallList *l); /* likewise, and the list */

/* Reads text[0..n) as calls and pushes them, or (of one call whose name is known already) fills in the last one's
 * arguments. `tools` as the chat API has them, or NULL. False when it does not parse, or with out->failed. */
typedef bool CallReader(CallList *out, const char *text, size_t n, const JsonValue *tools);

/* What a step does at the place where the reader stands. In JSON, tags and names alike, the first byte that can not
 * stand there ends the attempt. */
typedef enum StepOp {
    STEP_END,     /* the call, or the section of calls, is over; the last step of each form, and its only one */
    STEP_TEXT,    /* text must follow */
    STEP_LABEL,   /* the place named `to` */
    STEP_IF,      /* if text follows: past it, and on at the label `to`, where there is one */
    STEP_PEEK,    /* if one of the characters of text follows: on at the label `to` */
    STEP_HEAD,    /* a JSON object must follow whose first key is one of the words of text, "name|type" */
    STEP_SPACE,   /* past white space */
    STEP_GO,      /* on at the label `to` */
    STEP_PAST,    /* past text, which must come within a word's length */
    STEP_NAME,    /* the call's name: up to white space or one of the characters of text, which stay */
    STEP_ID,      /* the call's id: up to one of the characters of text */
    STEP_ID_NAME, /* an id that holds the name: functions.NAME:0 */
    STEP_KEY,     /* an argument's name: up to one of the characters of text */
    STEP_TYPE,    /* "string" or "true": the next value is a string, anything else: it is JSON */
    STEP_VALUE,   /* an argument's value: everything before text, and past it; `to`: less a newline at both ends */
    STEP_JSON,    /* one JSON object or array, given to `read` */
    STEP_LIST,    /* [name(...), ...], given to `read` */
    STEP_BODY,    /* everything before text (or, where text is NULL, the rest), given to `read`, and past it */
    STEP_CLOSE,   /* text must follow, or the end of the answer: many closing marks are end tokens as well */
    STEP_CALL,    /* what was read is sound; `to`: as long as every name is that of a tool */
    STEP_DROP,    /* what was read is no call, but not text either */
} StepOp;

typedef struct Step {
    StepOp op;
    const char *text;
    int to;
    CallReader *read;
} Step;

typedef enum MarkRole { MARK_CALL, MARK_OPEN, MARK_CLOSE, MARK_DROP } MarkRole;

/* A text to look for. A call's steps begin at the mark, not after it. `start`: only where an answer, or what follows
 * reasoning or a call, begins; an empty text then stands for that place itself. */
typedef struct Mark {
    const char *text; /* NULL: the row of marks ends here */
    MarkRole role;
    bool start;
    const Step *steps;
} Mark;

typedef struct CallForm {
    const char *name;
    const Mark *marks;
    bool ends_reasoning; /* its marks are beyond doubt: they count inside an open block of reasoning, too */
} CallForm;

/* The form that a template's text implies; NULL when it shows none. */
const CallForm *call_form_of_template(const char *source);
const CallForm *call_form_find(const char *name); /* NULL when there is none of that name */
const CallForm *call_form_at(int i);              /* NULL past the end */

/* ---- the mechanisms, for the table of forms ---- */
CallReader read_json_calls;       /* {"name": ..., "arguments": {...}}, an array of such, or several in a row */
CallReader read_keyed_calls;      /* {"NAME": {...}}, or an array of such */
CallReader read_json_arguments;   /* the object itself */
CallReader read_python_calls;     /* [name(key=value, ...), ...], or calls in a row */
CallReader read_python_tag;       /* name.call(key="value"), or JSON */
CallReader read_gemma_arguments;  /* key:<|"|>text<|"|>,key:1} */
CallReader read_function_gemma;   /* the same with <escape> */
CallReader read_nested_arguments; /* ]<]minimax[>[<key>value]<]minimax[>[</key> */

#endif
