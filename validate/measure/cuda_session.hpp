// What a recording says of the card at hand. No CUDA type in here.
#pragma once

#include <string>

#include "validate/measure/cuda_card.hpp"
#include "validate/record/measurer.hpp"

namespace plumbline {

MeasuringSession describe_session(const Board& board, const std::string& profiler);

}  // namespace plumbline
