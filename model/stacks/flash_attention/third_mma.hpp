// How FlashAttention-3 cuts attention over a cache in pages on cards with mma.sync and cp.async, 8.0 to 8.9, as SGLang's copy of it
// does where it is asked for (hopper/tile_size.h, flash_api.cpp, flash_fwd_launch_template.h, mainloop_fwd_sm80.hpp). Nobody's
// measurements of these kernels are on file.
#pragma once

#include "model/stacks/flash_attention/mma_paged.hpp"

namespace plumbline {

namespace flash_attention {

struct ThirdTile {
  double rows = 0, keys = 0, warps = 4, stages = 1;
  bool holds_queries = false;  ///< in registers: they share their place in shared memory with values
};

struct ThirdQuestion {
  double width = 0;       ///< of heads, as compiled
  bool windowed = false;  ///< a window hides keys
  bool cut = false;       ///< keys are cut into parts (of sequences of any length, as servers' are)
  bool small = false;     ///< SMs of 100 KB: 8.6 and 8.9
};

/// tile_size_fwd_sm8x() of 16 bits, keys in pages.
ThirdTile third_tile(const ThirdQuestion& question);
/// CTAs that an SM holds: of 128 threads two, of 256 one, or what shared memory has room for.
double third_ctas(const ThirdTile& tile, double qk_dim, double v_dim, double element_bytes, const Rates& rates);
/// Whether the library has kernels for the card: cp.async, but no tensor maps (12.x has none).
bool runs_third_on_mma(const Rates& rates);

}  // namespace flash_attention

AttentionChoice plan_third_mma_prefill(const AttentionPrefill& shape, bool appends, const Rates& rates,
                                       std::span<const FamilyScalars> families,
                                       const flash_attention::MmaPagedFamilies& names);
AttentionChoice plan_third_mma_decode(const AttentionDecode& shape, const Rates& rates,
                                      std::span<const FamilyScalars> families, const KeyCutting& how,
                                      const flash_attention::MmaPagedFamilies& names);

}  // namespace plumbline
