/* Template text to a tree, with every name resolved to a slot of a scope. */
#ifndef LOCKSTEP_TEXT_JINJA_PARSE_H
#define LOCKSTEP_TEXT_JINJA_PARSE_H

#include "text/jinja_lex.h"
#include "text/jinja_value.h"

typedef enum NodeKind {
    /* expressions */
    N_CONST,
    N_NAME,
    N_NSREF, /* ns.attr as the target of set */
    N_TUPLE,
    N_LIST,
    N_DICT,
    N_BINARY,
    N_AND,
    N_OR,
    N_NOT,
    N_NEG,
    N_POS,
    N_CONCAT,
    N_COMPARE,
    N_COND,
    N_GETATTR,
    N_GETITEM,
    N_SLICE,
    N_CALL,
    N_FILTER,
    N_TEST,
    /* statements */
    N_DATA,
    N_OUTPUT,
    N_FOR,
    N_IF,
    N_SET,
    N_SET_BLOCK,
    N_MACRO,
    N_CALL_BLOCK,
    N_FILTER_BLOCK,
    N_WITH,
    N_BLOCK,
    N_AUTOESCAPE,
    N_REFUSED, /* include, import, from, extends: no other template exists */
    N_BREAK,
    N_CONTINUE,
} NodeKind;

/* How a name is used. */
typedef enum NameUse { USE_LOAD, USE_STORE, USE_PARAM } NameUse;

typedef enum CompareOp { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE, CMP_IN, CMP_NOT_IN } CompareOp;

typedef struct Node Node;

typedef struct NodeList {
    Node **items;
    uint32_t n, capacity;
} NodeList;

typedef struct Keyword {
    const String *name;
    Node *value;
} Keyword;

typedef struct CallArgs {
    NodeList positional;
    Keyword *keywords;
    uint32_t n_keywords, capacity;
    Node *dyn_args, *dyn_kwargs; /* *args, **kwargs */
} CallArgs;

/* Where a name lives: `slot` of the scope `hops` levels up. */
typedef struct Ref {
    uint16_t hops, slot;
} Ref;

typedef enum LoadKind { LOAD_NONE, LOAD_PARAM, LOAD_RESOLVE, LOAD_ALIAS, LOAD_UNDEFINED } LoadKind;

/* One variable of a scope and how it gets its value when the scope is entered: from outside (PARAM), from the
 * variables of the rendering (RESOLVE), from an outer scope (ALIAS), or none. */
typedef struct ScopeVar {
    const String *name;
    LoadKind load;
    Ref outer;
    bool stored;
} ScopeVar;

typedef struct ScopeInfo ScopeInfo;
struct ScopeInfo {
    ScopeVar *vars;
    uint32_t n;
    ScopeInfo *parent;
};

typedef struct FilterDef FilterDef;
typedef struct TestDef TestDef;

typedef struct MacroNode {
    const String *name; /* NULL: a call block */
    NodeList params, defaults, body;
    ScopeInfo *scope;
    Ref ref;                         /* of the name */
    int32_t caller, kwargs, varargs; /* slots in scope; -1 when not used */
    bool explicit_caller, uses_caller;
} MacroNode;

struct Node {
    NodeKind kind;
    int line;
    uint32_t start, end; /* in the source, for errors */
    union {
        Value constant; /* CONST; DATA */
        struct {
            const String *name, *attr; /* attr: NSREF */
            NameUse use;
            Ref ref;
        } name;
        NodeList items; /* TUPLE, LIST, CONCAT, OUTPUT; DICT: key, value, key, ... */
        struct {
            TokenType op;
            Node *left, *right; /* AND, OR too; NOT, NEG, POS: left */
        } binary;
        struct {
            Node *first;
            NodeList rest;
            uint8_t *ops; /* CompareOp of each */
        } compare;
        struct {
            Node *test, *then, *otherwise; /* otherwise may be NULL */
        } cond;
        struct {
            Node *object, *key; /* GETITEM */
            const String *attr; /* GETATTR */
        } get;
        struct {
            Node *start, *stop, *step;
        } slice;
        struct {
            Node *target; /* CALL: the callee; FILTER, TEST: the operand, NULL in a filter block */
            const String *name;
            CallArgs args;
            const FilterDef *filter;
            const TestDef *test;
        } call;
        struct {
            Node *target, *iter, *test;
            NodeList body, otherwise;
            bool recursive;
            ScopeInfo *scope, *test_scope, *else_scope;
            int32_t loop_slot; /* -1: the body does not look at `loop` */
        } loop;
        struct {
            Node *test;
            NodeList body, elifs, otherwise; /* elifs: IF nodes */
        } branch;
        struct {
            Node *target, *value; /* SET; SET_BLOCK: value is the filter or NULL */
            NodeList body;
            ScopeInfo *scope;
            bool toplevel; /* the names are visible to blocks */
        } set;
        struct {
            MacroNode macro;
            bool toplevel;
            Node *call; /* CALL_BLOCK; NULL: a generation block */
        } macro;
        struct {
            Node *filter; /* FILTER_BLOCK; AUTOESCAPE: the condition */
            NodeList body;
            ScopeInfo *scope;
        } wrap;
        struct {
            NodeList targets, values, body;
            ScopeInfo *scope;
        } with;
        struct {
            const String *name;
            NodeList body;
            ScopeInfo *scope, *outer;
            bool scoped, required;
            int32_t self_slot, super_slot;
        } block;
        struct {
            const char *tag;
            Node *template;
        } refused;
    };
};

struct JinjaProgram {
    JinjaHeap heap;
    const char *source;
    size_t length;
    NodeList body, blocks;
    ScopeInfo *scope;
    int32_t self_slot;
};

/* Compiles; the program owns everything. NULL with the line and the reason. */
JinjaProgram *jinja_compile(const char *text, size_t length, Error *err);
void jinja_program_free(JinjaProgram *program);

/* jinja_parse_stmt.c and jinja_scope.c, for jinja_compile */
bool jinja_parse(Run *run, const Tokens *tokens, NodeList *body);
bool jinja_scope(Run *run, JinjaProgram *program);

#endif
