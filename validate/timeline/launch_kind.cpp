#include "validate/timeline/launch_kind.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace plumbline {
namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

template <std::size_t N>
bool has_any(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// Operators of PyTorch (aten/src/ATen/native/native_functions.yaml) and of what is built on it.
constexpr std::array<std::string_view, 7> kMatrixCalls{"aten::mm",
                                                       "aten::addmm",
                                                       "aten::bmm",
                                                       "aten::baddbmm",
                                                       "aten::_scaled_mm",
                                                       "aten::_grouped_mm",
                                                       "aten::_scaled_grouped_mm"};
constexpr std::array<std::string_view, 4> kAttentionWords{"attention", "flash", "fmha", "sdpa"};
// Names of kernels: cuBLAS and cuBLASLt (nvjet, xmma, gemv, cutlass), CUTLASS, Triton's and vLLM's own.
constexpr std::array<std::string_view, 9> kMatrixWords{"gemm",   "nvjet", "xmma",   "gemv",  "cutlass",
                                                       "cublas", "_mm_",  "splitk", "matmul"};
constexpr std::array<std::string_view, 4> kCollectiveWords{"nccl", "all_reduce", "allreduce", "cross_device_reduce"};
constexpr std::array<std::string_view, 4> kHelperWords{"splitkreduce", "lean_reduction", "splitkv_combine",
                                                       "combine_kernel"};

/// What words of a node say, and what libraries' names say of the same.
struct Synonym {
  std::string_view node, kernel;
};
constexpr std::array<Synonym, 30> kSynonyms{
    {{"to_fp32", "copy"},  {"from_fp32", "copy"}, {"square", "pow"},  {"mean", "mean"},     {"rsqrt", "rsqrt"},
     {"add", "add"},       {"times", "mul"},      {"mul", "mul"},     {"scale", "mul"},     {"negate", "neg"},
     {"join", "cat"},      {"keys", "cat"},       {"values", "cat"},  {"gather", "index"},  {"embedding", "embedding"},
     {"expand", "copy"},   {"silu", "silu"},      {"act", "silu"},    {"gelu", "gelu"},     {"softmax", "softmax"},
     {"norm", "norm"},     {"rope", "rot"},       {"topk", "topk"},   {"select", "topk"},   {"sort", "sort"},
     {"argmax", "argmax"}, {"tanh", "tanh"},      {"quant", "quant"}, {"reduce", "reduce"}, {"positions", "arange"}}};

static_assert(kSynonyms.size() <= 32);

std::uint32_t said(const std::string& text, std::string_view Synonym::*side) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < kSynonyms.size(); ++i) {
    if (text.find(kSynonyms[i].*side) != std::string::npos) found |= std::uint32_t{1} << i;
  }
  return found;
}

}  // namespace

LaunchKind kind_of(const Op& op) {
  if (std::holds_alternative<Gemm>(op) || std::holds_alternative<GroupedGemm>(op) ||
      std::holds_alternative<GemmSparse24>(op)) {
    return LaunchKind::matrix;
  }
  if (std::holds_alternative<AttentionPrefill>(op) || std::holds_alternative<AttentionDecode>(op) ||
      std::holds_alternative<AttentionBackward>(op) || std::holds_alternative<MlaDecode>(op)) {
    return LaunchKind::attention;
  }
  if (std::holds_alternative<Collective>(op) || std::holds_alternative<ExpertExchange>(op))
    return LaunchKind::collective;
  return LaunchKind::other;
}

LaunchKind kind_of(const TimelineKernel& kernel) {
  if (kernel.copy) return LaunchKind::other;
  const std::string call = lower_case(kernel.call), name = lower_case(kernel.kernel);
  if (has_any(name, kCollectiveWords)) return LaunchKind::collective;
  // Inductor names element-wise kernels and reductions by all operators whose views they read.
  for (const std::string_view fused : {"triton_poi_", "triton_red_", "triton_per_"}) {
    if (name.starts_with(fused)) return LaunchKind::other;
  }
  if (has_any(call, kAttentionWords)) return LaunchKind::attention;
  if (std::find(kMatrixCalls.begin(), kMatrixCalls.end(), call) != kMatrixCalls.end()) {
    // a sum over parts is a launch of its own in the lists of what PyTorch launches
    return is_helper(kernel) ? LaunchKind::other : LaunchKind::matrix;
  }
  if (is_helper(kernel)) return LaunchKind::other;
  // What PyTorch compiles by itself is never a product, whatever it is templated on.
  if (call.starts_with("aten::") && name.find("at::native") != std::string::npos) return LaunchKind::other;
  if (has_any(name, kAttentionWords)) return LaunchKind::attention;
  return has_any(name, kMatrixWords) && name.find("at::native") == std::string::npos ? LaunchKind::matrix
                                                                                     : LaunchKind::other;
}

bool is_helper(const TimelineKernel& kernel) { return has_any(lower_case(kernel.kernel), kHelperWords); }

double MatrixSizes::products() const {
  return static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K) * static_cast<double>(batch);
}

std::optional<MatrixSizes> matrix_sizes(const Op& op) {
  if (const auto* gemm = std::get_if<Gemm>(&op)) return MatrixSizes{gemm->m, gemm->n, gemm->k, gemm->batch};
  if (const auto* sparse = std::get_if<GemmSparse24>(&op)) return MatrixSizes{sparse->m, sparse->n, sparse->k, 1};
  return std::nullopt;
}

std::optional<MatrixSizes> matrix_sizes(const TimelineKernel& kernel) {
  for (std::size_t i = kernel.sizes.size(); i-- > 1;) {
    const std::vector<std::int64_t>&left = kernel.sizes[i - 1], &right = kernel.sizes[i];
    if (left.size() < 2 || left.size() != right.size() || left.back() != right[right.size() - 2]) continue;
    MatrixSizes out{left[left.size() - 2], right.back(), left.back(), 1};
    for (std::size_t d = 0; d + 2 < left.size(); ++d) out.batch *= left[d];
    return out;
  }
  return std::nullopt;
}

std::uint32_t words_of(std::string_view node, std::string_view op) {
  return said(lower_case(node.substr(node.find('.') + 1)) + " " + std::string(op), &Synonym::node);
}

std::uint32_t words_of(const TimelineKernel& kernel) {
  return said(lower_case(kernel.call + " " + kernel.kernel), &Synonym::kernel);
}

}  // namespace plumbline
