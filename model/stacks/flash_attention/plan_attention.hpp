// Planners of FlashAttention as its callers run it (vLLM, PyTorch).
#pragma once

#include <cstddef>

#include "model/stacks/common/plan_attention.hpp"

namespace plumbline {

namespace flash_attention {
/// Its families, in the order in which provider.cpp declares them. `kAppend`: its callers' launch before prefill. Those
/// before `kFamilies` are declared by other libraries' providers too, whose kernels are cut by the planners below.
enum Family : std::size_t {
  kPrefill,
  kDecode,
  kCombine,
  kAppend,
  kFamilies,
  kBackward = kFamilies,
  kPrefillMma,
  kDecodeMma,
  kPrefill8bit,
  kDecode8bit,
  kPrefillPaged,
  kDecodePaged,
  kCacheWrite,
  kPrefillMmaPaged,
  kPrefillMmaSmall,
  kDecodeMmaSmall,
  kTranspose,
  kCopy,
  kMergeMma,
  kSecondSteps,
  kAllFamilies
};
}  // namespace flash_attention

/// What kernels of that kind do otherwise than FlashAttention's.
struct PrefillCut {
  bool packs_heads = true;    ///< query heads of a KV head share a tile where few queries would leave it empty
  bool longest_first = true;  ///< CTAs take the longest tiles of a causal mask first
  bool tiles_by_mask = true;  ///< tiles go by masks and pages, as FA3's do; else by heads' widths alone
  std::size_t family = flash_attention::kPrefill;
  std::size_t narrow_family = 0;  ///< of products of 8 bits; 0: the same
  std::size_t paged_family = 0;   ///< of FA3 over a cache in pages; 0: no such kernels, and none of 8 bits
  std::size_t write_family = flash_attention::kAppend;  ///< of the launch that writes new keys and values to the cache
  bool contiguous = false;                              ///< keys and values lie one behind the other, and not in pages
  bool widths_in_64s = false;                           ///< heads' widths are compiled in steps of 64, as cuDNN's are
  bool dealt = false;  ///< CTAs, as many as SMs, take tiles as they become free, those of a head in turn
};

struct DecodeCut {
  double ctas_per_sm = 1;
  double widest = 256;  ///< columns of V that a CTA sums; wider heads are cut in two, and both halves read the keys
  bool whole_blocks = false;  ///< a part has a whole block of keys at least
  std::size_t family = flash_attention::kDecode;
  std::size_t narrow_family = 0;  ///< of products of 8 bits; 0: the same
  std::size_t paged_family = 0;   ///< of FA3 over a cache in pages; 0: no such kernels, and none of 8 bits
  std::size_t write_family = 0;   ///< of the launch that writes a new token's keys and values; 0: none
  /// On tcgen05 products are of whole tiles of rows, as FA4's are; else of the packed heads in sixteens.
  bool whole_tiles = false;
};

/// FA3 over a cache in pages: causal prompts, and decode (plan_paged.cpp).
AttentionChoice plan_paged_prefill(const AttentionPrefill& shape, bool appends, const Rates& rates,
                                   std::span<const FamilyScalars> families, const PrefillCut& cut);
AttentionChoice plan_paged_decode(const AttentionDecode& shape, const Rates& rates,
                                  std::span<const FamilyScalars> families, const KeyCutting& how, const DecodeCut& cut);
/// Prompts of few heads have their keys cut, as decode has: parts of a tile's keys are CTAs of their own, and a launch more
/// merges what they leave.
void cut_prompt(AttentionChoice& choice, const AttentionPrefill& shape, double parts, const Rates& rates);
/// New keys and values to such a cache, as vLLM writes them.
Demand cache_write_demand(const AttentionPrefill& shape, const FamilyScalars& family, const Rates& rates);
/// The same as a launch before `choice`, of a prompt's keys and of decode's one token.
void write_new_keys(AttentionChoice& choice, const AttentionPrefill& shape, const FamilyScalars& family,
                    const Rates& rates);
void write_new_token(AttentionChoice& choice, const AttentionDecode& shape, const FamilyScalars& family,
                     const Rates& rates);

/// `appends`: new keys and values go to the cache by a launch of their own.
AttentionChoice plan_flash_prefill(const AttentionPrefill& shape, bool appends, const Rates& rates,
                                   std::span<const FamilyScalars> families, const PrefillCut& cut = {});
AttentionChoice plan_flash_decode(const AttentionDecode& shape, const Rates& rates,
                                  std::span<const FamilyScalars> families, const KeyCutting& how = {},
                                  const DecodeCut& cut = {});

}  // namespace plumbline
