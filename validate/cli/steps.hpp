// `validate step` on a card and the replay of its recordings.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string_view>

#include "validate/cli/asked.hpp"
#include "validate/cli/flags.hpp"
#include "validate/record/step.hpp"

namespace plumbline {

struct StepsRequest {
  std::vector<StepCase> steps;       ///< whole steps to measure; empty: those of `studies`
  std::vector<std::string> studies;  ///< lists of steps
  bool check = false;                ///< hold operators against references instead of timing them
  AskedCard card;
  std::string out_file;  ///< where the recording goes; empty: nowhere
  AskedReport report;
};

/// Makes the measurer of whole steps of the card at hand, of steps on `gpus` of them at most; throws DeviceError when
/// there is none.
using MakeStepMeasurer = std::function<std::unique_ptr<StepMeasurer>(std::int64_t gpus)>;
/// Measures the steps, writes the recording to `out_file`, compares, reports.
ExitCode run_steps(const StepsRequest& request, const MakeStepMeasurer& make, std::ostream& out,
                   std::ostream& messages);

struct StepReplayRequest {
  std::string file;
  AskedCard card;
  AskedReport report;
};
/// The same comparison from a recording of steps.
ExitCode run_step_replay(const StepReplayRequest& request, std::ostream& out, std::ostream& messages);

inline constexpr std::array<std::string_view, 9> kStepFlags{"--phase", "--batch", "--context", "--prompt", "--page",
                                                            "--dtype", "--tp",    "--dp",      "--layers"};

/// Sizes, formats and degrees of a step of one phase, but for the page. Throws BadInput without a phase.
Workload workload_of(const Flags& flags);

/// The step that the flags name, in both clock modes or the one asked for.
std::vector<StepCase> steps_of(const Flags& flags);

}  // namespace plumbline
