// What of a block's points a sweep is given, whichever process priced them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/study/blocks.hpp"
#include "model/study/lines.hpp"

namespace plumbline {

/// The lines of a block's points.
SweepPart lines_of_block(const SweepLines& lines, BlockPricer& pricer, std::int64_t first, std::int64_t count);
/// Points of a block that may be among the `top` best of all, or on the front.
SweepPart best_of_block(const StudyPlan& plan, std::int64_t top, BlockPricer& pricer, std::int64_t first,
                        std::int64_t count);

}  // namespace plumbline
