// Planners of FlashAttention as its callers run it (vLLM, PyTorch).
#pragma once

#include <cstddef>

#include "model/stacks/common/plan_attention.hpp"

namespace plumbline {

namespace flash_attention {
/// Its families, in the order in which provider.cpp declares them. `kAppend`: its callers' launch before prefill.
enum Family : std::size_t { kPrefill, kDecode, kCombine, kAppend, kFamilies };
}  // namespace flash_attention

/// `appends`: new keys and values go to the cache by a launch of their own.
AttentionChoice plan_flash_prefill(const AttentionPrefill& shape, bool appends, const Rates& rates,
                                   std::span<const FamilyScalars> families);
AttentionChoice plan_flash_decode(const AttentionDecode& shape, const Rates& rates,
                                  std::span<const FamilyScalars> families, const KeyCutting& how = {});

}  // namespace plumbline
