// FlashInfer as SGLang calls it: prefill by FlashAttention's algorithm in the same tiles; decode by a kernel of ordinary
// lanes where a KV head has few query heads, else by tensor units with its query heads packed. Its planner is the
// published sources' (include/flashinfer/attention/scheduler.cuh and decode.cuh, 2026). Of its measurements decode on an
// H800 by tensor units is on file (InferSim), and gave the merge's clocks alone: FlashAttention's scalars stand in, which says
// nothing of how well its other loops are written. vLLM calls it for caches of 8 bits where FlashAttention has no kernels
// for them.
#include <algorithm>
#include <array>
#include <cmath>

#include "model/stacks/common/deal_in_order.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/shared_sms.hpp"
#include "model/stacks/flash_attention/plan_attention.hpp"
#include "model/stacks/flash_attention/second.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

using flash_attention::kCombine;
using flash_attention::kDecode;
using flash_attention::kFamilies;

constexpr auto kPrefillClasses = std::to_array<BandClass>({{Variant::usual, "flashinfer_prefill", false}});
constexpr auto kDecodeClasses = std::to_array<BandClass>({{Variant::usual, "flashinfer_decode", false}});

/// Behind those that FlashAttention has too: prompts on mma.sync, whose scalars are FA2's; and the launch that writes a new
/// token to the cache before decode, vLLM's; what a step of FA2 leaves of units that could work side by side.
constexpr std::size_t kPrefillMma = kFamilies, kCacheWrite = kFamilies + 1, kSecondSteps = kFamilies + 2;

/// In the order of FlashAttention's families, whose planner prices prefill.
constexpr std::array<FamilyDeclaration, kFamilies + 3> kDeclared{
    {{.name = "flashinfer_prefill",
      .op = "attention_prefill",
      .stand_in = "library.flash_prefill",
      .stand_in_inherits = true,
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "flashinfer_decode",
      .op = "attention_decode",
      .stand_in = "library.flash_decode",
      .stand_in_inherits = true,
      .kind = "decode",
      .classes = kDecodeClasses},
     {.name = "combine", .op = "attention_decode"},
     {.name = "flashinfer_append", .op = "attention_prefill", .stand_in = "library.flash_append"},
     {.name = "flashinfer_prefill_mma",
      .op = "attention_prefill",
      .required = false,
      .stand_in = "library.flash_prefill_mma",
      .stand_in_inherits = true,
      .carry = {.fixed_in_cycles = true},
      .kind = "prompts",
      .classes = kPrefillClasses},
     {.name = "flash_cache_write", .op = "attention_prefill", .required = false, .stand_in = "library.flash_append"},
     {.name = "flash_second", .op = "attention_prefill", .required = false, .carry = {.fixed_in_cycles = true}}}};

constexpr std::array<std::string_view, 2> kOps{"attention_prefill", "attention_decode"};

/// How a decode launch cuts the cache.
struct DecodeCut {
  double rows;         ///< query rows of a CTA
  double keys;         ///< of a step
  double ctas_per_sm;  ///< that its planner counts on
  double threads;
  bool tensor;
  double row_warps = 1;  ///< warps that have rows of their own, and read all keys for them
};

/// SGLang asks for tensor units from 4 query heads a KV head on, and always for 8-bit caches.
constexpr double kFewestOnTensorUnits = 4;

/// The kernel of prompts by mma.sync, whatever the card has: the wrapper of decode takes "fa2" (flashinfer/decode.py, plan()). Rows
/// by FA2DetermineCtaTileQ(), four warps that share them from 64 on and keys below; keys by what half of an SM's shared memory
/// holds beside the rows, and by registers. (prefill.cuh, BatchPrefillWithPagedKVCacheDispatched())
DecodeCut tensor_cut(const AttentionDecode& s, const DecodeTask& t, const Rates& m) {
  constexpr double kWarps = 4, kMma = 16, kMostMmas = 8;
  DecodeCut cut{16, 64, 2, 128, true};
  if (t.rows > 16) cut.rows = t.rows > 64 && s.qk_dim < 256 ? 128 : 64;
  cut.row_warps = cut.rows > 16 ? kWarps : 1;
  const double queries = cut.rows * t.qk_dim * bytes_of(s.dtype), key_warps = kWarps / cut.row_warps;
  const double unit = kMma * key_warps * t.key_bytes, room = m.gpu.sm.smem.in(units::B);
  const double half = room >= 2 * (queries + unit) ? room / 2 : room;
  const double fits = std::min(std::floor((half - queries) / unit), kMostMmas / std::ceil(cut.rows / (kWarps * kMma)));
  cut.keys = kMma * key_warps * std::exp2(std::floor(std::log2(std::max(1.0, fits))));
  return cut;
}

