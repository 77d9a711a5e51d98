// By the sources: fla/ops/gated_delta_rule/chunk.py and what it calls (chunk_scaled_dot_kkt.py, solve_tril.py, wy_fast.py,
// chunk_delta_h.py, chunk_o.py) in the copies of TensorRT-LLM 1.3 and SGLang; flashinfer/gdn_prefill.py as
// vllm/model_executor/layers/mamba calls it. Keys are K wide, values V; h is the state before a chunk.
#include "model/stacks/fla/plan_chunks.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/common/plan_stream.hpp"
#include "ops/as_double.hpp"

namespace plumbline {
namespace {

constexpr double kChunk = 64;
constexpr double kFloat = 4;  // bytes

/// Sizes of one call, of all heads.
struct Chunks {
  explicit Chunks(const Recurrence& s)
      : tokens(d(s.batch) * d(s.seq)),
        heads(d(s.heads)),
        groups(d(s.groups)),
        keys(d(s.state)),
        values(d(s.head_dim)),
        per_sequence(std::ceil(d(s.seq) / kChunk)),
        all(d(s.batch) * heads * per_sequence),
        full(tokens * heads / (all * kChunk)) {}

  Bytes rows(DType type, double width) const { return storage(type, tokens * heads * width); }
  Bytes shared(DType type) const { return storage(type, tokens * groups * keys); }  ///< all q, or all k
  Bytes states(DType type, double number) const { return storage(type, number * keys * values); }

  double tokens, heads, groups, keys, values;
  double per_sequence;  ///< chunks of a sequence
  double all;           ///< chunks of all heads of all sequences
  double full;          ///< share of the chunks' rows that there are
};

class ChunkCall {
 public:
  ChunkCall(const Recurrence& s, const ChunkFamilies& f, const Question& q, Answer& out)
      : s_(s), f_(f), m_(q.rates), out_(out), c_(s) {}

  void answer() {
    const DType wide = DType::fp32, type = s_.dtype;
    const double k = c_.keys, v = c_.values;
    out_.sign(f_.chunks);
    if (s_.channel_decay) return answer_channels();
    sum_decay();
    // beta k k^T, below the diagonal
    chunk("products of keys", c_.all, 1, c_.shared(type) + c_.rows(type, 1) + made(c_.rows(wide, 1)),
          made(c_.rows(wide, kChunk)), 2 * kChunk * k);
    // (1 + A)^-1: blocks of 16 first, four to a chunk; then what joins them
    chunk("inverse of blocks", 4 * c_.all, 0.25, made(c_.rows(wide, 16)), made(c_.rows(wide, 16)), 0);
    chunk("inverse", c_.all, 1, made(c_.rows(wide, 40)), made(c_.rows(type, kChunk)), 0);
    chunk("rows of the update", c_.all, 1,
          made(c_.rows(type, kChunk)) + c_.shared(type) + c_.rows(type, v + 1) + made(c_.rows(wide, 1)),
          made(c_.rows(type, k + v)), 2 * kChunk * (k + v));
    walk();
    constexpr double kColumns = 64;  // of values a CTA
    const double parts = std::ceil(v / kColumns);
    chunk("results", parts * c_.all, 1 / parts,
          c_.shared(type) + made(c_.shared(type)) + made(c_.rows(type, v)) + made(c_.states(type, c_.all)) +
              made(c_.rows(wide, 1)),
          c_.rows(type, v), 2 * (k * v + kChunk * (parts * k + v)));
  }

 private:
  /// fla/ops/kda/chunk.py: decays of fp32 for each channel; scores of a chunk in fp32, which are cleared first.
  void answer_channels() {
    const DType wide = DType::fp32, type = s_.dtype;
    const double k = c_.keys, v = c_.values;
    constexpr double kBlocks = 4;  // of 16 tokens, of a chunk
    stream("sums of the decay", c_.rows(wide, k), made(c_.rows(wide, k)));
    stream("clear", Bytes{}, made(c_.rows(wide, 2 * kChunk) + c_.rows(type, kChunk)));
    const Bytes given = c_.shared(type) + c_.shared(type) + made(c_.rows(wide, k));
    chunk("blocks below the diagonal", kBlocks * kBlocks * c_.all, 1 / (kBlocks * kBlocks), given,
          made(c_.rows(wide, kChunk)), 2 * kChunk * k);
    chunk("blocks on the diagonal", kBlocks * c_.all, 1 / kBlocks, given, made(c_.rows(wide, kChunk / 2)), 0);
    chunk("inverse", c_.all, 1, made(c_.rows(wide, kChunk)), made(c_.rows(type, kChunk)), 0);
    chunk("rows of the update", c_.all, 1,
          made(c_.rows(type, kChunk)) + c_.shared(type) + c_.rows(type, v + 1) + made(c_.rows(wide, k)),
          made(c_.rows(type, 2 * k + v)), 2 * kChunk * (k + v));
    walk();
    chunk("results", c_.all, 1,
          c_.shared(type) + made(c_.rows(type, v)) + made(c_.states(type, c_.all)) + made(c_.rows(wide, k + kChunk)),
          c_.rows(type, v), 2 * (k * v + kChunk * v));
  }

  void stream(const char* name, Bytes read, Bytes write) {
    Work w;
    w.read = read;
    w.write = write;
    out_.launch(name, f_.rows) = stream_demand(w, m_, read + write <= Bytes{});
  }

  /// What another launch of the call writes and reads again stays in L2 where that keeps as much.
  Bytes made(Bytes bytes) const { return bytes > m_.l2_kept ? bytes : Bytes{}; }

