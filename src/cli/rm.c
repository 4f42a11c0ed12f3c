/* lockstep rm: removes a model from the store, and nothing outside it. */
#include "file/store.h"
#include "cli/commands.h"
#include "cli/output.h"

int command_rm(const Args *args) {
    Error err;
    return store_remove(args->positional[0], &err) ? 0 : complain(&err);
}
