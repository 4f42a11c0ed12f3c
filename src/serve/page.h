/* The web page's files, which the Makefile puts into the program: src/serve/page/ as it stands. */
#ifndef LOCKSTEP_SERVE_PAGE_H
#define LOCKSTEP_SERVE_PAGE_H

#include <stddef.h>

typedef struct PageFile {
    const char *name; /* "index.html" */
    const char *etag; /* with its quotes; another content has another one */
    const unsigned char *bytes;
    size_t n;
} PageFile;

/* Made by tools/embed_page; the last has no name. */
extern const PageFile page_files[];

#endif
