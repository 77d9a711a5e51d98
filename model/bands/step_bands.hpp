// Bands of whole steps: residuals of steps that were measured whole, by the stack that ran them. What a framework
// launches, schedules and samples around the kernels is in no operator's residuals, so that bands of operators alone,
// added up, hold a step of a serving stack much less often than they say.
//
// Steps with experts and steps without are two kinds: what is wrong with grouped products is wrong with no dense model.
// Steps that wait for a framework's host are a third: what they miss by is the host, which nobody described. Where the
// machine's own host was measured they are a fourth.
// A stack of which nobody recorded a step of that kind takes the widest to either side of all stacks that have any, but
// for those that stand apart: a framework that launches each operator by itself says nothing of a serving stack. Of a host
// that nobody measured it does: hosts are what such steps are off by, whoever launches.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "arch/calibration/calibration.hpp"
#include "model/types.hpp"

namespace plumbline {

inline constexpr std::string_view kDenseSteps = "dense", kExpertSteps = "experts", kWaitingSteps = "waiting",
                                  kMeasuredHostSteps = "waiting_measured";

class StepBands {
 public:
  void set(const std::string& stack, std::string_view kind, const Band& band);
  /// The stack's bands are its own alone, and no other's.
  void stand_apart(const std::string& stack);
  bool stands_apart(const std::string& stack) const { return apart_.count(stack) > 0; }
  /// Of that stack and kind; else the hull of all stacks' of that kind; nothing where none has any. `as_recorded`: fusion and launches are the stack's own.
  WholeStepBand find(std::string_view stack, std::string_view kind, bool as_recorded) const;
  const std::map<std::pair<std::string, std::string>, Band>& all() const { return bands_; }

 private:
  struct Hull {
    Band band;
    std::string stacks;
  };
  void make_hull(std::string_view kind);
  std::map<std::pair<std::string, std::string>, Band> bands_;  // by stack and kind
  std::set<std::string> apart_;
  std::map<std::string, Hull, std::less<>> hulls_;  // by kind
};

/// data/steps/bands.json, which `validate fit-steps` writes. Throws BadInput naming the place.
StepBands parse_step_bands(const std::string& json_text, const std::string& place);
std::string to_json(const StepBands& bands);

}  // namespace plumbline
