/* The parser of expressions: recursive descent in the order of jinja2's, so that precedence, what a test takes as its
 * argument, and where a tuple ends come out the same. Depth is limited by run_enter; everything lives in the program's
 * heap. Statements are in jinja_parse_stmt.c. */
#include "text/jinja_parse.h"
#include "text/jinja_parser.h"

#include <string.h>

static Node *parse_unary(Parser *p, bool with_filter);

/* ---- tokens ---- */

const Token *parser_current(const Parser *p) {
    return &p->tokens->items[p->at];
}

static const Token *look(const Parser *p) {
    return parser_current(p)->type == T_END ? parser_current(p) : parser_current(p) + 1;
}

const Token *parser_next(Parser *p) {
    const Token *t = parser_current(p);
    if (t->type != T_END) p->at++;
    return t;
}

bool token_is(const Token *t, const char *word) {
    return t->type == T_NAME && value_is_text(t->value, word);
}

bool parser_skip_word(Parser *p, const char *word) {
    if (!token_is(parser_current(p), word)) return false;
    parser_next(p);
    return true;
}

bool parser_skip(Parser *p, TokenType type) {
    if (parser_current(p)->type != type) return false;
    parser_next(p);
    return true;
}

bool parser_fail(Parser *p, int line, const char *what) {
    if (p->run->failed) return false;
    p->run->located = true;
    return run_fail(p->run, "line %d: %s", line, what);
}

bool parser_fail_token(Parser *p, const char *expected) {
    if (p->run->failed) return false;
    const Token *t = parser_current(p);
    p->run->located = true;
    if (t->type == T_END)
        return run_fail(p->run, "line %d: unexpected end of template, expected '%s'", t->line, expected);
    int n = t->type == T_NAME ? (int)(t->value.string->length < 60 ? t->value.string->length : 60) : 0;
    return run_fail(p->run, "line %d: expected '%s', got '%.*s'", t->line, expected,
                    n ? n : (int)strlen(jinja_token_name(t->type)),
                    n ? t->value.string->data : jinja_token_name(t->type));
}

const Token *parser_expect(Parser *p, TokenType type) {
    if (parser_current(p)->type == type) return parser_next(p);
    parser_fail_token(p, jinja_token_name(type));
    return NULL;
}

bool parser_expect_word(Parser *p, const char *word) {
    return parser_skip_word(p, word) || parser_fail_token(p, word);
}

/* ---- nodes ---- */

Node *parser_node(Parser *p, NodeKind kind, const Token *from) {
    Node *n = run_take(p->run, 1, sizeof *n);
    if (!n) return NULL;
    n->kind = kind;
    n->line = from->line;
    n->start = from->start;
    n->end = from->end;
    return n;
}

/* The node ends where the last consumed token ends. */
Node *parser_end(const Parser *p, Node *n) {
    if (n && p->at > 0) n->end = p->tokens->items[p->at - 1].end;
    return n;
}

static Node *node_over(Parser *p, NodeKind kind, const Node *first, int line) {
    Node *n = run_take(p->run, 1, sizeof *n);
    if (!n) return NULL;
    n->kind = kind;
    n->line = line;
    n->start = first->start;
    return parser_end(p, n);
}

bool parser_add(Parser *p, NodeList *list, Node *n) {
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
            return parser_fail(p, value->line, "keyword argument repeated");
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
    if (parser_skip(p, T_MUL)) {
        if (args->dyn_args || args->dyn_kwargs) return parser_fail(p, line, INVALID);
        return (args->dyn_args = parser_expression(p, true)) != NULL;
    }
    if (parser_skip(p, T_POW)) {
        if (args->dyn_kwargs) return parser_fail(p, line, INVALID);
        return (args->dyn_kwargs = parser_expression(p, true)) != NULL;
    }
    if (parser_current(p)->type == T_NAME && look(p)->type == T_ASSIGN) {
        if (args->dyn_kwargs) return parser_fail(p, line, INVALID);
        const String *name = parser_next(p)->value.string;
        parser_next(p);
        return add_keyword(p, args, name, parser_expression(p, true));
    }
    if (args->dyn_args || args->dyn_kwargs || args->n_keywords) return parser_fail(p, line, INVALID);
    return parser_add(p, &args->positional, parser_expression(p, true));
}

static bool parse_call_args(Parser *p, CallArgs *args) {
    const Token *open = parser_expect(p, T_LPAREN);
    if (!open) return false;
    bool comma = false;
    while (parser_current(p)->type != T_RPAREN) {
        if (comma) {
            if (!parser_expect(p, T_COMMA)) return false;
            if (parser_current(p)->type == T_RPAREN) break;
        }
        if (!parse_call_arg(p, args, open->line)) return false;
        comma = true;
    }
    return parser_expect(p, T_RPAREN) != NULL;
}

