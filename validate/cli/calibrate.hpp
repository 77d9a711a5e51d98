// `validate calibrate`: probes on the card at hand, or as recorded, into a calibration document.
#pragma once

#include "validate/cli/asked.hpp"
#include "validate/record/probe_run.hpp"

namespace plumbline {

struct CalibrateRequest {
  std::string recorded;  ///< probes of an earlier run; empty: the card is probed
  bool quick = false;    ///< without energies
  AskedCard card;
  std::string probes_file;  ///< where to write what the probes found
  std::string out_file;
};

/// Writes a calibration to `out_file` or `out`.
ExitCode run_calibrate(const CalibrateRequest& request, const RunProbes& probe, std::ostream& out,
                       std::ostream& messages);

}  // namespace plumbline
