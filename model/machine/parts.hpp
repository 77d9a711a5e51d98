// What a Machine is made of.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/bands/bands.hpp"
#include "model/engine/rates.hpp"
#include "model/machine.hpp"

namespace plumbline {

/// Where the numbers of a machine, and of all machines that differ from it in numbers alone, come from.
class Origin {
 public:
  Gpu gpu;  ///< as it was given
  Calibration calibration;
  MachineOptions options;
  RateScalars scalars;
  std::shared_ptr<const KernelCounts> counts;  ///< of our kernels
  bool same_generation = false;  ///< as the card that the calibration was measured on; false where that is not known
  std::vector<std::string> kernel_assumptions;

  /// `changed`: numbers are not those of `gpu`.
  Provenance provenance(bool changed) const;
  const BandTable& bands(bool changed) const;

 private:
  BandSection section(bool changed) const;
  struct Table {
    std::once_flag once;
    BandTable bands;
  };
  mutable Table as_given_, when_changed_;  // worked out when first asked for
};

struct MachineParts {
  Rates rates;
  std::shared_ptr<const Origin> origin;
  bool changed = false;  ///< rates are not those of the origin's descriptor

  /// Text, worked out when first asked for: sweeps never do.
  struct Words {
    std::once_flag once;
    Gpu gpu;
    std::vector<std::string> assumptions;
  };
  mutable Words words;
};

/// Reads what rates are made from. Throws BadInput for a calibration that lacks a scalar. Adds to `assumptions` what
/// was taken over from other kernels.
RateScalars read_rate_scalars(const Gpu& gpu, const Calibration& calibration, const std::optional<Gpu>& donor,
                              const MachineOptions& options, std::vector<std::string>& assumptions);

}  // namespace plumbline
