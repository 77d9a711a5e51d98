// Flags of a model's sizes and formats that several commands have.
#pragma once

#include "model/cli/common.hpp"
#include "ops/graph/workload.hpp"

namespace plumbline::cli {

void add_whole(const Command& app, const std::string& flag, const std::string& help, std::int64_t& target,
               std::int64_t least);
void add_size_flags(const Command& app, Workload& workload);       ///< --batch, --prompt, --context
void add_precision_flags(const Command& app, Workload& workload);  ///< --dtype, --kv-dtype
void add_reserve_flag(const Command& app, std::string& reserve);

}  // namespace plumbline::cli
