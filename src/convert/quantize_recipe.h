/* Which matrices become what: mlx-lm's rule (every matrix whose inputs divide by the group, its families' exceptions),
 * its mixed recipes, and recipes of one's own. */
#ifndef LOCKSTEP_CONVERT_QUANTIZE_RECIPE_H
#define LOCKSTEP_CONVERT_QUANTIZE_RECIPE_H

#include "base/arena.h"
#include "convert/mlx_layout.h"
#include "model/quantization.h"

typedef struct RecipeLine {
    const char *pattern;
    QuantSpec spec; /* off: left as floats */
} RecipeLine;

typedef struct Recipe {
    QuantSpec base;           /* of matrices for which nothing else is said */
    int low_bits, high_bits;  /* of a mixed recipe of mlx-lm; 0: none */
    int n_layers, layer_part; /* for it: how many layers, and which part of a name is the layer's number */
    RecipeLine *lines;        /* of a file, the first that matches counts; owned */
    int n_lines;
    size_t capacity;
    Arena texts;
} Recipe;

/* mode: "affine", "mxfp4", "mxfp8", "nvfp4"; bits and group 0: the mode's own. recipe: a mixed recipe's name, the path
 * of a file, or NULL. A file has lines
 *
 *     PATTERN BITS [GROUP [MODE]]     or     PATTERN keep
 *
 * with patterns over module names ('*': any run), comments after '#', and the command's group and mode where a line
 * says none. */
bool recipe_read(Recipe *r, const char *mode, int bits, int group, const char *recipe, Error *err);
void recipe_clear(Recipe *r);
/* What the layout is needed for: the layers of mixed recipes. */
bool recipe_begin(Recipe *r, const Layout *l, Error *err);

/* What becomes of a tensor "MODULE.weight". False: it stays as floats. *own: config.json has an entry for it. */
bool recipe_choose(const Recipe *r, const Layout *l, const LayoutTensor *t, QuantSpec *spec, bool *own);
/* Bytes of the module's name: the tensor's without ".weight". */
size_t module_length(const char *tensor_name);
/* "affine" of a format. */
const char *mode_name(WeightFormat format);

#endif
