// Which kernel cuBLAS takes. It asks tables that were trained on measurements, and what they say is often not the
// quickest (for a tenth of 3,473 products in fp32 17 % slower than the best by our prices): so no price finds it, and
// its own answer to the nearest shape that it was asked about is taken.
#pragma once

#include "model/stacks/cublas/lane_answers.hpp"

namespace plumbline::cublas {

/// In fp32, on ordinary lanes. All were answered for one card: on those with fewer SMs the answer is that to a shape with
/// as many tiles an SM.
const LaneAnswer& nearest_lane_answer(double m, double n, double k, double sm_count);

}  // namespace plumbline::cublas
