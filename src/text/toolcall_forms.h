/* Step arrays that live in a file of their own because the table would be too long with them. */
#ifndef LOCKSTEP_TEXT_TOOLCALL_FORMS_H
#define LOCKSTEP_TEXT_TOOLCALL_FORMS_H

#include "text/toolcall.h"

extern const Step qwen_xml_steps[], seed_steps[], glm_steps[], hunyuan_steps[], minimax_m2_steps[], atem_steps[],
    dsml_steps[], kimi_k3_steps[], minicpm_steps[], minimax_m3_steps[];

#endif
