// The measurer of the card at hand. No CUDA type in here.
#pragma once

#include <memory>

#include "validate/record/measurer.hpp"

namespace plumbline {

/// Throws DeviceError, one line: built without CUDA, no driver, no card, or a driver that won't let us profile. To be
/// called before anything else touches CUDA in the process.
std::unique_ptr<Measurer> make_cuda_measurer();

}  // namespace plumbline
