// The measurer of whole steps on the card at hand. No CUDA type in here.
#pragma once

#include <cstdint>
#include <memory>

#include "validate/record/step.hpp"

namespace plumbline {

/// Of steps on the first `gpus` cards at most. Throws DeviceError, one line, when there is no card.
std::unique_ptr<StepMeasurer> make_cuda_step_measurer(std::int64_t gpus);

}  // namespace plumbline
