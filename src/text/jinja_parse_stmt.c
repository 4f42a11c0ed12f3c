/* The parser of statements, and jinja_compile, which is all of reading a template: tokens, tree, names. */
#include "text/jinja_parser.h"
#include "base/memory.h"

#include <string.h>

static bool parse_body(Parser *p, const char *const *ends, NodeList *out);

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
    Node *n =
        parser_tuple(p, (TupleRules){.primaries_only = true, .with_namespace = with_namespace, .with_cond = true});
    if (!n) return NULL;
    if (!set_use(n, USE_STORE)) return parser_fail(p, n->line, "can't assign to this expression"), NULL;
    return n;
}

static Node *parse_target_name(Parser *p, NameUse use) {
    if (parser_current(p)->type != T_NAME) return parser_fail_token(p, "name"), NULL;
    Node *n = parser_name(p, false);
    if (!n) return NULL;
    if (n->kind != N_NAME) return parser_fail(p, n->line, "can't assign to this name"), NULL;
    n->name.use = use;
    return n;
}

/* ---- statements ---- */

static Node *parse_set(Parser *p, const Token *from) {
    static const char *const END[] = {"endset", NULL};
    Node *n = parser_node(p, N_SET, from);
    if (!n || !(n->set.target = parse_target(p, true))) return NULL;
    if (parser_skip(p, T_ASSIGN)) {
        n->set.value = parser_tuple(p, (TupleRules){.with_cond = true});
        return n->set.value ? parser_end(p, n) : NULL;
    }
    n->kind = N_SET_BLOCK;
    while (parser_skip(p, T_PIPE))
        if (!(n->set.value = parser_filter(p, n->set.value))) return NULL;
    parser_end(p, n);
    if (!parse_body(p, END, &n->set.body)) return NULL;
    parser_next(p);
    return n;
}

static Node *parse_for(Parser *p, const Token *from) {
    static const char *const BODY_END[] = {"endfor", "else", NULL}, *const END[] = {"endfor", NULL};
    Node *n = parser_node(p, N_FOR, from);
    if (!n || !(n->loop.target = parse_target(p, false)) || !parser_expect_word(p, "in")) return NULL;
    n->loop.iter = parser_tuple(p, (TupleRules){0});
    if (!n->loop.iter) return NULL;
    if (parser_skip_word(p, "if") && !(n->loop.test = parser_expression(p, true))) return NULL;
    n->loop.recursive = parser_skip_word(p, "recursive");
    parser_end(p, n);
    if (!parse_body(p, BODY_END, &n->loop.body)) return NULL;
    if (token_is(parser_next(p), "endfor")) return n;
    if (!parse_body(p, END, &n->loop.otherwise)) return NULL;
    parser_next(p);
    return n;
}

static Node *parse_if(Parser *p, const Token *from) {
    static const char *const ENDS[] = {"elif", "else", "endif", NULL}, *const END[] = {"endif", NULL};
    Node *result = parser_node(p, N_IF, from), *n = result;
    while (n) {
        if (!(n->branch.test = parser_tuple(p, (TupleRules){0}))) return NULL;
        parser_end(p, n);
        if (!parse_body(p, ENDS, &n->branch.body)) return NULL;
        const Token *t = parser_next(p);
        if (token_is(t, "endif")) return result;
        if (token_is(t, "elif")) {
            n = parser_node(p, N_IF, t);
            if (!parser_add(p, &result->branch.elifs, n)) return NULL;
            continue;
        }
        if (!parse_body(p, END, &result->branch.otherwise)) return NULL;
        parser_next(p);
        return result;
    }
    return NULL;
}

static bool parse_signature(Parser *p, MacroNode *macro) {
    if (!parser_expect(p, T_LPAREN)) return false;
    while (parser_current(p)->type != T_RPAREN) {
        if (macro->params.n && !parser_expect(p, T_COMMA)) return false;
        int line = parser_current(p)->line;
        if (!parser_add(p, &macro->params, parse_target_name(p, USE_PARAM))) return false;
        if (parser_skip(p, T_ASSIGN)) {
            if (!parser_add(p, &macro->defaults, parser_expression(p, true))) return false;
        } else if (macro->defaults.n)
            return parser_fail(p, line, "non-default argument follows default argument");
    }
    return parser_expect(p, T_RPAREN) != NULL;
}

