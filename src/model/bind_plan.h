/* What the two halves of binding share: the plan. bind.c fills it, weights.c carries it out. */
#ifndef LOCKSTEP_MODEL_BIND_PLAN_H
#define LOCKSTEP_MODEL_BIND_PLAN_H

#include "math/packed.h"
#include "model/bind.h"
#include "model/quantization.h"

enum { PLAN_PARTS = 5 };

typedef struct LinearPlan {
    WeightSource source; /* as it lies in the checkpoint */
    RowSlice rows;
    bool transposed, unit_rows;
    int64_t first_input, n_inputs; /* of a transposed block: its inputs among the tensor's rows */
    const Tensor
        *parts[PLAN_PARTS]; /* weight, scales, biases, d, dmin; of a published form codes, scales, zeros, groups */
    PackedSource packed;    /* in place of `source`, whose rows and cols it has; rows 0: not so */
    bool ternary;           /* floats that BitNet's layers make ternary */
    const char *origin;     /* of another form, for inspect: "awq" */
    const Tensor *bias;
    int slot, n_slots; /* which one of a stack of experts; 0 of 1 */
    bool stacked;
    int same_as; /* the plan of the very matrix, plus 1; 0: none */
    const Linear **out;
} LinearPlan;

typedef struct VectorPlan {
    const Tensor *tensor;
    float plus;
    int64_t from, n;      /* values of the tensor that are taken */
    int64_t at, total;    /* several plans in a row may fill one vector of `total` values; at 0: total 0 means n */
    int channels, kernel; /* of a convolution or of rates, which are turned around; 0: none */
    int each;             /* channels that share a filter */
    RateForm rates;       /* what is made of the values */
    const int32_t **ids;  /* whole numbers go here; else NULL */
    const float **out;
} VectorPlan;

struct Binder {
    const Names *names;
    const Blueprint *blueprint;
    const Family *family;
    Weights *weights;
    Quantization quantization;
    LinearPlan *linears;
    VectorPlan *vectors;
    const Tensor **used;
    int n_linears, n_vectors, n_used;
    int linear_capacity, vector_capacity, used_capacity;
    bool repeats; /* the layer being planned may ask for matrices that an earlier one has */
    bool head_warned;
    Error *err;
};

typedef struct Shape {
    int n_dims;
    int64_t dims[TENSOR_MAX_DIMS];
} Shape;

enum { FLOAT_TYPES = 1 << DTYPE_F32 | 1 << DTYPE_F16 | 1 << DTYPE_BF16 };

/* Tensor `name`, of one of the types in `allowed` (1 << DType) and of exactly this shape; NULL with the error. */
const Tensor *bind_tensor(Binder *b, const char *name, const Shape *shape, unsigned allowed);
/* A part of a matrix, NAME + suffix: [rows, cols], or [slots, rows, cols] in a stack. *data: where this slot's begins.
 */
const Tensor *bind_part(Binder *b, const LinearPlan *plan, const char *module, const char *suffix, int64_t rows,
                        int64_t cols, unsigned allowed, const void **data);
/* Counts a tensor as asked for. */
bool bind_mark_used(Binder *b, const Tensor *t);
/* bind_published.c: a module of a published form. *found: it is quantised, and planned; else it is floats. */
bool bind_plan_published(Binder *b, const LinearSpec *spec, const char *module, LinearPlan *plan, bool *found);
/* A planned matrix of floats: whether it is to be made ternary. */
bool bind_plan_online(Binder *b, const LinearSpec *spec, const char *module, LinearPlan *plan);

/* The format of a float tensor. */
WeightFormat bind_float_format(DType t);
/* Module `spec` as a plan, without its bias; expert -1: none. */
bool bind_plan_weight(Binder *b, const LinearSpec *spec, int layer, int expert, int64_t rows, int64_t cols,
                      LinearPlan *plan);
/* Its bias, where it has one. */
bool bind_plan_bias(Binder *b, const LinearSpec *spec, int layer, int expert, LinearPlan *plan);
bool bind_add_linear(Binder *b, const LinearPlan *plan);

#endif