DecodeCut decode_cut(const AttentionDecode& s, const DecodeTask& t, const Rates& m) {
  const double kv_bytes = bytes_of(s.kv_dtype);
  if (t.rows >= kFewestOnTensorUnits || kv_bytes < 2) return tensor_cut(s, t, m);
  // 16 bytes a thread, 128 threads at least; one query head walks four keys a thread
  const double lanes = t.qk_dim / std::max(16 / kv_bytes, t.qk_dim / 32);
  const double threads = std::max(128.0, lanes * t.rows);
  const double keys = (t.rows < 2 ? 4 : 1) * std::floor(threads / lanes);
  const double stages = m.path.async_copy ? 2 : 1;
  const double ring = stages * keys * t.key_bytes;
  const double resident =
      std::floor(std::min(m.gpu.sm.smem.in(units::B) / ring, static_cast<double>(m.gpu.sm.threads) / threads));
  return {t.rows, keys, std::max(1.0, resident), threads, false};
}

/// What a step of the kernel by mma.sync takes an SM that has as many CTAs as the planner counts on.
SmShare share_of(const DecodeCut& cut, const DecodeTask& t, DType type, const Rates& m, const FamilyScalars& steps) {
  const double scores = cut.rows * cut.keys, width = t.qk_dim + t.v_dim;
  flash_attention::SecondStep step;
  step.products = 2 * scores * width / flash_attention::second_flop_per_clk(type, m);
  step.softmax = flash_attention::softmax_clk(scores, cut.rows * t.v_dim, m);
  const double read = cut.rows * t.qk_dim + cut.row_warps * cut.keys * width, filled = cut.keys * width;
  step.operands = (read + filled) * bytes_of(type) / m.gpu.sm.smem_bytes_per_clk.in(units::B);
  SmShare share;
  share.resident = static_cast<std::size_t>(cut.ctas_per_sm);
  for (std::size_t i = 0; i < share.resident; ++i) {
    const double ctas = static_cast<double>(i + 1), warps = cut.threads / static_cast<double>(m.gpu.sm.warp_size);
    share.step_clk[i] =
        ctas * flash_attention::second_step_clk(step, ctas * warps / flash_attention::kSmQuarters, steps);
  }
  return share;
}

/// A CTA of the merge goes through its share of (query, head) pairs one after the other: where its parts begin, their sums, what
/// its four rows of threads hold together. (cascade.cuh, PersistentVariableLengthMergeStatesKernel) Clocks of a pair where eight
/// CTAs share an SM: of 2400, 3600, 4800 and 6000 the nearest to 85 training rows of an H800 (groups from 32 heads on, 40 us and
/// more). More than four parts take further turns of its rows, which are not counted.
Demand merge_demand(const DecodeTask& t, double splits, double out_bytes, const Rates& m) {
  constexpr double kPairClk = 4800;
  Demand d = combine_demand(t.out_rows, t.v_dim, splits, out_bytes, m);
  d.step_latency = 3 * m.l2_mean_latency() + kPairClk / m.clock;
  return d;
}

constexpr double kLeastKeys = 128;  // a part

/// As few keys a part as the grid has room for.
double splits_of(const DecodeTask& t, const DecodeCut& cut, const Rates& m) {
  const double room = std::floor(cut.ctas_per_sm * m.sm_count / t.kv_sets);
  const double part = std::max(kLeastKeys, ceil_div(t.context, std::max(1.0, room)));
  return ceil_div(t.context, part);
}

