#include "validate/record/model_row.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <span>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/words.hpp"
#include "ops/csv.hpp"
#include "ops/whole_number.hpp"
#include "validate/record/filtered_rows.hpp"
#include "validate/record/number_field.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 4> kPhases{"prefill", "decode", "generate", "train"};

struct Figure {
  std::string_view column;
  ModelFigure figure;
  double unit;  ///< of the column, in the figure's
  bool per_gpu;
};
constexpr std::array<Figure, 4> kFigures{{{"measured_ms", ModelFigure::time, 1e-3, false},
                                          {"measured_tokens_per_s", ModelFigure::tokens_per_s, 1, false},
                                          {"measured_tokens_per_s_per_gpu", ModelFigure::tokens_per_s, 1, true},
                                          {"measured_TFLOP_per_s_per_gpu", ModelFigure::flop_rate, 1e12, true}}};

std::int64_t size_in(std::string_view text, std::int64_t least) {
  const auto value = parse_whole(text);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (!value || *value < least || *value > kMost) {
    throw BadInput("expected a whole number from " + std::to_string(least) + ", found '" + std::string(text) + "'");
  }
  return *value;
}

template <class E, std::size_t N>
E word_in(std::string_view text, const std::array<Word<E>, N>& words) {
  std::vector<std::string> known;
  for (const Word<E>& word : words) {
    if (word.text == text) return word.value;
    known.emplace_back(word.text);
  }
  throw BadInput("expected a word such as " + known.front() + ", found '" + std::string(text) + "'" +
                 did_you_mean(text, known));
}

double number_in(std::string_view text) {
  const auto value = positive_number(text);
  if (!value) throw BadInput("expected a number above 0, found '" + std::string(text) + "'");
  return *value;
}

bool yes_in(std::string_view text) {
  if (text != "0" && text != "1") throw BadInput("expected 0 or 1, found '" + std::string(text) + "'");
  return text == "1";
}

void set_precision(ModelRow& row, std::string_view text) {
  const auto precision = parse_precision(text);
  if (!precision) throw BadInput("expected bf16, fp16, fp8, ..., found '" + std::string(text) + "'");
  row.workload.precision = *precision;
  row.workload.precision_given = true;
}

void set_kv_dtype(ModelRow& row, std::string_view text) {
  const auto type = parse_dtype(text);
  if (!type || (*type != DType::bf16 && *type != DType::fp16 && *type != DType::fp8)) {
    throw BadInput("expected bf16, fp16 or fp8, found '" + std::string(text) + "'");
  }
  row.workload.kv_dtype = *type;
  row.workload.kv_dtype_given = true;
}

void set_phase(ModelRow& row, std::string_view text) {
  if (std::find(kPhases.begin(), kPhases.end(), text) == kPhases.end()) {
    throw BadInput("expected prefill, decode, generate or train, found '" + std::string(text) + "'" +
                   did_you_mean(text, {kPhases.begin(), kPhases.end()}));
  }
  row.phase = text;
  row.workload.phase = text == "decode" ? Phase::decode : text == "train" ? Phase::train : Phase::prefill;
}

DType gradient_in(std::string_view text) {
  const auto type = parse_dtype(text);
  if (type && (*type == DType::fp32 || *type == DType::bf16 || *type == DType::fp16)) return *type;
  throw BadInput("expected fp32, bf16 or fp16, found '" + std::string(text) + "'");
}

using Text = std::string_view;
using Set = void (*)(ModelRow&, Text);
struct Column {
  std::string_view name;
  Set set;
};

