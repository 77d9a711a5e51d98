#include "model/stacks/cublas/gemm_library.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline::gemm {
namespace {

constexpr std::array<std::int16_t, 7> kRowSides{128, 256, 192, 64, 320, 384, 512};
constexpr double kWidest = 256, kMostAccumulators = 320 * 128;

double whole_eights(double size) { return 8 * std::ceil(size / 8); }

MenuEntry tma_entry(const Context& c, Tile tile, bool swapped) {
  const GemmTask& task = c.task;
  const double step = std::max(16.0, kStepBytes / std::max(task.input_bytes, task.weight_bytes));
  MenuEntry e = tile_entry(c, tile, step, swapped);
  e.cluster = 2;
  e.persistent = e.shared_reads = true;
  e.smem_clk -= (1 - kFillShare) * e.stage_bytes / c.smem_port;
  constexpr double kBarriers = 3072;  // bytes beside the ring
  e.stages = std::clamp(std::floor((c.smem - kBarriers) / e.stage_bytes), 2.0, c.path.most_stages);
  e.step_latency = c.family.step;
  // at every tile tensor units wait while accumulators leave the registers; behind the last, the way to L2 is seen too
  e.serial_clk = e.once_clk;
  return e;
}

/// Widths for one row side: the widest even cut, those that fill one to three turns of the SMs, and the usual ones.
class Widths {
 public:
  Widths(const Context& c, double rows, double row_size, double col_size)
      : most_(std::min(kWidest, 8 * std::floor(kMostAccumulators / rows / 8))) {
    const double whole = whole_eights(col_size);
    add(whole_eights(col_size / std::ceil(whole / most_)));
    const double tall = std::ceil(row_size / rows) * c.task.batch;
    for (const double turns : {1.0, 2.0, 3.0}) {
      const double across = std::floor(turns * c.machine.sm_count / tall);
      if (across >= 1) add(whole_eights(col_size / across));
    }
    for (const double usual : {128.0, 256.0}) {
      if (usual < whole) add(usual);
    }
  }
  const double* begin() const { return list_.data(); }
  const double* end() const { return list_.data() + size_; }

 private:
  void add(double width) {
    if (width > most_ || std::find(begin(), end(), width) != end()) return;
    list_[size_++] = width;
  }
  double most_;
  std::array<double, 10> list_{};
  std::size_t size_ = 0;
};

}  // namespace

bool takes_tma(const Context& c) { return !c.task.own && c.path.multicast && whole_units(c.task); }

void fill_library_menu(const Context& c, LibraryMenu& menu) {
  menu.size = 0;
  for (const bool swapped : {false, true}) {
    const double row_size = swapped ? c.task.n : c.task.m, col_size = swapped ? c.task.m : c.task.n;
    for (const std::int16_t rows : kRowSides) {
      if (rows > 64 && rows >= 2 * row_size) continue;
      for (const double width : Widths(c, rows, row_size, col_size)) {
        if (menu.size == menu.entries.size()) return;
        const MenuEntry e = tma_entry(c, {rows, static_cast<std::int16_t>(width)}, swapped);
        if (e.stages * e.stage_bytes <= c.smem) menu.entries[menu.size++] = e;
      }
    }
  }
}

LibrarySplits library_splits(const Context& c, const Cut& cut) {
  constexpr double kLeastSteps = 20;
  const double most = std::floor(std::min(c.machine.sm_count / cut.tiles, cut.k_steps / kLeastSteps));
  LibrarySplits out;
  const auto add = [&](double splits) {
    if (splits > out.counts[out.size - 1]) out.counts[out.size++] = splits;
  };
  if (most < 2) return out;
  add(std::max(2.0, std::floor(most / 2)));
  add(std::max(2.0, std::ceil(0.7 * most)));
  add(most);
  return out;
}

}  // namespace plumbline::gemm
