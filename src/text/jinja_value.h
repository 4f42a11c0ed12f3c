/* The values of a template: Python's, as far as templates can see them. All live in the arena of one rendering (or, for
 * constants, of the template) and are freed with it; lists, tuples, dicts and strings do not change once built, since
 * the sandbox allows no mutation. Functions that can fail return false (or -1) with the run's error set. */
#ifndef LOCKSTEP_TEXT_JINJA_VALUE_H
#define LOCKSTEP_TEXT_JINJA_VALUE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Small pieces of an arena, with a limit on the sum. */
typedef struct JinjaHeap {
    Arena arena;
    char *at, *end;
    size_t used, limit;
} JinjaHeap;

void jinja_heap_init(JinjaHeap *heap, size_t limit);
void jinja_heap_clear(JinjaHeap *heap);
void *jinja_heap_take(JinjaHeap *heap, size_t bytes); /* zeroed, 16-byte aligned; NULL: out of memory or limit */

typedef enum ValueType {
    V_MISSING, /* internal: no value */
    V_UNDEFINED,
    V_NONE,
    V_BOOL,
    V_INT,
    V_BIG, /* an integer beyond 64 bits: can be printed and compared with itself, not computed with */
    V_FLOAT,
    V_STRING,
    V_LIST,
    V_TUPLE,
    V_DICT,
    V_RANGE,
    V_VIEW, /* dict.keys(), .values(), .items() */
    V_ITERATOR,
    V_NAMESPACE,
    V_MACRO,
    V_LOOP,
    V_FUNCTION, /* a global */
    V_METHOD,   /* a bound method */
    V_CYCLER,
    V_JOINER,
    V_SELF,
    V_BLOCK,
} ValueType;

/* chars is the number of code points; equal to length when all is ASCII. `safe` is markupsafe.Markup. */
typedef struct String {
    const char *data;
    size_t length, chars;
    bool safe;
} String;

typedef struct List List;
typedef struct Dict Dict;
typedef struct Range {
    int64_t start, stop, step, length;
} Range;
typedef struct View View;
typedef struct Iterator Iterator;
typedef struct Undefined Undefined;
typedef struct Macro Macro;
typedef struct Loop Loop;
typedef struct Function Function;
typedef struct Method Method;
typedef struct Cycler Cycler;
typedef struct Joiner Joiner;
typedef struct BlockRef BlockRef;

typedef struct Value {
    ValueType type;
    union {
        bool boolean;
        int64_t integer;
        double number;
        const String *string; /* STRING; BIG: its digits */
        const List *list;     /* LIST, TUPLE */
        Dict *dict;           /* DICT, NAMESPACE */
        const Range *range;
        const View *view;
        Iterator *iterator;
        const Undefined *undefined;
        const Macro *macro;
        Loop *loop;
        const Function *function;
        const Method *method;
        Cycler *cycler;
        Joiner *joiner;
        const BlockRef *block;
    };
} Value;

struct List {
    Value *items;
    size_t n, capacity;
    bool group; /* a tuple of the groupby filter: .grouper and .list */
};

/* Insertion order; `index` is an open hash table of entry numbers + 1, built when there are more than a few entries. */
struct Dict {
    Value *keys, *values;
    uint32_t n, capacity;
    uint32_t *index, index_size;
};

typedef enum ViewKind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } ViewKind;
struct View {
    const Dict *dict;
    ViewKind kind;
};

/* What an error says about the missing thing: `hint`, or "name is undefined", or "object has no attribute name". */
struct Undefined {
    const char *hint;
    Value object, name;
};

struct Cycler {
    const Value *items;
    size_t n, pos;
};
struct Joiner {
    Value separator;
    bool used;
};

typedef struct JinjaProgram JinjaProgram;
typedef struct Context Context;

/* One rendering. */
typedef struct Run {
    JinjaHeap heap;
    Error *err;
    uint64_t steps, step_limit;
    int depth, depth_limit;
    bool failed, located; /* located: the error already names line and expression */
    bool raised;          /* by raise_exception: its message stands for itself */
    bool autoescape;
    size_t output_limit, emitted; /* emitted: bytes printed anywhere, captured text included */
    Buffer *out;
    const JinjaProgram *program;
    Context *context;
} Run;

struct Iterator {
    /* 1 with an item, 0 at the end, -1 failed */
    int (*next)(Run *run, Iterator *it, Value *out);
    const char *type_name;
    size_t index, n;
    Value source;
    void *state;
    bool generator, done;
};

