// What is demanded of our own kernels, held against what they achieved, and why one that falls short does. Demands and
// findings are files (data/studies/{demands,findings}.json): a reason is there because somebody measured it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/units.hpp"
#include "validate/compare/compare.hpp"
#include "validate/record/measurement.hpp"
#include "validate/record/row_filter.hpp"

namespace plumbline {

/// Which cases a demand or a finding speaks of.
struct CaseCondition {
  std::vector<std::string> ops;
  std::string dtype;             ///< empty: any
  std::vector<RowFilter> where;  ///< on the shape: "K>=7168", "shape~causal=0"
  Bytes at_least;                ///< compulsory bytes of the operator
  bool holds(const StudyCase& what) const;
};

/// One demand, on cold bursts: exactly one of the four figures is given.
struct KernelDemand {
  std::string title;  ///< "bf16 GEMM 8192^3"
  CaseCondition on;
  std::optional<FlopRate> flop_rate;         ///< matrix FLOPs / time
  std::optional<double> bandwidth_fraction;  ///< compulsory bytes / time / datasheet bandwidth
  std::optional<double> of_library;          ///< geometric mean of library time / own time over the cases
  std::optional<double> of_copy;             ///< bandwidth / that of our copy (median of the cases that large)
  std::string demanded() const;              ///< "700 TFLOP/s", "85 % of DRAM", "92 % of the library", "88 % of copy"
};

struct Finding {
  CaseCondition on;
  std::string reason, date;
};

struct Demands {
  std::string gpu;  ///< flop rates and findings are of this card
  std::vector<KernelDemand> demands;
  std::vector<Finding> findings;
};

/// Strict; BadInput names the place. `findings_json` may be empty.
Demands parse_demands(const std::string& demands_json, const std::string& demands_place,
                      const std::string& findings_json, const std::string& findings_place);
/// data/studies/demands.json and findings.json of the data folder; nothing demanded when they are not there.
Demands read_demands();

/// A measured case as demands see it.
struct AchievedCase {
  StudyCase what;
  Seconds time;
  std::optional<Seconds> library;
  FlopRate flop_rate;   ///< matrix FLOPs / time; 0 for operators without
  Bandwidth bandwidth;  ///< compulsory bytes / time
};
AchievedCase achieved_by(const StudyCase& what, Seconds time, std::optional<Seconds> library);

/// One demand over all cases that it speaks of. Figures are in the demand's own unit (FLOP/s or a fraction).
struct DemandResult {
  const KernelDemand* demand = nullptr;
  double demanded = 0, median = 0, worst = 0, best = 0;  ///< of_library: median is the geometric mean
  std::vector<std::size_t> cases, below;                 ///< numbers into the cases given
  std::size_t worst_case = 0;                            ///< the one with the worst figure
  bool met() const;
  std::string achieved() const;  ///< "712 TFLOP/s (698 TFLOP/s to 724 TFLOP/s)"
  std::string reason;            ///< why the worst case is below, of a demand that is not met
};

/// Results of the demands that at least one case falls under, in their order. `bandwidth` is the card's nominal one.
std::vector<DemandResult> hold_against(const Demands& demands, const std::vector<AchievedCase>& cases,
                                       const std::string& gpu, Bandwidth bandwidth);

/// The reason on file for a case, or "reason not found yet".
std::string reason_for(const Demands& demands, const StudyCase& what);

}  // namespace plumbline
