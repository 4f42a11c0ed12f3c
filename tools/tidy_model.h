/* What the comments of base/error.h promise, said to clang-tidy's analyzer, which sees one .c file at a time: these functions
 * return false. Included before every file but base/error.c by tools/run_tests tidy; no build uses it. */
#include "base/error.h"

#define error_set(...) ((void)error_set(__VA_ARGS__), false)
#define error_prefix(...) ((void)error_prefix(__VA_ARGS__), false)
#define error_memory(...) ((void)error_memory(__VA_ARGS__), false)
