/* UNROLL before a loop whose bound is a constant after inlining: it is taken apart early, so that arrays indexed by it
 * become registers. Without it gcc at -O2 keeps accumulators in memory (attention: 7.0 instead of 2.2 ns per query and
 * key). Builds with sanitizers go without: there it only multiplies what they instrument. */
#ifndef LOCKSTEP_MATH_UNROLL_H
#define LOCKSTEP_MATH_UNROLL_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNROLLED 0
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNROLLED 0
#endif
#if !defined(UNROLLED)
#define UNROLLED 1
#endif

#if !UNROLLED
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
