// DRAM traffic of the plans: how much of it there may be, and cases by hand.
//
// Laws.MovesAtLeastTheCompulsoryBytes (laws_test.cpp) bounds it from below. Here it is bounded from above: where an
// operator's bytes lie in L2 together, each of them crosses the DRAM interface once, and beside them only what the plan
// itself passes from one launch to the next through memory.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "model/stacks/common/plan_attention.hpp"
#include "ops/facts/work.hpp"
#include "tests/support/planners.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::traffic_test {
namespace {

using namespace testing_support;

double real(std::int64_t n) { return static_cast<double>(n); }

/// Bytes that a plan moves beside the operator's own, by its launches.
struct Extra {
  const Machine& machine;

  /// Queries are rotated in place and read again by the attention, as are the new keys and values; where the operator
  /// is attention alone (append=-1), reading and writing the new ones is extra too. Queries of 4 bits become as wide as the cache
  /// of 8 bits whose keys they are multiplied by.
  Bytes operator()(const AttentionPrefill& s) const {
    const double tokens = real(s.batch * s.q_len);
    const bool widened = s.kv_dtype == DType::fp8 && bits(s.dtype) < bits(s.kv_dtype);
    const Bytes queries = storage(widened ? s.kv_dtype : s.dtype, tokens * real(s.q_heads * s.qk_dim));
    const double fresh = tokens * real(s.kv_heads * (s.qk_dim + s.v_dim));
    if (s.append == 0 || (s.append < 0 && machine.kernels() == KernelSet::own)) {
      return queries - storage(s.dtype, tokens * real(s.q_heads * s.qk_dim));
    }
    const Bytes again = 2.0 * queries + storage(s.kv_dtype, fresh) + latent(s, tokens);
    return s.append < 0 ? again + storage(s.dtype, fresh) : again;
  }
  /// Latent operands: all keys and values are packed, or each head's rotated part is put beside and a narrow row goes to the
  /// cache; and a launch of its own rounds them to fp8.
  static Bytes latent(const AttentionPrefill& s, double tokens) {
    if (s.qk_dim <= s.v_dim) return {};
    const double wide = real(s.qk_dim + s.v_dim), all = real(s.q_heads * s.qk_dim) + real(s.kv_heads) * wide;
    const Bytes moved = storage(s.kv_dtype, tokens * real(s.kv_heads) * wide) + storage(s.kv_dtype, tokens * wide) +
                        storage(s.dtype, tokens * real(s.kv_heads * (s.qk_dim - s.v_dim)));
    const bool rounded = s.kv_dtype == DType::fp8 && bits(s.dtype) > 8;
    return rounded ? moved + storage(s.dtype, tokens * all) + storage(s.kv_dtype, tokens * all) : moved;
  }
  /// Sums of dQ in fp32, cleared, written and read, in as many buffers as there are CTAs a head where they are taken in one order; each row's sum; dO once more; and, where query heads share keys, their
  /// parts of dK and dV.
  Bytes operator()(const AttentionBackward& s) const {
    const double queries = real(s.batch * s.q_heads * s.q_len), keys = real(s.batch * s.kv_len * (s.qk_dim + s.v_dim));
    const Bytes parts = s.q_heads > s.kv_heads ? 2.0 * storage(s.dtype, real(s.q_heads) * keys) : Bytes{};
    const double heads = real(s.batch * s.q_heads),
                 buffers = s.deterministic ? std::ceil(machine.rates().sm_count / heads) : 1;
    return (3 * 4 * buffers * queries * real(s.qk_dim) + 8 * queries) * units::B +
           storage(s.dtype, queries * real(s.v_dim)) + parts;
  }
  /// Half sectors at both ends of 256 bytes that begin within one, read and written. Our fused loss reads the logits once
  /// more for their gradient, and each row's losses, targets and log-sum-exp.
  Bytes operator()(const Rowwise& s) const {
    const Work w = work(Op(s));
    if (s.kind == RowwiseKind::cross_entropy_fused) {
      return storage(s.input, real(s.rows * s.cols)) + storage(DType::fp32, 4 * real(s.rows) + 1);
    }
    return s.kind == RowwiseKind::transpose_copy ? 1.0 / 8 * w.bytes() : Bytes{};
  }
  /// Each expert has a copy of the rows that are routed to it; for gradients of weights they are padded to 16, and the
  /// experts that are touched, as expected, are whole ones.
  Bytes operator()(const GroupedGemm& s) const {
    if (s.wgrad) {
      const double experts = std::ceil(experts_touched(real(s.experts), real(s.topk), real(s.tokens)));
      const Bytes rows = storage(s.precision.input, 16 * experts * real(s.n)) +
                         storage(s.precision.weight, (16 * experts + real(s.tokens * (s.topk - 1))) * real(s.k));
      return rows + 2.0 * storage(s.precision.output, real(s.n * s.k));
    }
    return storage(s.precision.input, real(s.tokens * (s.topk - 1) * s.k));
  }
  /// Rows in the order of experts, before and behind each product, rounded or not.
  Bytes operator()(const Moe& s) const {
    const double rows = expert_rows(s).total(), width = real(s.hidden + s.matrices * s.own_width());
    return storage(DType::fp32, 8 * rows * width) + storage(DType::fp32, 4 * real(s.tokens * s.topk)) +
           storage(DType::fp64, 8 * real(s.experts));
  }
  /// x rounded, its scales, and x read again where one scale is found first.
  Bytes operator()(const GemmDynamic& s) const {
    const Bytes scales = 4 * real(s.m) * std::ceil(real(s.k) / 128 + 1) * units::B;
    return scales + storage(DType::fp8, real(s.m * s.k)) + storage(s.precision.output, real(s.m * s.k)) +
           2.0 * storage(s.precision.input, real(s.m * s.k));
  }
  Bytes operator()(const QuantizeDynamic& s) const { return storage(s.dtype, real(s.rows * s.cols)); }
  /// A row narrower than a sector of 32 bytes brings all of it.
  Bytes operator()(const Embedding& s) const {
    const Bytes width = storage(s.dtype, real(s.cols)), sector = 32.0 * units::B;
    return width < sector ? real(s.rows) * (sector - width) : Bytes{};
  }
  /// A window of cached keys may begin inside a page.
  Bytes operator()(const AttentionDecode& s) const { return s.page > 0 ? 4.0 * real(s.batch) * units::B : Bytes{}; }
  /// The new token's latent, and queries that are rotated and rounded before, of caches of 8 bits; of 16 bits on tcgen05, where
  /// that launch is told apart too.
  Bytes operator()(const MlaDecode& s) const {
    if (bits(s.kv_dtype) > 8 && machine.rates().path.kind != TensorPath::Kind::tcgen05) return {};
    const double values = real(s.batch * (s.heads + 1) * (s.latent + s.rope));
    return storage(s.dtype, values) + storage(s.kv_dtype, values);
  }
  template <class Other>
  Bytes operator()(const Other&) const {
    return {};
  }
};

/// fp32 partial results of splits that are more than L2 holds go through DRAM, there and back.
Bytes spilled(const Op& op, const OpPrediction& p, const Machine& m) {
  double values = 0;
  if (const auto* s = std::get_if<Gemm>(&op)) values = real(s->m * s->n * s->batch * p.gemm_plan.splits);
  if (const auto* s = std::get_if<GemmDynamic>(&op)) values = real(s->m * s->n * p.gemm_plan.splits);
  if (const auto* s = std::get_if<GemmSparse24>(&op)) values = real(s->m * s->n * p.gemm_plan.splits);
  if (const auto* s = std::get_if<GroupedGemm>(&op); s != nullptr && s->wgrad) {
    const double experts = std::ceil(experts_touched(real(s->experts), real(s->topk), real(s->tokens)));
    values = experts * real(s->n * s->k * p.gemm_plan.splits);
  } else if (s != nullptr) {
    values = real(s->tokens * s->topk * s->n * p.gemm_plan.splits);
  }
  if (const auto* s = std::get_if<MlaDecode>(&op))
    values = real(s->batch * s->heads * p.attention_plan.splits * (s->latent + 1));
  if (const auto* s = std::get_if<AttentionDecode>(&op))
    values = real(s->batch * s->q_heads * p.attention_plan.splits * (s->v_dim + 1));
  if (const auto* s = std::get_if<AttentionPrefill>(&op); s != nullptr && p.attention_plan.splits > 1)
    values = real(s->batch * s->q_heads * s->q_len * p.attention_plan.splits * (s->v_dim + 1));
  const Bytes partials = 4 * values * units::B;
  return p.launch_count > 1 && partials > m.rates().l2_capacity ? 2.0 * partials : Bytes{};
}

/// FlashAttention's step over pages: the new token's keys and values may be written before it; and FlashAttention-2 copies
/// queries and results where heads of a group share a tile.
Bytes around_a_step(const Op& op, const OpPrediction& p, const Machine& m) {
  const bool calls = p.provider == "flashinfer" || p.provider == "flashinfer_8bit" || p.provider == "trtllm_gen";
  if (p.provider != "flash_attention" && !calls) return {};
  const bool copies = !calls && m.rates().path.kind == TensorPath::Kind::mma_sync;
  if (const auto* s = std::get_if<AttentionDecode>(&op)) {
    const double fresh = real(s->batch * s->kv_heads * (s->qk_dim + s->v_dim));
    const bool writes = copies ? s->append != 0 : s->append == 1;
    return (writes ? storage(s->dtype, fresh) + storage(s->kv_dtype, fresh) : Bytes{}) +
           (copies ? storage(s->dtype, 4 * real(s->batch * s->q_heads * s->v_dim)) : Bytes{});
  }
  const auto* s = std::get_if<AttentionPrefill>(&op);
  if (s == nullptr || s->q_len > 1 || !copies) return {};
  return storage(s->dtype, 4 * real(s->batch * s->q_heads * s->v_dim));
}

/// Our own GEMM fetches rows that begin within one of DRAM's accesses in two pieces (own/plan_gemm.cpp).
bool begins_within_an_access(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op);
  return gemm != nullptr && std::fmod(real(gemm->k) * bits(gemm->precision.input) / 8.0, 64) != 0;
}

