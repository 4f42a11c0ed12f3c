/* The text of `inspect`. */
#ifndef LOCKSTEP_MODEL_DESCRIBE_H
#define LOCKSTEP_MODEL_DESCRIBE_H

#include "model/bind.h"
#include "model/model.h"

typedef struct DescribeInput {
    const Family *family;
    const Blueprint *blueprint;
    const Weights *weights;
    const NumericSettings *numeric;
    const StateShape *state_shape;
    char *const *ignored; /* --ignore-config */
    int n_ignored;
    int context; /* for the memory */
} DescribeInput;

void describe_model(const DescribeInput *in, Buffer *out);

#endif