/// Columns that say what was run; an empty field is llm's default.
constexpr std::array<Column, 43> kColumns{{
    {"model", [](ModelRow& r, Text t) { r.model = t; }},
    {"phase", set_phase},
    {"batch", [](ModelRow& r, Text t) { r.workload.batch = size_in(t, 1); }},
    {"prompt", [](ModelRow& r, Text t) { r.workload.prompt = size_in(t, 1); }},
    {"context", [](ModelRow& r, Text t) { r.workload.context = size_in(t, 0); }},
    {"output", [](ModelRow& r, Text t) { r.output = size_in(t, 1); }},
    {"layers", [](ModelRow& r, Text t) { r.layers = size_in(t, 1); }},
    {"page", [](ModelRow& r, Text t) { r.workload.page = size_in(t, 0); }},
    {"dtype", set_precision},
    {"kv-dtype", set_kv_dtype},
    {"stack", [](ModelRow& r, Text t) { r.stack = t; }},
    {"kernels", [](ModelRow& r, Text t) { r.kernels = word_in(t, kKernelSetWords); }},
    {"attention", [](ModelRow& r, Text t) { r.attention = t; }},
    {"host", [](ModelRow& r, Text t) { r.host = t; }},
    {"runtime", [](ModelRow& r, Text t) { r.runtime = word_in(t, kRuntimeWords); }},
    {"fusion", [](ModelRow& r, Text t) { r.fusion = word_in(t, kFusionWords); }},
    {"overlap", [](ModelRow& r, Text t) { r.overlap = word_in(t, kOverlapWords); }},
    {"clock", [](ModelRow& r, Text t) { r.clock = word_in(t, kClockWords); }},
    {"power-cap", [](ModelRow& r, Text t) { r.power_cap = number_in(t) * units::W; }},
    {"sm-clock", [](ModelRow& r, Text t) { r.sm_clock = number_in(t) * units::MHz; }},
    {"gpus", [](ModelRow& r, Text t) { r.gpus = size_in(t, 1); }},
    {"tp", [](ModelRow& r, Text t) { r.workload.parallel.tensor = size_in(t, 1); }},
    {"pp", [](ModelRow& r, Text t) { r.workload.parallel.pipeline = size_in(t, 1); }},
    {"dp", [](ModelRow& r, Text t) { r.workload.parallel.data = size_in(t, 1); }},
    {"ep", [](ModelRow& r, Text t) { r.workload.parallel.expert = size_in(t, 1); }},
    {"cp", [](ModelRow& r, Text t) { r.workload.parallel.context = size_in(t, 1); }},
    {"sp", [](ModelRow& r, Text t) { r.workload.parallel.sequence = yes_in(t); }},
    {"attention-dp", [](ModelRow& r, Text t) { r.workload.parallel.attention_data = yes_in(t); }},
    {"micro-batches", [](ModelRow& r, Text t) { r.workload.parallel.micro_batches = size_in(t, 1); }},
    {"micro-batch", [](ModelRow& r, Text t) { r.workload.training.micro_batch = size_in(t, 1); }},
    {"recompute", [](ModelRow& r, Text t) { r.workload.training.recompute = word_in(t, kRecomputeWords); }},
    {"recompute-layers", [](ModelRow& r, Text t) { r.workload.training.recomputed_layers = size_in(t, 1); }},
    {"schedule", [](ModelRow& r, Text t) { r.workload.training.schedule = word_in(t, kScheduleWords); }},
    {"vp", [](ModelRow& r, Text t) { r.workload.training.chunks = size_in(t, 1); }},
    {"optimizer", [](ModelRow& r, Text t) { r.workload.training.optimizer = word_in(t, kOptimizerWords); }},
    {"grad-dtype",
     [](ModelRow& r, Text t) {
       r.workload.training.gradient = gradient_in(t);
       r.workload.training.gradient_given = true;
     }},
    {"clip", [](ModelRow& r, Text t) { r.workload.training.clipping = word_in(t, kClippingWords); }},
    {"offload", [](ModelRow& r, Text t) { r.workload.training.offload = word_in(t, kOffloadWords); }},
    {"fp8-recipe", [](ModelRow& r, Text t) { r.workload.training.fp8 = word_in(t, kFp8RecipeWords); }},
    {"sparse24", [](ModelRow& r, Text t) { r.workload.training.sparse = word_in(t, kSparseWords); }},
    {"zero", [](ModelRow& r, Text t) { r.workload.parallel.zero = static_cast<int>(size_in(t, 0)); }},
    {"measured_W", [](ModelRow& r, Text t) { r.measured_power = number_in(t) * units::W; }},
    {"gpu", [](ModelRow& r, Text t) { r.gpu = t; }},
}};
/// Flags of llm that say nothing of what is measured, or that no row can say.
constexpr std::array<std::string_view, 13> kNoColumns{"set",     "format",  "out",        "explain",     "top",
                                                      "reserve", "cluster", "collective", "expert-load", "storage",
                                                      "tokens",  "mtbf",    "restart"};

/// Where each column stands in this file.
class Layout {
 public:
  Layout(const CsvHeader& header, const std::string& place) : header_(header) {
    header.require("model");
    header.require("phase");
    for (const Figure& each : kFigures) {
      if (!header.find(each.column)) continue;
      if (figure_ != nullptr) {
        throw BadInput(place + ": expected one column of measured times or rates, found " +
                       std::string(figure_->column) + " and " + std::string(each.column));
      }
      figure_ = &each;
    }
    if (figure_ == nullptr) {
      throw BadInput(place +
                     ": expected a column measured_ms, measured_tokens_per_s, measured_tokens_per_s_per_gpu or "
                     "measured_TFLOP_per_s_per_gpu");
    }
    for (const std::string_view none : kNoColumns) {
      if (header.find(none))
        throw BadInput(place + ": column '" + std::string(none) + "': expected a flag that says what was run");
    }
    std::vector<std::string> known{"id", "held_out"};
    for (const Column& column : kColumns) known.emplace_back(column.name);
    for (const Figure& figure : kFigures) known.emplace_back(figure.column);
    header.refuse_slips(known);
  }