void assert_little_traffic(const Machine& m) {
  constexpr double kMost = 1.11;  // of a product of doubles with fp32 weights 1.1001 was drawn, one of some thousands
  for (int i = 0; i < 40; ++i) {
    const Op op = random_op_on(m);
    const Work w = work(op);
    const Bytes extra = std::visit(Extra{m}, op);
    if (w.bytes() + extra > m.rates().l2_kept || (m.kernels() == KernelSet::own && begins_within_an_access(op)))
      continue;
    const OpPrediction p = predict(op, m);
    const Bytes partials = spilled(op, p, m) + around_a_step(op, p, m);
    RC_LOG() << describe(op) << ": " << p.dram_bytes().in(units::B) << " B, compulsory " << w.bytes().in(units::B)
             << ", the plan's " << extra.in(units::B) << ", partial results " << partials.in(units::B) << "; splits "
             << p.gemm_plan.splits << ", " << p.attention_plan.splits << ", " << p.launch_count << " launches\n";
    RC_ASSERT(p.dram_bytes() <= kMost * (w.bytes() + extra) + partials);
  }
}

Gpu of_generation(const Feeding& feeding) {
  Gpu gpu = random_gpu();
  feeding.apply(gpu);
  return gpu;
}

RC_GTEST_PROP(Traffic, OfALibraryIsLittleMoreThanCompulsory, ()) { assert_little_traffic(random_machine()); }

