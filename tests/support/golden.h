/* The goldens in tests/goldens: tiny checkpoints with the logits of the reference implementations (mlx-lm 0.32.2,
 * transformers 5.24.0, float32; each golden.json names its versions). Read from the root of the source tree. */
#ifndef LOCKSTEP_TESTS_SUPPORT_GOLDEN_H
#define LOCKSTEP_TESTS_SUPPORT_GOLDEN_H

#include "model/model.h"

enum { GOLDEN_MAX = 512 };

typedef struct Golden {
    char folder[256]; /* tests/goldens/LAYOUT/NAME */
    Checkpoint *checkpoint;
    JsonDoc *meta;       /* golden.json */
    Safetensors *logits; /* golden.safetensors; NULL: all is in golden.json */
    Model *model;
    Pool *pool;
} Golden;

/* Folders of all goldens, sorted; the number of them. Ends the test when there are none. After golden_choose with
 * words, those whose path ends in one of them; a word that is the path of a folder elsewhere is taken as it is. */
int golden_list(char folders[GOLDEN_MAX][256]);
/* The same for those of embedding models, which have vectors in place of logits. */
int golden_list_embed(char folders[GOLDEN_MAX][256]);
/* The same for those of cross-encoders, whose golden.json has pairs of texts and their logits. */
int golden_list_rerank(char folders[GOLDEN_MAX][256]);
/* For main: the program's arguments choose goldens. */
void golden_choose(int argc, char **argv);
/* Opens one with its model. Ends the test with the reason when it cannot. */
void golden_open(Golden *g, const char *folder, KvFormat kv, int threads);
void golden_close(Golden *g);
/* The ids of a prompt ("short", "long") or a continuation, appended to ids; how many there are then. */
int golden_ids(const Golden *g, const char *section, const char *prompt, int32_t *ids, int n, int capacity);
/* Whether row `row` of "short", "long" or "long_cont" may be compared. */
bool golden_usable(const Golden *g, const char *tensor, int row);
const Tensor *golden_tensor(const Golden *g, const char *name);
double golden_tolerance(const Golden *g);

#endif
