/* A folder that appears whole or not at all: everything is written to FOLDER.part, which is renamed at the end. */
#ifndef LOCKSTEP_CONVERT_OUTPUT_FOLDER_H
#define LOCKSTEP_CONVERT_OUTPUT_FOLDER_H

#include "base/buffer.h"
#include "base/error.h"

typedef struct OutputFolder {
    Buffer folder, part; /* paths */
    bool made;           /* the .part folder is ours to remove */
    bool kept;           /* it stays when it is not committed, for a later run */
} OutputFolder;

/* Makes FOLDER.part, taking the place of one left by an interrupted run. Refuses a FOLDER that is there: with `force`
 * only one that is empty, or a checkpoint of plain files, is replaced, so that nothing else can be lost. */
bool output_begin(OutputFolder *o, const char *folder, bool force, Error *err);
/* The same for work that can go on where an earlier run stopped: FOLDER.part stays unless it is committed, and one that
 * is there is kept when its file `progress` begins with `tag` (a line); *found says so. Refuses a FOLDER that is there.
 */
bool output_resume(OutputFolder *o, const char *folder, const char *progress, const char *tag, bool *found, Error *err);
/* `name` may be in a folder of sentence-transformers' modules: "1_Pooling/config.json". */
bool output_file(const OutputFolder *o, const char *name, const void *bytes, size_t n, Error *err);
/* Renames; an old FOLDER is removed after the new one stands in its place. */
bool output_commit(OutputFolder *o, Error *err);
/* Removes what was not committed (unless it is kept), and frees. Always to be called, also after a failed begin. */
void output_end(OutputFolder *o);

#endif
