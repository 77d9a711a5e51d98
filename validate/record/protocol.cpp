#include "validate/record/protocol.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <variant>

#include "arch/files.hpp"
#include "arch/json_reader.hpp"
#include "model/engine/rates.hpp"
#include "model/predictor/power_clock.hpp"
#include "model/words.hpp"
#include "ops/plan/peer_plan.hpp"

namespace plumbline {
namespace {

/// Of one call.
struct OperandBytes {
  Bytes inputs, weights, output;
};

OperandBytes operands_of(const Gemm& s) {
  const auto size = [&s](std::int64_t rows, std::int64_t cols, DType type) {
    return static_cast<double>(s.batch * rows) * static_cast<double>(cols) * bytes_of(type) * units::B;
  };
  return {size(s.m, s.k, s.precision.input), size(s.n, s.k, s.precision.weight), size(s.m, s.n, s.precision.output)};
}

OperandBytes operands_of(const GemmDynamic& s) {
  const auto size = [](std::int64_t rows, std::int64_t cols, DType type) {
    return storage(type, static_cast<double>(rows) * static_cast<double>(cols));
  };
  const Bytes rounded = size(s.m, s.k, s.precision.input);
  return {size(s.m, s.k, s.precision.output) + rounded, size(s.n, s.k, s.precision.weight),
          size(s.m, s.n, s.precision.output)};
}

/// Of a mixture of experts: `inputs` the tokens and logits, `weights` those of experts with a token.
OperandBytes operands_of(const Moe& s) {
  const ExpertRows rows = expert_rows(s);
  const auto d = [](std::int64_t n) { return static_cast<double>(n); };
  const double tokens = d(s.tokens), weights = rows.touched() * d(s.matrices) * d(s.hidden) * d(s.own_width());
  return {storage(s.precision.output, tokens * d(s.hidden + s.experts)), storage(s.precision.weight, weights),
          storage(s.precision.output, tokens * d(s.hidden))};
}

double copies_of(const Protocol& p, const OperandBytes& o, const Rates& m) {
  if (p.fill_l2 <= 0) return p.most_copies;
  const Bytes turns = p.rotates_all ? o.inputs + o.weights + o.output : o.weights;
  return std::clamp(std::ceil(p.fill_l2 * m.gpu.l2.size / turns), p.least_copies, p.most_copies);
}

CollectiveChoice collective_of(const JsonValue& value) {
  for (const auto& word : kCollectiveWords) {
    if (word.text == value.as_string()) return word.value;
  }
  value.fail("expected a word of --collective, found '" + value.as_string() + "'");
}

/// How far the regulator has come, mean over the timed replays: it closes in on the steady clock exponentially.
double regulated(const Protocol& p, Seconds replay, const Rates& m) {
  if (m.regulator_lag <= Seconds{}) return 0;
  const double from = p.warm_up * replay / m.regulator_lag, to = (p.warm_up + p.runs) * replay / m.regulator_lag;
  return 1 - (std::exp(-from) - std::exp(-to)) / (to - from);
}

/// `time` of a call, of whose replays each takes `replay`, at the clock that the regulator has reached meanwhile. Leaves
/// `scratch` at the last clock that was tried.
Seconds held_down(Seconds time, Seconds replay, const Protocol& p, const Rates& m, OpPrediction& scratch) {
  if (m.clock_mode != ClockMode::burst || !m.power || scratch.power <= m.power_cap) return time;
  const double way = regulated(p, replay, m);
  settle(scratch, m);
  scratch.low *= scratch.time / time;
  scratch.high *= scratch.time / time;
  return time * std::pow(scratch.time / time, way);
}

template <class Shape>
Resident resident(const Shape& s, const Protocol& p, const Machine& machine) {
  const Rates& m = machine.rates();
  const OperandBytes o = operands_of(s);
  const double copies = copies_of(p, o, m);
  const Bytes call = o.inputs + o.weights + o.output;
  Resident out;
  if (p.rotates_all) {
    out.inputs = out.weights = out.output = m.still_held(copies * call);
    return out;
  }
  out.inputs = out.output = m.still_held(call);
  out.weights = m.still_held(o.inputs + copies * o.weights + o.output);
  return out;
}

/// Whether the scalars of an operator's kernels were fitted to such rows as if operands came from memory, on this card or
/// one of its generation. Elsewhere L2 and memory stand to each other as nowhere there.
bool scalars_know(const Protocol& p, const Machine& machine) {
  const Provenance nearest = machine.provenance();
  return p.scalars_know && (nearest == Provenance::measured || nearest == Provenance::same_generation);
}

/// Calls that take turns on operands of their own, and what the regulator does meanwhile.
template <class Shape>
Seconds timed_by_turns(const Shape& shape, const Op& op, const Protocol& p, const Machine& machine,
                       Predictor& predictor, OpPrediction& scratch) {
  const Rates& m = machine.rates();
  PredictOptions options;
  options.resident = resident(shape, p, machine);
  predictor.predict(op, machine, scratch, options);
  Seconds time = scratch.time;
  const double copies = copies_of(p, operands_of(shape), m);
  if (bits(shape.precision.math) != p.zeros_of_bits) time = held_down(time, copies * time, p, m, scratch);
  return time + p.between_graphs / copies;
}

/// A call that a program issues anew each time.
Seconds issued_by_host(const Op& op, const Protocol& p, const Machine& machine, Predictor& predictor,
                       OpPrediction& scratch) {
  predictor.predict(op, machine, scratch, PredictOptions{});
  const Seconds time = std::max(scratch.time, p.host_call);
  scratch.low =
      std::max(scratch.low, p.host_call_low) * (scratch.time / time);  // callers scale both ends to the row's time
  scratch.high = std::max(scratch.high, p.host_call_high) * (scratch.time / time);
  return time;
}

/// A layer of an engine, between two events.
Seconds timed_as_layer(const Op& op, const Protocol& p, const Machine& machine, Predictor& predictor,
                       OpPrediction& scratch) {
  PredictOptions options;
  if (const auto* gemm = std::get_if<Gemm>(&op))
    options.resident.inputs = machine.rates().still_held(operands_of(*gemm).inputs);
  predictor.predict(op, machine, scratch, options);
  const Seconds time = scratch.time + p.around_layer;
  // what lies around is no less sure than it was: both ends move by it, as parts of the row's time, which callers scale them to
  for (Seconds* end : {&scratch.low, &scratch.high}) *end = (*end + p.around_layer) * (scratch.time / time);
  return time;
}

/// How a benchmark goes through copies of its operands.
void read_rotation(const JsonValue& rule, Protocol& p) {
  p.known = true;
  const std::string rotates = rule.at("rotates").as_string();
  if (rotates != "weights" && rotates != "operands")
    rule.fail("expected rotates weights or operands, found " + rotates);
  p.rotates_all = rotates == "operands";
  p.least_copies = rule.at("least_copies").as_number();
  p.most_copies = rule.at("most_copies").as_number();
  p.fill_l2 = rule.at("fill_l2").as_number();
  p.warm_up = rule.at("warm_up").as_number();
  p.runs = rule.at("runs").as_number();
  p.between_graphs = rule.at("between_graphs_s").as_number() * units::s;
  p.zeros_of_bits = rule.has("zeros_of_bits") ? rule.at("zeros_of_bits").as_number() : 0;
  p.scalars_know = rule.has("scalars_know") && rule.at("scalars_know").as_bool();
  if (p.least_copies < 1 || p.most_copies < p.least_copies || p.runs < 1 || p.warm_up < 0)
    rule.fail("expected 1 <= least_copies <= most_copies, runs >= 1, warm_up >= 0");
}

}  // namespace

Resident resident_of(const Gemm& s, const Protocol& p, const Machine& machine) { return resident(s, p, machine); }

Seconds predict_as_timed(const Op& op, const Protocol& p, const Machine& machine, Predictor& predictor,
                         OpPrediction& scratch) {
  const Rates& m = machine.rates();
  if (p.alone) {
    PredictOptions options;
    options.alone = true;
    options.queued = p.queued;
    options.collective = p.collective;
    predictor.predict(op, machine, scratch, options);
    if (p.queued) {
      const Seconds gaps = scratch.launch_count * (m.gap_stream - m.gap_graph);
      for (Seconds* t : {&scratch.time, &scratch.low, &scratch.high}) *t += gaps;
    }
    return scratch.time;
  }
  if (p.around_layer > Seconds{}) return timed_as_layer(op, p, machine, predictor, scratch);
  if (p.host_call > Seconds{}) return issued_by_host(op, p, machine, predictor, scratch);
  if (p.known && machine.kernels() == KernelSet::library) {
    if (const auto* gemm = std::get_if<Gemm>(&op)) return timed_by_turns(*gemm, op, p, machine, predictor, scratch);
    if (const auto* rounds = std::get_if<GemmDynamic>(&op)) {
      return timed_by_turns(*rounds, op, p, machine, predictor, scratch);
    }
    if (const auto* moe = std::get_if<Moe>(&op)) return timed_by_turns(*moe, op, p, machine, predictor, scratch);
  }
  PredictOptions options;
  const bool in_turns =
      p.known && p.rotates_all && machine.kernels() == KernelSet::library && !scalars_know(p, machine);
  options.warm = in_turns;  // every call has the same operands
  predictor.predict(op, machine, scratch, options);
  if (!in_turns) return scratch.time;
  const bool attention = std::holds_alternative<AttentionPrefill>(op) && p.most_copies <= 1;
  const Seconds time = scratch.time;
  return (attention ? held_down(time, time, p, m, scratch) : time) + p.between_graphs / p.most_copies;
}

Protocol timed_among_gpus(const Op& op, std::string_view stack, std::string_view kernel) {
  const auto* collective = std::get_if<Collective>(&op);
  if (collective == nullptr || stack != "own") return {};
  const std::string_view named = kernel.substr(0, kernel.find('.'));
  Protocol p;
  for (const PeerAlgorithm each : {PeerAlgorithm::one_shot, PeerAlgorithm::two_shot}) {
    if (named != kernel_name(collective->kind, each)) continue;
    p.known = p.alone = true;
    p.collective = each == PeerAlgorithm::one_shot ? CollectiveChoice::one_shot : CollectiveChoice::two_shot;
  }
  return p;
}

void leave_out_gaps(const Op& op, const Protocol& p, const Machine& machine, OpPrediction& out) {
  Seconds left_out;
  if (p.without_clears) {
    for (int i = 0; i < out.launch_count; ++i) left_out += out.launches[static_cast<std::size_t>(i)].demand.gaps;
  } else {
    const auto* gemm = std::get_if<Gemm>(&op);
    if (gemm == nullptr || bits(gemm->precision.math) != p.own_times_of_bits || out.launch_count != 1) return;
    left_out = machine.rates().gap_graph + out.launches[0].demand.gaps;
  }
  const double share = 1 - left_out / out.time;
  for (Seconds* t : {&out.time, &out.low, &out.high}) *t *= share;
}

Protocols Protocols::beside(const std::string& measurement_file) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(measurement_file).parent_path();
  const fs::path published = fs::path(data_folder()) / "measurements" / "aiconfigurator";
  for (const fs::path& tried : {folder, folder.parent_path(), published}) {
    const fs::path file = tried / "protocol.json";
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) continue;
    const JsonDocument document = JsonDocument::read_file(file.string());
    return Protocols(document.root());
  }
  return {};
}

