// The probes on the card at hand. No CUDA type in here.
#pragma once

#include "validate/record/probe_run.hpp"

namespace plumbline {

/// Throws DeviceError, one line, as make_cuda_measurer does, and for a card that the probes are not built for.
ProbeRun run_cuda_probes(bool energies, const ProbeProgress& progress);

}  // namespace plumbline
