// Reads lists and recordings of whole steps.
#include <filesystem>
#include <set>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/words.hpp"
#include "ops/csv.hpp"
#include "validate/record/held_out.hpp"
#include "validate/record/measurement.hpp"
#include "validate/record/recorded_parts.hpp"
#include "validate/record/step.hpp"
#include "validate/record/study.hpp"

namespace plumbline {
namespace {

using namespace recorded;
constexpr const char* kStepSchema = "plumbline.steps.v1";

Phase read_phase(std::string_view text, const std::string& place) {
  if (text == "prefill") return Phase::prefill;
  if (text == "decode") return Phase::decode;
  if (text == "train") return Phase::train;
  throw BadInput(place + ": expected prefill, decode or train, found '" + std::string(text) + "'" +
                 did_you_mean(text, {"prefill", "decode", "train"}));
}

std::int64_t read_count(std::string_view text, const std::string& place) {
  std::int64_t value = 0;
  if (text.empty() || text.size() > 12) throw BadInput(place + ": expected a whole number");
  for (const char c : text) {
    if (c < '0' || c > '9') throw BadInput(place + ": expected a whole number, found '" + std::string(text) + "'");
    value = 10 * value + (c - '0');
  }
  return value;
}

void set_precision(std::string_view text, const std::string& place, Workload& w) {
  const auto precision = parse_precision(text);
  if (!precision) throw BadInput(place + ": expected bf16, fp16 or fp8, found '" + std::string(text) + "'");
  w.precision = *precision;
  w.precision_given = true;
}

MeasuredStepOp read_op(const JsonValue& v) {
  v.refuse_unknown_keys({"name", "op", "count", "time_s", "launches", "kernel"});
  MeasuredStepOp op;
  op.name = v.at("name").as_string();
  op.op = v.at("op").as_string();
  op.count = count(v.at("count"));
  op.time = positive(v.at("time_s")) * units::s;
  op.launches = count(v.at("launches"));
  op.kernel = v.at("kernel").as_string();
  return op;
}

StepRank read_rank(const JsonValue& v) {
  v.refuse_unknown_keys({"time_s", "sm_clock_Hz", "power_W"});
  StepRank rank;
  rank.time = positive(v.at("time_s")) * units::s;
  if (const auto clock = v.find("sm_clock_Hz")) rank.sm_clock = positive(*clock) * units::Hz;
  if (const auto power = v.find("power_W")) rank.power = positive(*power) * units::W;
  return rank;
}

StepCase read_step_case(const JsonValue& v) {
  StepCase what;
  what.model = v.at("model").as_string();
  Workload& w = what.workload;
  w.phase = read_phase(v.at("phase").as_string(), v.at("phase").place());
  w.batch = count(v.at("batch"));
  if (w.phase == Phase::decode) w.context = count(v.at("context"));
  else w.prompt = count(v.at("prompt"));
  if (const auto page = v.find("page")) w.page = count(*page);
  if (const auto type = v.find("dtype")) set_precision(type->as_string(), type->place(), w);
  if (const auto tensor = v.find("tp")) w.parallel.tensor = count(*tensor);
  if (const auto replicas = v.find("dp")) w.parallel.data = count(*replicas);
  if (const auto sequence = v.find("sp")) w.parallel.sequence = sequence->as_bool();
  if (const auto layers = v.find("layers")) what.layers = count(*layers);
  what.clock = read_clock_mode(v.at("clock").as_string(), v.at("clock").place());
  if (const auto flag = v.find("held_out")) what.held_out = flag->as_bool();
  what.study = v.at("study").as_string();
  what.place = v.at("place").as_string();
  check(w);
  return what;
}

void refuse_unknown_step_keys(const JsonValue& v) {
  v.refuse_unknown_keys({"model",
                         "phase",
                         "batch",
                         "context",
                         "prompt",
                         "page",
                         "dtype",
                         "tp",
                         "dp",
                         "sp",
                         "layers",
                         "ranks",
                         "clock",
                         "study",
                         "place",
                         "held_out",
                         "fault",
                         "time_s",
                         "low_s",
                         "high_s",
                         "samples",
                         "traced_s",
                         "sm_clock_Hz",
                         "board_clock_Hz",
                         "memory_clock_Hz",
                         "power_W",
                         "memory_power_W",
                         "temperature_C",
                         "clock_event_reasons",
                         "memory_used_B",
                         "pcie_tx_B_per_s",
                         "pcie_rx_B_per_s",
                         "nvlink_tx_B_per_s",
                         "nvlink_rx_B_per_s",
                         "energy_J",
                         "memory_B",
                         "ops"});
}

/// One entry a rank, as many as work together on the step.
std::vector<StepRank> read_ranks(const JsonValue& list, std::int64_t expected) {
  std::vector<StepRank> ranks;
  for (const JsonValue& rank : list.elements()) ranks.push_back(read_rank(rank));
  if (static_cast<std::int64_t>(ranks.size()) != expected) {
    list.fail("expected one for each of " + std::to_string(expected) + " GPUs");
  }
  return ranks;
}

StepMeasurement read_step(const JsonValue& v) {
  refuse_unknown_step_keys(v);
  StepMeasurement m;
  m.what = read_step_case(v);
  if (const auto fault = v.find("fault")) {
    m.fault = fault->as_string();
    if (m.fault.empty()) fault->fail("expected why there is no time, found \"\"");
    return m;
  }
  m.time = positive(v.at("time_s")) * units::s;
  m.low = positive(v.at("low_s")) * units::s;
  m.high = positive(v.at("high_s")) * units::s;
  if (m.low > m.time || m.time > m.high) v.at("time_s").fail("expected low_s <= time_s <= high_s");
  m.samples = static_cast<int>(count(v.at("samples")));
  if (const auto traced = v.find("traced_s")) m.traced = positive(*traced) * units::s;
  m.conditions = read_conditions(v);
  if (const auto energy = v.find("energy_J")) m.energy = positive(*energy) * units::J;
  m.memory_B = not_negative(v.at("memory_B"));
  if (const auto ranks = v.find("ranks")) m.ranks = read_ranks(*ranks, m.what.workload.parallel.ranks());
  for (const JsonValue& op : v.at("ops").elements()) m.ops.push_back(read_op(op));
  return m;
}

}  // namespace

std::string step_text(const StepCase& what) {
  const Workload& w = what.workload;
  std::string text =
      what.model + " " + std::string(word_of(kPhaseWords, w.phase)) + " batch=" + std::to_string(w.batch);
  if (w.phase == Phase::decode) {
    text += " context=" + std::to_string(w.context) + " page=" + std::to_string(w.page);
  } else {
    text += " prompt=" + std::to_string(w.prompt);
  }
  if (w.precision_given) text += " " + std::string(name(w.precision));
  if (w.parallel.tensor > 1) text += " tp=" + std::to_string(w.parallel.tensor);
  if (w.parallel.data > 1) text += " dp=" + std::to_string(w.parallel.data);
  if (w.parallel.sequence) text += " sp";
  if (what.layers > 0) text += " layers=" + std::to_string(what.layers);
  return text + ", " + std::string(text_of(what.clock));
}

Llm first_layers(const std::string& model, std::int64_t layers) {
  Llm llm = load_llm(model);
  if (layers == 0) return llm;
  StackSpec& main = llm.stacks.front();
  const auto there = static_cast<std::int64_t>(main.order.size());
  if (layers < 0 || layers > there) {
    throw BadInput("layers " + std::to_string(layers) + ": expected 1 to " + std::to_string(there) + ", as many as " +
                   model + " has");
  }
  main.order.resize(static_cast<std::size_t>(layers));
  return llm;
}

std::string step_node_name(const Node& node) {
  return node.pass == Pass::backward ? std::string(node.name) + " (bwd)" : std::string(node.name);
}

Llm step_llm(const StepCase& what) { return first_layers(what.model, what.layers); }

bool is_step_study(std::string_view csv, const std::string& place) {
  CsvReader reader(csv, place);
  const CsvHeader header(reader);
  return header.find("model").has_value();
}

std::vector<StepCase> parse_step_study(std::string_view csv, const std::string& place) {
  CsvReader reader(csv, place);
  const CsvHeader header(reader);
  const std::size_t model = header.require("model"), phase = header.require("phase"), batch = header.require("batch");
  const auto context = header.find("context"), prompt = header.find("prompt"), page = header.find("page"),
             clock = header.find("clock"), study = header.find("study"), dtype = header.find("dtype"),
             tensor = header.find("tp"), replicas = header.find("dp"), sequence = header.find("sp"),
             layers = header.find("layers"), held_out = header.find("held_out");
  const std::filesystem::path file(place);
  std::vector<StepCase> cases;
  std::set<std::string> seen;
  while (reader.next()) {
    const auto fields = reader.fields();
    const std::string row = place + ":" + std::to_string(reader.line());
    if (fields.size() != header.size()) {
      throw BadInput(row + ": expected " + std::to_string(header.size()) + " fields, found " +
                     std::to_string(fields.size()));
    }
    const auto given = [&](const auto& column) { return column && !fields[*column].empty(); };
    StepCase& what = cases.emplace_back();
    Workload& w = what.workload;
    what.model = fields[model];
    w.phase = read_phase(fields[phase], row + ": phase");
    w.batch = read_count(fields[batch], row + ": batch");
    const bool decode = w.phase == Phase::decode;
    if (given(context) != decode) throw BadInput(row + ": expected a context in decode, and only there");
    if (given(prompt) == decode) throw BadInput(row + ": expected a prompt in prefill and training, and only there");
    if (decode) w.context = read_count(fields[*context], row + ": context");
    else w.prompt = read_count(fields[*prompt], row + ": prompt");
    if (given(page)) w.page = read_count(fields[*page], row + ": page");
    if (given(dtype)) set_precision(fields[*dtype], row + ": dtype", w);
    if (given(tensor)) w.parallel.tensor = read_count(fields[*tensor], row + ": tp");
    if (given(replicas)) w.parallel.data = read_count(fields[*replicas], row + ": dp");
    if (w.parallel.data > 1 && w.phase != Phase::train) throw BadInput(row + ": expected dp in training alone");
    w.parallel.sequence = given(sequence) && read_held_out_flag(fields[*sequence], row + ": sp");
    if (given(layers)) what.layers = read_count(fields[*layers], row + ": layers");
    if (given(clock)) what.clock = read_clock_mode(fields[*clock], row + ": clock");
    what.held_out = held_out && read_held_out_flag(fields[*held_out], row + ": held_out");
    what.study = given(study) ? std::string(fields[*study]) : file.stem().string();
    what.place = file.filename().string() + ":" + std::to_string(reader.line());
    check(w);
    if (!seen.insert(step_text(what)).second) {
      throw BadInput(row + ": expected each step once, found " + step_text(what) + " again");
    }
  }
  if (cases.empty()) throw BadInput(place + ": expected steps, found none");
  return cases;
}

bool is_step_recording(const std::string& json_text) {
  return json_text.substr(0, 200).find(kStepSchema) != std::string::npos;
}

StepRecording parse_step_recording(const std::string& json_text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json_text, place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"schema", "session", "steps"});
  if (root.at("schema").as_string() != kStepSchema) {
    root.at("schema").fail(std::string("expected \"") + kStepSchema + "\"");
  }
  StepRecording recording;
  recording.session = read_session(root.at("session"));
  std::set<std::string> seen;
  for (const JsonValue& v : root.at("steps").elements()) {
    recording.steps.push_back(read_step(v));
    const std::string text = step_text(recording.steps.back().what);
    if (!seen.insert(text).second) v.fail("expected each step once, found " + text + " again");
  }
  return recording;
}

}  // namespace plumbline
