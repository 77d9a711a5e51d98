// What a recording says of the card at hand. No CUDA type in here.
#pragma once

#include <string>

#include "validate/cuda_card.hpp"
#include "validate/measurer.hpp"

namespace plumbline {

MeasuringSession describe_session(const Board& board, const std::string& profiler);

}  // namespace plumbline
