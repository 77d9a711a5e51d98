// What a Machine is made of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/bands/bands.hpp"
#include "model/engine/rates.hpp"
#include "model/machine.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline {

/// A provider of a stack, as machines of that stack ask it.
struct StackedProvider {
  const Provider* provider = nullptr;
  bool stands_in = false;
  std::size_t first_family = 0;  ///< of Rates::families
  /// Operators that are left to it: by place in the variant `Op`, a bit a kind.
  std::array<std::uint64_t, std::variant_size_v<Op>> kinds{};

  bool runs(std::string_view op) const;
};

/// Classes of the residuals of a kernel family.
struct FamilyOrigin {
  std::array<std::size_t, kVariants> classes{};
  bool by_operator = false;  ///< the operator's class instead
  bool inherited = false;    ///< its scalars are another family's, whose kernels work alike
};

/// A stack with the places of its families in Rates.
struct StackParts {
  Stack stack;
  std::vector<StackedProvider> providers;
  std::vector<FamilyOrigin> families;

  StackParts() = default;
  explicit StackParts(const Stack& stack);
};

/// Where the numbers of a machine, and of all machines that differ from it in numbers alone, come from.
class Origin {
 public:
  Gpu gpu;  ///< as it was given
  Calibration calibration;
  MachineOptions options;
  StackParts stack;
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

/// Reads what rates are made from, and where the stack's families lie in them. Throws BadInput for a calibration that lacks a scalar. Adds to `assumptions` what
/// was taken over from other kernels.
RateScalars read_rate_scalars(const Gpu& gpu, const Calibration& calibration, const std::optional<Gpu>& donor,
                              const MachineOptions& options, StackParts& stack, std::vector<std::string>& assumptions);

}  // namespace plumbline
