// The training attention chain again, on the CPU in fp64 (ops/shape/shapes.hpp has the definitions), with the random
// choice written from its definition too.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/chain/attention_chain.hpp"
#include "kernels/reference/reference.hpp"

namespace plumbline {

/// Philox4x32 (Salmon et al., SC'11).
std::array<std::uint32_t, 4> reference_philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key,
                                              int rounds = kPhiloxRounds);

/// Whether element (row, col) stays: eight neighbouring columns of a row share one draw, two elements a word.
bool reference_keeps(const ChainSettings& settings, std::int64_t row, std::int64_t col, std::int64_t cols);

/// Inputs in the order of ChainBuffers; empty where the operator has none. `keep_mask`: 0 or 1.
struct ChainInputs {
  Values x, dy, mask, keep_mask, log_sum;
  Values residual = {};
};
struct ChainResult {
  Values y, keep_mask, log_sum;
};

ChainResult reference_attention_chain(const Rowwise& shape, const ChainSettings& settings, const ChainInputs& in);

}  // namespace plumbline
