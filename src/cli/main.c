/* lockstep: the table of commands, and the way from argv to one of them.
 *
 * The command line is fixed (scripts rely on it): docs/commands.md is made from this table and the one in flags.c by
 * `lockstep help --markdown`. */
#define _POSIX_C_SOURCE 200809L
#include "base/log.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const Command commands[CMD_COUNT] = {
    {CMD_RUN, "run", "MODEL [PROMPT]", 1, 2,
     "Chat in the terminal, or answer one prompt (also from standard input). Follows generation_config.json.",
     command_run},
    {CMD_GENERATE, "generate", "MODEL (--prompt T | --ids 1,2,3 | --messages F [--parse]) [-n N] [--json]", 1, 1,
     "Continue a prompt. Greedy unless sampling flags say otherwise.", command_generate},
    {CMD_SERVE, "serve", "MODEL... [--host 127.0.0.1 --port 8080 --api-key K --ctx N --batch N ...]", 1, MAX_POSITIONAL,
     "Answer over HTTP, as OpenAI's API does. Many requests share the machine; none changes another's answer.",
     command_serve},
    {CMD_IMPORT, "import", "FILE.gguf -o DIR [--mlx] [--force]", 1, 1,
     "Turn a GGUF file into a folder of safetensors, config.json and tokenizer.json, without loss.", command_import},
    {CMD_QUANTIZE, "quantize", "DIR -o DIR [--bits N] [--group N] [--mode affine|mxfp4|mxfp8|nvfp4] [--recipe FILE]", 1,
     1, "Turn a float checkpoint into a quantised one in MLX layout, as mlx_lm.convert writes it.", command_quantize},
    {CMD_LIST, "list", "", 0, 0, "The models in the store.", command_list},
    {CMD_RM, "rm", "MODEL", 1, 1, "Remove a model from the store.", command_rm},
    {CMD_INSPECT, "inspect", "MODEL [--ctx N]", 1, 1,
     "What a model is made of, and the memory it needs at a context length.", command_inspect},
    {CMD_TOKENIZE, "tokenize", "MODEL (--text T | --file F | --jsonl F) [--no-special]", 1, 1,
     "Text to token ids, as a JSON array.", command_tokenize},
    {CMD_DETOKENIZE, "detokenize", "MODEL --ids 1,2,3 [--skip-special]", 1, 1, "Token ids to text.",
     command_detokenize},
    {CMD_TEMPLATE, "template",
     "MODEL (--messages F | --jsonl F | --replies F) [--tools F] [--no-generation-prompt] [--kwargs JSON]", 1, 1,
     "The text that the chat template makes of messages; or the messages that a model's answers make.",
     command_template},
    {CMD_TRACE, "trace", "MODEL (--ids 1,2,3 | --ids-file F) -o OUT.safetensors [--chunks 5,4,3] [--width N]", 1, 1,
     "The logits after every prefix of a list of ids, as a safetensors file.", command_trace},
    {CMD_COMPARE, "compare", "A.safetensors B.safetensors [--decided 2.0] [--tol 1e-3]", 2, 2,
     "How far two traces are apart; A is the reference. Exits with 1 when over the tolerance.", command_compare},
    {CMD_CHECK, "check", "MODEL", 1, 1,
     "The exactness probe: runs the model in many ways and names the first operation that differs, or says \"exact\".",
     command_check},
    {CMD_EMBED, "embed", "MODEL (--text T ... | --file F | --ids 1,2,3 ...) [--prompt-name NAME] [--json]", 1, 1,
     "The vector of each text, as a JSON array per line. Follows the sentence-transformers files of the model.",
     command_embed},
    {CMD_RERANK, "rerank", "MODEL --query Q (--text T ... | --file F) [--json]", 1, 1,
     "Score each text by its relevance to the query, best first: by a cross-encoder, or by an embedding model's "
     "cosine.",
     command_rerank},
    {CMD_PERPLEXITY, "perplexity", "MODEL --file F [--json]", 1, 1, "How well a model predicts a text.",
     command_perplexity},
    {CMD_BENCH, "bench", "MODEL [-p 512] [-n 128] [--batch 1,2,4,8] [--reps N] [--json]", 1, 1,
     "Tokens per second: prefill, decode, several sequences together; and what a plain read loop gets from memory.",
     command_bench},
};

