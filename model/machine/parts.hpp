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
#include "model/bands/step_bands.hpp"
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

/// Which classes of kernels were measured in which number formats, and how far from the calibration's card.
class MeasuredFormats {
 public:
  MeasuredFormats() = default;
  explicit MeasuredFormats(const Calibration& calibration);

  /// The nearest cards on which that was measured; nothing: on none. fp16 and bf16 count as one: the units that
  /// multiply them, and all that moves them, are the same. A calibration that lists nothing (one's own scalars) has
  /// measured what it has families for.
  std::optional<BandSection> find(KernelSet set, std::size_t band_class, std::string_view format) const;

 private:
  struct Formats {
    BandSection section = BandSection::own_card;
    KernelSet set = KernelSet::library;
    std::size_t band_class = 0;
    std::vector<std::string> names;
  };
  std::vector<Formats> lists_;  // nearest first
};

/// Where the numbers of a machine, and of all machines that differ from it in numbers alone, come from.
class Origin {
 public:
  Gpu gpu;  ///< as it was given
  Calibration calibration;
  MachineOptions options;
  StackParts stack;
  RateScalars scalars;
  std::optional<RateScalars> step_scalars;     ///< of steps, where the options leave the clock open
  std::shared_ptr<const KernelCounts> counts;  ///< of our kernels
  std::shared_ptr<const StepBands> steps;      ///< null: none on file
  std::shared_ptr<const Cluster> cluster;      ///< what joins several of it
  bool same_generation = false;  ///< as the card that the calibration was measured on; false where that is not known
  std::vector<std::string> kernel_assumptions;

  MeasuredFormats measured;

  /// Of the machine's own scalars. `changed`: numbers are not those of `gpu`.
  Provenance provenance(bool changed) const;
  /// Of kernels of that class and number format on it.
  Provenance provenance(KernelSet set, std::size_t band_class, std::string_view format, bool changed) const;
  const BandTable& bands(Provenance provenance) const;

 private:
  struct Table {
    std::once_flag once;
    BandTable bands;
  };
  mutable std::array<Table, 4> tables_;  // by section, worked out when first asked for
};

struct MachineParts {
  Rates rates;
  std::shared_ptr<const Origin> origin;
  bool changed = false;  ///< rates are not those of the origin's descriptor
  /// How far they are from it, as a share of how far apart the cards are that the bands of a generation come from.
  double distance = 0;

  /// Text, worked out when first asked for: sweeps never do.
  struct Words {
    std::once_flag once;
    Gpu gpu;
    std::vector<std::string> assumptions;
  };
  std::vector<std::string> changes;  ///< what was changed, a sentence each; none: not said
  mutable Words words;

  /// The same machine as steps find it, where that is another one: made when first asked for.
  struct Steps {
    std::once_flag once;
    std::shared_ptr<const MachineParts> parts;
  };
  mutable Steps steps;
};

/// How far numbers that price something are from those of another machine, 0 to 1 (model/machine.cpp says how).
double distance_between(const GpuNumbers& a, const GpuNumbers& b);

/// Reads what rates are made from, and where the stack's families lie in them. Throws BadInput for a calibration that lacks a scalar. Adds to `assumptions` what
/// was taken over from other kernels.
RateScalars read_rate_scalars(const Gpu& gpu, const Calibration& calibration, const std::optional<Gpu>& donor,
                              const MachineOptions& options, StackParts& stack, std::vector<std::string>& assumptions);

}  // namespace plumbline