  ModelRow read(std::span<const std::string_view> fields) const {
    ModelRow row;
    for (const Column& column : kColumns) {
      const std::string_view text = field(fields, column.name);
      if (text.empty()) continue;
      try {
        column.set(row, text);
      } catch (const NotModelled& refusal) {
        throw NotModelled(std::string(column.name) + ": " + refusal.what());
      } catch (const BadInput& bad) {
        throw BadInput(std::string(column.name) + ": " + bad.what());
      }
    }
    if (row.model.empty() || row.phase.empty()) throw BadInput("expected a model and a phase, found nothing");
    refuse_idle(row, fields);
    settle_gpus(row);
    row.figure = figure_->figure;
    try {
      row.measured = number_in(field(fields, figure_->column)) * figure_->unit;
      // rates of tokens are of all GPUs; a step's FLOPs are of one
      const bool rate_of_one = figure_->per_gpu && figure_->figure == ModelFigure::tokens_per_s;
      if (rate_of_one) row.measured *= static_cast<double>(row.workload.parallel.ranks());
    } catch (const BadInput& bad) {
      throw BadInput(std::string(figure_->column) + ": " + bad.what());
    }
    row.id = field(fields, "id");
    row.held_out = side_of(row, fields);
    check(row.workload);
    return row;
  }

 private:
  std::string_view field(std::span<const std::string_view> fields, std::string_view name) const {
    const auto at = header_.find(name);
    return at ? fields[*at] : std::string_view();
  }

  /// As of flags: what has no meaning for the phase is refused.
  void refuse_idle(ModelRow& row, std::span<const std::string_view> fields) const {
    const bool context = !field(fields, "context").empty();
    if (row.phase != "generate" && !field(fields, "output").empty()) {
      throw BadInput("output: has no meaning with phase " + row.phase);
    }
    constexpr std::array<std::string_view, 12> kOfTraining{"micro-batch", "recompute", "recompute-layers", "schedule",
                                                           "vp",          "optimizer", "grad-dtype",       "clip",
                                                           "offload",     "zero",      "fp8-recipe",       "sparse24"};
    for (const std::string_view column : kOfTraining) {
      if (row.phase == "train" || field(fields, column).empty()) continue;
      throw BadInput(std::string(column) + ": has no meaning with phase " + row.phase);
    }
    if (row.phase != "decode" && context) row.workload.cached = row.workload.context;
  }

  /// As of llm's flags: without tp, tensor ranks are what the other degrees leave of `gpus`.
  void settle_gpus(ModelRow& row) const {
    ParallelPlan& plan = row.workload.parallel;
    if (row.gpus == 0 || settle_tensor(plan, row.gpus, plan.tensor > 1)) return;
    throw BadInput("gpus: expected tp x pp x cp x dp = " + std::to_string(plan.ranks()) + ", found " +
                   std::to_string(row.gpus));
  }

  HeldOut side_of(const ModelRow& row, std::span<const std::string_view> fields) const {
    if (read_held_out_flag(field(fields, "held_out"), "held_out")) return HeldOut::by_flag;
    const auto size = [&](std::string_view name, std::int64_t otherwise) {
      const std::string_view text = field(fields, name);
      return text.empty() ? otherwise : size_in(text, 0);
    };
    return held_out(ModelRun{row.model, row.phase, size("gpus", 1), size("batch", 1), size("prompt", 0),
                             size("context", 0), size("output", 0)});
  }

  const CsvHeader& header_;
  const Figure* figure_ = nullptr;
};

}  // namespace

std::string model_row_text(const ModelRow& row) {
  const Workload& w = row.workload;
  std::string text = row.model + " " + row.phase;
  for (const auto& [word, degree] : degrees(w.parallel)) {
    if (degree > 1) text += std::string(" ") + word + "=" + std::to_string(degree);
  }
  text += " batch=" + std::to_string(w.batch);
  if (row.layers > 0) text += " layers=" + std::to_string(row.layers);
  if (row.phase == "decode") return text + " context=" + std::to_string(w.context);
  text += " prompt=" + std::to_string(w.prompt);
  if (w.cached > 0) text += " context=" + std::to_string(w.cached);
  if (row.phase == "generate") text += " output=" + std::to_string(row.output);
  return text;
}

bool is_model_rows(std::string_view csv, const std::string& place) {
  CsvReader reader(csv, place);
  const CsvHeader header(reader);
  return header.find("model").has_value() && !header.find("op").has_value();
}

void read_model_rows(std::string_view csv, const std::string& place, const std::vector<RowFilter>& where,
                     ModelRows& into) {
  CsvReader reader(csv, place);
  const CsvHeader header(reader);
  const Layout layout(header, place);
  const TakeRow take = [&](std::span<const std::string_view> fields, const std::string& row_place) {
    into.rows.push_back(layout.read(fields));
    into.rows.back().place = row_place;
  };
  take_rows(reader, header, where, take, into.bad, into.filtered);
}

}  // namespace plumbline
