/* Which of a sequence's rows a sequence classifier reads: part of a blueprint, and of what a model tells its users. */
#ifndef LOCKSTEP_MODEL_CLASSIFIER_H
#define LOCKSTEP_MODEL_CLASSIFIER_H

typedef enum ClassifierPool {
    CLASSIFIER_FIRST, /* [CLS], <s> */
    CLASSIFIER_MEAN,
    CLASSIFIER_LAST, /* that is no padding token */
} ClassifierPool;

#endif
