/* The parser: recursive descent in the order of jinja2's, so that precedence, what a test takes as its argument, and
 * where a tuple ends come out the same. Depth is limited by run_enter; everything lives in the program's heap. */
#include "text/jinja_parse.h"
#include "base/memory.h"

#include <string.h>

typedef struct Parser {
    Run *run;
    const Tokens *tokens;
    size_t at;
} Parser;

static Node *parse_expression(Parser *p, bool with_cond);
static Node *parse_unary(Parser *p, bool with_filter);
static bool parse_body(Parser *p, const char *const *ends, NodeList *out);

/* ---- tokens ---- */

static const Token *current(const Parser *p) {
    return &p->tokens->items[p->at];
}

static const Token *look(const Parser *p) {
    return current(p)->type == T_END ? current(p) : current(p) + 1;
}

static const Token *next(Parser *p) {
    const Token *t = current(p);
    if (t->type != T_END) p->at++;
    return t;
}

static bool is_word(const Token *t, const char *word) {
    return t->type == T_NAME && value_is_text(t->value, word);
}

static bool skip_word(Parser *p, const char *word) {
    if (!is_word(current(p), word)) return false;
    next(p);
    return true;
}

static bool skip_if(Parser *p, TokenType type) {
    if (current(p)->type != type) return false;
    next(p);
    return true;
}

static bool fail_at(Parser *p, int line, const char *what) {
    if (p->run->failed) return false;
    p->run->located = true;
    return run_fail(p->run, "line %d: %s", line, what);
}

static bool fail_token(Parser *p, const char *expected) {
    if (p->run->failed) return false;
    const Token *t = current(p);
    p->run->located = true;
    if (t->type == T_END)
        return run_fail(p->run, "line %d: unexpected end of template, expected '%s'", t->line, expected);
    int n = t->type == T_NAME ? (int)(t->value.string->length < 60 ? t->value.string->length : 60) : 0;
    return run_fail(p->run, "line %d: expected '%s', got '%.*s'", t->line, expected,
                    n ? n : (int)strlen(jinja_token_name(t->type)),
                    n ? t->value.string->data : jinja_token_name(t->type));
}

static const Token *expect(Parser *p, TokenType type) {
    if (current(p)->type == type) return next(p);
    fail_token(p, jinja_token_name(type));
    return NULL;
}

static bool expect_word(Parser *p, const char *word) {
    return skip_word(p, word) || fail_token(p, word);
}

/* ---- nodes ---- */

static Node *node_new(Parser *p, NodeKind kind, const Token *from) {
    Node *n = run_take(p->run, 1, sizeof *n);
    if (!n) return NULL;
    n->kind = kind;
    n->line = from->line;
    n->start = from->start;
    n->end = from->end;
    return n;
}

/* The node ends where the last consumed token ends. */
static Node *node_end(const Parser *p, Node *n) {
    if (n && p->at > 0) n->end = p->tokens->items[p->at - 1].end;
    return n;
}

static Node *node_over(Parser *p, NodeKind kind, const Node *first, int line) {
    Node *n = run_take(p->run, 1, sizeof *n);
    if (!n) return NULL;
    n->kind = kind;
    n->line = line;
    n->start = first->start;
    return node_end(p, n);
}

