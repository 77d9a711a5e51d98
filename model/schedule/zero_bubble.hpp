// A pipeline that trains and makes gradients of weights where it would wait.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arch/units.hpp"
#include "model/schedule/training.hpp"

namespace plumbline {

/// Of the order that model/schedule/training.hpp describes, all of it laid out; `told`: gets its turns.
Seconds zero_bubble_time(std::span<const StagePasses> stages, std::int64_t micro_batches,
                         std::vector<PipelineTurn>* told = nullptr);

}  // namespace plumbline
