#include "model/generate.hpp"

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "ops/lower/two_batch.hpp"
#include "ops/resolve/resolve.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

void add(std::optional<Joules>& sum, const std::optional<Joules>& more, double times) {
  if (more) sum = sum.value_or(Joules{}) + times * *more;
}

void add_operators(GeneratePrediction& out, const StepPrediction& step, Phase phase, double times) {
  for (const NodePrediction& n : step.nodes) {
    const std::string name = n.node->name;
    auto known = std::find_if(out.ops.begin(), out.ops.end(),
                              [&](const OperatorSum& o) { return o.phase == phase && o.name == name; });
    if (known == out.ops.end()) {
      out.ops.push_back({.phase = phase, .name = name, .op = std::string(op_name(n.node->op))});
      known = out.ops.end() - 1;
    }
    const double count = times * static_cast<double>(n.node->count);
    known->count += count;
    known->time += count * n.on_path();
    known->flops += count * n.op.flops;
    known->dram_bytes += count * n.op.dram_bytes();
    add(known->energy, n.op.energy, count);
  }
}

/// Adds a step that stands for `times` steps. Shares are left as times, until the whole is known.
void add_step(GeneratePrediction& out, const StepPrediction& step, Phase phase, double times) {
  out.latency += times * step.latency;
  out.low += times * step.low;
  out.high += times * step.high;
  out.flops += times * step.flops;
  out.dram_bytes += times * step.dram_bytes;
  const double seconds = times * step.latency.in(units::s);
  out.share.compute += seconds * step.share.compute;
  out.share.memory += seconds * step.share.memory;
  out.share.network += seconds * step.share.network;
  out.share.latency += seconds * step.share.latency;
  out.share.launch += seconds * step.share.launch;
  add(out.energy, step.energy, times);
  if (step.energy && step.power) {
    const EnergyBand band =
        energy_band(*step.energy, *step.power, *step.power_low, *step.power_high, step.latency, step.low, step.high);
    add(out.energy_low, band.low, times);
    add(out.energy_high, band.high, times);
  }
  if (phase == Phase::decode) {
    out.decode += times * step.latency;
    add(out.decode_energy, step.energy, times);
  }
  add_operators(out, step, phase, times);
}

/// Where in [0, 1) of the stretch of steps that it stands for the i-th priced step lies: multiples of the golden ratio,
/// which keep step with none of the periods that times have (tiles, pages, waves).
double place_in_stretch(std::int64_t i) {
  constexpr double kGolden = 0.6180339887498949;
  const double turns = kGolden * static_cast<double>(i + 1);
  return turns - std::floor(turns);
}

}  // namespace

std::optional<Seconds> GeneratePrediction::tpot() const {
  if (steps == 0) return std::nullopt;
  return decode / static_cast<double>(steps);
}

std::optional<Watts> GeneratePrediction::power() const {
  if (!energy) return std::nullopt;
  return *energy / latency / static_cast<double>(prefill.graph.ranks);
}

Workload decode_step(const Llm& llm, const Workload& prefill, std::int64_t done) {
  Workload w = prefill;
  w.phase = Phase::decode;
  w.cached = 0;
  // what the prefill leaves in the cache: of a decoder behind an encoder its start token
  w.context = lowering::lengths_of(llm, prefill, llm.main()).all_keys + done;
  // products by shares are of many tokens (vLLM: fuse_gemm_comms, docs/design/fusions)
  w.overlap = in_shards(prefill.overlap) ? Overlap::none : lowering::possible_overlap(prefill.overlap, llm, w);
  return w;
}

GeneratePrediction predict_generate(Predictor& predictor, const Llm& llm, const Workload& workload, std::int64_t output,
                                    const Machine& machine, const RunOptions& options, std::int64_t most_priced) {
  if (output < 1) throw BadInput("output: expected a whole number from 1, found " + std::to_string(output));
  GeneratePrediction out;
  predictor.predict(llm, workload, machine, options, out.prefill);
  add_step(out, out.prefill, Phase::prefill, 1);
  out.steps = output - 1;
  out.priced = std::min(out.steps, most_priced);
  StepPrediction step;
  for (std::int64_t i = 0; i < out.priced; ++i) {
    const std::int64_t begin = i * (out.steps / out.priced) + std::min(i, out.steps % out.priced);
    const std::int64_t length = out.steps / out.priced + (i < out.steps % out.priced ? 1 : 0);
    const auto offset = static_cast<std::int64_t>(place_in_stretch(i) * static_cast<double>(length));
    predictor.predict(llm, decode_step(llm, workload, begin + offset), machine, options, step);
    add_step(out, step, Phase::decode, static_cast<double>(length));
  }
  if (out.steps > 0) {
    predictor.predict(llm, decode_step(llm, workload, 0), machine, options, out.first);
    predictor.predict(llm, decode_step(llm, workload, out.steps - 1), machine, options, out.last);
  }
  out.tokens = static_cast<double>(workload.batch) * static_cast<double>(output);
  const double seconds = out.latency.in(units::s);
  for (double* share :
       {&out.share.compute, &out.share.memory, &out.share.network, &out.share.latency, &out.share.launch})
    *share /= seconds;
  return out;
}

}  // namespace plumbline
