// What a GemmCache holds. Internal to the GEMM planners.
#pragma once

#include <memory>
#include <vector>

#include "model/stacks/common/gemm_tiles.hpp"

namespace plumbline {

namespace gemm {

/// One way to cut the work. How it is dealt to CTAs follows: worked out again for the few that are priced.
struct Candidate {
  Seconds bound;
  const TileLayout* layout;
  double splits;
  Candidate(Seconds at_least, const TileLayout* laid_out, double parts)
      : bound(at_least), layout(laid_out), splits(parts) {}
};

/// All tiles on both sides for one kind of GEMM and precision on one machine.
struct TileMenu {
  GemmTask key;
  bool whole_units = true;
  std::vector<TileCosts> tiles;

  bool serves(const GemmTask& t) const {
    return !tiles.empty() && key.kind == t.kind && whole_units == gemm::whole_units(t) &&
           key.input_bytes == t.input_bytes && key.weight_bytes == t.weight_bytes &&
           key.output_bytes == t.output_bytes && key.tensor_flop_per_clk == t.tensor_flop_per_clk &&
           key.dequant_per_weight == t.dequant_per_weight && key.slots_per_weight == t.slots_per_weight &&
           key.weight_kept == t.weight_kept && key.engine == t.engine && key.weights_kn == t.weights_kn &&
           key.inputs_km == t.inputs_km && key.adds == t.adds && key.math == t.math && key.block == t.block &&
           key.few_tiles == t.few_tiles;
  }
};

/// Storage of one search, used again by the next.
struct Scratch {
  std::vector<TileCosts> tiles;
  static constexpr std::size_t kMostLayouts = 512;
  std::vector<TileLayout> layouts;  ///< candidates point to them: it never grows
  std::vector<Candidate> candidates;
  Scratch() { layouts.reserve(kMostLayouts); }
};

}  // namespace gemm

struct GemmCache::State {
  struct Answer {
    GemmTask task;
    GemmChoice choice;
  };
  static constexpr std::size_t kAnswers = 256, kMenus = 8;
  std::vector<std::unique_ptr<Answer>> answers = std::vector<std::unique_ptr<Answer>>(kAnswers);
  std::vector<gemm::TileMenu> menus;
  std::size_t oldest_menu = 0;
  gemm::Scratch scratch;

  State() { menus.reserve(kMenus); }  // menus stay where they are

  /// The menu for tasks like this one; `fill(tiles)` makes it where it is not among the last few. It stays valid until
  /// as many others have been asked for.
  template <class Fill>
  const std::vector<gemm::TileCosts>& menu(const GemmTask& task, const Fill& fill) {
    for (const gemm::TileMenu& known : menus) {
      if (known.serves(task)) return known.tiles;
    }
    if (menus.size() < kMenus) menus.emplace_back();
    gemm::TileMenu& made = menus[oldest_menu];
    oldest_menu = (oldest_menu + 1) % kMenus;
    made.key = task;
    made.whole_units = gemm::whole_units(task);
    made.tiles.clear();
    fill(made.tiles);
    return made.tiles;
  }
};

}  // namespace plumbline
