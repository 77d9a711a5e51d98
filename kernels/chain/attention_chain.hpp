// Launchers of the training attention chain: what lies between the two matrix products of eager attention, forward and
// backward, as one kernel each and as the separate kernels that these replace (ops/shape/shapes.hpp has the definitions).
// bf16; the rules of launch.hpp.
//
// The fused pair stores nothing that it can compute again: forward writes the result and a log-sum-exp a row, backward
// reads the scores (which forward read too) and computes the probabilities and the dropout choice again. That is 4 + 6
// bytes an element against 17 + 15 of the separate kernels; with probabilities and a bit mask written it would be
// 6.125 + 6.125.
#pragma once

#include <cstdint>

#include "kernels/common/launch.hpp"
#include "ops/plan/plans.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

/// Rounds of the generator (Philox4x32).
inline constexpr int kPhiloxRounds = 7;

struct ChainSettings {
  float scale = 1;  ///< of the scores
  /// Probability of dropping an element, 0 <= drop < 1, as a multiple of 2^-16 (the nearest one): dropout_threshold().
  double drop = 0;
  std::uint64_t seed = 0, offset = 0;  ///< offset: another value for each layer and step
};

/// 16 random bits below this drop their element; an element that stays is scaled by 65536 / (65536 - threshold).
/// (std::lround is not constexpr; `drop` is not negative.)
constexpr std::uint32_t dropout_threshold(double drop) {
  return static_cast<std::uint32_t>(drop * 65536.0 + 0.5);  // NOLINT(bugprone-incorrect-roundings)
}
constexpr double kept_scale(double drop) { return 65536.0 / (65536.0 - dropout_threshold(drop)); }

/// bf16 [rows, cols] unless said. Unused members stay null.
struct ChainBuffers {
  /// scale, mask: input. dropout: probabilities. softmax_backward: probabilities. Fused, both: scores.
  const void* x = nullptr;
  const void* dy = nullptr;        ///< the incoming gradient (the three backward kinds)
  const void* mask = nullptr;      ///< [cols], added to every row: mask and both fused kinds; rmsnorm_backward: gamma
  void* y = nullptr;               ///< result
  void* keep_mask = nullptr;       ///< bytes 0 or 1: written by dropout, read by dropout_backward
  void* log_sum = nullptr;         ///< fp32 [rows], natural: written by the fused forward, read by the fused backward
  const void* residual = nullptr;  ///< rmsnorm_backward with `residual`: added to the result
};

/// scale, mask, dropout, dropout_backward, softmax_backward, scale_mask_softmax_dropout and its backward, and
/// rmsnorm_backward, whose rows are held the same way. (softmax itself is launch_rowwise's.)
bool is_attention_chain(RowwiseKind kind);
/// The plan by which the launcher runs this shape (registers are not filled in).
KernelPlan attention_chain_plan(const Rowwise& shape);
void launch_attention_chain(const Rowwise& shape, const ChainSettings& settings, const ChainBuffers& buffers,
                            StreamHandle stream);

}  // namespace plumbline
