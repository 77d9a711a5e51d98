#include "model/stacks/own/own_kernels.hpp"

#include <algorithm>

#include "model/stacks/own/plan_attention.hpp"

namespace plumbline {
namespace {

bool is_hopper(const Rates& m) { return m.path.kind == TensorPath::Kind::wgmma; }

/// Cards whose tensor units are driven by mma.sync alone and which have cp.async, as the portable kernels are written.
/// (On cards with tcgen05 they run too, far below what their own instructions give: not kernels to price them by.)
bool is_portable(const Rates& m) { return m.path.kind == TensorPath::Kind::mma_sync && m.path.async_copy; }

bool is_16bit(DType type) { return type == DType::bf16 || type == DType::fp16; }

/// bf16 throughout, or fp16.
bool all_16bit(const Precision& p) {
  return is_16bit(p.math) && p.input == p.math && p.weight == p.math && p.output == p.math;
}

bool fp8_to_bf16(const Precision& p) {
  return p.input == DType::fp8 && p.weight == DType::fp8 && p.output == DType::bf16 && p.math == DType::fp8;
}

/// A gradient's product: W as it lies, and with an fp32 result the left operand too, [K, M].
bool gradient_of_bf16(const Gemm& s) {
  const Precision& p = s.precision;
  const bool bf16 = p.input == DType::bf16 && p.weight == DType::bf16 && p.math == DType::bf16;
  const bool of_weights = p.output == DType::fp32;
  return bf16 && s.layout != WeightLayout::nk && (of_weights || (p.output == DType::bf16 && !s.accumulate));
}

bool gradient_strides(const Gemm& s) {
  constexpr std::int64_t kUnit = 8;  // bf16 in 16 bytes
  const std::int64_t row = s.precision.output == DType::fp32 ? s.m : s.k;
  return row % kUnit == 0 && s.n % kUnit == 0;
}

/// A tensor map's strides are whole 16-byte units.
bool tma_takes(const Gemm& s) {
  constexpr std::int64_t kUnit = 16, kOutputBytes = 2;
  const std::int64_t input_bytes = s.precision.input == DType::fp8 ? 1 : 2;
  return s.k * input_bytes % kUnit == 0 && s.n * kOutputBytes % kUnit == 0;
}

/// Whether the ring of one CTA is in the SM.
bool ring_fits(const GemmVariant& v, const Rates& m) {
  const double ring = static_cast<double>((v.rows + v.cols) * v.step_bytes * v.stages);
  return ring * units::B <= m.gpu.sm.smem;
}

bool any_fits(GemmEngine engine, DType math, const Rates& m) {
  for (const GemmVariant& v : own_gemm_menu(engine, math)) {
    if (ring_fits(v, m)) return true;
  }
  return false;
}

}  // namespace

bool runs_portable_gemm(const Gemm& s, const Rates& m, std::span<const FamilyScalars> families) {
  if (!families[own::kGemmPortable].on_file || !(is_hopper(m) || is_portable(m))) return false;
  if (s.bias || s.accumulate || s.layout != WeightLayout::nk || !all_16bit(s.precision)) return false;
  return any_fits(GemmEngine::mma_sync, s.precision.math, m);
}

std::optional<GemmEngine> own_gemm_engine(const Gemm& s, const Rates& m, std::span<const FamilyScalars> families) {
  if (s.bias) return std::nullopt;
  if (gradient_of_bf16(s)) {
    const bool runs = families[own::kGemm].on_file && is_hopper(m) && gradient_strides(s);
    return runs ? std::optional(GemmEngine::wgmma) : std::nullopt;
  }
  if (s.accumulate || s.layout != WeightLayout::nk) return std::nullopt;
  if (!all_16bit(s.precision) && !fp8_to_bf16(s.precision)) return std::nullopt;
  const bool by_tma = families[own::kGemm].on_file && is_hopper(m) && tma_takes(s);
  if (by_tma && any_fits(GemmEngine::wgmma, s.precision.math, m)) return GemmEngine::wgmma;
  return runs_portable_gemm(s, m, families) ? std::optional(GemmEngine::mma_sync) : std::nullopt;
}

const PrefillVariant* own_prefill_kernel(const AttentionPrefill& s, const Rates& m,
                                         std::span<const FamilyScalars> families) {
  if (!families[own::kPrefill].on_file || !is_hopper(m)) return nullptr;
  if (!is_16bit(s.dtype) || s.kv_dtype != s.dtype || s.qk_dim != s.v_dim) return nullptr;
  if (s.window > 0 || s.append == 1) return nullptr;
  return own_prefill_variant(s.qk_dim, s.causal);
}

bool runs_portable_prefill(const AttentionPrefill& s, const Rates& m, std::span<const FamilyScalars> families) {
  if (!families[own::kPrefillPortable].on_file || !(is_hopper(m) || is_portable(m))) return false;
  if (!is_16bit(s.dtype) || s.kv_dtype != s.dtype) return false;
  if (s.qk_dim != s.v_dim || s.window > 0 || s.append == 1) return false;
  const auto menu = own_portable_prefill_menu();
  return std::any_of(menu.begin(), menu.end(), [&](const auto& v) { return runs_portable(v, s, m); });
}

const BackwardVariant* own_backward_kernel(const AttentionBackward& s, const Rates& m,
                                           std::span<const FamilyScalars> families) {
  if (!families[own::kBackward].on_file || !is_hopper(m)) return nullptr;
  if (s.dtype != DType::bf16 || s.qk_dim != s.v_dim || s.window > 0) return nullptr;
  if (s.deterministic) return nullptr;  // ours adds to dQ in L2, in the order in which CTAs come
  return own_backward_variant(s.qk_dim);
}

const DecodeVariant* own_decode_kernel(const AttentionDecode& s, const Rates& m,
                                       std::span<const FamilyScalars> families) {
  if (!families[own::kDecode].on_file || !(is_hopper(m) || is_portable(m))) return nullptr;
  if (!is_16bit(s.dtype) || s.kv_dtype != s.dtype || s.qk_dim != s.v_dim || s.window > 0) return nullptr;
  if (s.append == 1) return nullptr;
  const DecodeVariant* v = own_decode_variant(s.qk_dim, s.q_heads / s.kv_heads);
  if (v == nullptr) return nullptr;
  const bool whole_pages = s.page == 0 || (s.page >= 16 && (s.page % v->kv_tile == 0 || v->kv_tile % s.page == 0));
  if (!whole_pages) return nullptr;
  const double ring = static_cast<double>(v->stages * v->kv_tile * (s.qk_dim + s.v_dim) * v->ctas_per_sm) * 2;
  return ring * units::B <= m.gpu.sm.smem ? v : nullptr;
}

bool runs_own_kernels(const Rates& m) { return is_hopper(m) || is_portable(m); }

bool runs_own_rows(const Rates& m) { return is_hopper(m); }

}  // namespace plumbline
