// One row of the ops CSV: operator text -> the output columns. Written for millions of rows: no allocation a row once
// the buffers have grown, no locale, no streams.
#pragma once

#include <string>
#include <string_view>

#include "model/predict.hpp"

namespace plumbline {

/// What a row of the ops CSV gets appended (contract: ops CSV).
inline constexpr std::string_view kFigureColumns =
    "latency_us,latency_low_us,latency_high_us,limiter,flops,dram_bytes,power_W,energy_J,sm_clock_MHz,provenance,"
    "kernel_us,error";
/// The commas of a row without figures, up to its `error` field.
inline constexpr std::string_view kNoFigures = ",,,,,,,,,,,";

/// Appends `value` without exponent and with seven significant digits or all its whole ones; far outside 1e-6..1e15 in
/// the shortest exact form. Throws std::logic_error for infinity and NaN: they are never a figure.
void append_number(std::string& out, double value);

/// Appends the values of kFigureColumns, `error` empty.
void append_figures(std::string& out, const OpPrediction& prediction);

/// Throws NotModelled for operands that stay in L2 of experts, recurrences, gradients of attention and whatever moves data between
/// cards or to the host: nobody knows what is left of them there.
void check_warm(const Op& op, const PredictOptions& options);

/// Predicts rows one after another on one thread; remembers the last one, as batches often repeat a shape.
class RowPredictor {
 public:
  enum class Outcome { done, refused, bug };

  explicit RowPredictor(const Machine& machine, const PredictOptions& options = {});

  /// Whether the last row draws more than the cap that it was to keep.
  bool over_cap() const;
  /// Whether the last row's kernels are those of the provider that replaces the stack's attention.
  bool by_attention() const { return outcome_ == Outcome::done && prediction_.provider == attention_; }

  /// Appends the values of kFigureColumns for one row: figures, or none and the reason. Never throws for a bad row.
  Outcome append(std::string_view op, std::string_view dtype, std::string_view shape, std::string& out);

 private:
  Outcome predict_row(std::string_view op, std::string_view dtype, std::string_view shape);

  const Machine& machine_;
  PredictOptions options_;
  std::string_view attention_;  // a provider's name; empty: none is asked for
  Predictor predictor_;
  OpPrediction prediction_;  // large: reused
  std::string key_, figures_;
  Outcome outcome_ = Outcome::done;
  bool remembered_ = false;
};

/// `figures` of a row that could not be predicted: no numbers, and `reason` on one line.
void append_refusal(std::string& out, std::string_view reason);

}  // namespace plumbline
