/* One function per subcommand, each in a file of its name. They return the exit status. */
#ifndef LOCKSTEP_CLI_COMMANDS_H
#define LOCKSTEP_CLI_COMMANDS_H

#include "cli/flags.h"

int command_run(const Args *args);
int command_generate(const Args *args);
int command_serve(const Args *args);
int command_import(const Args *args);
int command_quantize(const Args *args);
int command_list(const Args *args);
int command_rm(const Args *args);
int command_inspect(const Args *args);
int command_tokenize(const Args *args);
int command_detokenize(const Args *args);
int command_template(const Args *args);
int command_trace(const Args *args);
int command_compare(const Args *args);
int command_check(const Args *args);
int command_embed(const Args *args);
int command_rerank(const Args *args);
int command_perplexity(const Args *args);
int command_bench(const Args *args);

enum { EXIT_WRONG_USAGE = 2 };

/* What was typed cannot be meant: the message and the usage line on stderr. Returns 2. */
int wrong_usage(const Command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
