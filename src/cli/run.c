/* lockstep run: a conversation in the terminal, or one answer.
 *
 * The answer goes to standard output as it comes; everything about it (speed, seed, why it ended) goes to stderr, so
 * that a pipe gets the text and nothing else. */
#define _POSIX_C_SOURCE 200809L
#include "base/utf8.h"
#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/lineedit.h"
#include "cli/output.h"
#include "eval/trace.h"
#include "engine/score.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a model writes may hold escape sequences, which a terminal would obey: they are shown as '?', but only there. */
static bool write_terminal(const char *text, size_t n) {
    Buffer safe = {0};
    buffer_append(&safe, text, n);
    for (size_t i = 0; i < safe.length; i++) {
        unsigned char c = (unsigned char)safe.data[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) safe.data[i] = '?';
    }
    bool ok = output_buffer(&safe);
    buffer_clear(&safe);
    return ok;
}

/* What stands on the terminal of an answer. */
typedef struct Shown {
    bool reasoning, any;
    char last;
} Shown;

/* Reasoning is dim on a terminal, and nowhere else to be seen: a pipe gets the answer. */
static bool stream_text(void *context, bool reasoning, const char *text, size_t n) {
    Shown *s = context;
    bool terminal = isatty(STDOUT_FILENO);
    if (interrupt_noted()) return false;
    if (n == 0 || (reasoning && !terminal)) return true;
    if (reasoning != s->reasoning) {
        if (s->any) output_text("\n\n");
        output_text(style(STDOUT_FILENO, reasoning ? STYLE_DIM : STYLE_OFF));
    }
    s->reasoning = reasoning;
    s->any = true;
    s->last = text[n - 1];
    return terminal ? write_terminal(text, n) : output_write(text, n);
}

/* The line after an answer. */
static void report_speed(const Chat *c, const Generation *g) {
    int computed = g->n_prompt - g->n_cached;
    fflush(stdout);
    fprintf(stderr, "%s[%d tokens read", style(STDERR_FILENO, STYLE_DIM), computed);
    if (g->prompt_seconds > 0) fprintf(stderr, ", %.0f tok/s", computed / g->prompt_seconds);
    fprintf(stderr, "; %zu written", g->ids.n);
    if (g->decode_steps > 0 && g->decode_seconds > 0)
        fprintf(stderr, ", %.1f tok/s", g->decode_steps / g->decode_seconds);
    if (g->finish == FINISH_CANCELLED) fputs("; stopped", stderr);
    if (g->finish == FINISH_LENGTH)
        fprintf(stderr, "; cut at %s",
                g->n_prompt + (int)g->ids.n >= model_context(c->loaded->model) ? "the end of the context" : "-n");
    if (c->flags.seed_drawn) fprintf(stderr, "; seed %llu", (unsigned long long)c->flags.request.sampling.seed);
    fprintf(stderr, "]%s\n", style(STDERR_FILENO, STYLE_OFF));
    uint64_t hash = g->last_logits ? logits_hash(g->last_logits, (size_t)model_vocab_size(c->loaded->model)) : 0;
    report_verbose(c->loaded, c->args, hash, g->decode_steps, g->decode_seconds);
}

static void end_answer(const Chat *c, const Shown *s, Generation *g) {
    if (s->reasoning) output_text(style(STDOUT_FILENO, STYLE_OFF));
    if (s->last != '\n') output_byte('\n');
    report_speed(c, g);
    generation_clear(g);
}

/* One question, one answer; the exit status. */
static int answer_once(Chat *c, const char *text, size_t n) {
    Error err;
    Generation g;
    Shown shown = {0};
    interrupt_catch(true);
    if (!chat_ask(c, text, n, stream_text, &shown, &g, &err)) return complain(&err);
    end_answer(c, &shown, &g);
    return interrupt_noted() ? EXIT_INTERRUPTED : 0;
}

static int answer_stdin(Chat *c) {
    Error err;
    Buffer text = {0};
    int status = 1;
    if (!input_text("-", &text, &err)) {
        complain(&err);
    } else {
        while (text.length > 0 && (text.data[text.length - 1] == '\n' || text.data[text.length - 1] == '\r'))
            text.data[--text.length] = 0;
        if (text.length > 0) {
            status = answer_once(c, text.data, text.length);
        } else {
            error_set(&err, "standard input has no prompt");
            complain(&err);
        }
    }
    buffer_clear(&text);
    return status;
}

/* In the conversation, an answer that fails is said and the conversation goes on. */
static void converse(Chat *c, const char *text, size_t n, bool again) {
    Error err;
    Generation g;
    Shown shown = {0};
    interrupt_forget();
    bool ok =
        again ? chat_ask_again(c, stream_text, &shown, &g, &err) : chat_ask(c, text, n, stream_text, &shown, &g, &err);
    if (shown.reasoning && !ok) output_text(style(STDOUT_FILENO, STYLE_OFF));
    if (ok)
        end_answer(c, &shown, &g);
    else
        complain(&err);
    interrupt_forget();
}

static const char help_text[] =
    "/regenerate   write the last answer again\n"
    "/system TEXT  set the system prompt (alone: show it; - takes it away)\n"
    "/clear        forget the conversation\n"
    "/bye          leave (so does Ctrl-D)\n"
    "Ctrl-C stops an answer. A line that ends with \\ goes on in the next one; \"\"\" begins and\n"
    "ends a text of several lines; pasted lines stay together. Begin with a space to send a\n"
    "text that starts with /.\n";

