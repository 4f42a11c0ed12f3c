/* Filters, tests, global functions and methods: tables that the scope pass and the evaluator look names up in. */
#ifndef LOCKSTEP_TEXT_JINJA_BUILTINS_H
#define LOCKSTEP_TEXT_JINJA_BUILTINS_H

#include "text/jinja_parse.h"
#include "text/jinja_value.h"

typedef struct Args Args;
/* The arguments of a call, evaluated. */
struct Args {
    const Value *positional;
    size_t n;
    const String *const *names; /* of keywords */
    const Value *keywords;
    size_t n_keywords;
};

enum { MAX_PARAMS = 8 };

/* What a builtin takes: names separated by commas, at most MAX_PARAMS. The first `required` must be given. A leading
 * "/" makes all positional-only; "*" instead of names passes everything on unbound. */
typedef struct Signature {
    const char *name, *params;
    int required;
} Signature;

/* Sorts args into argv by the signature; V_MISSING where none was given. Errors are Python's TypeErrors. */
bool args_bind(Run *run, const Signature *sig, const Args *args, Value argv[MAX_PARAMS]);

/* v: what the filter or test applies to. argv: bound arguments, or NULL with a "*" signature. */
typedef bool FilterFn(Run *run, Value v, const Value *argv, const Args *args, Value *out);
typedef bool TestFn(Run *run, Value v, const Value *argv, bool *out);
typedef bool FunctionFn(Run *run, Value self, const Value *argv, const Args *args, Value *out);

struct FilterDef {
    Signature sig;
    FilterFn *fn;
};
struct TestDef {
    Signature sig;
    TestFn *fn;
};
struct Function {
    Signature sig;
    FunctionFn *fn;
};
struct Method {
    Value self;
    const Function *def;
};

const FilterDef *jinja_filter(const char *name, size_t length); /* NULL: none of that name */
const TestDef *jinja_test(const char *name, size_t length);
const Function *jinja_global(const char *name, size_t length);
Dict *jinja_variables(Run *run); /* a new dict of the global functions, for the caller's variables to be set over */
bool jinja_apply_filter(Run *run, const FilterDef *def, Value v, const Args *args, Value *out);
bool jinja_apply_test(Run *run, const TestDef *def, Value v, const Args *args, bool *out);
bool jinja_call_function(Run *run, const Function *def, Value self, const Args *args, Value *out);

/* The tables, one per file. */
typedef struct FilterTable {
    const FilterDef *items;
    size_t n;
} FilterTable;
typedef struct FunctionTable {
    const Function *items;
    size_t n;
} FunctionTable;
FilterTable jinja_text_filters(void);     /* jinja_builtins_text.c */
FilterTable jinja_sequence_filters(void); /* jinja_builtins_seq.c */
FilterTable jinja_number_filters(void);   /* jinja_builtins_num.c */
FilterTable jinja_html_filters(void);     /* jinja_builtins_html.c */
FunctionTable jinja_string_methods(void); /* jinja_methods_str.c */
FunctionTable jinja_case_methods(void);   /* jinja_methods_case.c */

/* Methods of strings, dicts, lists, tuples and numbers: *out is a bound method or another attribute. 0: no such
 * attribute; 1: found; 2: exists, but the sandbox forbids it; -1: failed. */
int jinja_attribute(Run *run, Value object, const char *name, size_t length, Value *out);

/* environment.getitem and .getattr: never fail for missing things (they give an undefined value), but for access on an
 * undefined value. */
bool jinja_getitem(Run *run, Value object, Value key, Value *out);
bool jinja_getattr(Run *run, Value object, const String *name, Value *out);
bool jinja_attr(Run *run, Value object, const String *name, Value *out); /* attributes only, no items: filter attr */
bool jinja_call(Run *run, Value callee, const Args *args, Value *out);   /* jinja_eval.c */

/* ---- shared by the builtins ---- */
bool arg_int(Run *run, Value v, const char *what, int64_t *out); /* an integer or an error */
bool arg_text(Run *run, Value v, const char *what, const String **out);
bool jinja_binary(Run *run, TokenType op, Value a, Value b, Value *out); /* jinja_ops.c */
bool jinja_slice(Run *run, Value v, Value start, Value stop, Value step, Value *out);
bool jinja_index(Run *run, Value sequence, int64_t at, Value *out, bool *found); /* negative from the end */
bool jinja_percent(Run *run, const String *format, Value args, Value *out);      /* jinja_format.c: "%" */
bool jinja_format_method(Run *run, const String *format, const Args *args, Value *out);
bool jinja_sort(Run *run, Value *items, const Value *keys, size_t n, bool reverse); /* stable; items sorted in place */
bool jinja_case(Run *run, const String *s, int map, Value *out);                    /* CaseMap over the whole string */

#endif
