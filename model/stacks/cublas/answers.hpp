// Which kernel cuBLAS takes. It asks tables that were trained on measurements, and what they say is often not the
// quickest (for a tenth of 3,473 products in fp32 17 % slower than the best by our prices): so no price finds it, and
// its own answer to the nearest shape that it was asked about is taken.
#pragma once

#include "model/stacks/cublas/lane_answers.hpp"
#include "model/stacks/cublas/xmma_answers.hpp"

namespace plumbline::cublas {

/// Multiprocessors of the card that was asked: of others answers are not known.
inline constexpr double kSmsOfAnswers = 132;

/// In fp32, on ordinary lanes.
const LaneAnswer& nearest_lane_answer(double m, double n, double k);
/// In tf32.
const XmmaAnswer& nearest_xmma_answer(double m, double n, double k);

}  // namespace plumbline::cublas
