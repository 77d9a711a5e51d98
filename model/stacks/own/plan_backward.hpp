// Planner of our own attention backward.
#pragma once

#include "model/stacks/common/plan_attention.hpp"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline {

/// The launch of the five products.
AttentionChoice plan_own_backward(const AttentionBackward& shape, const BackwardVariant& variant, const Rates& rates,
                                  const FamilyScalars& family);

/// All three launches. `family`: scalars of the products; `streams`: of the passes before and after.
void answer_own_backward(const AttentionBackward& shape, const BackwardVariant& variant, const FamilyScalars& family,
                         const FamilyScalars& streams, const Question& question, Answer& answer);

}  // namespace plumbline
