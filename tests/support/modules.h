/* Folders of sentence-transformers' modules, made on the spot. */
#ifndef LOCKSTEP_TESTS_SUPPORT_MODULES_H
#define LOCKSTEP_TESTS_SUPPORT_MODULES_H

#include "support/folder.h"

/* modules.json of a transformer and then these: "Pooling Dense Normalize" at 1_Pooling, 2_Dense, 3_Normalize. */
void modules_list(const TestFolder *f, const char *types);
/* PATH/config.json. */
void modules_config(const TestFolder *f, const char *path, const char *json);

/* A tensor of rows by cols values; rows 0: a vector. */
typedef struct ModuleTensor {
    const char *name;
    int rows, cols;
    const float *values;
} ModuleTensor;

/* PATH/model.safetensors. Ends the test when it can not. */
void modules_weights(const TestFolder *f, const char *path, const ModuleTensor *tensors, int n);

#endif
