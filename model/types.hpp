// The words that all rooms of model/ share: choices of a machine, what binds a time, where numbers come from.
#pragma once

#include <optional>
#include <string_view>

#include "arch/calibration/calibration.hpp"
#include "arch/dtype.hpp"
#include "arch/units.hpp"

namespace plumbline {

enum class Runtime { graph, stream, eager };
enum class ClockMode { burst, steady };

/// Whose attention kernels the library set runs: TensorRT-LLM's, or FlashAttention's as vLLM and PyTorch call them.
/// They differ in tiles, in how they split, and in what runs beside them; what is better depends on the shape.
enum class AttentionStack { tensorrt_llm, flash_attention };

struct MachineOptions {
  KernelSet kernels = KernelSet::own;
  ClockMode clock = ClockMode::burst;
  std::optional<Watts> power_cap;  ///< instead of the board's own limit
  DataPattern data = DataPattern::normal;
  AttentionStack attention = AttentionStack::tensorrt_llm;
};

/// What a time is spent on, for the reports: which of five words describes it.
enum class Bound { compute, memory, network, latency, launch };
std::string_view name(Bound bound);

/// How the numbers behind a prediction were come by: scalars of the card itself; of the card itself, whose descriptor
/// was changed since; of another card, or of another kernel set's kernels; of the datasheet alone.
enum class Provenance { calibrated, derived, inherited, datasheet };
std::string_view name(Provenance provenance);

}  // namespace plumbline
