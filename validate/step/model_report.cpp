#include "validate/step/model_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "model/generate.hpp"
#include "model/report/columns.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "ops/lower/two_batch.hpp"
#include "validate/printed.hpp"
#include "validate/record/step.hpp"
#include "validate/records.hpp"

namespace plumbline {
namespace {

/// Of one step, or of a whole answer.
struct Predicted {
  Seconds time, low, high;
  double tokens = 0;
  Flops flops;
  std::optional<Watts> power;
  std::string_view kind;
};

Predicted predicted(Predictor& predictor, const Llm& llm, const ModelRow& row, const Machine& machine) {
  const Workload workload = settled_workload(row, llm, machine);
  const RunOptions run{row.runtime.value_or(machine.stack().runtime)};
  if (row.phase != "generate") {
    const StepPrediction step = predictor.predict(llm, workload, machine, run);
    const double tokens = step.tokens_per_s * step.latency.in(units::s);
    return {step.latency, step.low, step.high, tokens, step.flops, step.power, step_kind(step)};
  }
  const GeneratePrediction all = predict_generate(predictor, llm, workload, row.output, machine, run, 16);
  return {all.latency, all.low, all.high, all.tokens, all.flops, all.power(), step_kind(all.prefill)};
}

void need_room(const Llm& llm, const ModelRow& row, const Machine& machine, double reserve) {
  const Bytes capacity = machine.gpu().memory.usable_capacity();
  const auto fits = [&](const Workload& workload) { return fit_of(llm, workload, capacity, reserve * capacity).fits; };
  const bool grows = row.phase == "generate" && row.output > 1;
  if (fits(row.workload) && (!grows || fits(decode_step(llm, row.workload, row.output - 2)))) return;
  throw NotModelled("does not fit the memory of one " + machine.gpu().name +
                    ": fewer sequences ran at a time than the row says");
}

Seconds measured_time(const ModelRow& row, const Predicted& p) {
  switch (row.figure) {
    case ModelFigure::time: return row.measured * units::s;
    case ModelFigure::tokens_per_s: return p.tokens / row.measured * units::s;
    case ModelFigure::flop_rate: return p.flops / (row.measured * units::FLOP_per_s);
  }
  return Seconds{};
}

bool is_stack(const std::string& name) {
  const std::vector<std::string> known = stack_names();
  return std::find(known.begin(), known.end(), name) != known.end();
}

MachineKey key_of(const ModelRow& row, const ModelPricing& pricing) {
  MachineKey key{pricing.gpu.empty() ? row.gpu : pricing.gpu, {}, pricing.calibration_file, pricing.overrides};
  if (key.gpu.empty()) throw BadInput("expected --gpu, or a column gpu");
  key.options.stack = pricing.stack;
  if (pricing.rows_stack && is_stack(row.stack)) key.options.stack = StackChoice(row.stack);
  if (row.kernels) key.options.stack.kernels = row.kernels;
  if (!row.attention.empty()) key.options.stack.attention = row.attention;
  key.options.stack.host = row.host;
  key.options.clock = pricing.clock.value_or(row.clock);
  key.options.power_cap = row.power_cap;
  key.options.sm_clock = row.sm_clock;
  return key;
}

Machine floor_of(const MachineKey& key) {
  return machines().get({key.gpu, MachineOptions{"ideal"}, "", key.overrides});
}

void price(const ModelPricing& pricing, Predictor& predictor, ModelComparison& out) {
  const ModelRow& row = out.row;
  Comparison& c = out.compared;
  const MachineKey key = key_of(row, pricing);
  c.mode = key.options.stack.name;
  const Machine machine = machines().get(key);
  c.gpu = machine.gpu().name;
  const Llm llm = first_layers(row.model, row.layers);
  c.dtype = weight_format(llm, row.workload);
  need_room(llm, row, machine, pricing.reserve);
  const Predicted p = predicted(predictor, llm, row, machine);
  out.kind = p.kind;
  c.measured = measured_time(row, p);
  c.predicted = p.time;
  c.low = p.low;
  c.high = p.high;
  c.predicted_power = p.power;
  c.measured_power = row.measured_power;
  c.provenance = name(machine.provenance());
  c.roofline = predicted(predictor, llm, row, floor_of(key)).time;
  if (c.measured < c.roofline) {
    throw BadInput("measured faster than the roofline, " + format(c.roofline) + ": not all that the row says was run");
  }
}

std::vector<const Comparison*> modelled(const std::vector<ModelComparison>& rows) {
  std::vector<const Comparison*> out;
  for (const ModelComparison& row : rows) {
    if (row.compared.modelled()) out.push_back(&row.compared);
  }
  return out;
}

std::string in_percent(double ln) { return printed("%.1f", 100 * ln); }

}  // namespace

Workload settled_workload(const ModelRow& row, const Llm& llm, const Machine& machine) {
  Workload workload = row.workload;
  workload.fusion = row.fusion.value_or(machine.stack().fusion);
  workload.training.written_out = workload.phase == Phase::train && machine.stack().written_out_attention;
  workload.training.score_bytes = machine.stack().score_kept.in(units::B);
  workload.overlap = row.overlap.value_or(lowering::possible_overlap(machine.stack().overlap, llm, workload));
  return workload;
}

std::vector<ModelComparison> price_model_rows(const std::vector<ModelRow>& rows, const ModelPricing& pricing) {
  std::vector<ModelComparison> out;
  Predictor predictor;
  for (const ModelRow& row : rows) {
    ModelComparison& each = out.emplace_back();
    each.row = row;
    each.compared.op = "llm " + row.phase;
    each.compared.shape = model_row_text(row);
    each.compared.place = row.place;
    try {
      price(pricing, predictor, each);
    } catch (const Error& error) {
      each.compared.error = error.what();
    }
  }
  return out;
}

std::vector<ClassSummary> summarize_models(const std::vector<ModelComparison>& rows) {
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<const Comparison*>> classes;
  for (const Comparison* c : modelled(rows)) classes[{c->gpu, c->op, c->mode}].push_back(c);
  std::vector<ClassSummary> out;
  for (const auto& [key, members] : classes) {
    ClassSummary summary = summarize_class(members);
    std::tie(summary.gpu, summary.op, summary.mode) = key;
    summary.size = SizeClass::large;
    out.push_back(std::move(summary));
  }
  return out;
}

std::string models_table(const std::vector<ModelComparison>& rows) {
  using enum Columns::Align;
  Columns table({{"GPU"},
                 {"rows"},
                 {"stack"},
                 {"count", right},
                 {"median %", right},
                 {"p90 %", right},
                 {"MAPE %", right},
                 {"bias %", right},
                 {"in band %", right},
                 {"roofline %", right}});
  std::string worst;
  for (const ClassSummary& c : summarize_models(rows)) {
    table.add({c.gpu, c.op, c.mode, std::to_string(c.count), in_percent(c.median_error), in_percent(c.p90_error),
               in_percent(c.mape), printed("%+.1f", 100 * c.mean_bias), in_percent(c.within_band),
               in_percent(c.roofline_median_error)});
    worst += "  " + c.gpu + " " + c.mode + ": " + c.worst.shape + ": measured " + format(c.worst.measured) +
             ", predicted " + format(c.worst.predicted) + " (" + c.worst.place + ")\n";
  }
  std::string faults;
  for (const ModelComparison& row : rows) {
    if (!row.compared.modelled()) faults += "  " + row.compared.place + ": " + row.compared.error + "\n";
  }
  std::string text =
      table.text(2, {}) +
      "  errors: 100 x |ln(predicted / measured)|; bias: its mean, negative where predictions are too fast\n"
      "\nworst of each\n" +
      worst;
  if (!faults.empty()) text += "\nnot compared\n" + faults;
  return text;
}

std::string models_json(const std::vector<ModelComparison>& rows) {
  std::vector<FieldRecord> records;
  for (const ClassSummary& c : summarize_models(rows)) {
    records.push_back({{"gpu", c.gpu},
                       {"op", c.op},
                       {"stack", c.mode},
                       {"count", c.count},
                       {"median_error", c.median_error},
                       {"p90_error", c.p90_error},
                       {"mape", c.mape},
                       {"mean_bias", c.mean_bias},
                       {"within_band", c.within_band},
                       {"roofline_median_error", c.roofline_median_error},
                       {"worst", c.worst.place}});
  }
  return records_json("plumbline.validate.models.v1", "classes", records);
}

std::string models_csv(const std::vector<ModelComparison>& rows) {
  std::vector<FieldRecord> records;
  for (const ModelComparison& row : rows) {
    const Comparison& c = row.compared;
    const auto us = [&](Seconds t) -> FieldRecord::value_type::second_type {
      if (!c.modelled()) return std::monostate();
      return t.in(units::us);
    };
    records.push_back({{"place", c.place},
                       {"gpu", c.gpu},
                       {"stack", c.mode},
                       {"model", row.row.model},
                       {"phase", row.row.phase},
                       {"what", c.shape},
                       {"dtype", c.dtype},
                       {"measured_us", us(c.measured)},
                       {"predicted_us", us(c.predicted)},
                       {"low_us", us(c.low)},
                       {"high_us", us(c.high)},
                       {"roofline_us", us(c.roofline)},
                       {"provenance", c.provenance},
                       {"error", c.error}});
  }
  return records_csv(records);
}

}  // namespace plumbline
