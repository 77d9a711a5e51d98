// Anyone's measurements of whole models: CSV whose columns are flags of `predict-model llm` by their long names and one
// of measured_ms, measured_tokens_per_s, measured_tokens_per_s_per_gpu, measured_TFLOP_per_s_per_gpu.
//
//   model,phase,batch,prompt,output,dtype,stack,measured_ms
//   llama-3.1-8b,generate,8,1024,256,bf16,trt-llm,2290
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/predict.hpp"
#include "validate/record/held_out.hpp"
#include "validate/record/row_filter.hpp"

namespace plumbline {

/// What the measured figure is: of a step, or of phase generate of the whole answer.
enum class ModelFigure { time, tokens_per_s, flop_rate };

struct ModelRow {
  std::string model, phase;  ///< phase: "prefill", "decode" or "generate"
  Workload workload;
  std::int64_t output = 1;  ///< of generate
  std::int64_t layers = 0;  ///< the first ones of the model, where not all of it was run; 0: all
  std::int64_t gpus = 0;    ///< as the file says; 0: not said, it is the product of the degrees
  std::string stack;        ///< name in data/stacks; empty: the file does not say
  std::optional<KernelSet> kernels;
  std::string attention;
  std::string host;  ///< as --host
  std::optional<Runtime> runtime;
  std::optional<Fusion> fusion;
  std::optional<Overlap> overlap;
  ClockMode clock = ClockMode::steady;
  std::optional<Watts> power_cap;
  std::optional<Hertz> sm_clock;
  ModelFigure figure = ModelFigure::time;
  double measured = 0;  ///< seconds, tokens a second, FLOP a second
  std::optional<Watts> measured_power;
  std::string gpu, id, place;  ///< place: "file.csv:5"
  HeldOut held_out = HeldOut::no;
};
/// "llama-3.1-8b generate batch=8 prompt=1024 output=256".
std::string model_row_text(const ModelRow& row);

struct ModelRows {
  std::vector<ModelRow> rows;
  std::vector<std::string> bad;  ///< "file.csv:7: batch: expected ..."
  long filtered = 0;
};

/// Whether a list is one of whole models: its header has a column `model`.
bool is_model_rows(std::string_view csv, const std::string& place);
/// Throws BadInput for a file without the columns that are needed, and for a flag of llm that is none of a column's.
void read_model_rows(std::string_view csv, const std::string& place, const std::vector<RowFilter>& where,
                     ModelRows& into);

}  // namespace plumbline
