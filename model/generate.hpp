// A whole answer of a language model: the prompt is read in one prefill, then one decode step a token over the context
// that grows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/predict.hpp"

namespace plumbline {

/// Sums of one operator over all steps of its phase.
struct OperatorSum {
  Phase phase = Phase::prefill;
  std::string name, op;
  double count = 0;  ///< executions
  Seconds time{};    ///< with the gaps behind them
  std::optional<Joules> energy{};
  Flops flops{};
  Bytes dram_bytes{};
};

struct GeneratePrediction {
  StepPrediction prefill;
  StepPrediction first, last;  ///< decode steps; of no node where none is made (output 1)
  std::int64_t steps = 0;      ///< decode steps: output - 1
  std::int64_t priced = 0;     ///< ... of which were priced one by one; the others lie between those
  Seconds latency, low, high;  ///< until the last token of all sequences; bands of steps taken to err together
  Seconds decode;              ///< ... of which in decode steps
  double tokens = 0;           ///< written, of all sequences
  TimeShare share;
  Flops flops;
  Bytes dram_bytes;
  std::optional<Joules> energy, decode_energy, energy_low, energy_high;
  std::vector<OperatorSum> ops;

  Seconds ttft() const { return prefill.latency; }
  /// Mean of the decode steps; nothing where there is none.
  std::optional<Seconds> tpot() const;
  std::optional<Watts> power() const;  ///< mean, of one GPU
};

/// Up to this many decode steps each one is priced; of more as many, spread over them evenly.
inline constexpr std::int64_t kPricedSteps = 512;

/// `workload`: the prefill (Phase::prefill). `output`: tokens that each sequence writes, the prefill's included.
/// `most_priced`: see kPricedSteps. Throws what predicting its steps throws, BadInput for an output below 1.
GeneratePrediction predict_generate(Predictor& predictor, const Llm& llm, const Workload& workload, std::int64_t output,
                                    const Machine& machine, const RunOptions& options,
                                    std::int64_t most_priced = kPricedSteps);

/// The decode step after `done` others.
Workload decode_step(const Llm& llm, const Workload& prefill, std::int64_t done);

}  // namespace plumbline
