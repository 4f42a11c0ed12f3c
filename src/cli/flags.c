/* Flags: ONE table, and everything that reads it: the parser, the help, the page in docs/.
 *
 * A flag knows the commands that take it, so a flag given to the wrong command is named as such instead of being
 * ignored. Values are converted and checked here, once; a command sees only sound ones. */
#include "cli/flags.h"
#include "base/memory.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ON(name) (1u << CMD_##name)

enum {
    ANSWERS = ON(RUN) | ON(GENERATE),
    EVERY = (1u << CMD_COUNT) - 1,
};

static const Flag flags[FLAG_COUNT] = {
    {FLAG_PROMPT, "--prompt", NULL, KIND_TEXT, "T", 0, 0, ON(GENERATE),
     "raw text to continue, with the tokenizer's special tokens"},
    {FLAG_IDS, "--ids", NULL, KIND_LIST, "1,2,3", 0, 0,
     ON(GENERATE) | ON(DETOKENIZE) | ON(TRACE) | ON(CHECK) | ON(EMBED), "token ids, as they are (embed: repeatable)"},
    {FLAG_IDS_FILE, "--ids-file", NULL, KIND_TEXT, "F", 0, 0, ON(GENERATE) | ON(DETOKENIZE) | ON(TRACE) | ON(CHECK),
     "the same from a file (- is standard input)"},
    {FLAG_MESSAGES, "--messages", NULL, KIND_TEXT, "F", 0, 0, ON(GENERATE) | ON(TEMPLATE),
     "a JSON array of messages, through the chat template"},
    {FLAG_TOOLS, "--tools", NULL, KIND_TEXT, "F", 0, 0, ON(GENERATE) | ON(TEMPLATE),
     "a JSON array of tools for the chat template"},
    {FLAG_KWARGS, "--kwargs", NULL, KIND_TEXT, "JSON", 0, 0, ON(GENERATE) | ON(TEMPLATE) | ON(RUN),
     "an object of more variables for the chat template"},
    {FLAG_NO_GENERATION_PROMPT, "--no-generation-prompt", NULL, KIND_SWITCH, NULL, 0, 0, ON(GENERATE) | ON(TEMPLATE),
     "do not open the assistant's turn"},
    {FLAG_SYSTEM, "--system", NULL, KIND_TEXT, "T", 0, 0, ON(RUN), "the system prompt"},
    {FLAG_TEXT, "--text", NULL, KIND_LIST, "T", 0, 0, ON(TOKENIZE) | ON(EMBED) | ON(RERANK),
     "the text (embed, rerank: repeatable)"},
    {FLAG_FILE, "--file", NULL, KIND_TEXT, "F", 0, 0, ON(TOKENIZE) | ON(PERPLEXITY) | ON(EMBED) | ON(RERANK),
     "the text from a file (- is standard input; embed, rerank: each line is a text)"},
    {FLAG_QUERY, "--query", NULL, KIND_TEXT, "Q", 0, 0, ON(RERANK), "what the texts are to be relevant to"},
    {FLAG_JSONL, "--jsonl", NULL, KIND_TEXT, "F", 0, 0, ON(TOKENIZE) | ON(TEMPLATE),
     "one JSON value per line (a string; or an object of template variables), one JSON value out for each"},
    {FLAG_PROMPT_NAME, "--prompt-name", NULL, KIND_TEXT, "NAME", 0, 0, ON(EMBED),
     "put the model's prompt of this name before each text (default: the model's own default, if any)"},
    {FLAG_REPLIES, "--replies", NULL, KIND_TEXT, "F", 0, 0, ON(TEMPLATE),
     "one JSON object per line with an answer's text as reply (and prompt, tools); out comes the message it makes"},
    {FLAG_PARSE, "--parse", NULL, KIND_SWITCH, NULL, 0, 0, ON(GENERATE),
     "with --messages: the answer as a message, with reasoning and tool calls apart, as JSON"},
    {FLAG_TOOL_PARSER, "--tool-parser", NULL, KIND_TEXT, "NAME", 0, 0, ON(GENERATE) | ON(TEMPLATE),
     "the form of tool calls: auto (what the template implies), none, or one of docs/tool-calls.md"},
    {FLAG_REASONING_PARSER, "--reasoning-parser", NULL, KIND_TEXT, "NAME", 0, 0, ON(GENERATE) | ON(TEMPLATE) | ON(RUN),
     "the form of reasoning: auto (what the template implies), none, or one of docs/tool-calls.md"},
    {FLAG_NO_SPECIAL, "--no-special", NULL, KIND_SWITCH, NULL, 0, 0, ON(TOKENIZE),
     "without the special tokens that the post-processor adds"},
    {FLAG_SKIP_SPECIAL, "--skip-special", NULL, KIND_SWITCH, NULL, 0, 0, ON(DETOKENIZE), "leave special tokens out"},
    {FLAG_N, "-n", "--max-tokens", KIND_INT, "N", 0, INT_MAX, ANSWERS | ON(BENCH),
     "tokens to generate at most (default: up to the context; bench: exactly 128)"},
    {FLAG_P, "-p", NULL, KIND_INT, "N", 0, INT_MAX, ON(BENCH), "tokens of the prompt (default 512)"},
    {FLAG_BATCH, "--batch", NULL, KIND_TEXT, "1,2,4,8", 0, 0, ON(BENCH) | ON(SERVE),
     "bench: sequences that decode together, each with 128 tokens of prompt (default 1,2,4,8; 0: none); serve: rows of "
     "a "
     "step at most (default 512)"},
    {FLAG_REPS, "--reps", NULL, KIND_INT, "N", 1, 1000, ON(BENCH),
     "repetitions, of which medians are shown (default 3)"},
    {FLAG_TEMP, "--temp", "--temperature", KIND_NUMBER, "T", 0, 1e6, ANSWERS, "temperature; 0 is greedy"},
    {FLAG_TOP_K, "--top-k", NULL, KIND_INT, "K", 0, INT_MAX, ANSWERS, "keep the K most probable tokens (0: all)"},
    {FLAG_TOP_P, "--top-p", NULL, KIND_NUMBER, "P", 0, 1, ANSWERS,
     "keep the most probable tokens up to this sum (1: all)"},
    {FLAG_MIN_P, "--min-p", NULL, KIND_NUMBER, "P", 0, 1, ANSWERS,
     "drop tokens below P times the largest probability (0: none)"},
    {FLAG_REPETITION_PENALTY, "--repetition-penalty", NULL, KIND_NUMBER, "X", 1e-6, 1e6, ANSWERS,
     "divide the logits of tokens of prompt and answer (1: off)"},
    {FLAG_PRESENCE_PENALTY, "--presence-penalty", NULL, KIND_NUMBER, "X", -1e6, 1e6, ANSWERS,
     "subtract from the logits of tokens of the answer (0: off)"},
    {FLAG_FREQUENCY_PENALTY, "--frequency-penalty", NULL, KIND_NUMBER, "X", -1e6, 1e6, ANSWERS,
     "the same, times how often they occur (0: off)"},
    {FLAG_LOGIT_BIAS, "--logit-bias", NULL, KIND_LIST, "ID=V", 0, 0, ANSWERS,
     "add V to the logit of a token (-inf forbids it); repeatable"},
    {FLAG_STOP, "--stop", NULL, KIND_LIST, "S", 0, 0, ANSWERS, "end the answer before this text; repeatable"},
    {FLAG_SEED, "--seed", NULL, KIND_UINT64, "S", 0, 0, ANSWERS,
     "seed of the random choice (default: drawn, and reported)"},
    {FLAG_CHUNKS, "--chunks", NULL, KIND_TEXT, "5,4,3", 0, 0, ON(TRACE), "rows per step; the list repeats"},
    {FLAG_WIDTH, "--width", NULL, KIND_INT, "N", 1, 4096, ON(TRACE), "carry N-1 unrelated rows in each step"},
    {FLAG_DECIDED, "--decided", NULL, KIND_NUMBER, "X", 0, FLT_MAX, ON(COMPARE),
     "the top-2 gap of the reference from which a position counts as decided (default 2.0)"},
    {FLAG_TOL, "--tol", NULL, KIND_NUMBER, "X", 0, FLT_MAX, ON(COMPARE),
     "the largest difference that passes (default 1e-3)"},
    {FLAG_OUT, "-o", "--out", KIND_TEXT, "PATH", 0, 0, ON(IMPORT) | ON(QUANTIZE) | ON(TRACE), "where to write"},
    {FLAG_MLX, "--mlx", NULL, KIND_SWITCH, NULL, 0, 0, ON(IMPORT), "in a form that mlx-lm loads, too"},
    {FLAG_FORCE, "--force", NULL, KIND_SWITCH, NULL, 0, 0, ON(IMPORT), "replace a folder that exists"},
    {FLAG_BITS, "--bits", NULL, KIND_INT, "N", 2, 8, ON(QUANTIZE), "bits of a weight (default 4; mxfp8: 8)"},
    {FLAG_GROUP, "--group", "--group-size", KIND_INT, "N", 16, 128, ON(QUANTIZE),
     "weights that share a scale (default 64; mxfp4 and mxfp8: 32, nvfp4: 16)"},
    {FLAG_MODE, "--mode", NULL, KIND_CHOICE, "affine|mxfp4|mxfp8|nvfp4", 0, 0, ON(QUANTIZE),
     "form of the codes (default affine)"},
    {FLAG_RECIPE, "--recipe", NULL, KIND_TEXT, "FILE", 0, 0, ON(QUANTIZE),
     "mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6, or a file with lines PATTERN BITS [GROUP [MODE]] (docs/quantize.md)"},
    {FLAG_JSON, "--json", NULL, KIND_SWITCH, NULL, 0, 0,
     ON(GENERATE) | ON(PERPLEXITY) | ON(BENCH) | ON(EMBED) | ON(RERANK), "print one JSON object"},
    {FLAG_HOST, "--host", NULL, KIND_TEXT, "ADDRESS", 0, 0, ON(SERVE),
     "where to listen (default 127.0.0.1: this machine)"},
    {FLAG_PORT, "--port", NULL, KIND_INT, "N", 0, 65535, ON(SERVE), "port (default 8080; 0: any that is free)"},
    {FLAG_API_KEY, "--api-key", NULL, KIND_LIST, "K", 0, 0, ON(SERVE), "a key that clients must send; repeatable"},
    {FLAG_API_KEY_FILE, "--api-key-file", NULL, KIND_TEXT, "F", 0, 0, ON(SERVE),
     "keys, one a line; read again at SIGHUP"},
    {FLAG_CORS, "--cors", NULL, KIND_TEXT, "ORIGINS", 0, 0, ON(SERVE),
     "origins of web pages that may call, with commas between (*: all; default: none)"},
    {FLAG_PARALLEL, "--parallel", NULL, KIND_INT, "N", 1, 512, ON(SERVE),
     "sequences of a model that run at once (default 64)"},
    {FLAG_QUEUE, "--queue", NULL, KIND_INT, "N", 1, 100000, ON(SERVE),
     "requests that may wait before more are refused (default 256)"},
    {FLAG_MEMORY, "--memory", NULL, KIND_NUMBER, "GB", 0.001, 1e6, ON(SERVE),
     "memory for what sequences remember, of each model (default: half of what is free)"},
    {FLAG_KEEP, "--keep", NULL, KIND_INT, "SECONDS", 0, INT_MAX, ON(SERVE),
     "unload a model that was not used for so long (default 0: only when another needs its memory)"},
    {FLAG_CHECK, "--check", NULL, KIND_SWITCH, NULL, 0, 0, ON(SERVE),
     "run `lockstep check` on each model before anything is served; /v1/exactness tells what it found"},
    {FLAG_CONNECTIONS, "--connections", NULL, KIND_INT, "N", 1, 1000000, ON(SERVE),
     "connections at once; further ones wait to be accepted (default 4096)"},
    {FLAG_REQUEST_TIMEOUT, "--request-timeout", NULL, KIND_INT, "SECONDS", 1, 86400, ON(SERVE),
     "a client must have sent its request so long after its first byte (default 60)"},
    {FLAG_THREADS, "--threads", NULL, KIND_INT, "N", 1, 1024, EVERY,
     "threads (default: the CPUs this process may use)"},
    {FLAG_ISA, "--isa", NULL, KIND_CHOICE, "scalar|avx2|avx512|amx|neon", 0, 0, EVERY,
     "instruction set (default: the best here); never changes an answer"},
    {FLAG_KV, "--kv", NULL, KIND_CHOICE, "i16|f32|f16|bf16", 0, 0, EVERY,
     "number format of keys and values (default i16)"},
    {FLAG_CTX, "--ctx", NULL, KIND_INT, "N", 1, INT_MAX, EVERY, "context (default: the config's maximum)"},
    {FLAG_ACTIVATIONS, "--activations", NULL, KIND_CHOICE, "16|8", 0, 0, EVERY,
     "bits of activations before integer weights (default 16)"},
    {FLAG_IGNORE_CONFIG, "--ignore-config", NULL, KIND_LIST, "KEY", 0, 0, EVERY,
     "pass over a key of config.json that lockstep does not know; repeatable"},
    {FLAG_VERBOSE, "--verbose", NULL, KIND_SWITCH, NULL, 0, 0, EVERY,
     "say more; end with a hash of the last logits, the settings and GB/s"},
    {FLAG_HELP, "--help", "-h", KIND_SWITCH, NULL, 0, 0, EVERY, "this help"},
    {FLAG_VERSION, "--version", NULL, KIND_SWITCH, NULL, 0, 0, EVERY, "the version"},
};

