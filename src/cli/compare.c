/* lockstep compare: two traces, the first the reference. */
#include "eval/compare.h"
#include "cli/commands.h"
#include "cli/output.h"

int command_compare(const Args *args) {
    Error err;
    CompareOptions o = {args_number(args, FLAG_DECIDED, 2.0), args_number(args, FLAG_TOL, 1e-3)};
    CompareResult results[COMPARE_MAX];
    int n = 0;
    Buffer out = {0};
    if (!compare_files(args->positional[0], args->positional[1], &o, results, &n, &err)) return complain(&err);
    compare_describe(results, n, &out);
    output_buffer(&out);
    buffer_clear(&out);
    for (int i = 0; i < n; i++)
        if (!results[i].within) return 1;
    return 0;
}
