// The card that is measured, and what a recording says of it. No CUDA type in here.
#pragma once

#include <string>

#include "validate/measurer.hpp"
#include "validate/nvml_board.hpp"

namespace plumbline {

/// Card 0 of those that CUDA shows us, made current; its PCI bus id. Throws DeviceError.
std::string select_card();
MeasuringSession describe_session(const Board& board, const std::string& profiler);

}  // namespace plumbline
