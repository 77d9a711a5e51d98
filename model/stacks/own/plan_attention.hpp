// Planners of our own attention kernels.
#pragma once

#include "model/stacks/common/plan_attention.hpp"
#include "ops/plan/kernel_menu.hpp"

namespace plumbline {

AttentionChoice plan_own_prefill(const AttentionPrefill& shape, const PrefillVariant& variant, const Rates& rates,
                                 const FamilyScalars& family);

/// Whether the tile is of the shape's head width, and an SM holds it.
bool runs_portable(const PortablePrefillVariant& variant, const AttentionPrefill& shape, const Rates& rates);
/// Flash attention of mma.sync: the cheapest tile of the menu that fits. `as_cut`: a tile that is taken as it is. May be
/// null. `how`: by which times tiles are compared.
AttentionChoice plan_portable_prefill(const AttentionPrefill& shape, const Rates& rates, const FamilyScalars& family,
                                      const AttentionPlan* as_cut, const KeyCutting& how);

/// `as_cut`: a plan whose splits are taken as they are, in place of the cheapest. May be null. `families`: ours
/// (own_kernels.hpp). `how`: by which times cuts are compared; ours are always cut by time.
AttentionChoice plan_own_decode(const AttentionDecode& shape, const DecodeVariant& variant, const Rates& rates,
                                std::span<const FamilyScalars> families, const AttentionPlan* as_cut,
                                const KeyCutting& how = {});

}  // namespace plumbline