RC_GTEST_PROP(Traffic, OfFlashAttentionIsLittleMoreThanCompulsory, ()) {
  MachineOptions options;
  options.stack = "vllm";
  assert_little_traffic(make_machine(random_gpu(), random_calibration(), options));
}

RC_GTEST_PROP(Traffic, OfOurKernelsIsLittleMoreThanCompulsory, ()) {
  const Gpu gpu = of_generation(coin() ? kHopper : kAmpere);
  assert_little_traffic(toy_machine(gpu, with_own_families(random_calibration()), KernelSet::own));
}

// --- by hand ---------------------------------------------------------------------------------------------------------

Machine toy_flash(const Gpu& gpu = toy_gpu()) {
  MachineOptions options;
  options.stack = "vllm";
  return make_machine(gpu, toy_calibration(), options);
}

/// 128 queries at the end of 131072 cached keys, under a window of 128: the first of them sees 128 keys, so that all
/// see 128 + 127 = 255; without a causal mask each sees the last 128. 8 KV heads, keys and values of 64 in 16 bits.
TEST(PrefillTraffic, ReadsTheKeysThatAWindowLeaves) {
  AttentionPrefill s{1, 32, 8, 64, 64, 128, 131072, true, 128, 0};
  const double queries = 32 * 128 * 64 * 2, key = 8 * (64 + 64) * 2;
  for (const auto& m : {toy_machine(), toy_flash(), toy_machine(toy_gpu(), toy_calibration(), KernelSet::own)}) {
    s.causal = true;
    EXPECT_DOUBLE_EQ(plan_attention(s, m).main.dram_read.in(units::B), queries + 255 * key);
    s.causal = false;
    EXPECT_DOUBLE_EQ(plan_attention(s, m).main.dram_read.in(units::B), queries + 128 * key);
  }
}