static Node *parse_call(Parser *p, Node *callee) {
    int line = parser_current(p)->line;
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
    const Token *from = parser_current(p);
    Node *start = NULL, *stop = NULL, *step = NULL;
    if (!parser_skip(p, T_COLON)) {
        start = parser_expression(p, true);
        if (!start || parser_current(p)->type != T_COLON) return start;
        parser_next(p);
    }
    if (parser_current(p)->type != T_COLON && parser_current(p)->type != T_RBRACKET &&
        parser_current(p)->type != T_COMMA && !(stop = parser_expression(p, true)))
        return NULL;
    if (parser_skip(p, T_COLON) && parser_current(p)->type != T_RBRACKET && parser_current(p)->type != T_COMMA &&
        !(step = parser_expression(p, true)))
        return NULL;
    Node *n = parser_end(p, parser_node(p, N_SLICE, from));
    if (!n) return NULL;
    n->slice.start = start;
    n->slice.stop = stop;
    n->slice.step = step;
    return n;
}

/* The inside of [...]: one element, or several as a tuple. */
static Node *parse_subscript_list(Parser *p, const Token *open) {
    NodeList args = {0};
    while (parser_current(p)->type != T_RBRACKET) {
        if (args.n && !parser_expect(p, T_COMMA)) return NULL;
        if (!parser_add(p, &args, parse_subscribed(p))) return NULL;
    }
    if (!parser_expect(p, T_RBRACKET)) return NULL;
    if (args.n == 1) return args.items[0];
    for (uint32_t i = 0; i < args.n; i++)
        if (args.items[i]->kind == N_SLICE)
            return parser_fail(p, open->line, "a slice cannot be part of a tuple"), NULL;
    Node *n = parser_end(p, parser_node(p, N_TUPLE, open));
    if (n) n->items = args;
    return n;
}

