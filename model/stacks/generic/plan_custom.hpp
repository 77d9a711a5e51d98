// The planner of users' own kernels (ops/shape/custom.hpp): the operator says itself what a launch asks for.
#pragma once

#include "model/stacks/provider.hpp"

namespace plumbline {

/// One launch under the fixed cost and the overlap of `family`, at the tensor rate that the card sustains; never
/// measured on any card. Throws BadInput for a CTA that does not fit on an SM, or a
/// format that the GPU has no tensor path for.
bool answer_custom(const CustomOp& op, const Question& question, const FamilyScalars& family, Answer& answer);

}  // namespace plumbline
