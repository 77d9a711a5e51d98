// Power of a GPU that waits for its host between launches (data/measurements/h200/pytorch/waits.jsonl, steps.csv): what stands
// draws on, and the energy of the work is spread over the time that the host takes.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "model/machines.hpp"
#include "model/report/report.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"
#include "ops/whole_number.hpp"
#include "validate/record/step.hpp"
#include "validate/statistics.hpp"

namespace plumbline::waiting_power_test {
namespace {

const std::string kFolder = data_folder() + "/measurements/h200/pytorch/";

Machine machine_of(const std::string& stack, ClockMode clock, const std::string& host = "") {
  MachineOptions options{stack};
  options.clock = clock;
  options.stack.host = host;
  return machines().get({"h200_sxm", options});
}

/// Watts of a call every so many microseconds.
double paced(const OpPrediction& call, Watts still, double period_us) {
  return (still + (*call.energy - still * call.time) / (period_us * units::us)).in(units::W);
}

struct Waits {
  std::string name;
  double period = 0, measured_us = 0, watts = 0;
};

std::vector<Waits> recorded() {
  std::vector<Waits> out;
  std::istringstream lines(read_text_file(kFolder + "waits.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    if (!row.contains("watts")) continue;
    out.push_back({row["case"], row.value("period_us", 0.0), row["measured_us"], row["watts"]});
  }
  return out;
}

/// Predicted before it was run: every period of both products within 9 %, and a GPU that only waits.
TEST(WaitingPower, WorkOverThePaceOfTheHost) {
  const Machine machine = machine_of("hf-sdpa", ClockMode::burst);
  const Watts still = settled_power(*machine.rates().power, 1, Watts{});
  int rows = 0;
  for (const Waits& w : recorded()) {
    if (w.name == "idle") {
      EXPECT_NEAR(still.in(units::W), w.watts, 5);  // this card; the energies are of the mean of ten
    }
    if (w.name.rfind("mm ", 0) != 0 || w.period == 0 || w.name.find("zeros") != std::string::npos) continue;
    const std::string shape = w.name.substr(3, w.name.find(' ', 3) - 3);
    const OpPrediction call = predict(parse_op("gemm", "bf16", shape), machine);
    EXPECT_NEAR(std::log(paced(call, still, w.measured_us) / w.watts), 0, 0.09) << w.name;
    ++rows;
  }
  EXPECT_EQ(rows, 7);
}

/// Loops of steps launched one by one, at the pace that was recorded: the host's time is given, and only power is predicted.
TEST(WaitingPower, StepsAtTheirRecordedPace) {
  const std::string path = kFolder + "steps.csv";
  const std::string text = read_text_file(path);
  CsvReader reader(text, path);
  const CsvHeader header(reader);
  Predictor predictor;
  std::vector<double> errors;
  while (reader.next()) {
    const auto fields = reader.fields();
    const auto text_of = [&](const char* column) { return std::string(fields[header.require(column)]); };
    const std::string mode = text_of("mode"), phase = text_of("phase");
    // loops of 2.5 s; of the diffusion transformer the model whose config has these tokens
    if (text_of("file").rfind("compiled", 0) != 0 || text_of("watts").empty()) continue;
    if (mode != "sdpa" && mode != "eager" && mode != "compile") continue;
    if (phase == "denoise" && (text_of("model") != "dit-xl-2-256" || text_of("tokens") != "256")) continue;
    const std::string stack = mode == "compile" ? "torch-compile" : phase == "denoise" ? "diffusers" : "hf-" + mode;
    Workload w;
    w.phase = phase == "decode" ? Phase::decode : Phase::prefill;
    w.batch = *parse_whole(text_of("batch"));
    (phase == "decode" ? w.context : w.prompt) = *parse_whole(text_of("tokens"));
    w.fusion = Fusion::none;
    StepPrediction step;
    predictor.predict(first_layers(text_of("model"), *parse_whole(text_of("layers"))), w,
                      machine_of(stack, ClockMode::steady), RunOptions{Runtime::eager}, step);
    const Seconds wall = std::stod(text_of("wall_us")) * units::us;
    const Watts at_pace = *step.waiting_power + (*step.power - *step.waiting_power) * (step.latency / wall);
    errors.push_back(100 * std::abs(std::log(at_pace.in(units::W) / std::stod(text_of("watts")))));
  }
  EXPECT_GE(errors.size(), 15U);
  EXPECT_LE(median(errors), 6);
}

/// How fast the host is goes into the power as it goes into the time: a host that nobody measured leaves both open.
TEST(WaitingPower, AnUnknownHostWidensTheBand) {
  Workload w;
  w.phase = Phase::decode;
  w.context = 1024;
  w.fusion = Fusion::none;
  const Llm llm = first_layers("llama-3.1-8b", 8);
  const auto width = [&](const std::string& host) {
    StepPrediction step;
    Predictor().predict(llm, w, machine_of("hf-sdpa", ClockMode::steady, host), RunOptions{Runtime::eager}, step);
    EXPECT_TRUE(step.waits_for_host);
    const double low = *step.power_low / *step.power, high = *step.power_high / *step.power;
    const double at_low =
        (*step.waiting_power + (*step.power - *step.waiting_power) * (step.latency / step.low)) / *step.power;
    EXPECT_GE(high, at_low);  // at least what the time's band says
    return high / low;
  };
  EXPECT_GT(width(""), 1.1 * width("27.5us"));
}

}  // namespace
}  // namespace plumbline::waiting_power_test
