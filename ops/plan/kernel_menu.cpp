#include "ops/plan/kernel_menu.hpp"

#include <array>

namespace plumbline {
namespace {

constexpr std::array<GemmVariant, 13> kWgmma16{{{128, 256, 128, 4},
                                                {128, 256, 128, 4, 2},
                                                {128, 224, 128, 4},
                                                {256, 112, 128, 4},
                                                {128, 192, 128, 4},
                                                {128, 160, 128, 5},
                                                {128, 128, 128, 6},
                                                {128, 96, 128, 7},
                                                {64, 128, 128, 8},
                                                {64, 96, 128, 9},
                                                {64, 64, 128, 12},
                                                {64, 32, 128, 8, 1, 2},
                                                {64, 16, 128, 10, 1, 2}}};
constexpr std::array<GemmVariant, 10> kWgmmaFp8{{{128, 192, 128, 4},
                                                 {128, 192, 128, 4, 2},
                                                 {128, 160, 128, 5},
                                                 {128, 128, 128, 6},
                                                 {128, 96, 128, 7},
                                                 {64, 128, 128, 8},
                                                 {64, 96, 128, 9},
                                                 {64, 64, 128, 12},
                                                 {64, 32, 128, 8, 1, 2},
                                                 {64, 16, 128, 10, 1, 2}}};
constexpr std::array<GemmVariant, 6> kGradient{{{128, 256, 128, 4},
                                                {128, 256, 128, 4, 2},
                                                {128, 192, 128, 4},
                                                {128, 128, 128, 6},
                                                {64, 128, 128, 8},
                                                {64, 64, 128, 12}}};
constexpr std::array<GemmVariant, 5> kMma{{{128, 256, 64, 4, 1, 1},
                                           {128, 128, 64, 4, 1, 2},
                                           {128, 64, 128, 3, 1, 3},
                                           {64, 64, 128, 4, 1, 3},
                                           {64, 16, 128, 6, 1, 3}}};
constexpr std::array<std::int64_t, 8> kSplits{1, 2, 3, 4, 6, 8, 12, 16};
constexpr std::array<PrefillVariant, 6> kPrefill{{{64, 192, 128, 1, false},
                                                  {64, 192, 128, 1, true},
                                                  {128, 128, 128, 1, false},
                                                  {128, 128, 128, 1, true},
                                                  {256, 128, 80, 1, false},
                                                  {256, 128, 80, 1, true}}};
constexpr std::array<PortablePrefillVariant, 5> kPortablePrefill{{{64, 128, 64, 2, 2, true},
                                                                  {64, 64, 64, 2, 4, true},
                                                                  {128, 128, 64, 1, 2},
                                                                  {128, 128, 64, 2, 2},
                                                                  {128, 64, 32, 2, 4}}};
constexpr std::array<BackwardVariant, 2> kBackward{{{64, 64, 128}, {128, 64, 128}}};
constexpr std::array<DecodeVariant, 3> kDecode{{{64, 16, 64, 6, 2}, {128, 16, 64, 3, 2}, {256, 16, 64, 3, 1}}};

bool is_16bit(DType type) { return type == DType::bf16 || type == DType::fp16; }

}  // namespace

std::span<const GemmVariant> own_gemm_menu(GemmEngine engine, DType math) {
  if (engine == GemmEngine::mma_sync)
    return is_16bit(math) ? std::span<const GemmVariant>(kMma) : std::span<const GemmVariant>{};
  if (is_16bit(math)) return kWgmma16;
  return math == DType::fp8 ? std::span<const GemmVariant>(kWgmmaFp8) : std::span<const GemmVariant>{};
}

std::span<const GemmVariant> own_gradient_menu() { return kGradient; }

std::span<const std::int64_t> own_gemm_splits() { return kSplits; }

const PrefillVariant* own_prefill_variant(std::int64_t head_dim, bool causal) {
  for (const PrefillVariant& v : kPrefill) {
    if (v.head_dim == head_dim && v.causal == causal) return &v;
  }
  return nullptr;
}

std::span<const PortablePrefillVariant> own_portable_prefill_menu() { return kPortablePrefill; }

std::int64_t shared_bytes(const PortablePrefillVariant& v) {
  constexpr std::int64_t kElement = 2, kKeysAndValues = 2;
  return (v.q_tile + kKeysAndValues * v.stages * v.kv_tile) * v.head_dim * kElement;
}

const BackwardVariant* own_backward_variant(std::int64_t head_dim) {
  for (const BackwardVariant& v : kBackward) {
    if (v.head_dim == head_dim) return &v;
  }
  return nullptr;
}

const DecodeVariant* own_decode_variant(std::int64_t head_dim, std::int64_t group) {
  for (const DecodeVariant& v : kDecode) {
    if (v.head_dim == head_dim && v.rows >= group) return &v;
  }
  return nullptr;
}

}  // namespace plumbline