const Flag *flag_at(FlagId id) {
    return &flags[id];
}

/* Levenshtein distance, at most `limit`; names are short, so one row on the stack does. */
static int edit_distance(const char *a, const char *b, int limit) {
    enum { LONGEST = 40 };
    int n = (int)strlen(a), m = (int)strlen(b), row[LONGEST + 1];
    if (n > LONGEST || m > LONGEST) return limit;
    for (int j = 0; j <= m; j++) row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

const char *nearest_name(const char *typed, const char *const *names, int n) {
    int best = ((int)strlen(typed) + 1) / 2;
    const char *found = NULL;
    if (best > 4) best = 4;
    for (int i = 0; i < n; i++) { /* what the name begins with is as near as can be */
        bool begins = strlen(typed) >= 3 && strncmp(typed, names[i], strlen(typed)) == 0;
        int distance = begins ? 0 : edit_distance(typed, names[i], INT_MAX);
        if (distance > best || (distance == best && found)) continue;
        best = distance;
        found = names[i];
    }
    return found;
}

static bool takes(const Command *c, const Flag *f) {
    return (f->commands >> c->id & 1u) != 0;
}

static bool is_name(const char *name, const char *typed, size_t n) {
    return name && strlen(name) == n && memcmp(name, typed, n) == 0;
}

static const Flag *flag_find(const char *typed, size_t n) {
    for (int i = 0; i < FLAG_COUNT; i++)
        if (is_name(flags[i].name, typed, n) || is_name(flags[i].other, typed, n)) return &flags[i];
    return NULL;
}

static bool unknown_flag(const Command *c, const char *typed, int n, Error *err) {
    const char *names[2 * FLAG_COUNT];
    int n_names = 0;
    char name[64] = "";
    for (int i = 0; i < FLAG_COUNT; i++) {
        if (!takes(c, &flags[i])) continue;
        names[n_names++] = flags[i].name;
        if (flags[i].other) names[n_names++] = flags[i].other;
    }
    if ((size_t)n < sizeof name) memcpy(name, typed, (size_t)n);
    const char *near = nearest_name(name, names, n_names);
    if (near) return error_set(err, "unknown flag %.*s: did you mean %s?", n, typed, near);
    return error_set(err, "unknown flag %.*s", n, typed);
}

static bool is_choice(const char *choices, const char *text) {
    size_t n = strlen(text);
    for (const char *p = choices; *p;) {
        size_t length = strcspn(p, "|");
        if (length == n && memcmp(p, text, n) == 0) return true;
        p += length + (p[length] == '|');
    }
    return false;
}

static bool bad_number(const Flag *f, const char *text, const char *what, Error *err) {
    if (f->high >= INT_MAX) return error_set(err, "%s %s: it must be %s of at least %g", f->name, text, what, f->low);
    return error_set(err, "%s %s: it must be %s from %g to %g", f->name, text, what, f->low, f->high);
}

/* Converts one value; *v is set only when it is sound. */
static bool flag_value(const Flag *f, const char *text, FlagValue *v, Error *err) {
    FlagValue value = {.count = v->count + 1, .text = text};
    char *end;
    errno = 0;
    if (f->kind == KIND_INT) {
        value.integer = strtoll(text, &end, 10);
        if (end == text || *end || errno || (double)value.integer < f->low || (double)value.integer > f->high)
            return bad_number(f, text, "a whole number", err);
    } else if (f->kind == KIND_NUMBER) {
        value.number = strtod(text, &end);
        if (end == text || *end || !(value.number >= f->low && value.number <= f->high))
            return bad_number(f, text, "a number", err);
    } else if (f->kind == KIND_UINT64) {
        value.natural = strtoull(text, &end, 10);
        if (end == text || *end || errno || strchr(text, '-'))
            return error_set(err, "%s %s: it must be a whole number from 0 to 2^64 - 1", f->name, text);
    } else if (f->kind == KIND_CHOICE && !is_choice(f->value, text)) {
        return error_set(err, "%s %s: it must be one of %s", f->name, text, f->value);
    }
    *v = value;
    return true;
}

/* One argument that begins with '-': its name, and a value after '=', glued to a one-letter name, or in the next
 * argument. */
static bool parse_flag(Args *a, int argc, char **argv, int *at, Error *err) {
    const char *typed = argv[*at], *equals = strchr(typed, '='), *value = NULL;
    size_t n = equals ? (size_t)(equals - typed) : strlen(typed);
    const Flag *f = flag_find(typed, n);
    if (equals) value = equals + 1;
    if (!f && typed[1] != '-' && n > 2) { /* -n5 */
        f = flag_find(typed, 2);
        value = typed + 2;
        if (f && f->kind == KIND_SWITCH) f = NULL;
    }
    if (!f) return unknown_flag(a->command, typed, (int)n, err);
    if (!takes(a->command, f)) return error_set(err, "%s does not belong to %s", f->name, a->command->name);
    if (f->kind == KIND_SWITCH) {
        if (value) return error_set(err, "%s takes no value", f->name);
        a->values[f->id].count++;
        return true;
    }
    if (!value && *at + 1 >= argc) return error_set(err, "%s needs a value: %s %s", f->name, f->name, f->value);
    if (!value) value = argv[++*at];
    if (f->kind == KIND_LIST) a->items[a->n_items++] = (ListItem){f->id, value};
    return flag_value(f, value, &a->values[f->id], err);
}

static bool parse_all(Args *a, int argc, char **argv, Error *err) {
    bool only_arguments = false;
    for (int i = 0; i < argc; i++) {
        const char *typed = argv[i];
        if (!only_arguments && strcmp(typed, "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && typed[0] == '-' && typed[1]) {
            if (!parse_flag(a, argc, argv, &i, err)) return false;
        } else if (a->n_positional >= a->command->max_args) {
            return error_set(err, "%s: one argument too many (quote a text that has spaces)", typed);
        } else {
            a->positional[a->n_positional++] = typed;
        }
    }
    if (args_has(a, FLAG_HELP) || args_has(a, FLAG_VERSION)) return true;
    if (a->n_positional < a->command->min_args) return error_set(err, "an argument is missing");
    return true;
}

bool args_parse(const Command *command, int argc, char **argv, Args *out, Error *err) {
    Args a = {.command = command};
    a.items = mem_array((size_t)argc + 1, sizeof *a.items);
    if (!a.items) return error_memory(err, "the arguments");
    if (!parse_all(&a, argc, argv, err)) {
        args_clear(&a);
        return false;
    }
    *out = a;
    return true;
}

void args_clear(Args *a) {
    mem_free(a->items);
    *a = (Args){0};
}

bool args_has(const Args *a, FlagId id) {
    return a->values[id].count > 0;
}

const char *args_text(const Args *a, FlagId id) {
    return a->values[id].text;
}

int args_int(const Args *a, FlagId id, int otherwise) {
    return args_has(a, id) ? (int)a->values[id].integer : otherwise;
}

double args_number(const Args *a, FlagId id, double otherwise) {
    return args_has(a, id) ? a->values[id].number : otherwise;
}

bool args_list(const Args *a, FlagId id, const char ***out, int *n, Error *err) {
    int count = a->values[id].count, found = 0;
    const char **list = NULL;
    if (count > 0 && !(list = mem_array((size_t)count, sizeof *list))) return error_memory(err, "the arguments");
    for (int i = 0; i < a->n_items && found < count; i++)
        if (a->items[i].id == id) list[found++] = a->items[i].text;
    *out = list;
    *n = found;
    return true;
}

void command_usage(const Command *c, Buffer *out) {
    buffer_printf(out, "usage: lockstep %s%s%s\n", c->name, *c->synopsis ? " " : "", c->synopsis);
}

static void flag_spelling(const Flag *f, Buffer *out) {
    buffer_text(out, f->name);
    if (f->other) buffer_printf(out, ", %s", f->other);
    if (f->value) buffer_printf(out, " %s", f->value);
}

static void flag_line(const Flag *f, Buffer *out, bool markdown) {
    enum { COLUMN = 34 };
    size_t before = out->length;
    if (markdown) {
        buffer_text(out, "- `");
        flag_spelling(f, out);
        buffer_printf(out, "`: %s\n", f->help);
        return;
    }
    buffer_text(out, "  ");
    flag_spelling(f, out);
    while (out->length - before < COLUMN && !out->failed) buffer_byte(out, ' ');
    buffer_printf(out, "  %s\n", f->help);
}

static void own_flags(const Command *c, Buffer *out, bool markdown) {
    for (int i = 0; i < FLAG_COUNT; i++)
        if (takes(c, &flags[i]) && flags[i].commands != EVERY) flag_line(&flags[i], out, markdown);
}

void common_flags_help(Buffer *out, bool markdown) {
    for (int i = 0; i < FLAG_COUNT; i++)
        if (flags[i].commands == EVERY) flag_line(&flags[i], out, markdown);
}

void command_help(const Command *c, Buffer *out) {
    command_usage(c, out);
    buffer_printf(out, "\n%s\n\n", c->help);
    own_flags(c, out, false);
    buffer_text(out, "\nCommon flags:\n");
    common_flags_help(out, false);
}

void command_markdown(const Command *c, Buffer *out) {
    buffer_printf(out, "\n## lockstep %s%s%s\n\n%s\n\n", c->name, *c->synopsis ? " " : "", c->synopsis, c->help);
    own_flags(c, out, true);
}
