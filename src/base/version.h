/* What this build calls itself: `lockstep --version`, and whoever asks over HTTP. */
#ifndef LOCKSTEP_BASE_VERSION_H
#define LOCKSTEP_BASE_VERSION_H

#define LOCKSTEP_VERSION "0.1.0"

#endif