static Node *parse_macro(Parser *p, const Token *from) {
    static const char *const END[] = {"endmacro", NULL};
    Node *n = parser_node(p, N_MACRO, from);
    Node *name = n ? parse_target_name(p, USE_STORE) : NULL;
    if (!name) return NULL;
    n->macro.macro.name = name->name.name;
    if (!parse_signature(p, &n->macro.macro)) return NULL;
    parser_end(p, n);
    if (!parse_body(p, END, &n->macro.macro.body)) return NULL;
    parser_next(p);
    return n;
}

static Node *parse_call_block(Parser *p, const Token *from) {
    static const char *const END[] = {"endcall", NULL};
    Node *n = parser_node(p, N_CALL_BLOCK, from);
    if (!n || (parser_current(p)->type == T_LPAREN && !parse_signature(p, &n->macro.macro))) return NULL;
    if (!(n->macro.call = parser_expression(p, true))) return NULL;
    if (n->macro.call->kind != N_CALL) return parser_fail(p, from->line, "expected call"), NULL;
    parser_end(p, n);
    if (!parse_body(p, END, &n->macro.macro.body)) return NULL;
    parser_next(p);
    return n;
}

/* transformers' extension: marks what the assistant said; renders its body like a call block with nothing around. */
static Node *parse_generation(Parser *p, const Token *from) {
    static const char *const END[] = {"endgeneration", NULL};
    Node *n = parser_node(p, N_CALL_BLOCK, from);
    if (!n || !parse_body(p, END, &n->macro.macro.body)) return NULL;
    parser_next(p);
    return n;
}

static Node *parse_filter_block(Parser *p, const Token *from) {
    static const char *const END[] = {"endfilter", NULL};
    Node *n = parser_node(p, N_FILTER_BLOCK, from);
    if (!n || !(n->wrap.filter = parser_filter(p, NULL))) return NULL;
    while (parser_skip(p, T_PIPE))
        if (!(n->wrap.filter = parser_filter(p, n->wrap.filter))) return NULL;
    parser_end(p, n);
    if (!parse_body(p, END, &n->wrap.body)) return NULL;
    parser_next(p);
    return n;
}

static Node *parse_with(Parser *p, const Token *from) {
    static const char *const END[] = {"endwith", NULL};
    Node *n = parser_node(p, N_WITH, from);
    if (!n) return NULL;
    while (parser_current(p)->type != T_BLOCK_END) {
        if (n->with.targets.n && !parser_expect(p, T_COMMA)) return NULL;
        Node *target = parse_target(p, false);
        if (!target || !set_use(target, USE_PARAM) || !parser_add(p, &n->with.targets, target) ||
            !parser_expect(p, T_ASSIGN) || !parser_add(p, &n->with.values, parser_expression(p, true)))
            return NULL;
    }
    parser_end(p, n);
    if (!parse_body(p, END, &n->with.body)) return NULL;
    parser_next(p);
    return n;
}

static Node *parse_autoescape(Parser *p, const Token *from) {
    static const char *const END[] = {"endautoescape", NULL};
    Node *n = parser_node(p, N_AUTOESCAPE, from);
    if (!n || !(n->wrap.filter = parser_expression(p, true))) return NULL;
    parser_end(p, n);
    if (!parse_body(p, END, &n->wrap.body)) return NULL;
    parser_next(p);
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
    Node *n = parser_node(p, N_BLOCK, from);
    const Token *name = n ? parser_expect(p, T_NAME) : NULL;
    if (!name) return NULL;
    n->block.name = name->value.string;
    n->block.scoped = parser_skip_word(p, "scoped");
    n->block.required = parser_skip_word(p, "required");
    if (parser_current(p)->type == T_SUB)
        return parser_fail(p, from->line, "block names may not contain hyphens"), NULL;
    parser_end(p, n);
    if (!parse_body(p, END, &n->block.body)) return NULL;
    parser_next(p);
    for (uint32_t i = 0; n->block.required && i < n->block.body.n; i++)
        if (!only_space(n->block.body.items[i]))
            return parser_fail(p, from->line, "Required blocks can only contain comments or whitespace"), NULL;
    if (token_is(parser_current(p), "") ||
        (parser_current(p)->type == T_NAME && parser_current(p)->value.string->length == n->block.name->length &&
         memcmp(parser_current(p)->value.string->data, n->block.name->data, n->block.name->length) == 0))
        parser_next(p);
    return n;
}

