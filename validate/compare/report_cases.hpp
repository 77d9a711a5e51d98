// A recording held against the predictions: what `validate` on a card and `validate --replay` report. Own kernel,
// library kernel, prediction and roofline side by side, a row a case.
//
// A measured span (last end - first start of an execution's kernels) is compared with OpPrediction::time as it is: in a
// graph the device stamps the start of a kernel when its predecessor ends, so the gap lies inside the duration. (H200,
// 2026-11-20: durations and the period of the same graph without a profiler agree within 1 %.)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/gpu/gpu.hpp"
#include "validate/compare/report.hpp"
#include "validate/compare/report_demands.hpp"
#include "validate/record/recorded.hpp"

namespace plumbline {

struct CompareOptions {
  std::string gpu;  ///< empty: the recording's own
  std::vector<Override> overrides;
  KernelSet kernels = KernelSet::own;  ///< whose measurements are compared, and priced
  std::string calibration_file;
  std::vector<std::string> ops;  ///< empty: all
  std::vector<RowFilter> where;  ///< on op, dtype, shape, cache, clock, study, kernel
  Seconds at_least;              ///< shorter measurements are left out
};

/// One measured case beside its prediction.
struct CaseRow {
  CaseMeasurement measured;
  std::optional<CaseMeasurement> library;  ///< the library's kernel on the same case
  Comparison compared;
  AchievedCase achieved;
  double bandwidth_fraction = 0;  ///< of the card's nominal bandwidth
  std::string reason;             ///< why the kernel is not representative; empty: it is
};

/// A case without a time.
struct CaseFault {
  std::string place, what, reason;  ///< "train.csv:17", "gemm bf16 M=..., cold burst", "no kernel ..."
  std::string text() const { return (place.empty() ? "" : place + ": ") + what + ": " + reason; }
};

struct CaseReport {
  MeasuringSession session;
  ValidationReport summary;
  Demands demands;
  std::vector<CaseRow> rows;          ///< cases with a time, in the order of the recording
  std::vector<DemandResult> results;  ///< demand pointers are into `demands`
  std::vector<CaseFault> faults;
  /// Classes (not "all" rows) whose MAPE is not below the roofline's.
  std::vector<const ClassSummary*> behind_roofline() const;
};

/// The name that `options` or the session gives the card. Throws BadInput when neither does.
std::string gpu_of(const MeasuringSession& session, const CompareOptions& options);

/// A recorded case as a row of measurements.
Measurement measurement_of(const CaseMeasurement& c, const std::string& gpu);

/// True when all filters keep the case. Throws BadInput for a column that cases do not have.
bool keeps_case(const std::vector<RowFilter>& where, const StudyCase& what, std::string_view kernel);

/// Throws BadInput when no case is left.
std::unique_ptr<CaseReport> compare_recording(const Recording& recording, const CompareOptions& options,
                                              Demands demands);

/// Works out what follows from the rows, faults and demands of a report: achieved rates, demands, marks, classes.
void finish(CaseReport& report, const Gpu& gpu, KernelSet kernels);

/// Class table, demands, conditions.
std::string table_report(const CaseReport& report);
/// The JSON of ValidationReport with "session", "demands" and "cases".
std::string json_report(const CaseReport& report);
/// A line a case.
std::string csv_report(const CaseReport& report);
/// One self-contained page: summary, scatter plot, sortable table of cases, conditions.
std::string html_report(const CaseReport& report);
/// Achieved against demanded, as Markdown for the README.
std::string kernels_table(const CaseReport& report);

/// Range of one condition over the cases: "1905 to 1980 MHz".
struct ConditionRange {
  std::string name, text;
};
std::vector<ConditionRange> condition_ranges(const CaseReport& report);
/// "power cap, thermal (software)": NVML's clock event reasons in words.
std::string reasons_text(std::uint64_t bits);

}  // namespace plumbline
