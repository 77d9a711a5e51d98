// By the sources: state-spaces/mamba (mamba_ssm/ops/triton/ssd_combined.py, ssd_chunk_state.py, ssd_state_passing.py, ssd_bmm.py,
// ssd_chunk_scan.py, selective_state_update.py), copied by TensorRT-LLM, vLLM and SGLang; fla/ops/common/chunk_h.py, chunk_o.py,
// fused_recurrent.py and fla/ops/gated_delta_rule/fused_recurrent.py.
#include "model/stacks/fla/plan_states.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/fla/plan_chunks.hpp"
#include "ops/as_double.hpp"

namespace plumbline {
namespace {

/// Bytes that one launch of a call writes and the next one reads stay in L2 where that keeps as much.
Bytes beyond_l2(Bytes bytes, const Rates& m) { return bytes > m.l2_kept ? bytes : Bytes{}; }

void stream(const char* name, Bytes read, Bytes write, const FamilyScalars& rows, const Rates& m, Answer& out) {
  Work w;
  w.read = read;
  w.write = write;
  out.launch(name, rows) = stream_demand(w, m, read + write <= Bytes{});
}

/// CTAs that keep their SM's issue busy for `clk` clocks a step, whatever else they wait for.
struct Busy {
  double ctas, steps, clk, flops;  ///< flops: of a step
  Bytes read, write;
};
void busy(const char* name, const Busy& b, DType type, const FamilyScalars& family, const Rates& m, Answer& out) {
  Demand& d = out.launch(name, family) = Demand{};
  d.plan.ctas = static_cast<std::int64_t>(b.ctas);
  d.plan.threads = 128;
  d.plan.steps = d.plan.longest = b.steps;
  d.issue_clk = b.clk;
  d.tensor_clk = clocks_of_products(b.flops, type, m);
  d.l2 = (b.read + b.write) / (b.ctas * b.steps);
  d.dram_read = b.read;
  d.dram_write = b.write;
}

}  // namespace

void answer_ssd(const Recurrence& s, const SsdFamilies& f, const Question& q, Answer& out) {
  const Rates& m = q.rates;
  constexpr double kTile = 64, kWide = 128;  // of tokens and of columns; of the state's width, and of rows
  const DType wide = DType::fp32, type = s.dtype;
  const double chunk = d(s.chunk), tokens = d(s.batch) * d(s.seq), heads = d(s.heads);
  const double chunks = d(s.batch) * std::ceil(d(s.seq) / chunk), tiles = std::ceil(chunk / kTile);
  const double columns = std::ceil(d(s.head_dim) / kTile), across = std::ceil(d(s.state) / kWide);
  const double numbers = d(s.head_dim) * d(s.state) * heads;  // of the states of a token
  const auto kept = [&](Bytes bytes) { return beyond_l2(bytes, m); };
  const Bytes x = storage(type, tokens * heads * d(s.head_dim)), b = storage(type, tokens * d(s.groups) * d(s.state));
  const Bytes dt = storage(type, tokens * heads), decay = kept(storage(wide, 2 * tokens * heads));
  const Bytes added = kept(storage(wide, chunks * numbers)), passed = kept(storage(type, chunks * numbers));
  const Bytes carried = storage(s.state_dtype, s.carry ? d(s.batch) * numbers : 0);
  const Bytes scores = kept(storage(wide, chunks * d(s.groups) * chunk * chunk));
  out.sign(f.scan);
  stream("sums of the decay", dt + storage(wide, 2 * heads), decay, f.rows, m, out);  // A and the bias of dt beside it
  busy("states of the chunks",
       {chunks * heads * across * columns, 1, f.state.start_clk + f.state.step_clk * chunk / kWide,
        2 * kTile * kWide * chunk, x + b + decay, added},
       type, f.state, m, out);
  stream("states passed on", added + carried, passed + carried, f.rows, m, out);
  const double scored = chunks * d(s.groups) * tiles * tiles;
  busy("products of B and C",
       {scored, 1, f.scan.start_clk + f.scan.step_clk * d(s.state) / kWide, 2 * kTile * kTile * d(s.state), b + kept(b),
        scores},
       type, f.scan, m, out);
  // a tile multiplies C by the state, and the scores of the tokens before it, of its own tile all, by their values
  const double before = kTile * (tiles + 1) / 2;
  busy("results",
       {chunks * heads * tiles * columns, 1, f.scan.start_clk + f.scan.step_clk * (d(s.state) + before) / kWide,
        2 * kTile * kTile * (d(s.state) + before), kept(x) + kept(b) + scores + passed + decay, x},
       type, f.scan, m, out);
}

void answer_gla(const Recurrence& s, const FamilyScalars& family, const Question& q, Answer& out) {
  const Rates& m = q.rates;
  constexpr double kWalkChunk = 64;
  const DType type = s.dtype;
  const double tokens = d(s.batch) * d(s.seq), heads = d(s.heads), sequences = d(s.batch) * heads;
  const double per_sequence = std::ceil(d(s.seq) / kWalkChunk), k = d(s.state), v = d(s.head_dim);
  const Bytes keys = storage(type, tokens * d(s.groups) * k), values = storage(type, tokens * heads * v);
  const Bytes states = beyond_l2(storage(type, sequences * per_sequence * k * v), m);
  const Bytes decays = storage(type, tokens * heads) + storage(DType::fp32, 2 * heads);
  const Bytes carried = storage(s.state_dtype, s.carry ? sequences * k * v : 0);
  out.sign(family);
  busy("walk over the chunks",
       {sequences * std::ceil(k / kWalkChunk) * std::ceil(v / kWalkChunk), per_sequence, family.step_clk,
        2 * kWalkChunk * kWalkChunk * kWalkChunk, keys + values + decays + carried, states + carried},
       type, family, m, out);
  const double all = sequences * per_sequence;
  busy("results",
       {all, 1, family.start_clk, 2 * kWalkChunk * (kWalkChunk * (k + v) + k * v),
        keys + beyond_l2(keys, m) + beyond_l2(values, m) + states, values},
       type, family, m, out);
}

/// A CTA has four rows of Mamba-2's state, eight columns of the delta rule's, 64 x 64 of lightning attention's, whose parts of
/// the results are added up by another launch.
void answer_state_step(const Recurrence& s, StepKernel kernel, const FamilyScalars& family, const FamilyScalars& rows,
                       const Question& q, Answer& out) {
  constexpr double kNumbers = 1024, kSquare = 64;
  const double states = d(s.batch) * d(s.heads), all = d(s.state) * d(s.head_dim);
  const double part = kernel == StepKernel::mamba   ? 4 * d(s.state)
                      : kernel == StepKernel::delta ? 8 * d(s.state)
                                                    : std::min(kSquare * kSquare, all);
  const double ctas = states * std::ceil(all / part);
  out.sign(family);
  Demand& step = out.launch("step of the states", family) = Demand{};
  step.plan.ctas = static_cast<std::int64_t>(ctas);
  step.plan.threads = kernel == StepKernel::delta ? 32 : 128;
  step.issue_clk = family.step_clk * part / kNumbers;
  step.l2 = q.work.bytes() / ctas;
  step.dram_read = q.work.read;
  step.dram_write = q.work.write;
  if (kernel != StepKernel::gla || d(s.state) <= kSquare) return;
  const Bytes parts =
      beyond_l2(storage(DType::fp32, states * d(s.head_dim) * std::ceil(d(s.state) / kSquare)), q.rates);
  stream("sum of the parts", parts, Bytes{}, rows, q.rates, out);
}

}  // namespace plumbline