static void general_help(Buffer *out) {
    buffer_text(out, "lockstep " LOCKSTEP_VERSION ": language models on your own machine, the same bytes every time\n\n"
                     "usage: lockstep COMMAND [arguments and flags]\n\n");
    for (int i = 0; i < CMD_COUNT; i++) buffer_printf(out, "  %-11s %s\n", commands[i].name, commands[i].help);
    buffer_text(out, "\nMODEL is a folder, or a name in the store (~/.local/share/lockstep/models).\n"
                     "`lockstep COMMAND --help` shows a command's flags. All commands take:\n");
    common_flags_help(out, false);
}

static void markdown_help(Buffer *out) {
    buffer_text(out,
                "# Commands\n\nMade from the program's own tables by `lockstep help --markdown`; do not edit.\n\n"
                "MODEL is a folder if that path exists, else a name in the store (`~/.local/share/lockstep/models`, "
                "moved by XDG_DATA_HOME).\nWherever a file is read, `-` is standard input. Exit status: 0 success, 1 "
                "an error (one line on stderr), 2 wrong usage, 130 on Ctrl-C.\n");
    for (int i = 0; i < CMD_COUNT; i++) command_markdown(&commands[i], out);
    buffer_text(out, "\n## Flags of all commands\n\n");
    common_flags_help(out, true);
}

static const Command *command_find(const char *name) {
    for (int i = 0; i < CMD_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static int unknown_command(const char *typed) {
    const char *names[CMD_COUNT];
    for (int i = 0; i < CMD_COUNT; i++) names[i] = commands[i].name;
    const char *near = nearest_name(typed, names, CMD_COUNT);
    fprintf(stderr, "lockstep: unknown command %s", typed);
    if (near) fprintf(stderr, ": did you mean %s?", near);
    fprintf(stderr, "\nusage: lockstep COMMAND [arguments and flags]; lockstep --help lists the commands\n");
    return EXIT_WRONG_USAGE;
}

static int show(void (*text)(Buffer *)) {
    Buffer out = {0};
    text(&out);
    output_buffer(&out);
    buffer_clear(&out);
    return output_finish(0);
}

static int help_of(const Command *c) {
    Buffer out = {0};
    command_help(c, &out);
    output_buffer(&out);
    buffer_clear(&out);
    return output_finish(0);
}

/* `lockstep help [COMMAND]`, `lockstep --help`, `lockstep help --markdown`. */
static int help_main(int argc, char **argv) {
    if (argc == 0) return show(general_help);
    if (strcmp(argv[0], "--markdown") == 0) return show(markdown_help);
    const Command *c = command_find(argv[0]);
    return c ? help_of(c) : unknown_command(argv[0]);
}

static int version_main(void) {
    output_text("lockstep " LOCKSTEP_VERSION "\n");
    return output_finish(0);
}

static int command_main(const Command *c, int argc, char **argv) {
    Args args;
    Error err;
    int status;
    if (!args_parse(c, argc, argv, &args, &err)) return wrong_usage(c, "%s", err.text);
    if (args_has(&args, FLAG_HELP)) {
        status = help_of(c);
    } else if (args_has(&args, FLAG_VERSION)) {
        status = version_main();
    } else {
        if (args_has(&args, FLAG_VERBOSE)) log_set_level(LOG_VERBOSE);
        status = output_finish(c->main(&args));
    }
    args_clear(&args);
    return status;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    interrupt_install();
    if (argc < 2) {
        Buffer out = {0};
        general_help(&out);
        fputs(buffer_string(&out), stderr);
        buffer_clear(&out);
        return EXIT_WRONG_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help_main(argc - 2, argv + 2);
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) return version_main();
    const Command *c = command_find(name);
    return c ? command_main(c, argc - 2, argv + 2) : unknown_command(name);
}