static Node *parse_subscript(Parser *p, Node *object) {
    const Token *t = parser_next(p);
    Node *key = NULL;
    const String *attr = NULL;
    if (t->type == T_DOT) {
        const Token *name = parser_next(p);
        if (name->type == T_NAME)
            attr = name->value.string;
        else if (name->type != T_INTEGER)
            return parser_fail(p, name->line, "expected name or number"), NULL;
        else if (!(key = parser_node(p, N_CONST, name)))
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
        TokenType type = parser_current(p)->type;
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
    const Token *t = parser_expect(p, T_NAME);
    if (!t) return NULL;
    const String *name = t->value.string;
    while (parser_skip(p, T_DOT)) {
        const Token *more = parser_expect(p, T_NAME);
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
Node *parser_filter(Parser *p, Node *operand) {
    const Token *from = parser_current(p);
    const String *name = parse_dotted(p);
    CallArgs args = {0};
    if (!name || (parser_current(p)->type == T_LPAREN && !parse_call_args(p, &args))) return NULL;
    Node *n = operand ? node_over(p, N_FILTER, operand, from->line) : parser_end(p, parser_node(p, N_FILTER, from));
    if (!n) return NULL;
    n->call.target = operand;
    n->call.name = name;
    n->call.args = args;
    return n;
}

static bool takes_test_argument(const Token *t) {
    switch (t->type) {
    case T_NAME: return !token_is(t, "else") && !token_is(t, "or") && !token_is(t, "and");
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
    int line = parser_next(p)->line;
    bool negated = parser_skip_word(p, "not");
    const String *name = parse_dotted(p);
    CallArgs args = {0};
    if (!name) return NULL;
    if (parser_current(p)->type == T_LPAREN) {
        if (!parse_call_args(p, &args)) return NULL;
    } else if (takes_test_argument(parser_current(p))) {
        if (token_is(parser_current(p), "is"))
            return parser_fail(p, line, "You cannot chain multiple tests with is"), NULL;
        if (!parser_add(p, &args.positional, parse_postfix(p, parse_primary(p, false)))) return NULL;
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
        if (parser_current(p)->type == T_PIPE) {
            parser_next(p);
            n = parser_filter(p, n);
        } else if (token_is(parser_current(p), "is"))
            n = parse_test(p, n);
        else if (parser_current(p)->type == T_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* ---- primaries ---- */

/* jinja2 means to end a loop's target at "in" too, but its check never holds: a trailing comma there is an error. */
static bool tuple_ends(const Parser *p) {
    TokenType type = parser_current(p)->type;
    return type == T_VARIABLE_END || type == T_BLOCK_END || type == T_RPAREN;
}

/* Expressions separated by commas; one without a comma is itself. */
Node *parser_tuple(Parser *p, TupleRules rules) {
    const Token *from = parser_current(p);
    NodeList items = {0};
    bool is_tuple = false;
    for (;;) {
        if (items.n && !parser_expect(p, T_COMMA)) return NULL;
        if (tuple_ends(p)) break;
        Node *n = rules.primaries_only ? parse_primary(p, rules.with_namespace) : parser_expression(p, rules.with_cond);
        if (!parser_add(p, &items, n)) return NULL;
        if (parser_current(p)->type != T_COMMA) break;
        is_tuple = true;
    }
    if (!is_tuple && items.n) return items.items[0];
    if (!is_tuple && !rules.parenthesised) return parser_fail_token(p, "an expression"), NULL;
    Node *n = parser_end(p, parser_node(p, N_TUPLE, from));
    if (n) n->items = items;
    return n;
}

static Node *parse_list(Parser *p) {
    Node *n = parser_node(p, N_LIST, parser_next(p));
    if (!n) return NULL;
    while (parser_current(p)->type != T_RBRACKET) {
        if (n->items.n && !parser_expect(p, T_COMMA)) return NULL;
        if (parser_current(p)->type == T_RBRACKET) break;
        if (!parser_add(p, &n->items, parser_expression(p, true))) return NULL;
    }
    return parser_expect(p, T_RBRACKET) ? parser_end(p, n) : NULL;
}

static Node *parse_dict(Parser *p) {
    Node *n = parser_node(p, N_DICT, parser_next(p));
    if (!n) return NULL;
    while (parser_current(p)->type != T_RBRACE) {
        if (n->items.n && !parser_expect(p, T_COMMA)) return NULL;
        if (parser_current(p)->type == T_RBRACE) break;
        if (!parser_add(p, &n->items, parser_expression(p, true)) || !parser_expect(p, T_COLON) ||
            !parser_add(p, &n->items, parser_expression(p, true)))
            return NULL;
    }
    return parser_expect(p, T_RBRACE) ? parser_end(p, n) : NULL;
}

static Node *parse_string(Parser *p) {
    const Token *first = parser_next(p);
    Node *n = parser_node(p, N_CONST, first);
    if (!n) return NULL;
    n->constant = first->value;
    if (parser_current(p)->type != T_STRING) return n;
    Buffer joined = {0};
    buffer_append(&joined, first->value.string->data, first->value.string->length);
    while (parser_current(p)->type == T_STRING) {
        const String *s = parser_next(p)->value.string;
        buffer_append(&joined, s->data, s->length);
    }
    return value_from_buffer(p->run, &joined, false, &n->constant) ? parser_end(p, n) : NULL;
}

Node *parser_name(Parser *p, bool with_namespace) {
    const Token *t = parser_next(p);
    bool yes = token_is(t, "true") || token_is(t, "True"), no = token_is(t, "false") || token_is(t, "False");
    bool none = token_is(t, "none") || token_is(t, "None");
    Node *n = parser_node(p, yes || no || none ? N_CONST : N_NAME, t);
    if (!n) return NULL;
    if (n->kind == N_CONST) {
        n->constant = none ? NONE : value_bool(yes);
        return n;
    }
    n->name.name = t->value.string;
    n->name.use = USE_LOAD;
    if (with_namespace && parser_skip(p, T_DOT)) {
        const Token *attr = parser_expect(p, T_NAME);
        if (!attr) return NULL;
        n->kind = N_NSREF;
        n->name.attr = attr->value.string;
    }
    return parser_end(p, n);
}

static Node *parse_primary(Parser *p, bool with_namespace) {
    const Token *t = parser_current(p);
    switch (t->type) {
    case T_NAME: return parser_name(p, with_namespace);
    case T_STRING: return parse_string(p);
    case T_INTEGER:
    case T_FLOAT: {
        Node *n = parser_node(p, N_CONST, parser_next(p));
        if (n) n->constant = t->value;
        return n;
    }
    case T_LPAREN: {
        parser_next(p);
        Node *n = parser_tuple(p, (TupleRules){.with_cond = true, .parenthesised = true});
        if (!n || !parser_expect(p, T_RPAREN)) return NULL;
        n->start = t->start; /* errors quote the parentheses too */
        return parser_end(p, n);
    }
    case T_LBRACKET: return parse_list(p);
    case T_LBRACE: return parse_dict(p);
    default: return parser_fail_token(p, "an expression"), NULL;
    }
}

/* ---- operators, loosest last ---- */

static Node *parse_unary(Parser *p, bool with_filter) {
    const Token *t = parser_current(p);
    Node *n;
    if (!run_enter(p->run)) return NULL;
    if (t->type == T_SUB || t->type == T_ADD) {
        parser_next(p);
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
    int line = parser_current(p)->line;
    Node *left = parse_unary(p, true);
    while (left && parser_skip(p, T_POW)) {
        left = binary(p, N_BINARY, T_POW, left, parse_unary(p, true), line);
        line = parser_current(p)->line;
    }
    return left;
}

static Node *parse_product(Parser *p) {
    int line = parser_current(p)->line;
    Node *left = parse_pow(p);
    for (;;) {
        TokenType op = parser_current(p)->type;
        if (!left || (op != T_MUL && op != T_DIV && op != T_FLOORDIV && op != T_MOD)) return left;
        parser_next(p);
        left = binary(p, N_BINARY, op, left, parse_pow(p), line);
        line = parser_current(p)->line;
    }
}

static Node *parse_concat(Parser *p) {
    int line = parser_current(p)->line;
    Node *first = parse_product(p);
    if (!first || parser_current(p)->type != T_TILDE) return first;
    NodeList items = {0};
    if (!parser_add(p, &items, first)) return NULL;
    while (parser_skip(p, T_TILDE))
        if (!parser_add(p, &items, parse_product(p))) return NULL;
    Node *n = node_over(p, N_CONCAT, first, line);
    if (n) n->items = items;
    return n;
}

static Node *parse_sum(Parser *p) {
    int line = parser_current(p)->line;
    Node *left = parse_concat(p);
    for (;;) {
        TokenType op = parser_current(p)->type;
        if (!left || (op != T_ADD && op != T_SUB)) return left;
        parser_next(p);
        left = binary(p, N_BINARY, op, left, parse_concat(p), line);
        line = parser_current(p)->line;
    }
}

/* The comparison operator at the current token, consumed; -1 when there is none. */
static int compare_op(Parser *p) {
    static const struct {
        TokenType type;
        CompareOp op;
    } OPS[] = {{T_EQ, CMP_EQ}, {T_NE, CMP_NE}, {T_LT, CMP_LT}, {T_LTEQ, CMP_LE}, {T_GT, CMP_GT}, {T_GTEQ, CMP_GE}};
    for (size_t i = 0; i < sizeof OPS / sizeof OPS[0]; i++)
        if (parser_skip(p, OPS[i].type)) return OPS[i].op;
    if (parser_skip_word(p, "in")) return CMP_IN;
    if (!token_is(parser_current(p), "not") || !token_is(look(p), "in")) return -1;
    parser_next(p);
    parser_next(p);
    return CMP_NOT_IN;
}

static Node *parse_compare(Parser *p) {
    int line = parser_current(p)->line;
    Node *first = parse_sum(p);
    if (!first) return NULL;
    NodeList rest = {0};
    Buffer ops = {0};
    int op;
    bool ok = true;
    while (ok && (op = compare_op(p)) >= 0) {
        buffer_byte(&ops, (char)op);
        ok = parser_add(p, &rest, parse_sum(p));
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
    const Token *t = parser_current(p);
    if (!parser_skip_word(p, "not")) return parse_compare(p);
    if (!run_enter(p->run)) return NULL;
    Node *operand = parse_not(p);
    run_leave(p->run);
    Node *n = binary(p, N_NOT, T_END, operand, operand, t->line);
    if (n) n->start = t->start;
    return n;
}

static Node *parse_and(Parser *p) {
    int line = parser_current(p)->line;
    Node *left = parse_not(p);
    while (left && parser_skip_word(p, "and")) {
        left = binary(p, N_AND, T_END, left, parse_not(p), line);
        line = parser_current(p)->line;
    }
    return left;
}

static Node *parse_or(Parser *p) {
    int line = parser_current(p)->line;
    Node *left = parse_and(p);
    while (left && parser_skip_word(p, "or")) {
        left = binary(p, N_OR, T_END, left, parse_and(p), line);
        line = parser_current(p)->line;
    }
    return left;
}

static Node *parse_cond(Parser *p) {
    int line = parser_current(p)->line;
    Node *value = parse_or(p);
    while (value && parser_skip_word(p, "if")) {
        Node *test = parse_or(p), *otherwise = NULL;
        if (!test) return NULL;
        if (parser_skip_word(p, "else")) {
            if (!run_enter(p->run) || !(otherwise = parse_cond(p))) return NULL;
            run_leave(p->run);
        }
        Node *n = node_over(p, N_COND, value, line);
        if (!n) return NULL;
        n->cond.test = test;
        n->cond.then = value;
        n->cond.otherwise = otherwise;
        value = n;
        line = parser_current(p)->line;
    }
    return value;
}

Node *parser_expression(Parser *p, bool with_cond) {
    if (!run_enter(p->run)) return NULL;
    Node *n = with_cond ? parse_cond(p) : parse_or(p);
    run_leave(p->run);
    return n;
}
