// `validate run`: operators measured, then the same comparison and report as of a recording.
#pragma once

#include <functional>
#include <memory>

#include "validate/cli/replay.hpp"
#include "validate/record/measurer.hpp"

namespace plumbline {

struct LiveRequest {
  std::vector<std::string> studies;  ///< files; empty: train and heldout of the data folder, or quick
  std::string out_file;              ///< where the recording goes; empty: nowhere
  bool quick = false;
  bool alone = false;  ///< no library kernels beside our own
  CaseReportRequest compared;
};

/// Makes the measurer of the card at hand; throws DeviceError when there is none.
using MakeMeasurer = std::function<std::unique_ptr<Measurer>()>;

/// Measures the studies on a card, writes the recording to `out_file` when one is asked for, compares and reports.
/// no_device when the card fails in the middle, interrupted after SIGINT or SIGTERM; what was measured until then is
/// written and reported all the same. `terminal`: messages go to one.
ExitCode run_live(const LiveRequest& request, const MakeMeasurer& make, std::ostream& out, std::ostream& messages,
                  bool terminal);

}  // namespace plumbline
