// FlashInfer as SGLang calls it: prefill by FlashAttention's algorithm in the same tiles; decode by a kernel of ordinary
// lanes where a KV head has few query heads, else by tensor units with its query heads packed. Its planner is the
// published sources' (include/flashinfer/attention/scheduler.cuh and decode.cuh, 2026). Nobody's measurements of it are
// on file: FlashAttention's scalars stand in, which says nothing of how well its inner loops are written. vLLM calls it for
// caches of 8 bits where FlashAttention has no kernels for them.
#include <algorithm>
#include <array>
#include <cmath>

#include "model/stacks/flash_attention/plan_attention.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

using flash_attention::kCombine;
using flash_attention::kDecode;
using flash_attention::kFamilies;

constexpr auto kPrefillClasses = std::to_array<BandClass>({{Variant::usual, "flashinfer_prefill", false}});
constexpr auto kDecodeClasses = std::to_array<BandClass>({{Variant::usual, "flashinfer_decode", false}});

/// Behind those that FlashAttention has too: prompts on mma.sync, whose scalars are FA2's; and the launch that writes a new
/// token to the cache before decode, vLLM's.
constexpr std::size_t kPrefillMma = kFamilies, kCacheWrite = kFamilies + 1;

/// In the order of FlashAttention's families, whose planner prices prefill.
constexpr std::array<FamilyDeclaration, kFamilies + 2> kDeclared{
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
     {.name = "flash_cache_write", .op = "attention_prefill", .required = false, .stand_in = "library.flash_append"}}};

constexpr std::array<std::string_view, 2> kOps{"attention_prefill", "attention_decode"};

/// How a decode launch cuts the cache.
struct DecodeCut {
  double rows;         ///< query rows of a CTA
  double keys;         ///< of a step
  double ctas_per_sm;  ///< that its planner counts on
  double threads;
  bool tensor;
};

/// SGLang asks for tensor units from 4 query heads a KV head on, and always for 8-bit caches.
constexpr double kFewestOnTensorUnits = 4;

DecodeCut decode_cut(const AttentionDecode& s, const DecodeTask& t, const Rates& m) {
  const double kv_bytes = bytes_of(s.kv_dtype);
  if (t.rows >= kFewestOnTensorUnits || kv_bytes < 2) {
    // FA2DetermineCtaTileQ of packed rows; two CTAs an SM
    return {t.rows > 64 && s.qk_dim < 256 ? 128.0 : t.rows > 16 ? 64.0 : 16.0, 64, 2, 128, true};
  }
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
  score_demand(d, {cut.rows, cut.keys, t.qk_dim, t.v_dim}, m.gpu.sm.tensor_flop_per_clk[s.dtype],
               t.key_bytes / (t.qk_dim + t.v_dim), m, kPlainSoftmax);
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
    decode_traffic(main, t, s.dtype, splits > 1 ? ResultsLeave::by_the_merge : ResultsLeave::here);
    c.combines = splits > 1;
    if (c.combines) c.combine = combine_demand(t.out_rows, t.v_dim, splits, output_bytes_of(s.dtype), m);
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
    return "attention: FlashInfer's planner with FlashAttention's scalars; FlashInfer itself was never measured";
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
