// Planners of everything that mostly moves data: row-wise and elementwise operators, rotary embedding, gathers, scans,
// selection, sparse matrix-vector, recurrences, copies.
#pragma once

#include "model/engine/rates.hpp"
#include "ops/op/shapes.hpp"
#include "ops/op/work.hpp"

namespace plumbline {

/// One pass over the operator's compulsory bytes with its arithmetic spread over the same CTAs. `warm`: inputs and
/// outputs that fit stay in L2 (a producer has just written them).
Demand stream_demand(const Work& work, const Rates& rates, bool warm);

/// What the pass needs beyond its bytes: extra L2 passes, sectors that gathers waste, barriers between passes.
Demand plan_stream(const Op& op, const Work& work, const Rates& rates, bool warm);

}  // namespace plumbline
