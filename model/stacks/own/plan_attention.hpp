// Planners of our own attention kernels.
#pragma once

#include "model/stacks/common/plan_attention.hpp"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline {

AttentionChoice plan_own_prefill(const AttentionPrefill& shape, const PrefillVariant& variant, const Rates& rates,
                                 const FamilyScalars& family);

/// `as_cut`: a plan whose splits are taken as they are, in place of the cheapest. May be null. `families`: ours
/// (own_kernels.hpp). `how`: by which times cuts are compared; ours are always cut by time.
AttentionChoice plan_own_decode(const AttentionDecode& shape, const DecodeVariant& variant, const Rates& rates,
                                std::span<const FamilyScalars> families, const AttentionPlan* as_cut,
                                const KeyCutting& how = {});

}  // namespace plumbline
