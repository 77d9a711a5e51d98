// Planner of Mamba-1's selective scan over prompts.
#pragma once

#include "model/stacks/provider.hpp"
#include "ops/shape/recurrence.hpp"

namespace plumbline {

/// What selective_scan_fwd() runs: Mamba-1's states of several numbers a channel. (The linear units of RG-LRU and RWKV, which
/// have one and three, are other kernels.)
bool is_selective_scan(const Recurrence& shape);

/// One launch, priced by what it issues: nobody's measurements are on file. `family` lends its fixed time.
void answer_selective_scan(const Recurrence& shape, const FamilyScalars& family, const Question& question,
                           Answer& answer);

}  // namespace plumbline
