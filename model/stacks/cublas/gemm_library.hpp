// What today's libraries launch for a GEMM on cards that fetch tiles by TMA (cuBLAS from 12 on: "nvjet" kernels): read
// off the kernels' names in 480 recorded launches on an H200 (data/measurements/h200, cuBLAS 13.1, 2026-11-20).
// Internal to the GEMM planner.
#pragma once

#include <array>
#include <cstddef>

#include "model/stacks/common/gemm_menu.hpp"

namespace plumbline::gemm {

/// More than any shape asks for: seven row sides, two ways round, some ten widths.
constexpr std::size_t kLibraryMenu = 192;

struct LibraryMenu {
  std::array<MenuEntry, kLibraryMenu> entries;
  std::size_t size = 0;
};

/// Whether the task is one for such kernels: the card has TMA, and rows are whole 16-byte units (a tensor map's
/// strides).
bool takes_tma(const Context& c);

/// The tiles worth a look. The row side is a multiple of 64 up to 512, the other any multiple of 8, so that a shape can
/// be cut to fill one turn of the SMs, or two, exactly; accumulators take at most five eighths of the register file.
void fill_library_menu(const Context& c, LibraryMenu& menu);

/// How many parts K may be cut into: tiles that do not fill the SMs once are cut until they do, as long as each part
/// has 20 steps of 128 bytes (82 recorded launches: no part had fewer than 18). Sums are added up by a second launch.
struct LibrarySplits {
  std::array<double, 4> counts{1};
  std::size_t size = 1;
};
LibrarySplits library_splits(const Context& c, const Cut& cut);

}  // namespace plumbline::gemm
