// Plans as text, both ways: recordings say with it how a kernel cut its shape.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/plan/plans.hpp"

namespace plumbline {

/// "tile=128x256x64 stages=4 splits=1 cluster=2x1 swapped wgmma"; the cluster where there is one.
std::string plan_text(const GemmPlan& plan);
/// "q_tile=128 kv_tile=128 splits=1 packed=4"; packed heads where there are any.
std::string plan_text(const AttentionPlan& plan);

/// Empty for a text that `plan_text` does not write.
std::optional<GemmPlan> parse_gemm_plan(std::string_view text);
std::optional<AttentionPlan> parse_attention_plan(std::string_view text);

}  // namespace plumbline
