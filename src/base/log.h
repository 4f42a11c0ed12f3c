/* What the program says on stderr beside its answer. The level is the one piece of state shared by all threads
 * besides the memory hook and the kernel table. */
#ifndef LOCKSTEP_BASE_LOG_H
#define LOCKSTEP_BASE_LOG_H

typedef enum LogLevel { LOG_QUIET, LOG_NORMAL, LOG_VERBOSE } LogLevel;

void log_set_level(LogLevel level);
LogLevel log_level(void);
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));    /* "warning: ..." unless quiet */
void log_verbose(const char *format, ...) __attribute__((format(printf, 1, 2))); /* only with --verbose */

#endif
