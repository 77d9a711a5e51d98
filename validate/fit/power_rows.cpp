// Where rows for the power fit come from, and the table that holds the fit against rows it has not seen.
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/predict.hpp"
#include "ops/plan/text.hpp"
#include "ops/table/text.hpp"
#include "validate/compare/busy.hpp"
#include "validate/fit/fit_power.hpp"
#include "validate/record/measurement_csv.hpp"
#include "validate/record/study.hpp"
#include "validate/records.hpp"
#include "validate/statistics.hpp"

namespace plumbline {
namespace {

PowerRow row_of(const Measurement& m, KernelSet kernels) {
  PowerRow row;
  row.op = m.what.op;
  row.warm = m.warm();
  row.data = m.what.data;
  row.kernels = kernels;
  row.clock = m.what.clock;
  row.time = m.time;
  row.power = m.power();
  row.sm_clock = m.conditions.sm_clock;
  row.busy = busy_share(m);
  row.board_clock = m.conditions.board_clock;
  row.memory_power = m.conditions.memory_power;
  row.temperature_C = m.conditions.temperature_C;
  if (kernels == KernelSet::own) {
    row.gemm_plan = parse_gemm_plan(m.plan);
    row.attention_plan = parse_attention_plan(m.plan);
  }
  row.held_out = m.held_out;
  row.place = m.what.place;
  return row;
}

void add_recording(const std::string& file, std::vector<PowerRow>& rows) {
  for (const Measurement& m : read_recording(file).cases) {
    if (!m.fault.empty()) continue;
    rows.push_back(row_of(m, m.kernels));
    rows.back().card = file;
    rows.back().text = case_text(m.what) + (m.kernels == KernelSet::library ? ", library" : "");
  }
}

/// Rows that say neither their power nor that they were steady teach nothing.
void add_csv(const std::string& file, KernelSet kernels, const std::string& gpu, std::vector<PowerRow>& rows) {
  Measurements measured;
  read_measurement_file(file, {}, measured);
  for (const Measurement& m : measured.rows) {
    if (!m.published_power || m.what.clock != ClockMode::steady) continue;
    if (!m.origin.gpu.empty() && m.origin.gpu != gpu) continue;
    rows.push_back(row_of(m, kernels));
    rows.back().text = std::string(op_name(m.what.op)) + " " + std::string(dtype_text(m.what.op)) + " " + m.what.shape;
  }
}

/// Errors of one class of work.
struct ClassErrors {
  std::vector<double> time, power, clock, bias;
  long rows = 0;
};

void add(ClassErrors& to, const PowerRow& row, const OpPrediction& p) {
  ++to.rows;
  to.time.push_back(std::abs(std::log(p.time / row.time)));
  if (row.power && p.power) {
    to.bias.push_back(std::log(*p.power / *row.power));
    to.power.push_back(std::abs(to.bias.back()));
  }
  if (row.sm_clock) to.clock.push_back(std::abs(std::log(p.clock / *row.sm_clock)));
}

std::optional<double> quantile_of(const std::vector<double>& errors, double at) {
  return errors.empty() ? std::nullopt : std::optional(quantile(errors, at));
}

PowerClass summary(const std::string& name, const ClassErrors& c) {
  return {name,
          c.rows,
          {quantile_of(c.time, 0.5), quantile_of(c.time, 0.9)},
          {quantile_of(c.power, 0.5), quantile_of(c.power, 0.9)},
          {quantile_of(c.clock, 0.5), quantile_of(c.clock, 0.9)},
          quantile_of(c.bias, 0.5)};
}

std::string cell(const std::optional<double>& error) {
  if (!error) return "       -";
  char text[32];
  std::snprintf(text, sizeof text, "%6.1f %%", 100 * *error);
  return text;
}

std::string line(const PowerClass& c) {
  char text[64];
  std::snprintf(text, sizeof text, "%-34s %5ld ", c.name.c_str(), c.rows);
  std::string out = text;
  for (const PowerClass::Errors& errors : {c.time, c.power, c.clock}) {
    out += cell(errors.median) + cell(errors.p90) + "  ";
  }
  return out + cell(c.power_bias) + "\n";
}

std::vector<FieldRecord> records_of(const std::vector<PowerClass>& classes) {
  std::vector<FieldRecord> records;
  for (const PowerClass& c : classes) {
    FieldRecord& record = records.emplace_back(FieldRecord{{"class", c.name}, {"rows", c.rows}});
    const auto add = [&record](const char* name, const std::optional<double>& error) {
      if (error) record.emplace_back(name, *error);
      else record.emplace_back(name, std::monostate());
    };
    add("time_median_abs_ln", c.time.median);
    add("time_p90_abs_ln", c.time.p90);
    add("power_median_abs_ln", c.power.median);
    add("power_p90_abs_ln", c.power.p90);
    add("clock_median_abs_ln", c.clock.median);
    add("clock_p90_abs_ln", c.clock.p90);
    add("power_bias_median_ln", c.power_bias);
  }
  return records;
}

std::string class_of(const PowerRow& row, const OpPrediction& p) {
  std::string text(op_name(row.op));
  text += ' ';
  text += p.bound == Bound::compute ? "compute" : p.bound == Bound::memory ? (row.warm ? "L2" : "memory") : "latency";
  if (row.data != DataPattern::normal) (text += ' ') += name(row.data);
  return text;
}

}  // namespace

PredictOptions options_of(const PowerRow& row) {
  return {.warm = row.warm,
          .gemm_plan = row.gemm_plan ? &*row.gemm_plan : nullptr,
          .attention_plan = row.attention_plan ? &*row.attention_plan : nullptr};
}

std::vector<PowerRow> read_power_rows(const std::vector<std::string>& files, KernelSet csv_kernels,
                                      const std::string& gpu) {
  std::vector<PowerRow> rows;
  for (const std::string& file : files) {
    const bool json = file.size() > 5 && file.compare(file.size() - 5, 5, ".json") == 0;
    if (json) add_recording(file, rows);
    else add_csv(file, csv_kernels, gpu, rows);
  }
  return rows;
}

std::optional<PowerRow> while_busy(const Gpu& gpu, const Calibration& calibration, const PowerRow& row) {
  constexpr double kLeastBusy = 0.9;
  if (row.clock != ClockMode::steady || !row.power || row.busy >= 1) return row;
  if (row.busy < kLeastBusy) return std::nullopt;
  const auto& power = calibration.power;
  const bool known = power.count("constant_W") > 0 && power.count("clocked_W") > 0;
  const Watts waiting =
      known ? (power.at("constant_W").value + power.at("clocked_W").value) * units::W : gpu.idle_power;
  PowerRow busy = row;
  busy.power = without_waits(*row.power, row.busy, waiting);
  return busy;
}

namespace {

double middle(const std::vector<double>& errors) { return errors.empty() ? 0 : median(errors); }

}  // namespace

void for_steady_rows(const Gpu& gpu, const Calibration& calibration, const std::vector<PowerRow>& rows,
                     const PowerTableOptions& options,
                     const std::function<void(const PowerRow&, const OpPrediction&)>& visit) {
  std::map<std::pair<KernelSet, DataPattern>, std::optional<Machine>> machines;
  const auto prediction = std::make_unique<OpPrediction>();
  Predictor predictor;
  for (const PowerRow& as_read : rows) {
    if (as_read.clock != ClockMode::steady || !as_read.power || as_read.time < options.at_least) continue;
    const std::optional<PowerRow> busy = while_busy(gpu, calibration, as_read);
    if (!busy) continue;
    const PowerRow& row = *busy;
    const double load = *row.power / gpu.tdp;
    if (load < options.least_power || load > options.most_power) continue;
    auto& machine = machines[{row.kernels, row.data}];
    try {
      if (!machine) {
        machine =
            make_machine(gpu, calibration, MachineOptions{usual_stack(row.kernels), ClockMode::steady, {}, row.data});
      }
      predictor.predict(row.op, *machine, *prediction, options_of(row));
    } catch (const NotModelled&) {
      continue;
    }
    visit(row, *prediction);
  }
}

std::vector<PowerClass> power_classes(const Gpu& gpu, const Calibration& calibration, const std::vector<PowerRow>& rows,
                                      const PowerTableOptions& options) {
  std::map<std::string, ClassErrors> classes;
  ClassErrors all;
  for_steady_rows(gpu, calibration, rows, options, [&](const PowerRow& row, const OpPrediction& p) {
    add(classes[class_of(row, p)], row, p);
    add(all, row, p);
  });
  std::vector<PowerClass> out;
  for (const auto& [name, errors] : classes) out.push_back(summary(name, errors));
  out.push_back(summary("all", all));
  return out;
}

std::string power_table(const std::vector<PowerClass>& classes) {
  std::string out =
      "class                               rows    time median, p90   power median, p90   clock median, p90"
      "  power bias\n";
  for (const PowerClass& c : classes) out += line(c);
  return out;
}

std::string power_csv(const std::vector<PowerClass>& classes) { return records_csv(records_of(classes)); }

std::string power_json(const std::vector<PowerClass>& classes) {
  return records_json("plumbline.validate.power.v1", "classes", records_of(classes));
}

PowerErrors power_errors(const Gpu& gpu, const Calibration& calibration, const std::vector<PowerRow>& rows,
                         const PowerTableOptions& options) {
  ClassErrors all;
  for_steady_rows(gpu, calibration, rows, options,
                  [&](const PowerRow& row, const OpPrediction& p) { add(all, row, p); });
  return {all.rows, middle(all.time), middle(all.power), middle(all.clock)};
}

}  // namespace plumbline