static bool list_add(Parser *p, NodeList *list, Node *n) {
    if (!n) return false;
    if (list->n == list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 4;
        Node **items = run_take(p->run, capacity, sizeof *items);
        if (!items) return false;
        if (list->n) memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = n;
    return true;
}

static Node *binary(Parser *p, NodeKind kind, TokenType op, Node *left, Node *right, int line) {
    if (!left || !right) return NULL;
    Node *n = node_over(p, kind, left, line);
    if (!n) return NULL;
    n->binary.op = op;
    n->binary.left = left;
    n->binary.right = right;
    return n;
}

/* ---- calls, subscripts, filters, tests ---- */

static bool add_keyword(Parser *p, CallArgs *args, const String *name, Node *value) {
    if (!value) return false;
    for (uint32_t i = 0; i < args->n_keywords; i++)
        if (args->keywords[i].name->length == name->length &&
            memcmp(args->keywords[i].name->data, name->data, name->length) == 0)
            return fail_at(p, value->line, "keyword argument repeated");
    if (args->n_keywords == args->capacity) {
        uint32_t capacity = args->capacity ? args->capacity * 2 : 4;
        Keyword *keywords = run_take(p->run, capacity, sizeof *keywords);
        if (!keywords) return false;
        if (args->n_keywords) memcpy(keywords, args->keywords, args->n_keywords * sizeof *keywords);
        args->keywords = keywords;
        args->capacity = capacity;
    }
    args->keywords[args->n_keywords++] = (Keyword){name, value};
    return true;
}

static bool parse_call_arg(Parser *p, CallArgs *args, int line) {
    static const char INVALID[] = "invalid syntax for function call expression";
    if (skip_if(p, T_MUL)) {
        if (args->dyn_args || args->dyn_kwargs) return fail_at(p, line, INVALID);
        return (args->dyn_args = parse_expression(p, true)) != NULL;
    }
    if (skip_if(p, T_POW)) {
        if (args->dyn_kwargs) return fail_at(p, line, INVALID);
        return (args->dyn_kwargs = parse_expression(p, true)) != NULL;
    }
    if (current(p)->type == T_NAME && look(p)->type == T_ASSIGN) {
        if (args->dyn_kwargs) return fail_at(p, line, INVALID);
        const String *name = next(p)->value.string;
        next(p);
        return add_keyword(p, args, name, parse_expression(p, true));
    }
    if (args->dyn_args || args->dyn_kwargs || args->n_keywords) return fail_at(p, line, INVALID);
    return list_add(p, &args->positional, parse_expression(p, true));
}

static bool parse_call_args(Parser *p, CallArgs *args) {
    const Token *open = expect(p, T_LPAREN);
    if (!open) return false;
    bool comma = false;
    while (current(p)->type != T_RPAREN) {
        if (comma) {
            if (!expect(p, T_COMMA)) return false;
            if (current(p)->type == T_RPAREN) break;
        }
        if (!parse_call_arg(p, args, open->line)) return false;
        comma = true;
    }
    return expect(p, T_RPAREN) != NULL;
}

static Node *parse_call(Parser *p, Node *callee) {
    int line = current(p)->line;
    CallArgs args = {0};
    if (!parse_call_args(p, &args)) return NULL;
    Node *n = node_over(p, N_CALL, callee, line);
    if (!n) return NULL;
    n->call.target = callee;
    n->call.args = args;
    return n;
}

/* One element of [...]: an expression or a slice. */
static Node *parse_subscribed(Parser *p) {
    const Token *from = current(p);
    Node *start = NULL, *stop = NULL, *step = NULL;
    if (!skip_if(p, T_COLON)) {
        start = parse_expression(p, true);
        if (!start || current(p)->type != T_COLON) return start;
        next(p);
    }
    if (current(p)->type != T_COLON && current(p)->type != T_RBRACKET && current(p)->type != T_COMMA &&
        !(stop = parse_expression(p, true)))
        return NULL;
    if (skip_if(p, T_COLON) && current(p)->type != T_RBRACKET && current(p)->type != T_COMMA &&
        !(step = parse_expression(p, true)))
        return NULL;
    Node *n = node_end(p, node_new(p, N_SLICE, from));
    if (!n) return NULL;
    n->slice.start = start;
    n->slice.stop = stop;
    n->slice.step = step;
    return n;
}

/* The inside of [...]: one element, or several as a tuple. */
static Node *parse_subscript_list(Parser *p, const Token *open) {
    NodeList args = {0};
    while (current(p)->type != T_RBRACKET) {
        if (args.n && !expect(p, T_COMMA)) return NULL;
        if (!list_add(p, &args, parse_subscribed(p))) return NULL;
    }
    if (!expect(p, T_RBRACKET)) return NULL;
    if (args.n == 1) return args.items[0];
    for (uint32_t i = 0; i < args.n; i++)
        if (args.items[i]->kind == N_SLICE) return fail_at(p, open->line, "a slice cannot be part of a tuple"), NULL;
    Node *n = node_end(p, node_new(p, N_TUPLE, open));
    if (n) n->items = args;
    return n;
}

static Node *parse_subscript(Parser *p, Node *object) {
    const Token *t = next(p);
    Node *key = NULL;
    const String *attr = NULL;
    if (t->type == T_DOT) {
        const Token *name = next(p);
        if (name->type == T_NAME)
            attr = name->value.string;
        else if (name->type != T_INTEGER)
            return fail_at(p, name->line, "expected name or number"), NULL;
        else if (!(key = node_new(p, N_CONST, name)))
            return NULL;
        else
            key->constant = name->value;
    } else if (!(key = parse_subscript_list(p, t)))
        return NULL;
    Node *n = node_over(p, attr ? N_GETATTR : N_GETITEM, object, t->line);
    if (!n) return NULL;
    n->get.object = object;
    n->get.key = key;
    n->get.attr = attr;
    return n;
}

static Node *parse_postfix(Parser *p, Node *n) {
    while (n) {
        TokenType type = current(p)->type;
        if (type == T_DOT || type == T_LBRACKET)
            n = parse_subscript(p, n);
        else if (type == T_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* A name with dots, as filters and tests may have. */
static const String *parse_dotted(Parser *p) {
    const Token *t = expect(p, T_NAME);
    if (!t) return NULL;
    const String *name = t->value.string;
    while (skip_if(p, T_DOT)) {
        const Token *more = expect(p, T_NAME);
        if (!more) return NULL;
        size_t n = name->length + 1 + more->value.string->length;
        char *text = run_take(p->run, 1, n);
        Value v;
        if (!text) return NULL;
        memcpy(text, name->data, name->length);
        text[name->length] = '.';
        memcpy(text + name->length + 1, more->value.string->data, more->value.string->length);
        if (!value_text_ref(p->run, text, n, &v)) return NULL;
        name = v.string;
    }
    return name;
}

/* One filter after its "|"; operand NULL in filter and set blocks. */
static Node *parse_one_filter(Parser *p, Node *operand) {
    const Token *from = current(p);
    const String *name = parse_dotted(p);
    CallArgs args = {0};
    if (!name || (current(p)->type == T_LPAREN && !parse_call_args(p, &args))) return NULL;
    Node *n = operand ? node_over(p, N_FILTER, operand, from->line) : node_end(p, node_new(p, N_FILTER, from));
    if (!n) return NULL;
    n->call.target = operand;
    n->call.name = name;
    n->call.args = args;
    return n;
}

static bool takes_test_argument(const Token *t) {
    switch (t->type) {
    case T_NAME: return !is_word(t, "else") && !is_word(t, "or") && !is_word(t, "and");
    case T_STRING:
    case T_INTEGER:
    case T_FLOAT:
    case T_LBRACKET:
    case T_LBRACE: return true;
    default: return false;
    }
}

static Node *parse_primary(Parser *p, bool with_namespace);

static Node *parse_test(Parser *p, Node *operand) {
    int line = next(p)->line;
    bool negated = skip_word(p, "not");
    const String *name = parse_dotted(p);
    CallArgs args = {0};
    if (!name) return NULL;
    if (current(p)->type == T_LPAREN) {
        if (!parse_call_args(p, &args)) return NULL;
    } else if (takes_test_argument(current(p))) {
        if (is_word(current(p), "is")) return fail_at(p, line, "You cannot chain multiple tests with is"), NULL;
        if (!list_add(p, &args.positional, parse_postfix(p, parse_primary(p, false)))) return NULL;
    }
    Node *n = node_over(p, N_TEST, operand, line);
    if (!n) return NULL;
    n->call.target = operand;
    n->call.name = name;
    n->call.args = args;
    return negated ? binary(p, N_NOT, T_END, n, n, line) : n;
}

static Node *parse_filters(Parser *p, Node *n) {
    while (n) {
        if (current(p)->type == T_PIPE) {
            next(p);
            n = parse_one_filter(p, n);
        } else if (is_word(current(p), "is"))
            n = parse_test(p, n);
        else if (current(p)->type == T_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* ---- primaries ---- */

/* jinja2 means to end a loop's target at "in" too, but its check never holds: a trailing comma there is an error. */
static bool tuple_ends(const Parser *p) {
    TokenType type = current(p)->type;
    return type == T_VARIABLE_END || type == T_BLOCK_END || type == T_RPAREN;
}

typedef struct TupleRules {
    bool primaries_only, with_namespace, with_cond, parenthesised;
} TupleRules;

/* Expressions separated by commas; one without a comma is itself. */
static Node *parse_tuple(Parser *p, TupleRules rules) {
    const Token *from = current(p);
    NodeList items = {0};
    bool is_tuple = false;
    for (;;) {
        if (items.n && !expect(p, T_COMMA)) return NULL;
        if (tuple_ends(p)) break;
        Node *n = rules.primaries_only ? parse_primary(p, rules.with_namespace) : parse_expression(p, rules.with_cond);
        if (!list_add(p, &items, n)) return NULL;
        if (current(p)->type != T_COMMA) break;
        is_tuple = true;
    }
    if (!is_tuple && items.n) return items.items[0];
    if (!is_tuple && !rules.parenthesised) return fail_token(p, "an expression"), NULL;
    Node *n = node_end(p, node_new(p, N_TUPLE, from));
    if (n) n->items = items;
    return n;
}

static Node *parse_list(Parser *p) {
    Node *n = node_new(p, N_LIST, next(p));
    if (!n) return NULL;
    while (current(p)->type != T_RBRACKET) {
        if (n->items.n && !expect(p, T_COMMA)) return NULL;
        if (current(p)->type == T_RBRACKET) break;
        if (!list_add(p, &n->items, parse_expression(p, true))) return NULL;
    }
    return expect(p, T_RBRACKET) ? node_end(p, n) : NULL;
}

static Node *parse_dict(Parser *p) {
    Node *n = node_new(p, N_DICT, next(p));
    if (!n) return NULL;
    while (current(p)->type != T_RBRACE) {
        if (n->items.n && !expect(p, T_COMMA)) return NULL;
        if (current(p)->type == T_RBRACE) break;
        if (!list_add(p, &n->items, parse_expression(p, true)) || !expect(p, T_COLON) ||
            !list_add(p, &n->items, parse_expression(p, true)))
            return NULL;
    }
    return expect(p, T_RBRACE) ? node_end(p, n) : NULL;
}

static Node *parse_string(Parser *p) {
    const Token *first = next(p);
    Node *n = node_new(p, N_CONST, first);
    if (!n) return NULL;
    n->constant = first->value;
    if (current(p)->type != T_STRING) return n;
    Buffer joined = {0};
    buffer_append(&joined, first->value.string->data, first->value.string->length);
    while (current(p)->type == T_STRING) {
        const String *s = next(p)->value.string;
        buffer_append(&joined, s->data, s->length);
    }
    return value_from_buffer(p->run, &joined, false, &n->constant) ? node_end(p, n) : NULL;
}

static Node *parse_name(Parser *p, bool with_namespace) {
    const Token *t = next(p);
    bool yes = is_word(t, "true") || is_word(t, "True"), no = is_word(t, "false") || is_word(t, "False");
    bool none = is_word(t, "none") || is_word(t, "None");
    Node *n = node_new(p, yes || no || none ? N_CONST : N_NAME, t);
    if (!n) return NULL;
    if (n->kind == N_CONST) {
        n->constant = none ? NONE : value_bool(yes);
        return n;
    }
    n->name.name = t->value.string;
    n->name.use = USE_LOAD;
    if (with_namespace && skip_if(p, T_DOT)) {
        const Token *attr = expect(p, T_NAME);
        if (!attr) return NULL;
        n->kind = N_NSREF;
        n->name.attr = attr->value.string;
    }
    return node_end(p, n);
}

static Node *parse_primary(Parser *p, bool with_namespace) {
    const Token *t = current(p);
    switch (t->type) {
    case T_NAME: return parse_name(p, with_namespace);
    case T_STRING: return parse_string(p);
    case T_INTEGER:
    case T_FLOAT: {
        Node *n = node_new(p, N_CONST, next(p));
        if (n) n->constant = t->value;
        return n;
    }
    case T_LPAREN: {
        next(p);
        Node *n = parse_tuple(p, (TupleRules){.with_cond = true, .parenthesised = true});
        if (!n || !expect(p, T_RPAREN)) return NULL;
        n->start = t->start; /* errors quote the parentheses too */
        return node_end(p, n);
    }
    case T_LBRACKET: return parse_list(p);
    case T_LBRACE: return parse_dict(p);
    default: return fail_token(p, "an expression"), NULL;
    }
}

/* ---- operators, loosest last ---- */

static Node *parse_unary(Parser *p, bool with_filter) {
    const Token *t = current(p);
    Node *n;
    if (!run_enter(p->run)) return NULL;
    if (t->type == T_SUB || t->type == T_ADD) {
        next(p);
        Node *operand = parse_unary(p, false);
        n = binary(p, t->type == T_SUB ? N_NEG : N_POS, T_END, operand, operand, t->line);
        if (n) n->start = t->start;
    } else
        n = parse_primary(p, false);
    n = parse_postfix(p, n);
    if (with_filter) n = parse_filters(p, n);
    run_leave(p->run);
    return n;
}

static Node *parse_pow(Parser *p) {
    int line = current(p)->line;
    Node *left = parse_unary(p, true);
    while (left && skip_if(p, T_POW)) {
        left = binary(p, N_BINARY, T_POW, left, parse_unary(p, true), line);
        line = current(p)->line;
    }
    return left;
}

static Node *parse_product(Parser *p) {
    int line = current(p)->line;
    Node *left = parse_pow(p);
    for (;;) {
        TokenType op = current(p)->type;
        if (!left || (op != T_MUL && op != T_DIV && op != T_FLOORDIV && op != T_MOD)) return left;
        next(p);
        left = binary(p, N_BINARY, op, left, parse_pow(p), line);
        line = current(p)->line;
    }
}

static Node *parse_concat(Parser *p) {
    int line = current(p)->line;
    Node *first = parse_product(p);
    if (!first || current(p)->type != T_TILDE) return first;
    NodeList items = {0};
    if (!list_add(p, &items, first)) return NULL;
    while (skip_if(p, T_TILDE))
        if (!list_add(p, &items, parse_product(p))) return NULL;
    Node *n = node_over(p, N_CONCAT, first, line);
    if (n) n->items = items;
    return n;
}

static Node *parse_sum(Parser *p) {
    int line = current(p)->line;
    Node *left = parse_concat(p);
    for (;;) {
        TokenType op = current(p)->type;
        if (!left || (op != T_ADD && op != T_SUB)) return left;
        next(p);
        left = binary(p, N_BINARY, op, left, parse_concat(p), line);
        line = current(p)->line;
    }
}

/* The comparison operator at the current token, consumed; -1 when there is none. */
static int compare_op(Parser *p) {
    static const struct {
        TokenType type;
        CompareOp op;
    } OPS[] = {{T_EQ, CMP_EQ}, {T_NE, CMP_NE}, {T_LT, CMP_LT}, {T_LTEQ, CMP_LE}, {T_GT, CMP_GT}, {T_GTEQ, CMP_GE}};
    for (size_t i = 0; i < sizeof OPS / sizeof OPS[0]; i++)
        if (skip_if(p, OPS[i].type)) return OPS[i].op;
    if (skip_word(p, "in")) return CMP_IN;
    if (!is_word(current(p), "not") || !is_word(look(p), "in")) return -1;
    next(p);
    next(p);
    return CMP_NOT_IN;
}

static Node *parse_compare(Parser *p) {
    int line = current(p)->line;
    Node *first = parse_sum(p);
    if (!first) return NULL;
    NodeList rest = {0};
    Buffer ops = {0};
    int op;
    bool ok = true;
    while (ok && (op = compare_op(p)) >= 0) {
        buffer_byte(&ops, (char)op);
        ok = list_add(p, &rest, parse_sum(p));
    }
    Node *n = first;
    if (ok && rest.n) {
        n = node_over(p, N_COMPARE, first, line);
        uint8_t *copy = n ? run_take(p->run, 1, ops.length + 1) : NULL;
        ok = copy && !ops.failed;
        if (ok) {
            memcpy(copy, ops.data, ops.length);
            n->compare.first = first;
            n->compare.rest = rest;
            n->compare.ops = copy;
        }
    }
    if (ops.failed) run_memory(p->run);
    buffer_clear(&ops);
    return ok ? n : NULL;
}

static Node *parse_not(Parser *p) {
    const Token *t = current(p);
    if (!skip_word(p, "not")) return parse_compare(p);
    if (!run_enter(p->run)) return NULL;
    Node *operand = parse_not(p);
    run_leave(p->run);
    Node *n = binary(p, N_NOT, T_END, operand, operand, t->line);
    if (n) n->start = t->start;
    return n;
}

static Node *parse_and(Parser *p) {
    int line = current(p)->line;
    Node *left = parse_not(p);
    while (left && skip_word(p, "and")) {
        left = binary(p, N_AND, T_END, left, parse_not(p), line);
        line = current(p)->line;
    }
    return left;
}

static Node *parse_or(Parser *p) {
    int line = current(p)->line;
    Node *left = parse_and(p);
    while (left && skip_word(p, "or")) {
        left = binary(p, N_OR, T_END, left, parse_and(p), line);
        line = current(p)->line;
    }
    return left;
}

static Node *parse_cond(Parser *p) {
    int line = current(p)->line;
    Node *value = parse_or(p);
    while (value && skip_word(p, "if")) {
        Node *test = parse_or(p), *otherwise = NULL;
        if (!test) return NULL;
        if (skip_word(p, "else")) {
            if (!run_enter(p->run) || !(otherwise = parse_cond(p))) return NULL;
            run_leave(p->run);
        }
        Node *n = node_over(p, N_COND, value, line);
        if (!n) return NULL;
        n->cond.test = test;
        n->cond.then = value;
        n->cond.otherwise = otherwise;
        value = n;
        line = current(p)->line;
    }
    return value;
}

static Node *parse_expression(Parser *p, bool with_cond) {
    if (!run_enter(p->run)) return NULL;
    Node *n = with_cond ? parse_cond(p) : parse_or(p);
    run_leave(p->run);
    return n;
}

/* ---- targets of assignments ---- */

static bool set_use(Node *n, NameUse use) {
    if (n->kind == N_NAME) n->name.use = use;
    if (n->kind == N_NAME || n->kind == N_NSREF) return true;
    if (n->kind != N_TUPLE) return false;
    for (uint32_t i = 0; i < n->items.n; i++)
        if (!set_use(n->items.items[i], use)) return false;
    return true;
}

static Node *parse_target(Parser *p, bool with_namespace) {
    Node *n = parse_tuple(p, (TupleRules){.primaries_only = true, .with_namespace = with_namespace, .with_cond = true});
    if (!n) return NULL;
    if (!set_use(n, USE_STORE)) return fail_at(p, n->line, "can't assign to this expression"), NULL;
    return n;
}

static Node *parse_target_name(Parser *p, NameUse use) {
    if (current(p)->type != T_NAME) return fail_token(p, "name"), NULL;
    Node *n = parse_name(p, false);
    if (!n) return NULL;
    if (n->kind != N_NAME) return fail_at(p, n->line, "can't assign to this name"), NULL;
    n->name.use = use;
    return n;
}

/* ---- statements ---- */

static Node *parse_set(Parser *p, const Token *from) {
    static const char *const END[] = {"endset", NULL};
    Node *n = node_new(p, N_SET, from);
    if (!n || !(n->set.target = parse_target(p, true))) return NULL;
    if (skip_if(p, T_ASSIGN)) {
        n->set.value = parse_tuple(p, (TupleRules){.with_cond = true});
        return n->set.value ? node_end(p, n) : NULL;
    }
    n->kind = N_SET_BLOCK;
    while (skip_if(p, T_PIPE))
        if (!(n->set.value = parse_one_filter(p, n->set.value))) return NULL;
    node_end(p, n);
    if (!parse_body(p, END, &n->set.body)) return NULL;
    next(p);
    return n;
}

static Node *parse_for(Parser *p, const Token *from) {
    static const char *const BODY_END[] = {"endfor", "else", NULL}, *const END[] = {"endfor", NULL};
    Node *n = node_new(p, N_FOR, from);
    if (!n || !(n->loop.target = parse_target(p, false)) || !expect_word(p, "in")) return NULL;
    n->loop.iter = parse_tuple(p, (TupleRules){0});
    if (!n->loop.iter) return NULL;
    if (skip_word(p, "if") && !(n->loop.test = parse_expression(p, true))) return NULL;
    n->loop.recursive = skip_word(p, "recursive");
    node_end(p, n);
    if (!parse_body(p, BODY_END, &n->loop.body)) return NULL;
    if (is_word(next(p), "endfor")) return n;
    if (!parse_body(p, END, &n->loop.otherwise)) return NULL;
    next(p);
    return n;
}

static Node *parse_if(Parser *p, const Token *from) {
    static const char *const ENDS[] = {"elif", "else", "endif", NULL}, *const END[] = {"endif", NULL};
    Node *result = node_new(p, N_IF, from), *n = result;
    while (n) {
        if (!(n->branch.test = parse_tuple(p, (TupleRules){0}))) return NULL;
        node_end(p, n);
        if (!parse_body(p, ENDS, &n->branch.body)) return NULL;
        const Token *t = next(p);
        if (is_word(t, "endif")) return result;
        if (is_word(t, "elif")) {
            n = node_new(p, N_IF, t);
            if (!list_add(p, &result->branch.elifs, n)) return NULL;
            continue;
        }
        if (!parse_body(p, END, &result->branch.otherwise)) return NULL;
        next(p);
        return result;
    }
    return NULL;
}

static bool parse_signature(Parser *p, MacroNode *macro) {
    if (!expect(p, T_LPAREN)) return false;
    while (current(p)->type != T_RPAREN) {
        if (macro->params.n && !expect(p, T_COMMA)) return false;
        int line = current(p)->line;
        if (!list_add(p, &macro->params, parse_target_name(p, USE_PARAM))) return false;
        if (skip_if(p, T_ASSIGN)) {
            if (!list_add(p, &macro->defaults, parse_expression(p, true))) return false;
        } else if (macro->defaults.n)
            return fail_at(p, line, "non-default argument follows default argument");
    }
    return expect(p, T_RPAREN) != NULL;
}

static Node *parse_macro(Parser *p, const Token *from) {
    static const char *const END[] = {"endmacro", NULL};
    Node *n = node_new(p, N_MACRO, from);
    Node *name = n ? parse_target_name(p, USE_STORE) : NULL;
    if (!name) return NULL;
    n->macro.macro.name = name->name.name;
    if (!parse_signature(p, &n->macro.macro)) return NULL;
    node_end(p, n);
    if (!parse_body(p, END, &n->macro.macro.body)) return NULL;
    next(p);
    return n;
}

static Node *parse_call_block(Parser *p, const Token *from) {
    static const char *const END[] = {"endcall", NULL};
    Node *n = node_new(p, N_CALL_BLOCK, from);
    if (!n || (current(p)->type == T_LPAREN && !parse_signature(p, &n->macro.macro))) return NULL;
    if (!(n->macro.call = parse_expression(p, true))) return NULL;
    if (n->macro.call->kind != N_CALL) return fail_at(p, from->line, "expected call"), NULL;
    node_end(p, n);
    if (!parse_body(p, END, &n->macro.macro.body)) return NULL;
    next(p);
    return n;
}

/* transformers' extension: marks what the assistant said; renders its body like a call block with nothing around. */
static Node *parse_generation(Parser *p, const Token *from) {
    static const char *const END[] = {"endgeneration", NULL};
    Node *n = node_new(p, N_CALL_BLOCK, from);
    if (!n || !parse_body(p, END, &n->macro.macro.body)) return NULL;
    next(p);
    return n;
}

static Node *parse_filter_block(Parser *p, const Token *from) {
    static const char *const END[] = {"endfilter", NULL};
    Node *n = node_new(p, N_FILTER_BLOCK, from);
    if (!n || !(n->wrap.filter = parse_one_filter(p, NULL))) return NULL;
    while (skip_if(p, T_PIPE))
        if (!(n->wrap.filter = parse_one_filter(p, n->wrap.filter))) return NULL;
    node_end(p, n);
    if (!parse_body(p, END, &n->wrap.body)) return NULL;
    next(p);
    return n;
}

static Node *parse_with(Parser *p, const Token *from) {
    static const char *const END[] = {"endwith", NULL};
    Node *n = node_new(p, N_WITH, from);
    if (!n) return NULL;
    while (current(p)->type != T_BLOCK_END) {
        if (n->with.targets.n && !expect(p, T_COMMA)) return NULL;
        Node *target = parse_target(p, false);
        if (!target || !set_use(target, USE_PARAM) || !list_add(p, &n->with.targets, target) || !expect(p, T_ASSIGN) ||
            !list_add(p, &n->with.values, parse_expression(p, true)))
            return NULL;
    }
    node_end(p, n);
    if (!parse_body(p, END, &n->with.body)) return NULL;
    next(p);
    return n;
}

static Node *parse_autoescape(Parser *p, const Token *from) {
    static const char *const END[] = {"endautoescape", NULL};
    Node *n = node_new(p, N_AUTOESCAPE, from);
    if (!n || !(n->wrap.filter = parse_expression(p, true))) return NULL;
    node_end(p, n);
    if (!parse_body(p, END, &n->wrap.body)) return NULL;
    next(p);
    return n;
}

static bool only_space(const Node *n) {
    if (n->kind != N_OUTPUT) return false;
    for (uint32_t i = 0; i < n->items.n; i++) {
        if (n->items.items[i]->kind != N_DATA) return false;
        const String *s = n->items.items[i]->constant.string;
        if (strspn(s->data, " \t\n\r\f\v") < s->length) return false;
    }
    return true;
}

static Node *parse_block(Parser *p, const Token *from) {
    static const char *const END[] = {"endblock", NULL};
    Node *n = node_new(p, N_BLOCK, from);
    const Token *name = n ? expect(p, T_NAME) : NULL;
    if (!name) return NULL;
    n->block.name = name->value.string;
    n->block.scoped = skip_word(p, "scoped");
    n->block.required = skip_word(p, "required");
    if (current(p)->type == T_SUB) return fail_at(p, from->line, "block names may not contain hyphens"), NULL;
    node_end(p, n);
    if (!parse_body(p, END, &n->block.body)) return NULL;
    next(p);
    for (uint32_t i = 0; n->block.required && i < n->block.body.n; i++)
        if (!only_space(n->block.body.items[i]))
            return fail_at(p, from->line, "Required blocks can only contain comments or whitespace"), NULL;
    if (is_word(current(p), "") ||
        (current(p)->type == T_NAME && current(p)->value.string->length == n->block.name->length &&
         memcmp(current(p)->value.string->data, n->block.name->data, n->block.name->length) == 0))
        next(p);
    return n;
}

static Node *parse_print(Parser *p, const Token *from) {
    Node *n = node_new(p, N_OUTPUT, from);
    while (n && current(p)->type != T_BLOCK_END) {
        if (n->items.n && !expect(p, T_COMMA)) return NULL;
        if (!list_add(p, &n->items, parse_expression(p, true))) return NULL;
    }
    return node_end(p, n);
}

/* include, import, from, extends: parsed up to the end of the tag and refused when reached. */
static Node *parse_refused(Parser *p, const Token *from, const char *tag) {
    Node *n = node_new(p, N_REFUSED, from);
    if (!n || !(n->refused.template = parse_expression(p, true))) return NULL;
    n->refused.tag = tag;
    while (current(p)->type != T_BLOCK_END && current(p)->type != T_END) next(p);
    return node_end(p, n);
}

static Node *parse_jump(Parser *p, const Token *from, NodeKind kind) {
    return node_new(p, kind, from);
}

static Node *parse_statement(Parser *p) {
    const Token *t = current(p);
    if (t->type != T_NAME) return fail_at(p, t->line, "tag name expected"), NULL;
    next(p);
    if (is_word(t, "if")) return parse_if(p, t);
    if (is_word(t, "for")) return parse_for(p, t);
    if (is_word(t, "set")) return parse_set(p, t);
    if (is_word(t, "macro")) return parse_macro(p, t);
    if (is_word(t, "call")) return parse_call_block(p, t);
    if (is_word(t, "filter")) return parse_filter_block(p, t);
    if (is_word(t, "generation")) return parse_generation(p, t);
    if (is_word(t, "break")) return parse_jump(p, t, N_BREAK);
    if (is_word(t, "continue")) return parse_jump(p, t, N_CONTINUE);
    if (is_word(t, "with")) return parse_with(p, t);
    if (is_word(t, "print")) return parse_print(p, t);
    if (is_word(t, "block")) return parse_block(p, t);
    if (is_word(t, "autoescape")) return parse_autoescape(p, t);
    static const char *const REFUSED[] = {"include", "import", "from", "extends"};
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++)
        if (is_word(t, REFUSED[i])) return parse_refused(p, t, REFUSED[i]);
    p->run->located = true;
    run_fail(p->run, "line %d: unknown tag '%.*s'", t->line,
             (int)(t->value.string->length < 60 ? t->value.string->length : 60), t->value.string->data);
    return NULL;
}

static bool at_end_word(const Parser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (is_word(current(p), *ends)) return true;
    return false;
}

/* Adds text or an expression to the output statement at the end of the list. */
static bool add_output(Parser *p, NodeList *out, Node **output, Node *n) {
    if (!n) return false;
    if (!*output) {
        *output = run_take(p->run, 1, sizeof **output);
        if (!*output) return false;
        **output = (Node){.kind = N_OUTPUT, .line = n->line, .start = n->start, .end = n->end};
        if (!list_add(p, out, *output)) return false;
    }
    return list_add(p, &(*output)->items, n);
}

/* Statements and text up to a tag that starts with one of `ends` (that word is then the current token), or to the end
 * of the template when ends is NULL. */
static bool parse_statements(Parser *p, const char *const *ends, NodeList *out) {
    Node *output = NULL;
    while (current(p)->type != T_END) {
        const Token *t = next(p);
        if (t->type == T_DATA) {
            Node *n = node_new(p, N_DATA, t);
            if (n) n->constant = t->value;
            if (!add_output(p, out, &output, n)) return false;
        } else if (t->type == T_VARIABLE_BEGIN) {
            Node *n = parse_tuple(p, (TupleRules){.with_cond = true});
            if (!add_output(p, out, &output, n) || !expect(p, T_VARIABLE_END)) return false;
        } else {
            output = NULL;
            if (at_end_word(p, ends)) return true;
            if (!run_enter(p->run)) return false;
            if (!list_add(p, out, parse_statement(p)) || !expect(p, T_BLOCK_END)) return false;
            run_leave(p->run);
        }
    }
    if (!ends) return true;
    return fail_at(p, current(p)->line, "unexpected end of template: a block is not closed");
}

static bool parse_body(Parser *p, const char *const *ends, NodeList *out) {
    skip_if(p, T_COLON);
    return expect(p, T_BLOCK_END) && parse_statements(p, ends, out);
}

bool jinja_parse(Run *run, const Tokens *tokens, NodeList *body) {
    Parser p = {.run = run, .tokens = tokens};
    return parse_statements(&p, NULL, body);
}

void jinja_program_free(JinjaProgram *program) {
    if (!program) return;
    jinja_heap_clear(&program->heap);
    mem_free(program);
}

JinjaProgram *jinja_compile(const char *text, size_t length, Error *err) {
    enum { HEAP_LIMIT = 256 << 20, PARSE_DEPTH = 300, WALK_DEPTH = 1000, STEPS = 1 << 30 };
    JinjaProgram *program = mem_zeroed(1, sizeof *program);
    if (!program) return error_memory(err, "the chat template"), NULL;
    Run run = {.err = err, .step_limit = STEPS, .depth_limit = PARSE_DEPTH};
    jinja_heap_init(&run.heap, HEAP_LIMIT);
    Tokens tokens;
    bool ok = jinja_lex(&run, text, length, &tokens) && jinja_parse(&run, &tokens, &program->body);
    if (ok) {
        program->source = tokens.source;
        program->length = tokens.length;
        run.depth = 0;
        run.depth_limit = WALK_DEPTH;
        ok = jinja_scope(&run, program);
    }
    program->heap = run.heap;
    if (ok && !run.failed) return program;
    jinja_program_free(program);
    return NULL;
}
