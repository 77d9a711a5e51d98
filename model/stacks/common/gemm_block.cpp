#include "model/stacks/common/gemm_block.hpp"

#include <array>
#include <cmath>
#include <cstdint>

#include "model/stacks/common/make_gemm_task.hpp"

namespace plumbline {

ExpertRows rows_of_groups(const GemmTask& task, double skew) {
  constexpr double kEach = 8;  // draws, so that few experts have the mean's whole tiles too
  ExpertRows out;
  out.draws = kEach;
  const double all = task.batch * kEach;
  for (double i = 0.5; i < all; ++i) {
    out.rows.push_back(static_cast<std::int64_t>(std::ceil(task.m * (1 + skew * (2 * i / all - 1)))));
  }
  return out;
}

namespace {

/// DeepGEMM's own choice (get_best_gemm_config(), tensorrt_llm/deep_gemm/compiler.cuh): 64 rows where that is all, else
/// 128, and of 16 to 128 columns the width with the fewest waves, of those the one that fills the last wave best. Below
/// 32 tokens TensorRT-LLM has the weights in the rows (gemm_dispatch()'s m_threshold), of one product, never of a batch
/// (strided_batch_gemm_dispatch()). From 1024 tokens on two CTAs side by side fetch their tokens once, where the
/// columns are whole pairs of tiles.
GroupTile block_tile(const GemmTask& task, double sm_count) {
  constexpr double kFewTokens = 32, kSmallRows = 64;
  const bool swapped = task.m < kFewTokens && task.batch <= 1;
  const double rows = swapped ? task.n : task.m, cols = swapped ? task.m : task.n;
  const std::int16_t tile_rows = rows <= kSmallRows ? 64 : 128;
  std::int16_t best = 0;
  double best_waves = 0, best_last = 0;
  for (std::int16_t width = 16; width <= 128; width = static_cast<std::int16_t>(width + 8)) {
    const double tiles = task.batch * std::ceil(rows / tile_rows) * std::ceil(cols / width);
    const double waves = std::ceil(tiles / sm_count), last = tiles - (waves - 1) * sm_count;
    if (best != 0 && (waves > best_waves || (waves == best_waves && last <= best_last))) continue;
    best = width;
    best_waves = waves;
    best_last = last;
  }
  constexpr double kManyTokens = 1024, kPair = 2;
  const bool paired = !swapped && task.batch <= 1 && rows >= kManyTokens && std::fmod(cols, kPair * best) == 0 &&
                      std::fmod(sm_count, kPair) == 0;
  return {.tile = {tile_rows, best}, .swapped = swapped, .cluster = paired ? kPair : 1};
}

}  // namespace

void answer_blocks(const GemmTask& task, const FamilyScalars& family, const Question& q, Answer& out) {
  const std::array menu{block_tile(task, q.rates.sm_count)};
  const ExpertRows rows{{static_cast<std::int64_t>(task.m)}, 1 / task.batch};
  const GemmChoice choice = plan_groups({.task = task,
                                         .rows = rows,
                                         .block_sums = true,
                                         .menu = menu,
                                         .sums_wait = true,
                                         .rows_apart = task.batch > 1,
                                         .first_trips = kChainedLoads},
                                        q.rates, family, q.cache);
  out.sign(family, Variant::math_8bit);
  out.gemm_plan = choice.plan;
  Demand& d = out.launch("block-scaled gemm", family);
  d = choice.main;
  const bool all = q.warmth == Warmth::everything && q.work.bytes() <= q.rates.l2_held();
  find_resident(d, task, q.rates, all ? Resident{1, 1, 1} : q.resident);
}

}  // namespace plumbline
