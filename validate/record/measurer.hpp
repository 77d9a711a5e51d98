// Who can give a measurement: the card at hand, or a recording. Everything but the measuring itself is tested on
// recordings.
#pragma once

#include "validate/record/measurement.hpp"

namespace plumbline {

class Measurer {
 public:
  virtual ~Measurer() = default;
  virtual MeasuringSession session() const = 0;
  /// Runs the operator as `priced` planned it. A case that cannot be run comes back with a fault; DeviceError is for a
  /// card that is gone.
  virtual Measurement measure(const StudyCase& what, KernelSet kernels, const OpPrediction& priced) = 0;
};

}  // namespace plumbline