static void set_system(Chat *c, const char *text) {
    Error err;
    while (*text == ' ') text++;
    if (!*text) {
        printf("%s\n", c->system ? c->system : "(no system prompt)");
        return;
    }
    if (!chat_set_system(c, strcmp(text, "-") == 0 ? "" : text, &err)) complain(&err);
}

static void regenerate(Chat *c) {
    if (c->flags.request.sampling.temperature == 0 && c->n_turns > 0)
        fputs("(greedy: the answer will be the same; --temp 0.7 would vary it)\n", stderr);
    converse(c, NULL, 0, true);
}

/* A line that begins with '/'. False: leave. */
static bool slash_command(Chat *c, const char *line) {
    static const char *const names[] = {"/help", "/clear", "/system", "/regenerate", "/bye", "/exit", "/quit"};
    enum { N_NAMES = sizeof names / sizeof *names };
    char name[32];
    size_t n = strcspn(line, " \n");
    snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, line);
    if (!strcmp(name, "/bye") || !strcmp(name, "/exit") || !strcmp(name, "/quit")) return false;
    if (!strcmp(name, "/help") || !strcmp(name, "/?")) {
        fputs(help_text, stdout);
    } else if (!strcmp(name, "/clear")) {
        chat_forget(c);
    } else if (!strcmp(name, "/system")) {
        set_system(c, line + n);
    } else if (!strcmp(name, "/regenerate")) {
        regenerate(c);
    } else {
        const char *near = nearest_name(name, names, N_NAMES);
        fprintf(stderr, "%s is not a command%s%s%s (/help lists them)\n", name, near ? ": did you mean " : "",
                near ? near : "", near ? "?" : "");
    }
    return true;
}

static bool ends_with(const Buffer *b, const char *tail) {
    size_t n = strlen(tail);
    return b->length >= n && memcmp(b->data + b->length - n, tail, n) == 0;
}

static void cut_end(Buffer *b, size_t n) {
    b->length -= n;
    b->data[b->length] = 0;
}

/* One message, which may take several lines. */
static LineResult read_message(LineEdit *edit, Buffer *line, Buffer *message) {
    static const char quotes[] = "\"\"\"";
    buffer_reset(message);
    LineResult result = lineedit_read(edit, ">>> ", line);
    bool quoted = result == LINE_TEXT && line->length >= 3 && memcmp(line->data, quotes, 3) == 0;
    size_t skip = quoted ? 3 : 0;
    while (result == LINE_TEXT) {
        buffer_append(message, buffer_string(line) + skip, line->length - skip);
        if (quoted && ends_with(message, quotes)) {
            cut_end(message, 3);
            return LINE_TEXT;
        }
        if (!quoted && !ends_with(message, "\\")) return LINE_TEXT;
        if (!quoted) cut_end(message, 1);
        buffer_byte(message, '\n');
        skip = 0;
        result = lineedit_read(edit, "... ", line);
    }
    /* Ctrl-C in the middle throws the message away, and is not the first of two that leave. */
    return result == LINE_INTERRUPT_EMPTY && message->length > 0 ? LINE_INTERRUPTED : result;
}

/* A message or a command. False: leave. */
static bool take_message(Chat *c, LineEdit *edit, const Buffer *message) {
    const char *text = buffer_string(message);
    if (strspn(text, " \t\n") == message->length) return true;
    lineedit_remember(edit, text);
    if (*text == '/') return slash_command(c, text);
    converse(c, text, message->length, false);
    return true;
}

static int talk(Chat *c) {
    Error err;
    Buffer line = {0}, message = {0};
    int status = 0, empty_interrupts = 0;
    LineEdit *edit = lineedit_new(&err);
    if (!edit) return complain(&err);
    fprintf(stderr, "%s (/help for commands)\n", c->args->positional[0]);
    interrupt_catch(true);
    for (bool going = true; going;) {
        LineResult result = read_message(edit, &line, &message);
        empty_interrupts = result == LINE_INTERRUPT_EMPTY ? empty_interrupts + 1 : 0;
        if (result == LINE_END) break;
        if (empty_interrupts == 1) fputs("(Ctrl-C again or /bye to leave)\n", stderr);
        if (empty_interrupts == 2) {
            status = EXIT_INTERRUPTED;
            break;
        }
        if (result == LINE_TEXT) going = take_message(c, edit, &message);
    }
    interrupt_catch(false);
    lineedit_free(edit);
    buffer_clear(&line);
    buffer_clear(&message);
    return status;
}

int command_run(const Args *args) {
    Error err;
    Loaded loaded;
    Chat chat;
    const char *prompt = args->n_positional > 1 ? args->positional[1] : NULL;
    if (!setup_load(args, LOAD_NEEDED, LOAD_NEEDED, &loaded, &err)) return complain(&err);
    int status = 1;
    if (chat_init(&chat, &loaded, args, &err)) {
        size_t n = prompt ? strlen(prompt) : 0;
        if (prompt && utf8_valid(prompt, n) < n)
            status = complain((error_set(&err, "the prompt is not UTF-8: byte %zu is 0x%02x", utf8_valid(prompt, n),
                                         (unsigned char)prompt[utf8_valid(prompt, n)]),
                               &err));
        else if (prompt)
            status = answer_once(&chat, prompt, n);
        else
            status = isatty(STDIN_FILENO) ? talk(&chat) : answer_stdin(&chat);
        chat_clear(&chat);
    } else {
        complain(&err);
    }
    loaded_close(&loaded);
    return status;
}
