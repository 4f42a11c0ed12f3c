/* Time that only moves forward, for what is reported about speed; no answer depends on it. */
#ifndef LOCKSTEP_ENGINE_CLOCK_H
#define LOCKSTEP_ENGINE_CLOCK_H

double clock_seconds(void); /* since an arbitrary moment */

#endif
