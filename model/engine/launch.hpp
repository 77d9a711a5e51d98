// One kernel launch of an operator: what it asks of the machine, and what that costs.
#pragma once

#include "model/engine/demand.hpp"
#include "model/engine/rates.hpp"

namespace plumbline {

struct LaunchPrediction {
  const char* kernel = "";  ///< "gemm", "split-K reduce", "attention", "combine"
  Demand demand;
  LaunchTime time;
  const FamilyScalars* family = nullptr;  ///< of the machine that it was priced on, and lives in
  Hertz clock;                            ///< mean clock of the SMs
  Speeds speeds;                          ///< that it was priced with
  double family_share = 1;                ///< of the tensor rate, as the family's scalars have it
};

}  // namespace plumbline
