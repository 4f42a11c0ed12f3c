/* Tensor names as templates. Layouts and wrappers put the same weight under different names; a template says where it
 * may be, and the checkpoint decides.
 *
 * '*' stands for the number of the layer, '#' for the number of an expert, '|' separates alternatives, of which the
 * first that is present counts. A template begins with "model." where the text model begins; anything else ("lm_head")
 * is beside it. */
#ifndef LOCKSTEP_MODEL_NAMES_H
#define LOCKSTEP_MODEL_NAMES_H

#include "file/checkpoint.h"

enum { NAME_MAX_BYTES = 256 };

/* Where a layout keeps the text model and what is beside it: {"language_model.model.", "language_model."}. */
typedef struct NameRoot {
    const char *model, *beside;
} NameRoot;

typedef struct Names {
    const Checkpoint *checkpoint;
    NameRoot root;
} Names;

/* Takes the root with the longest `model` that begins some tensor's name; where none does and the layers have nothing
 * before their names, {"", ""}. roots: ended by {NULL}; NULL: {"model.", ""}. */
Names names_find_root(const Checkpoint *checkpoint, const NameRoot *roots);

/* The first alternative of the template for which NAME + suffix is a tensor, or one that stands in for it in a
 * published quantised form (NAME.qweight, NAME.weight_packed, NAME_blocks), without the suffix; when there is none, the
 * first alternative. Returns whether there is one. layer, expert: -1 where the template has no such mark. */
bool names_expand(const Names *n, const char *template, int layer, int expert, const char *suffix,
                  char out[NAME_MAX_BYTES]);
/* The tensor NAME + suffix, or NULL. */
const Tensor *names_tensor(const Names *n, const char *template, int layer, int expert, const char *suffix);

/* Whether a module has such a tensor in place of its weight; its name. */
bool names_published(const Names *n, const char *module, char out[NAME_MAX_BYTES + 16]);

/* A pattern over whole names, roots included, in which '*' stands for any run of characters. */
bool name_matches(const char *pattern, const char *name);

#endif
