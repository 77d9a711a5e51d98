// The words that all rooms of model/ share: choices of a machine, what binds a time, where numbers come from.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "arch/calibration/calibration.hpp"
#include "arch/dtype.hpp"
#include "arch/units.hpp"

namespace plumbline {

enum class Runtime { graph, stream, eager };
enum class ClockMode { burst, steady };
/// How a collective's data go: as its library would choose, or as a user made it.
enum class CollectiveChoice {
  automatic,
  ring,
  tree,
  nvls,
  nvls_tree,
  collnet_direct,
  collnet_chain,
  pat,
  hierarchical,
  rail_aligned,
  one_shot,
  two_shot
};

/// How NCCL's messages say that they have come: by flags beside each 4 bytes, in each 128 bytes, or behind whole parts.
enum class CollectiveProtocol { automatic, ll, ll128, simple };

/// Whose kernels run, how operators are fused and how launches reach the GPU: a stack by name, and parts of it that are
/// replaced (model/stacks/stack.hpp).
struct StackChoice {
  std::string name = "trt-llm";      ///< of data/stacks, or a file
  std::optional<KernelSet> kernels;  ///< ours before the stack's own providers; without ours; the roofline floor
  std::string attention;             ///< provider of prefill and decode attention where it is not ours; "": the stack's
  CollectiveChoice collective = CollectiveChoice::automatic;
  CollectiveProtocol protocol = CollectiveProtocol::automatic;
  std::string host;  ///< a machine's own: a file, or a time of a launch (model/stacks/host.hpp); "": the stack's

  StackChoice() = default;
  StackChoice(std::string stack) : name(std::move(stack)) {}  // NOLINT(google-explicit-constructor): a name is a choice
  StackChoice(const char* stack) : name(stack) {}             // NOLINT(google-explicit-constructor)
  auto operator<=>(const StackChoice&) const = default;
};

/// The stack whose kernels a recording of that set holds: ours, TensorRT-LLM's, or the roofline floor.
StackChoice usual_stack(KernelSet kernels);

struct MachineOptions {
  StackChoice stack;
  /// Unset: single operators as in short bursts, steps as they settle, which is what predict-model answers too.
  std::optional<ClockMode> clock{};
  std::optional<Watts> power_cap{};  ///< instead of the board's own limit
  DataPattern data = DataPattern::normal;
  std::optional<Hertz> sm_clock{};  ///< the SM clock is locked there, below what the cap leaves
  std::string cluster{};            ///< name or file; empty: the one that the GPU's descriptor names
};

/// Shares of a dense GEMM's operands that L2 holds when it starts, and of its result that need not leave L2.
struct Resident {
  double inputs = 0, weights = 0, output = 0;
};

/// What a time is spent on, for the reports: which of five words describes it.
enum class Bound { compute, memory, network, latency, launch };
std::string_view name(Bound bound);

/// How near the measurements behind a prediction are: kernels of that kind and number format, timed on this very card;
/// on another of its generation, or on this one before its descriptor was changed; on a card of another generation; on
/// no card. `datasheet`: the roofline floor, which needs none.
enum class Provenance { measured, same_generation, other_generation, never_measured, datasheet };
std::string_view name(Provenance provenance);

/// The band of whole steps: of ln(measured / predicted) of steps that were measured whole, and whose they are
/// (model/bands/step_bands.hpp).
struct WholeStepBand {
  const Band* band = nullptr;  ///< lives in the machine; null: none is on file, or the step is the roofline floor
  std::string_view stack;      ///< or stacks: "sglang, trt-llm"
  std::string_view kind;
  bool recorded = false;  ///< steps of the very stack and kind that was asked for
};

}  // namespace plumbline
