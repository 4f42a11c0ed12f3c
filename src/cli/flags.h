/* The command line as tables. A flag is one row of the table in flags.c, and that row is its parser, its line in --help
 * and its line in docs/commands.md; a command is one row of the table in main.c. */
#ifndef LOCKSTEP_CLI_FLAGS_H
#define LOCKSTEP_CLI_FLAGS_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdint.h>

typedef enum CommandId {
    CMD_RUN,
    CMD_GENERATE,
    CMD_SERVE,
    CMD_IMPORT,
    CMD_QUANTIZE,
    CMD_LIST,
    CMD_RM,
    CMD_INSPECT,
    CMD_TOKENIZE,
    CMD_DETOKENIZE,
    CMD_TEMPLATE,
    CMD_TRACE,
    CMD_COMPARE,
    CMD_CHECK,
    CMD_EMBED,
    CMD_RERANK,
    CMD_PERPLEXITY,
    CMD_BENCH,
    CMD_COUNT
} CommandId;

typedef enum FlagId {
    FLAG_PROMPT,
    FLAG_IDS,
    FLAG_IDS_FILE,
    FLAG_MESSAGES,
    FLAG_TOOLS,
    FLAG_KWARGS,
    FLAG_NO_GENERATION_PROMPT,
    FLAG_SYSTEM,
    FLAG_TEXT,
    FLAG_FILE,
    FLAG_QUERY,
    FLAG_JSONL,
    FLAG_PROMPT_NAME,
    FLAG_REPLIES,
    FLAG_PARSE,
    FLAG_TOOL_PARSER,
    FLAG_REASONING_PARSER,
    FLAG_NO_SPECIAL,
    FLAG_SKIP_SPECIAL,
    FLAG_N,
    FLAG_P,
    FLAG_BATCH,
    FLAG_REPS,
    FLAG_TEMP,
    FLAG_TOP_K,
    FLAG_TOP_P,
    FLAG_MIN_P,
    FLAG_REPETITION_PENALTY,
    FLAG_PRESENCE_PENALTY,
    FLAG_FREQUENCY_PENALTY,
    FLAG_LOGIT_BIAS,
    FLAG_STOP,
    FLAG_SEED,
    FLAG_CHUNKS,
    FLAG_WIDTH,
    FLAG_DECIDED,
    FLAG_TOL,
    FLAG_OUT,
    FLAG_MLX,
    FLAG_FORCE,
    FLAG_BITS,
    FLAG_GROUP,
    FLAG_MODE,
    FLAG_RECIPE,
    FLAG_JSON,
    FLAG_HOST,
    FLAG_PORT,
    FLAG_API_KEY,
    FLAG_API_KEY_FILE,
    FLAG_CORS,
    FLAG_PARALLEL,
    FLAG_QUEUE,
    FLAG_MEMORY,
    FLAG_KEEP,
    FLAG_CHECK,
    FLAG_CONNECTIONS,
    FLAG_REQUEST_TIMEOUT,
    FLAG_THREADS,
    FLAG_ISA,
    FLAG_KV,
    FLAG_CTX,
    FLAG_ACTIVATIONS,
    FLAG_IGNORE_CONFIG,
    FLAG_VERBOSE,
    FLAG_HELP,
    FLAG_VERSION,
    FLAG_COUNT
} FlagId;

typedef enum FlagKind {
    KIND_SWITCH,
    KIND_INT,    /* low .. high */
    KIND_NUMBER, /* low .. high */
    KIND_UINT64,
    KIND_TEXT,
    KIND_CHOICE, /* one of the words of `value`, split at '|' */
    KIND_LIST,   /* text, repeatable */
} FlagKind;

typedef struct Flag {
    FlagId id;
    const char *name;  /* "--temp" */
    const char *other; /* another spelling, or NULL */
    FlagKind kind;
    const char *value; /* what stands for its value in help; NULL for a switch */
    double low, high;
    unsigned commands; /* bits of CommandId */
    const char *help;
} Flag;

const Flag *flag_at(FlagId id);

typedef struct Args Args;

typedef struct Command {
    CommandId id;
    const char *name;
    const char *synopsis; /* "MODEL [PROMPT]" */
    int min_args, max_args;
    const char *help;
    int (*main)(const Args *args); /* the exit status */
} Command;

enum { MAX_POSITIONAL = 16 };

typedef struct FlagValue {
    int count;        /* how often it was given */
    const char *text; /* the last value, as given */
    double number;
    int64_t integer;
    uint64_t natural;
} FlagValue;

typedef struct ListItem {
    FlagId id;
    const char *text;
} ListItem;

struct Args {
    const Command *command;
    const char *positional[MAX_POSITIONAL];
    int n_positional;
    FlagValue values[FLAG_COUNT];
    ListItem *items; /* of all repeatable flags, in order; owned */
    int n_items;
};

/* Parses argv[0 .. argc) (what follows the command's name) against the tables. With --help or --version, missing
 * arguments are no error. The error is one line without the usage. Strings are borrowed from argv. */
bool args_parse(const Command *command, int argc, char **argv, Args *out, Error *err);
void args_clear(Args *a);

bool args_has(const Args *a, FlagId id);
const char *args_text(const Args *a, FlagId id); /* NULL when not given */
int args_int(const Args *a, FlagId id, int otherwise);
double args_number(const Args *a, FlagId id, double otherwise);
/* The values of a repeatable flag, a new array to be freed with mem_free; NULL with *n 0 when there are none. */
bool args_list(const Args *a, FlagId id, const char ***out, int *n, Error *err);

void command_usage(const Command *c, Buffer *out);    /* one line, "usage: lockstep ..." */
void command_help(const Command *c, Buffer *out);     /* usage, what it does, its flags */
void command_markdown(const Command *c, Buffer *out); /* its section of docs/commands.md */
/* The flags every command takes: for the end of docs/commands.md and of the general help. */
void common_flags_help(Buffer *out, bool markdown);

/* The name nearest to a mistyped one, or NULL when none is near. */
const char *nearest_name(const char *typed, const char *const *names, int n);

#endif