AttentionChoice plan_decode(const AttentionDecode& s, const Rates& m, std::span<const FamilyScalars> families,
                            const KeyCutting& how) {
  const DecodeTask t = decode_task(s);
  const DecodeCut cut = decode_cut(s, t, m);
  AttentionChoice c;
  c.family = &families[kDecode];
  c.combine_family = &families[kCombine];
  c.plan.kv_tile = static_cast<std::int64_t>(cut.keys);
  c.plan.packed_heads = static_cast<std::int64_t>(t.rows);
  Demand& d = c.main;
  d.plan.ctas_per_sm = static_cast<std::int64_t>(cut.ctas_per_sm);
  d.plan.threads = static_cast<std::int64_t>(cut.threads);
  score_demand(d, {cut.rows, cut.keys, t.qk_dim, t.v_dim}, mma_sync_flop_per_clk(s.dtype, m),
               t.key_bytes / (t.qk_dim + t.v_dim), m, kPlainSoftmax);
  SmShare share;
  const bool dealt = cut.tensor && families[kSecondSteps].on_file;
  if (dealt) {
    share = share_of(cut, t, s.dtype, m, families[kSecondSteps]);
    d.overlap = kBesideTheChain;
  }
  if (!cut.tensor) {
    d.tensor_clk = 0;
    d.fp32_clk += 2 * cut.rows * cut.keys * (t.qk_dim + t.v_dim) / m.gpu.sm.fp32_flop_per_clk;
  }
  // FlashAttention's chain is of steps of 64 keys of 2 x 128 at 16 bits
  constexpr double kReferenceKeyBytes = 512, kReferenceKeys = 64;
  const double step_clk = c.family->step_clk * t.key_bytes / kReferenceKeyBytes * cut.keys / kReferenceKeys;
  cut_keys(c, how, splits_of(t, cut, m), ceil_div(t.context, kLeastKeys), m, [&](Demand& main, double splits) {
    main.plan.ctas = static_cast<std::int64_t>(t.kv_sets * splits);
    main.plan.steps = main.plan.longest = ceil_div(ceil_div(t.context, splits), cut.keys);
    main.step_latency = (c.family->start_clk + (main.plan.steps + 1) * step_clk) / main.plan.steps / m.clock;
    if (dealt) {
      const CtaBatch all{main.plan.steps, static_cast<double>(main.plan.ctas)};
      main.dealt_clk = clocks_of({&all, 1}, m.sm_count, share);
      main.step_latency = step_clk / m.clock;
      // nothing is there to hide the first CTAs' way to their first keys: the indices of pages, then the keys
      main.serial_latency = c.family->start_clk / m.clock;
    }
    decode_traffic(main, t, s.dtype, splits > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
    c.combines = splits > 1;
    if (c.combines) c.combine = merge_demand(t, splits, output_bytes_of(s.dtype), m);
  });
  return c;
}

constexpr Rule kDecodeRule{"FlashInfer", "split of the keys",
                           "PartitionPagedKVCacheBinarySearchMinNumPagePerBatch(), include/flashinfer/attention/"
                           "scheduler.cuh"};

bool by_mma_sync(const Question& q) { return q.rates.path.kind == TensorPath::Kind::mma_sync; }

/// Its tiles on mma.sync are FA2's: 128 query rows, two CTAs an SM (prefill.cuh, FA2DetermineCtaTileQ(), num_ctas_per_sm).
AttentionChoice plan_prefill(const AttentionPrefill& s, const Question& q) {
  PrefillCut cut;
  if (by_mma_sync(q) && q.families[kPrefillMma].on_file) cut.family = kPrefillMma;
  return plan_flash_prefill(s, appends(s, q), q.rates, q.families, cut);
}

struct CacheType {
  DType operator()(const AttentionPrefill& s) const { return s.kv_dtype; }
  DType operator()(const AttentionDecode& s) const { return s.kv_dtype; }
  template <class Other>
  DType operator()(const Other&) const {
    return DType::bf16;
  }
};

/// `narrow_alone`: what vLLM hands to it, caches of 8 bits on cards without FA3. (vllm/v1/attention/backends/fa_utils.py,
/// flash_attn_supports_fp8(); platforms/cuda.py: FLASHINFER is next.)
class FlashInfer final : public Provider {
 public:
  explicit FlashInfer(bool narrow_alone) : narrow_alone_(narrow_alone) {}
  std::string_view name() const override { return narrow_alone_ ? "flashinfer_8bit" : "flashinfer"; }
  bool hands_on() const override { return narrow_alone_; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }
  std::string_view assumption() const override {
    if (narrow_alone_) return "";
    return "attention: FlashInfer's planner with FlashAttention's scalars; FlashInfer itself was measured on one card "
           "alone";
  }

  const Rule* rule(const Op& op) const override {
    return std::holds_alternative<AttentionDecode>(op) ? &kDecodeRule : nullptr;
  }

  bool plan(const Question& q, Answer& out) const override {
    if (narrow_alone_ && (!by_mma_sync(q) || bits(std::visit(CacheType{}, q.op)) > 8)) return false;
    if (const auto* prefill = std::get_if<AttentionPrefill>(&q.op)) {
      require_tensor_path(prefill->dtype, q);
      answer_attention(plan_prefill(*prefill, q), "attention", Variant::usual, q, out);
      return true;
    }
    if (const auto* decode = std::get_if<AttentionDecode>(&q.op)) {
      require_tensor_path(decode->dtype, q);
      AttentionChoice choice = plan_decode(*decode, q.rates, q.families, key_cutting(q));
      // its kernels read the cache alone: who calls them writes new keys and values by a launch before
      if (decode->append == 1) write_new_token(choice, *decode, q.families[kCacheWrite], q.rates);
      answer_attention(choice, "split-KV attention", Variant::usual, q, out);
      return true;
    }
    return false;
  }

 private:
  bool narrow_alone_;
};

}  // namespace

const Provider& flashinfer_provider() {
  static const FlashInfer provider(false);
  return provider;
}

const Provider& flashinfer_8bit_provider() {
  static const FlashInfer provider(true);
  return provider;
}

}  // namespace plumbline
