/* What Ollama's paths have in common. */
#ifndef LOCKSTEP_SERVE_OLLAMA_H
#define LOCKSTEP_SERVE_OLLAMA_H

#include "serve/server.h"

/* The model of a request, which may carry a tag: "name:latest". */
bool ollama_model(Server *s, const char *name, ServedModel **out, ApiError *err);

#endif