  void sum_decay() {
    Work w;
    w.read = c_.rows(s_.dtype, 1);
    w.write = c_.rows(DType::fp32, 1);
    w.fp32 = c_.tokens * c_.heads * units::FLOP;
    Demand& d = out_.launch("sums of the decay", f_.rows) = stream_demand(w, m_, false);
    d.dram_write = made(w.write);
  }

  /// One CTA's clocks of its SM, where `part` of a chunk's are its own. What rows are not there are not read, but products
  /// are of whole tiles.
  void chunk(const char* name, double ctas, double part, Bytes read, Bytes write, double flops_a_row) {
    Demand& d = out_.launch(name, f_.chunks) = Demand{};
    d.plan.ctas = static_cast<std::int64_t>(ctas);
    d.plan.threads = 128;
    const double empty = f_.chunks.exposed;
    d.issue_clk = part * f_.chunks.start_clk * (empty + (1 - empty) * c_.full);
    d.tensor_clk = products(flops_a_row * kChunk * part);
    d.l2 = (read + write) / ctas;
    d.dram_read = read;
    d.dram_write = write;
  }

  double products(double flops) const { return clocks_of_products(flops, s_.dtype, m_); }

  /// A CTA has 32 columns of the values and walks all chunks of a sequence: a chain of loads and products each. As many are
  /// on an SM as operands of one chunk fit into shared memory.
  void walk() {
    constexpr double kColumns = 32;
    const DType type = s_.dtype;
    const double parts = std::ceil(c_.values / kColumns), sequences = d(s_.batch) * c_.heads;
    const double stage = bytes_of(type) * kChunk * (2 * c_.keys + kColumns);
    Demand& d = out_.launch("walk over the chunks", f_.scan) = Demand{};
    d.plan.ctas = static_cast<std::int64_t>(parts * sequences);
    d.plan.threads = 128;
    d.plan.ctas_per_sm = static_cast<std::int64_t>(std::max(1.0, std::floor(m_.gpu.sm.smem.in(units::B) / stage)));
    d.plan.steps = d.plan.longest = c_.per_sequence;
    d.step_latency = f_.scan.step_clk / m_.clock;
    d.tensor_clk = products(4 * kChunk * c_.keys * kColumns);
    const Bytes kept = s_.carry ? c_.states(s_.state_dtype, sequences) : Bytes{};
    const Bytes read = made(c_.rows(type, c_.keys + c_.values)) + made(c_.shared(type));
    d.l2 = c_.full * (bytes_of(type) * kChunk * (2 * c_.keys + 2 * kColumns) + bytes_of(type) * c_.keys * kColumns) *
           units::B;
    d.dram_read = read + kept;
    d.dram_write = made(c_.rows(type, c_.values)) + made(c_.states(type, c_.all)) + kept;
  }

  const Recurrence& s_;
  const ChunkFamilies& f_;
  const Rates& m_;
  Answer& out_;
  const Chunks c_;
};

}  // namespace

double clocks_of_products(double flops, DType type, const Rates& m) {
  const double rate = m.gpu.sm.tensor_flop_per_clk[type];
  return flops / (rate > 0 ? rate : m.gpu.sm.fp32_flop_per_clk);
}

bool runs_in_chunks(const Recurrence& s) { return s.kind == RecurrentKind::gated_delta_net && (s.seq > 1 || !s.carry); }

void answer_chunks(const Recurrence& s, const ChunkFamilies& families, const Question& q, Answer& out) {
  ChunkCall(s, families, q, out).answer();
}

/// States come in the cache's type and are widened by a launch, and decays raised by another (vLLM's call); the kernel
/// writes the last states in fp32 too.
void answer_walk(const Recurrence& s, const FamilyScalars& family, const FamilyScalars& rows, const Question& q,
                 Answer& out) {
  const Rates& m = q.rates;
  const Chunks c(s);
  const double sequences = d(s.batch) * c.heads;
  const Bytes given = s.carry ? c.states(s.state_dtype, sequences) : Bytes{};
  const Bytes states = s.carry ? c.states(DType::fp32, sequences) : Bytes{};
  const auto still = [&](Bytes bytes) { return bytes > m.l2_kept ? bytes : Bytes{}; };
  const auto move = [&](const char* name, Bytes read, Bytes write) {
    Work w;
    w.read = read;
    w.write = write;
    out.launch(name, rows) = stream_demand(w, m, false);
  };
  const bool widens = s.carry && s.state_dtype != DType::fp32;
  out.sign(family);
  move("powers of the decay", c.rows(DType::fp32, 1), c.rows(DType::fp32, 1));
  if (widens) move("states to fp32", given, states);
  Demand& d = out.launch("walk over the chunks", family) = Demand{};
  d.plan.ctas = static_cast<std::int64_t>(sequences);
  d.plan.threads = 512;
  d.plan.steps = d.plan.longest = c.per_sequence;
  d.step_latency = family.step_clk / m.clock;
  const double flops = 2 * kChunk * (kChunk * (2 * c.keys + 2 * c.values) + 3 * c.keys * c.values);
  d.tensor_clk = flops / m.gpu.sm.tensor_flop_per_clk[s.dtype];
  const Bytes read = 2.0 * c.shared(s.dtype) + c.rows(s.dtype, c.values + 2);
  d.l2 = (read + c.rows(s.dtype, c.values) + 2.0 * states) / (sequences * d.plan.steps);
  d.dram_read = read + (widens ? still(states) : given);
  d.dram_write = c.rows(s.dtype, c.values) + states;
}

}  // namespace plumbline
