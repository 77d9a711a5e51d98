#include "model/stacks/common/gemm_block.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

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

void answer_blocks(const GemmTask& task, const FamilyScalars& family, const Question& q, Answer& out) {
  static const std::vector<GroupTile> kMenu = [] {
    std::vector<GroupTile> menu;
    for (const std::int16_t rows : {std::int16_t{64}, std::int16_t{128}}) {
      for (std::int16_t cols = 16; cols <= 160; cols = static_cast<std::int16_t>(cols + 16)) {
        menu.push_back({{rows, cols}, false});
        if (rows == 128 && cols <= 64) menu.push_back({{rows, cols}, true});
      }
    }
    return menu;
  }();
  const ExpertRows rows{{static_cast<std::int64_t>(task.m)}, 1};
  const GemmChoice choice = plan_groups({task, rows, true, kMenu}, q.rates, family, q.cache);
  out.sign(family, Variant::math_8bit);
  out.gemm_plan = choice.plan;
  Demand& d = out.launch("block-scaled gemm", family);
  d = choice.main;
  const bool all = q.warmth == Warmth::everything && q.work.bytes() <= q.rates.l2_held();
  find_resident(d, task, q.rates, all ? Resident{1, 1, 1} : q.resident);
}

}  // namespace plumbline