/// ... and moves them at the energy of as many bytes: what a longer cache adds is hidden.
TEST(PrefillTraffic, AHiddenCacheTakesNoEnergy) {
  const auto m = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  AttentionPrefill s{1, 32, 8, 64, 64, 128, 1024, true, 128, 0};
  const OpPrediction near = predict(Op(s), m);
  s.kv_len = 131072;
  const OpPrediction far = predict(Op(s), m);
  EXPECT_DOUBLE_EQ(far.memory_energy.in(units::J), near.memory_energy.in(units::J));
  EXPECT_NEAR(far.time / near.time, 1, 0.02);
}

/// What a whole decode writes: its results once, whichever launch does.
void expect_results_once(const AttentionChoice& c, double rows, double v_dim) {
  ASSERT_TRUE(c.combines);
  EXPECT_GT(c.plan.splits, 1);
  EXPECT_EQ(c.main.dram_write.in(units::B), 0);
  EXPECT_DOUBLE_EQ(c.combine.dram_write.in(units::B), rows * v_dim * 2);
  EXPECT_EQ(c.combine.dram_read.in(units::B), 0);
}

/// 128 heads in two CTAs, 6400 keys: 10 splits each give 20 CTAs to 10 SMs.
TEST(DecodeTraffic, SplitLatentAttentionWritesItsResultsOnce) {
  const AttentionChoice c = plan_attention(MlaDecode{1, 128, 6400, 512, 64}, toy_machine());
  EXPECT_EQ(c.plan.splits, 10);
  expect_results_once(c, 128, 512);
}

TEST(DecodeTraffic, SplitFlashDecodeWritesItsResultsOnce) {
  expect_results_once(plan_attention(AttentionDecode{1, 32, 2, 128, 128, 16384}, toy_flash()), 32, 128);
}

TEST(DecodeTraffic, OurSplitDecodeWritesItsResultsOnce) {
  Calibration c = toy_calibration();
  for (const char* family : {"own.attention_decode", "own.combine", "own.rowwise"})
    c.families[family] = c.families["library.attention_decode"];
  const auto m = toy_machine(toy_gpu(), c, KernelSet::own);
  const AttentionChoice split = plan_attention(AttentionDecode{1, 8, 1, 128, 128, 16384}, m);
  ASSERT_EQ(split.family, &scalars_of(m, "own.attention_decode"));
  expect_results_once(split, 8, 128);
  // enough streams for the SMs: no splits, and the launch writes what it has
  const AttentionChoice whole = plan_attention(AttentionDecode{40, 8, 1, 128, 128, 256}, m);
  ASSERT_FALSE(whole.combines);
  EXPECT_DOUBLE_EQ(whole.main.dram_write.in(units::B), 40 * 8 * 128 * 2);
}

/// 10 splits leave 128 x 10 rows of 512 values and a log-sum in fp32, 2.6 MB: beyond an L2 of 2 MiB they go to DRAM and
/// come back.
TEST(DecodeTraffic, PartialResultsBeyondL2GoThroughDram) {
  Gpu gpu = toy_gpu();
  gpu.l2.size = 2.0 * units::MiB;
  const AttentionChoice c = plan_attention(MlaDecode{1, 128, 6400, 512, 64}, toy_machine(gpu));
  const double partials = 128 * 10 * 513 * 4;
  EXPECT_DOUBLE_EQ(c.combine.dram_read.in(units::B), partials);
  EXPECT_DOUBLE_EQ(c.combine.dram_write.in(units::B), partials + 128 * 512 * 2);
}

