/* Closes the region that an isa_begin_*.h opened. */
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
