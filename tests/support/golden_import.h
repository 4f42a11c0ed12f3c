/* A golden whose checkpoint is a GGUF file: tests/goldens/gguf/NAME/model.gguf is imported, and its reference brought.
 */
#ifndef LOCKSTEP_TESTS_SUPPORT_GOLDEN_IMPORT_H
#define LOCKSTEP_TESTS_SUPPORT_GOLDEN_IMPORT_H

#include "support/folder.h"

#include <stdbool.h>

/* Whether the reference is that of an embedding golden (tests/goldens/embed/NAME). */
bool golden_import_embeds(const char *name);
/* Makes PARENT/NAME (with `mlx` in MLX's own forms) and writes its path to folder. The reference lies beside the GGUF
 * file, or is that of the checkpoint it was made from. Ends the test with the reason when something is missing. */
void golden_import(const char *name, bool mlx, const TestFolder *parent, char folder[256]);

#endif