/// Keys wider than values by a rotated part are latent attention; values wider than keys are not, and all of the
/// queries are rotated: 4 tokens x 2 heads x 64 in, and out again; keys and values of one head, 64 + 128.
TEST(PrefillTraffic, OnlyKeysWiderThanValuesAreLatent) {
  AttentionPrefill s{1, 2, 1, 64, 128, 4, 4, true, 0, 1};
  EXPECT_DOUBLE_EQ(plan_attention(s, toy_machine()).prepare.dram_read.in(units::B), 4 * (2 * 64 + 192) * 2);
  // 192 = 128 + 64 rotated: of the queries 64 of 192 values, and one narrow row of 192 + 128 a token
  s.qk_dim = 192;
  EXPECT_DOUBLE_EQ(plan_attention(s, toy_machine()).prepare.dram_read.in(units::B), 4 * (2 * 64 + 320) * 2);
}

/// Two KV heads come from one narrow row a token: that is what is read, not both heads.
TEST(PrefillTraffic, LatentKeysAreOneRowForAllHeads) {
  const AttentionPrefill s{1, 2, 2, 192, 128, 4, 4, true, 0, 1};
  EXPECT_DOUBLE_EQ(plan_attention(s, toy_machine()).prepare.dram_read.in(units::B), 4 * (2 * 64 + 320) * 2);
}

/// 32 new keys of one head, 20 + 12 wide, of which a window of one shows a single one: queries, their rotated part once
/// more, all new keys to be stored, and the one that is seen.
TEST(PrefillTraffic, NewKeysThatNoQuerySeesAreReadToo) {
  const AttentionPrefill s{1, 1, 1, 20, 12, 32, 32, false, 1, 1};
  const AttentionChoice c = plan_attention(s, toy_machine());
  EXPECT_DOUBLE_EQ((c.main.dram_read + c.prepare.dram_read).in(units::B), 2.0 * (32 * 20 + 32 * 8 + 32 * 32 + 32));
}

/// 10 rows of 1 routed to 4 experts of which 3.77 are expected to be touched, four whole ones: 2.5 rows each, none of
/// them twice.
TEST(GroupedGemmTraffic, RowsAreNotRoundedUp) {
  const GroupedGemm s{4, 1, 10, 64, 64, 0, {}};
  const OpPrediction p = predict(Op(s), toy_machine());
  EXPECT_NEAR(p.dram_bytes().in(units::B), work(Op(s)).bytes().in(units::B), 1);
}

/// One tile of 128 x 256 and much of K: the planner splits it. What the splits leave, 128 KiB each in fp32, goes through
/// DRAM where L2 has 128 KiB, there and back, and stays where it has 32 MiB.
TEST(GemmTraffic, PartialResultsBeyondL2GoThroughDram) {
  const GemmTask task = task_of(Gemm{128, 256, 65536, 1, {}, false}, toy_machine());
  for (const double mib : {0.125, 32.0}) {
    Gpu gpu = toy_gpu();
    gpu.l2.size = mib * units::MiB;
    const auto m = toy_machine(gpu);
    GemmCache cache;
    const GemmChoice choice = plan_gemm(task, m, cache);
    ASSERT_TRUE(choice.reduces);
    const double partials = mib < 1 ? static_cast<double>(choice.plan.splits) * 128 * 256 * 4 : 0;
    EXPECT_DOUBLE_EQ(choice.reduce.dram_read.in(units::B), partials);
    EXPECT_DOUBLE_EQ(choice.reduce.dram_write.in(units::B), partials + 128 * 256 * 2);
    EXPECT_EQ(choice.main.dram_write.in(units::B), 0);
  }
}

/// A row of 2 bytes brings a sector of 32; its number, 4 bytes, lies beside others'.
TEST(EmbeddingTraffic, NarrowRowsBringWholeSectors) {
  const OpPrediction p = predict(Op(Embedding{1000, 1}), toy_machine());
  EXPECT_DOUBLE_EQ(p.dram_read.in(units::B), 1000 * (32 + 4));
}

}  // namespace
}  // namespace plumbline::traffic_test