Protocols Protocols::parse(const std::string& json, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json, place);
  return Protocols(document.root());
}

Protocols::Protocols(const JsonValue& root) {
  root.refuse_unknown_keys({"schema", "what", "source", "rules"});
  for (const JsonValue& rule : root.at("rules").elements()) {
    if (rule.has("alone")) {
      rule.refuse_unknown_keys({"op", "stack", "alone", "queued", "collective", "why"});
      Rule read{rule.at("op").as_string(), rule.at("stack").as_string(), {}};
      read.protocol.known = read.protocol.alone = rule.at("alone").as_bool();
      read.protocol.queued = rule.has("queued") && rule.at("queued").as_bool();
      if (rule.has("collective")) read.protocol.collective = collective_of(rule.at("collective"));
      rules_.push_back(std::move(read));
      continue;
    }
    if (rule.has("own_times_of_bits")) {
      rule.refuse_unknown_keys({"op", "stack", "own_times_of_bits", "why"});
      Rule read{rule.at("op").as_string(), rule.at("stack").as_string(), {}};
      read.protocol.own_times_of_bits = rule.at("own_times_of_bits").as_number();
      rules_.push_back(std::move(read));
      continue;
    }
    if (rule.has("without_clears")) {
      rule.refuse_unknown_keys({"op", "stack", "without_clears", "why"});
      Rule read{rule.at("op").as_string(), rule.at("stack").as_string(), {}};
      read.protocol.without_clears = rule.at("without_clears").as_bool();
      rules_.push_back(std::move(read));
      continue;
    }
    if (rule.has("host_call_s")) {
      rule.refuse_unknown_keys({"op", "stack", "host_call_s", "host_call_low_s", "host_call_high_s", "why"});
      Rule read{rule.at("op").as_string(), rule.at("stack").as_string(), {}};
      read.protocol.known = true;
      read.protocol.host_call = rule.at("host_call_s").as_number() * units::s;
      read.protocol.host_call_low = rule.at("host_call_low_s").as_number() * units::s;
      read.protocol.host_call_high = rule.at("host_call_high_s").as_number() * units::s;
      rules_.push_back(std::move(read));
      continue;
    }
    if (rule.has("around_layer_s")) {
      rule.refuse_unknown_keys({"op", "stack", "narrow", "around_layer_s", "why"});
      Rule read{rule.at("op").as_string(), rule.at("stack").as_string(), {}};
      read.narrow = rule.has("narrow") && rule.at("narrow").as_bool();
      read.protocol.known = true;
      read.protocol.around_layer = rule.at("around_layer_s").as_number() * units::s;
      rules_.push_back(std::move(read));
      continue;
    }
    rule.refuse_unknown_keys({"op", "stack", "rotates", "least_copies", "most_copies", "fill_l2", "warm_up", "runs",
                              "between_graphs_s", "scalars_know", "zeros_of_bits", "batched", "why"});
    Rule read{rule.at("op").as_string(), rule.at("stack").as_string(), {}};
    read.batched = rule.has("batched") && rule.at("batched").as_bool();
    read_rotation(rule, read.protocol);
    rules_.push_back(std::move(read));
  }
}

Protocol Protocols::of(const std::string& op, const std::string& stack, bool batched, bool narrow) const {
  for (const Rule& rule : rules_) {
    if ((rule.batched && !batched) || (rule.narrow && !narrow)) continue;
    if (rule.op == op && stack.rfind(rule.stack, 0) == 0) return rule.protocol;
  }
  return {};
}

Protocol Protocols::of(const Op& op, const std::string& stack) const {
  const auto* const product = std::get_if<Gemm>(&op);
  const bool narrow = product != nullptr && bits(product->precision.weight) <= 8;
  return of(std::string(op_name(op)), stack, product != nullptr && product->batch > 1, narrow);
}

}  // namespace plumbline