/* ---- errors and limits ---- */
/* Sets the error, unless there is one already; false, and visibly so: callers write `return run_fail(...)`, and
 * compiler and analyser then know that their outputs are not looked at. */
void run_error(Run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define run_fail(...) (run_error(__VA_ARGS__), false)
bool run_memory(Run *run);                 /* out of memory, or the rendering's limit */
bool run_charge(Run *run, uint64_t steps); /* counts work; false past the limit */
bool run_enter(Run *run);                  /* one level deeper; false past the limit */
void run_leave(Run *run);
void *run_take(Run *run, size_t count, size_t size); /* zeroed; NULL with the error set */

/* ---- making ---- */
#define NONE ((Value){.type = V_NONE})
static inline Value value_bool(bool b) {
    return (Value){.type = V_BOOL, .boolean = b};
}
static inline Value value_int(int64_t i) {
    return (Value){.type = V_INT, .integer = i};
}
static inline Value value_float(double d) {
    return (Value){.type = V_FLOAT, .number = d};
}
static inline Value value_string(const String *s) {
    return (Value){.type = V_STRING, .string = s};
}
/* A string over bytes that outlive the run (not copied), or a copy. */
bool value_text_ref(Run *run, const char *data, size_t length, Value *out);
bool value_text(Run *run, const char *data, size_t length, Value *out);
bool value_text_safe(Run *run, const char *data, size_t length, bool safe, Value *out);
/* The content of a buffer, which is cleared; fails when the buffer failed. */
bool value_from_buffer(Run *run, Buffer *b, bool safe, Value *out);
bool value_undefined_name(Run *run, Value name, Value *out);
bool value_undefined_member(Run *run, Value object, Value name, Value *out);
bool value_undefined_hint(Run *run, const char *hint, Value *out);
bool value_fail_undefined(Run *run, Value v); /* false, with Python's message */
List *value_list_new(Run *run, size_t capacity);
bool value_list_add(Run *run, List *list, Value v);
Value value_list(const List *list);
Value value_tuple(const List *list);
bool value_pair(Run *run, Value a, Value b, Value *out); /* a tuple of two */
Dict *value_dict_new(Run *run, uint32_t capacity);
bool value_dict_set(Run *run, Dict *d, Value key, Value v);
/* *found tells; false is an unhashable key. */
bool value_dict_get(Run *run, const Dict *d, Value key, Value *out, bool *found);
bool value_dict_text(const Dict *d, const char *key, size_t length, Value *out);
bool value_from_json(Run *run, const JsonValue *json, Value *out);

/* ---- asking ---- */
const char *value_type_name(Value v); /* Python's: 'str', 'NoneType', ... */
const char *value_object_name(Run *run, Value v);
bool value_truth(Value v);
bool value_is_text(Value v, const char *text);
bool value_is_number(Value v);            /* bool, int, float */
bool value_as_int(Value v, int64_t *out); /* bool, int */
double value_as_double(Value v);
bool value_negate_big(Run *run, Value v, bool negative, Value *out); /* +v, or -v when negative */
bool value_equal(Run *run, Value a, Value b, bool *out);
bool value_compare(Run *run, Value a, Value b, const char *op, int *out); /* < = > as -1 0 1; 2: not ordered (NaN) */
bool value_hash(Run *run, Value v, uint64_t *out);
bool value_same(Value a, Value b); /* Python's `is` */
bool value_length(Run *run, Value v, int64_t *out);
bool value_has_length(Value v);
bool value_contains(Run *run, Value container, Value item, bool *out);

/* ---- iterating ---- */
bool value_iterable(Value v);
Iterator *value_iterate(Run *run, Value v); /* NULL: not iterable */
int iterator_next(Run *run, Iterator *it, Value *out);
Iterator *iterator_new(Run *run, int (*next)(Run *, Iterator *, Value *), const char *type_name);
bool value_to_list(Run *run, Value v, List **out); /* a fresh list of the items */

/* ---- printing ---- */
bool value_str(Run *run, Value v, Value *out);      /* Python's str(); a plain string */
bool value_soft_str(Run *run, Value v, Value *out); /* strings as they are, else str() */
bool value_print(Run *run, Buffer *b, Value v);     /* appends str(v) */
bool value_repr(Run *run, Buffer *b, Value v, int depth);
bool value_escape(Run *run, Value v, Value *out); /* markupsafe.escape */
bool value_json(Run *run, Buffer *b, Value v, const JsonStyle *style, const char *indent, int level);

#endif
