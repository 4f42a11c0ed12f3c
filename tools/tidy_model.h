/* What clang-tidy's analyzer can not know, as it sees one .c file at a time: these functions of base/error.h return false, as
 * their comments promise, and cmocka's fail() and fail_msg() do not return. Included before every file but base/error.c by
 * tools/run_tests tidy; no build uses it. */
#include "base/error.h"

#define error_set(...) ((void)error_set(__VA_ARGS__), false)
#define error_prefix(...) ((void)error_prefix(__VA_ARGS__), false)
#define error_memory(...) ((void)error_memory(__VA_ARGS__), false)

__attribute__((noreturn)) void _fail(const char *file, int line);
