// From what the probes found to a calibration: pure arithmetic, no card needed.
//
// Each machine scalar is one record (the best of a sweep, or one setting), an average over the part of a sweep that
// shows it, or the least-squares answer of a few records; energies are the non-negative least squares (Lawson, Hanson
// 1974) of steady runs. None of the probes is a kernel that is validated. What no probe tells (kernel families, bands,
// the share of the tensor peak that library GEMMs keep, ...) is carried over from `base` unchanged.
#pragma once

#include <map>
#include <string>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "validate/record/probe_run.hpp"

namespace plumbline {

using Scalars = std::map<std::string, Scalar>;

/// What the records of `run` determine; a sweep that is missing leaves its scalars out.
Scalars fit_machine(const Gpu& gpu, const ProbeRun& run);
/// Empty without steady runs. `base`: power scalars of this card or of one like it, for the voltage curve's knee and
/// for what else no probe tells.
Scalars fit_power_scalars(const Gpu& gpu, const ProbeRun& run, const Scalars& base);

/// `base` with what was measured in its place. Where `base` is another card's, families and bands stay that card's and
/// are marked so.
Calibration calibrated(const Gpu& gpu, const ProbeRun& run, const Calibration& base);

/// Each scalar with its value before and after, misfit and origin; for people.
std::string calibration_table(const Calibration& made, const Calibration& base);

/// The descriptor of the card that was probed. `asked`: a name or file instead, or "". Throws BadInput when it is none
/// that is on file.
Gpu gpu_of(const ProbeRun& run, const std::string& asked);

}  // namespace plumbline
