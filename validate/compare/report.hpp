// Measurements held against predictions, and the report of it: of a recording (`validate run`, `replay`: own
// kernel, library kernel, prediction and roofline side by side) or of anyone's rows (`validate compare`). One model, one writer
// a format.
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
#include "validate/compare/compare.hpp"
#include "validate/compare/pricing.hpp"
#include "validate/compare/report_demands.hpp"
#include "validate/record/measurement_csv.hpp"
#include "validate/record/recorded.hpp"

namespace plumbline {

struct CompareOptions {
  std::string gpu;  ///< empty: the recording's own
  std::vector<Override> overrides;
  StackChoice stack =
      usual_stack(KernelSet::own);  ///< whose kernels are priced; the measurements of its set are compared
  std::string calibration_file;
  std::vector<std::string> ops;  ///< empty: all
  std::vector<RowFilter> where;  ///< on op, dtype, shape, cache, clock, study, side, kernel
  Seconds at_least;              ///< shorter measurements are left out
};

/// One measured case beside its prediction.
struct ReportRow {
  Measurement measured;
  std::optional<Measurement> library;  ///< the library's kernel on the same case
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

/// Rows that are missing from a comparison for the same reason.
struct NotCompared {
  std::string reason, first;  ///< "unknown operator ...", "a.csv:5"
  long rows = 0;
};

/// What a report says of all rows together.
struct ReportSummary {
  std::vector<std::string> files;
  std::string stack;    ///< name, or file
  std::string kernels;  ///< "own", "library", "ideal"
  std::string clock;    ///< "burst", "steady" or "as measured"
  std::vector<ClassSummary> classes;
  std::vector<std::string> assumptions;
  long compared = 0, bad = 0, not_modelled = 0, filtered = 0, other_gpu = 0;
  long not_measured = 0;  ///< cases of a recording that have a fault instead of a time
  /// Of `bad`, `not_modelled` and `not_measured`, in the order that the reasons first occur.
  std::vector<NotCompared> not_compared;
};

struct Report {
  std::optional<MeasuringSession> session;  ///< of a recording; anyone's rows have none
  ReportSummary summary;
  Demands demands;
  std::vector<ReportRow> rows;        ///< with a time, in the order of the recording or the files
  std::vector<DemandResult> results;  ///< demand pointers are into `demands`
  std::vector<CaseFault> faults;
  /// Classes (not "all" rows) whose MAPE is not below the roofline's.
  std::vector<const ClassSummary*> behind_roofline() const;
};

/// The name that `options` or the session gives the card. Throws BadInput when neither does.
std::string gpu_of(const MeasuringSession& session, const CompareOptions& options);

/// True when all filters keep the case. Throws BadInput for a column that cases do not have.
bool keeps_case(const std::vector<RowFilter>& where, const StudyCase& what, std::string_view kernel);

/// Throws BadInput when no case is left.
std::unique_ptr<Report> compare_recording(const Recording& recording, const CompareOptions& options, Demands demands);

/// Anyone's rows. Counts of bad and filtered rows are the reader's; `files` are named in the report.
std::unique_ptr<Report> compare_rows(Measurements measured, const std::vector<std::string>& files,
                                     const PricingOptions& options);

/// Works out what follows from the rows, faults and demands of a report: achieved rates, demands, marks, classes, what
/// is missing.
void finish(Report& report, const Gpu& gpu, KernelSet kernels);

/// Adds one row that is missing to the reasons of a summary.
void add_missing(ReportSummary& summary, const std::string& place, const std::string& reason);

/// Class table in aligned columns, errors in percent as 100 x |ln(predicted / measured)|; of a recording with demands and
/// conditions.
std::string table_report(const Report& report);
/// Schema "plumbline.validate.v1": SI units, errors as natural logarithms, shares as fractions; of a recording with
/// "session", "demands", "cases" and "faults".
std::string json_report(const Report& report);
/// Of a recording a line a case, else a line a class with the JSON's figures.
std::string csv_report(const Report& report);
/// Anyone's rows, each with its prediction, to find out what is wrong.
std::string csv_rows(const Report& report);
/// One self-contained page: summary, scatter plot, sortable table of cases, conditions.
std::string html_report(const Report& report);
/// The writer of "table", "json", "csv" or "html".
std::string text_in(const Report& report, std::string_view format);
/// Achieved against demanded, as Markdown for the README.
std::string kernels_table(const Report& report);

/// Range of one condition over the cases: "1905 to 1980 MHz".
struct ConditionRange {
  std::string name, text;
};
std::vector<ConditionRange> condition_ranges(const Report& report);
/// "power cap, thermal (software)": NVML's clock event reasons in words.
std::string reasons_text(std::uint64_t bits);

}  // namespace plumbline
