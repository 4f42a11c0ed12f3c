/* lockstep serve: from flags to the server's options. */
#include "serve/server.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show_address(const char *host, int port) {
    bool v6 = strchr(host, ':') != NULL;
    fprintf(stderr, "lockstep: listening on http://%s%s%s:%d\n", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

static bool parse_batch(const Args *args, int *out, Error *err) {
    const char *text = args_text(args, FLAG_BATCH);
    char *end;
    if (!text) return true;
    long rows = strtol(text, &end, 10);
    if (*end || rows < 1 || rows > 65536) return error_set(err, "--batch %s: it must be from 1 to 65536", text);
    *out = (int)rows;
    return true;
}

int command_serve(const Args *args) {
    Error err;
    const char **keys = NULL;
    ServeOptions o = {.models = args->positional,
                      .n_models = args->n_positional,
                      .host = args_has(args, FLAG_HOST) ? args_text(args, FLAG_HOST) : "127.0.0.1",
                      .port = args_int(args, FLAG_PORT, 8080),
                      .key_file = args_text(args, FLAG_API_KEY_FILE),
                      .origins = args_text(args, FLAG_CORS),
                      .engine = {.max_running = args_int(args, FLAG_PARALLEL, 0),
                                 .max_waiting = args_int(args, FLAG_QUEUE, 0),
                                 .memory = (size_t)(args_number(args, FLAG_MEMORY, 0) * 1e9)},
                      .max_connections = args_int(args, FLAG_CONNECTIONS, 0),
                      .request_seconds = args_int(args, FLAG_REQUEST_TIMEOUT, 0),
                      .keep_seconds = args_int(args, FLAG_KEEP, 0),
                      .ready = show_address};
    if (!parse_batch(args, &o.engine.chunk, &err) || !setup_options(args, &o.load, &err)) return complain(&err);
    o.load.tokenizer = o.load.chat_template = LOAD_IF_THERE;
    bool ok = args_list(args, FLAG_API_KEY, &keys, &o.n_keys, &err);
    o.keys = keys;
    ok = ok && serve(&o, &err);
    mem_free(keys);
    setup_options_clear(&o.load);
    return ok ? 0 : complain(&err);
}
