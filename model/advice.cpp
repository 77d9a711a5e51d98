#include "model/advice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <variant>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "model/engine/rates.hpp"
#include "model/predictor/predict_internal.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kWholeUnit = 16;  // bytes: a 16-byte load, the step of a tensor map's strides

/// "784 us, x0.29".
std::string answer(Seconds after, Seconds before) {
  char factor[16];
  std::snprintf(factor, sizeof factor, "x%.2f", after / before);
  return format(after) + ", " + factor;
}

/// One of a GEMM's sizes.
struct Side {
  const char* name;
  std::int64_t Gemm::*size;
};
constexpr Side kRows{"M", &Gemm::m}, kColumns{"N", &Gemm::n}, kDepth{"K", &Gemm::k};

std::string resized(const Side& side, const Gemm& before, const Gemm& after) {
  return std::string(side.name) + " " + std::to_string(before.*side.size) + " -> " + std::to_string(after.*side.size);
}

/// Whether one of the stack's kernels takes another shape, and what it takes.
bool priced(const Op& op, const Machine& machine, Predictor& predictor, OpPrediction& out) {
  try {
    predictor.predict(op, machine, out);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The time of another shape; nothing where none of the stack's kernels takes it.
std::optional<Seconds> time_of(const Op& op, const Machine& machine, Predictor& predictor,
                               const PredictOptions& options) {
  try {
    return predictor.predict(op, machine, options).time;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::int64_t whole_rows(std::int64_t elements, DType type) {
  const std::int64_t unit = static_cast<std::int64_t>(kWholeUnit / (bits(type) / 8.0));
  return (elements + unit - 1) / unit * unit;
}

/// Rows of K (inputs, and weights that lie so) and of N (results, and weights that lie so) rounded up to 16 bytes.
Gemm padded(const Gemm& s) {
  Gemm out = s;
  const DType narrow = bits(s.precision.weight) < bits(s.precision.input) ? s.precision.weight : s.precision.input;
  out.k = whole_rows(s.k, narrow);
  out.n = whole_rows(s.n, s.layout != WeightLayout::nk ? narrow : s.precision.output);
  return out;
}

/// "pad K 700 -> 704"; empty where nothing is to be padded.
std::string padding(const Gemm& before, const Gemm& after) {
  std::string text;
  for (const Side& side : {kColumns, kDepth}) {
    if (before.*side.size != after.*side.size) text += (text.empty() ? "pad " : ", ") + resized(side, before, after);
  }
  return text;
}

constexpr const char* kWhyPad =
    ": rows that are no multiple of 16 bytes have no tensor map and no 16-byte loads, so that older kernels fetch them "
    "in small pieces";

void advise_padding(const Gemm& s, const OpPrediction& p, const Machine& machine, Predictor& predictor,
                    const PredictOptions& options, std::vector<Advice>& out) {
  const Gemm after = padded(s);
  const std::string what = padding(s, after);
  if (what.empty()) return;
  const auto time = time_of(after, machine, predictor, options);
  if (!time || *time > (1 - kLeastGain) * p.time) return;
  out.push_back({"padding", what + ": " + answer(*time, p.time) + kWhyPad, *time});
}

/// Sizes along one side whose last wave is full: the next below and above.
std::array<std::int64_t, 2> full_sizes(const Gemm& s, const Side& side, std::int64_t tile, double ctas, double slots) {
  const double across = std::ceil(static_cast<double>(s.*side.size) / static_cast<double>(tile));
  const double others = ctas / across, waves = std::floor(ctas / slots);
  const auto size = [&](double full) { return static_cast<std::int64_t>(std::floor(full * slots / others)) * tile; };
  return {size(waves), size(waves + 1)};
}

/// A size is near where it differs by less than half.
bool is_near(std::int64_t a, std::int64_t b) { return a > 0 && a != b && 2 * a < 3 * b && 2 * b < 3 * a; }

void advise_wave(const Gemm& s, const OpPrediction& p, const Machine& machine, Predictor& predictor,
                 const PredictOptions& options, std::vector<Advice>& out) {
  const LaunchPrediction& launch = p.launches[0];
  const KernelPlan& plan = launch.demand.plan;
  const double sms = machine.rates().sm_count, slots = sms * static_cast<double>(plan.ctas_per_sm);
  const double ctas = static_cast<double>(plan.ctas), rest = std::fmod(ctas, slots);
  if (p.gemm_plan.tile_m <= 0 || p.gemm_plan.splits > 1 || rest == 0) return;
  struct Best {
    Side side;
    Gemm shape;
    Seconds time;
    double each = 1 - kLeastGain;  ///< time of a row or column / as it is
  };
  std::optional<Best> best;
  for (const auto& [side, tile] : {std::pair(kRows, p.gemm_plan.tile_m), std::pair(kColumns, p.gemm_plan.tile_n)}) {
    for (const std::int64_t size : full_sizes(s, side, tile, ctas, slots)) {
      if (!is_near(size, s.*side.size)) continue;
      Gemm shape = s;
      shape.*side.size = size;
      const auto time = time_of(shape, machine, predictor, options);
      if (!time) continue;
      const double each = *time / p.time * static_cast<double>(s.*side.size) / static_cast<double>(size);
      if (each < (best ? best->each : 1 - kLeastGain)) best = Best{side, shape, *time, each};
    }
  }
  if (!best) return;
  char factor[16];
  std::snprintf(factor, sizeof factor, "x%.2f", best->each);
  out.push_back({"wave",
                 "the last of " + format(std::ceil(ctas / slots)) + " waves fills " + format(rest) + " of " +
                     format(slots) + " places on the SMs: " + resized(best->side, s, best->shape) + " takes " +
                     format(best->time) + ", " + factor + " for each of " + best->side.name,
                 best->time});
}

void advise_page(const AttentionDecode& s, const OpPrediction& p, const Machine& machine, Predictor& predictor,
                 const PredictOptions& options, std::vector<Advice>& out) {
  if (s.page == 0) return;
  constexpr std::array<std::int64_t, 4> kPages{16, 32, 64, 128};
  constexpr double kAsGood = 1.01;  // of pages that are as good the smallest: it wastes least behind a sequence's end
  Seconds best = (1 - kLeastGain) * p.time;
  std::int64_t page = 0;
  for (const std::int64_t other : kPages) {
    AttentionDecode shape = s;
    shape.page = other;
    const auto time = other == s.page ? std::nullopt : time_of(shape, machine, predictor, options);
    if (time && (page == 0 ? *time < best : kAsGood * *time < best)) best = *time, page = other;
  }
  if (page == 0) return;
  out.push_back({"page",
                 "pages of " + std::to_string(s.page) + " -> " + std::to_string(page) +
                     " tokens: " + answer(best, p.time) +
                     ": the kernel's step over the keys and a page hold no whole number of each other",
                 best});
}

// --- steps ----------------------------------------------------------------------------------------------------------

double count_of(const NodePrediction& n) { return static_cast<double>(n.node->count); }

/// Of the step when it is that much shorter by time in which only the clocks run, on all of its GPUs.
std::optional<Joules> without_waiting(const StepPrediction& step, Seconds whole) {
  if (!step.energy || !step.waiting_power || step.graph.pipeline.stages > 1) return std::nullopt;
  return *step.energy - static_cast<double>(step.graph.ranks) * (step.latency - whole) * *step.waiting_power;
}

/// "784 us, x0.29, and 3.10 J, x0.45".
std::string answer(Seconds after, std::optional<Joules> energy, const StepPrediction& step) {
  std::string text = answer(after, step.latency);
  if (!energy || !step.energy) return text;
  char factor[16];
  std::snprintf(factor, sizeof factor, "x%.2f", *energy / *step.energy);
  return text + ", and " + format(*energy) + ", " + factor;
}

void advise_padding(const StepPrediction& step, const Machine& machine, Predictor& predictor,
                    std::vector<Advice>& out) {
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    const NodePrediction& n = step.nodes[i];
    const auto* gemm = std::get_if<Gemm>(&n.node->op);
    if (gemm == nullptr || n.first != i) continue;
    double executions = 0;
    for (const NodePrediction& other : step.nodes) executions += other.first == i ? count_of(other) : 0;
    if (executions * n.op.time < kLeastGain * step.latency) continue;
    const Gemm after = padded(*gemm);
    const std::string what = padding(*gemm, after);
    OpPrediction wider;
    if (what.empty() || !priced(after, machine, predictor, wider)) continue;
    const Seconds whole = step.latency - executions * (n.op.time - wider.time);
    if (whole > (1 - kLeastGain) * step.latency) continue;
    std::optional<Joules> energy;
    if (step.energy && n.op.energy && wider.energy && step.graph.pipeline.stages == 1) {
      energy = *step.energy - static_cast<double>(step.graph.ranks) * executions * (*n.op.energy - *wider.energy);
    }
    out.push_back(
        {"padding",
         std::string(n.node->name) + ": " + what + ": the step takes " + answer(whole, energy, step) + kWhyPad, whole,
         energy});
  }
}

/// What one execution takes but for work: starts, ends, gaps.
Seconds around_work(const NodePrediction& n, const Rates& m) {
  Seconds time = n.gap + n.op.launch_count * m.gap_graph;
  for (int i = 0; i < n.op.launch_count; ++i) time += n.op.launches[static_cast<std::size_t>(i)].time.fixed;
  return time;
}

/// Shorter than that a launch is hardly more than its start.
bool is_tiny(const NodePrediction& n, const Rates& m) {
  return n.op.launch_count > 0 && n.op.time < 10.0 * units::us && 2.0 * around_work(n, m) > n.op.time + n.gap;
}

/// Neighbours of one layer that mostly start and end: as one kernel, all but the longest lose what is around their work.
void advise_launches(const StepPrediction& step, const Machine& machine, std::vector<Advice>& out) {
  constexpr std::size_t kNamed = 12;
  const Rates& m = machine.rates();
  Seconds saved;
  std::string longest;
  std::size_t most = 1;
  for (std::size_t i = 0; i < step.nodes.size();) {
    std::size_t end = i;
    Seconds around, kept;
    std::string names;
    while (end < step.nodes.size() && step.nodes[end].node->segment == step.nodes[i].node->segment &&
           step.nodes[end].node->count == step.nodes[i].node->count && is_tiny(step.nodes[end], m)) {
      const Seconds own = around_work(step.nodes[end], m);
      around += own;
      kept = std::max(kept, own);
      if (end - i < kNamed) names += (names.empty() ? "" : ", ") + std::string(step.nodes[end].node->name);
      ++end;
    }
    if (end - i > 1) saved += count_of(step.nodes[i]) * (around - kept);
    if (end - i > kNamed) names += " and " + std::to_string(end - i - kNamed) + " more";
    if (end - i > most) most = end - i, longest = names;
    i = std::max(end, i + 1);
  }
  const Seconds whole = step.latency - saved;
  if (most < 2 || whole > (1 - kLeastGain) * step.latency) return;
  const std::optional<Joules> energy = without_waiting(step, whole);
  out.push_back({"launches",
                 "neighbours that mostly start and end (" + longest + "), each group as one kernel: the step takes " +
                     answer(whole, energy, step),
                 whole, energy});
}

void advise_graph(const StepPrediction& step, const Machine& machine, const RunOptions& options,
                  std::vector<Advice>& out) {
  if (options.runtime == Runtime::graph) return;
  const Rates& m = machine.rates();
  Seconds whole = step.between_steps;
  for (const NodePrediction& n : step.nodes) {
    whole += count_of(n) * (n.op.time + n.op.launch_count * m.kernel_change);
  }
  if (whole > (1 - kLeastGain) * step.latency) return;
  const std::optional<Joules> energy = without_waiting(step, whole);
  out.push_back({"graph", "launched as one CUDA graph the step takes " + answer(whole, energy, step), whole, energy});
}

void shortest_first(std::vector<Advice>& advice) {
  std::stable_sort(advice.begin(), advice.end(), [](const Advice& a, const Advice& b) { return a.time < b.time; });
}

}  // namespace

std::vector<Advice> advise(const Op& op, const OpPrediction& prediction, const Machine& machine, Predictor& predictor,
                           const PredictOptions& options) {
  std::vector<Advice> out;
  if (prediction.launch_count == 0) return out;
  if (const auto* gemm = std::get_if<Gemm>(&op)) {
    advise_padding(*gemm, prediction, machine, predictor, options, out);
    if (out.empty()) advise_wave(*gemm, prediction, machine, predictor, options, out);
  }
  if (const auto* decode = std::get_if<AttentionDecode>(&op)) {
    advise_page(*decode, prediction, machine, predictor, options, out);
  }
  return out;
}

std::vector<Advice> advise(const StepPrediction& step, const Machine& machine, const RunOptions& options,
                           Predictor& predictor) {
  std::vector<Advice> out;
  if (step.nodes.empty() || step.nodes.front().op.launch_count == 0) return out;
  advise_padding(step, machine, predictor, out);
  advise_graph(step, machine, options, out);
  advise_launches(step, machine, out);
  shortest_first(out);
  return out;
}

namespace {

/// What a step's time goes to, by launch list.
struct Parts {
  Seconds launching, element_wise, attention, products, exchanges;
  double launches = 0;
};

bool is_product(const Node& node) {
  return std::holds_alternative<Gemm>(node.op) || std::holds_alternative<GroupedGemm>(node.op);
}

bool is_attention(const Node& node) { return std::string_view(node.name).substr(0, 9) == "attention"; }

Seconds& part_of(Parts& parts, const Node& node) {
  if (sends_to_peers(node.op)) return parts.exchanges;
  if (is_attention(node)) return parts.attention;
  return is_product(node) ? parts.products : parts.element_wise;
}

Parts parts_of(const StepPrediction& step) {
  Parts parts;
  parts.launching = step.between_steps;
  for (const NodePrediction& n : step.nodes) {
    Seconds kernels;
    for (int i = 0; i < n.op.launch_count; ++i) kernels += n.op.launches[static_cast<std::size_t>(i)].time.total;
    parts.launching += count_of(n) * (n.op.time - kernels + n.gap);
    parts.launches += count_of(n) * n.op.launch_count;
    part_of(parts, *n.node) += count_of(n) * kernels;
  }
  return parts;
}

/// "; saved are 9.5 ms of launching (capture) and ...": each part that is 2 % of the step at least, the largest first.
std::string saved(const StepPrediction& step, const StepPrediction& other) {
  const Parts before = parts_of(step), after = parts_of(other);
  std::vector<std::pair<Seconds, const char*>> parts{
      {before.launching - after.launching, after.launches < before.launches
                                               ? "launching (capture in a graph, fewer launches)"
                                               : "launching (capture in a graph)"},
      {before.element_wise - after.element_wise, "element-wise work and copies (fusion)"},
      {before.attention - after.attention, "attention and the copies before it"},
      {before.products - after.products, "products"},
      {before.exchanges - after.exchanges,
       "exchanges between GPUs (the stack's own all-reduce, less around each call)"}};
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [time, what] : parts) {
    if (time < kLeastGain * step.latency) continue;
    text += (text.empty() ? "; saved: " : ", ") + format(time) + " of " + what;
  }
  return text;
}

}  // namespace

Advice none_quicker(const StepPrediction& step, const StepPrediction& other, const std::string& by) {
  return {"stack",
          "no stack on file is quicker by 2 %: the quickest other one, " + by + ", takes " +
              answer(other.latency, other.energy, step),
          other.latency, other.energy};
}

std::optional<Advice> advise_stack(const StepPrediction& step, const StepPrediction& other, const std::string& by) {
  if (other.latency > (1 - kLeastGain) * step.latency) return std::nullopt;
  const auto launches = [](const StepPrediction& of) { return format(parts_of(of).launches); };
  return Advice{"stack",
                "by " + by + ", in its fusions and launches (" + launches(other) + " in place of " + launches(step) +
                    "), the step takes " + answer(other.latency, other.energy, step) + saved(step, other),
                other.latency, other.energy};
}

}  // namespace plumbline
