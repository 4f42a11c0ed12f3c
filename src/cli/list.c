/* lockstep list: the models in the store, with the bytes of their files. */
#include "file/store.h"
#include "cli/commands.h"
#include "cli/output.h"

int command_list(const Args *args) {
    (void)args;
    Error err;
    StoreEntry *entries = NULL;
    int n = 0;
    Buffer out = {0};
    if (!store_list(&entries, &n, &err)) return complain(&err);
    for (int i = 0; i < n; i++)
        buffer_printf(&out, "%-32s %9.1f MB  %s\n", entries[i].name, (double)entries[i].bytes / 1e6, entries[i].path);
    output_buffer(&out);
    buffer_clear(&out);
    store_list_free(entries, n);
    return 0;
}
