/* The exactness probe with its progress on stderr, for the commands that run it. */
#ifndef LOCKSTEP_CLI_PROBE_H
#define LOCKSTEP_CLI_PROBE_H

#include "eval/check.h"

/* As check_run, with the options' progress shown as a line that is gone afterwards. */
bool probe_run(Model *m, CheckOptions options, CheckReport *out, Error *err);

#endif
