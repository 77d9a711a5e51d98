// A GPU as the model prices it: what it does a second (Rates), and where those numbers come from (Origin).
//
//   Machine h200 = make_machine(load_gpu("h200_sxm"), MachineOptions{});      // reads files: model/machines.hpp
//   GpuNumbers numbers = h200.numbers();
//   numbers.memory.bandwidth = 6.0 * units::TB_per_s;
//   Machine faster = h200.with(numbers);                                      // does not: about a microsecond
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/types.hpp"

namespace plumbline {

struct KernelCounts;
class StepBands;

struct Rates;
struct Stack;
struct MachineParts;
class BandTable;
struct Cluster;

/// Never changes once it is made, cheap to copy, read by any number of threads. What it hands out lives as long as any
/// copy of it.
class Machine {
 public:
  explicit Machine(std::shared_ptr<const MachineParts> parts) : parts_(std::move(parts)) {}

  /// The descriptor, with the numbers of this machine.
  const Gpu& gpu() const;
  const GpuNumbers& numbers() const;
  const MachineOptions& options() const;
  const Stack& stack() const;
  /// Section of calibrations and reports that the stack's first provider belongs to.
  KernelSet kernels() const;
  const Calibration& calibration() const;
  Provenance provenance() const;
  /// What was assumed: inherited calibration, clock model, overrides.
  const std::vector<std::string>& assumptions() const;
  const BandTable& bands() const;
  const Rates& rates() const;
  /// The same machine as steps of models are priced on it: at the settled clock where `options` leave the clock open.
  /// Its assumptions are those of a step.
  Machine for_steps() const;

  /// The same card under the same calibration and options with other numbers: a hardware point of a study. What its
  /// descriptor derives (an L2 bandwidth that goes with SMs and clock) follows, unless it is changed too: to keep it as it
  /// is, give a descriptor that sets it. A machine
  /// with its own numbers is itself. Throws BadInput where the power cap is out of reach.
  Machine with(const GpuNumbers& numbers) const;
  /// The same, and what was changed in words: one sentence each for the reports.
  Machine with(const GpuNumbers& numbers, std::vector<std::string> changes) const;
  /// The same of a descriptor that was read with overrides: numbers that they set stay, be it to their own values.
  Machine with(const Gpu& gpu, std::vector<std::string> changes = {}) const;

  /// For what keeps answers of one machine (Predictor).
  const std::shared_ptr<const MachineParts>& parts() const { return parts_; }

 private:
  Machine with(const GpuNumbers& given, const std::vector<std::string>& set, std::vector<std::string> changes) const;

  std::shared_ptr<const MachineParts> parts_;
};

/// What a machine may do without.
struct MachineAids {
  std::optional<Gpu> donor;                    ///< the card that an inherited calibration was measured on
  std::shared_ptr<const KernelCounts> counts;  ///< of our kernels (ops/plan/kernel_counts.hpp)
  std::shared_ptr<const StepBands> steps;      ///< bands of whole steps, where somebody has recorded any
  std::shared_ptr<const Cluster> cluster;      ///< what joins several of the card
};

/// Puts a machine together; touches no file. `stack`: the one that `options` name. Throws BadInput for a calibration that
/// lacks a scalar, NotModelled for options that need energies where none are on file.
Machine assemble_machine(const Gpu& gpu, const Calibration& calibration, const Stack& stack,
                         const MachineOptions& options, const MachineAids& aids = {});

}  // namespace plumbline