static Node *parse_print(Parser *p, const Token *from) {
    Node *n = parser_node(p, N_OUTPUT, from);
    while (n && parser_current(p)->type != T_BLOCK_END) {
        if (n->items.n && !parser_expect(p, T_COMMA)) return NULL;
        if (!parser_add(p, &n->items, parser_expression(p, true))) return NULL;
    }
    return parser_end(p, n);
}

/* include, import, from, extends: parsed up to the end of the tag and refused when reached. */
static Node *parse_refused(Parser *p, const Token *from, const char *tag) {
    Node *n = parser_node(p, N_REFUSED, from);
    if (!n || !(n->refused.template = parser_expression(p, true))) return NULL;
    n->refused.tag = tag;
    while (parser_current(p)->type != T_BLOCK_END && parser_current(p)->type != T_END) parser_next(p);
    return parser_end(p, n);
}

static Node *parse_jump(Parser *p, const Token *from, NodeKind kind) {
    return parser_node(p, kind, from);
}

static Node *parse_statement(Parser *p) {
    const Token *t = parser_current(p);
    if (t->type != T_NAME) return parser_fail(p, t->line, "tag name expected"), NULL;
    parser_next(p);
    if (token_is(t, "if")) return parse_if(p, t);
    if (token_is(t, "for")) return parse_for(p, t);
    if (token_is(t, "set")) return parse_set(p, t);
    if (token_is(t, "macro")) return parse_macro(p, t);
    if (token_is(t, "call")) return parse_call_block(p, t);
    if (token_is(t, "filter")) return parse_filter_block(p, t);
    if (token_is(t, "generation")) return parse_generation(p, t);
    if (token_is(t, "break")) return parse_jump(p, t, N_BREAK);
    if (token_is(t, "continue")) return parse_jump(p, t, N_CONTINUE);
    if (token_is(t, "with")) return parse_with(p, t);
    if (token_is(t, "print")) return parse_print(p, t);
    if (token_is(t, "block")) return parse_block(p, t);
    if (token_is(t, "autoescape")) return parse_autoescape(p, t);
    static const char *const REFUSED[] = {"include", "import", "from", "extends"};
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++)
        if (token_is(t, REFUSED[i])) return parse_refused(p, t, REFUSED[i]);
    p->run->located = true;
    run_error(p->run, "line %d: unknown tag '%.*s'", t->line,
              (int)(t->value.string->length < 60 ? t->value.string->length : 60), t->value.string->data);
    return NULL;
}

static bool at_end_word(const Parser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (token_is(parser_current(p), *ends)) return true;
    return false;
}

/* Adds text or an expression to the output statement at the end of the list. */
static bool add_output(Parser *p, NodeList *out, Node **output, Node *n) {
    if (!n) return false;
    if (!*output) {
        *output = run_take(p->run, 1, sizeof **output);
        if (!*output) return false;
        **output = (Node){.kind = N_OUTPUT, .line = n->line, .start = n->start, .end = n->end};
        if (!parser_add(p, out, *output)) return false;
    }
    return parser_add(p, &(*output)->items, n);
}

/* Statements and text up to a tag that starts with one of `ends` (that word is then the current token), or to the end
 * of the template when ends is NULL. */
static bool parse_statements(Parser *p, const char *const *ends, NodeList *out) {
    Node *output = NULL;
    while (parser_current(p)->type != T_END) {
        const Token *t = parser_next(p);
        if (t->type == T_DATA) {
            Node *n = parser_node(p, N_DATA, t);
            if (n) n->constant = t->value;
            if (!add_output(p, out, &output, n)) return false;
        } else if (t->type == T_VARIABLE_BEGIN) {
            Node *n = parser_tuple(p, (TupleRules){.with_cond = true});
            if (!add_output(p, out, &output, n) || !parser_expect(p, T_VARIABLE_END)) return false;
        } else {
            output = NULL;
            if (at_end_word(p, ends)) return true;
            if (!run_enter(p->run)) return false;
            if (!parser_add(p, out, parse_statement(p)) || !parser_expect(p, T_BLOCK_END)) return false;
            run_leave(p->run);
        }
    }
    if (!ends) return true;
    return parser_fail(p, parser_current(p)->line, "unexpected end of template: a block is not closed");
}

static bool parse_body(Parser *p, const char *const *ends, NodeList *out) {
    parser_skip(p, T_COLON);
    return parser_expect(p, T_BLOCK_END) && parse_statements(p, ends, out);
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
