#include "ops/op/shapes.hpp"

#include <array>
#include <cstddef>

namespace plumbline {
namespace {

template <class Kind, std::size_t N>
constexpr std::string_view pick(const std::array<std::string_view, N>& names, Kind kind) {
  return names[static_cast<std::size_t>(kind)];
}

constexpr std::array<std::string_view, static_cast<std::size_t>(RowwiseKind::count_)> kRowwise{
    "layernorm",
    "rmsnorm",
    "softmax",
    "silu",
    "gelu",
    "add",
    "copy",
    "sum_rows",
    "argmax",
    "transpose_copy",
    "swiglu",
    "relu",
    "scale",
    "mask",
    "dropout",
    "quantize",
    "adamw",
    "dropout_backward",
    "softmax_backward",
    "scale_mask_softmax_dropout",
    "scale_mask_softmax_dropout_backward"};
constexpr std::array<std::string_view, 2> kScan{"sum_all", "cumsum"};
constexpr std::array<std::string_view, 3> kRecurrent{"mamba1", "mamba2", "gated_delta_net"};
constexpr std::array<std::string_view, 4> kCollective{"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
constexpr std::array<std::string_view, 4> kTransfer{"send_recv", "h2d", "d2h", "d2d"};

struct NameOf {
  std::string_view operator()(const Gemm&) const { return "gemm"; }
  std::string_view operator()(const GroupedGemm&) const { return "grouped_gemm"; }
  std::string_view operator()(const AttentionPrefill&) const { return "attention_prefill"; }
  std::string_view operator()(const AttentionDecode&) const { return "attention_decode"; }
  std::string_view operator()(const MlaDecode&) const { return "mla_decode"; }
  std::string_view operator()(const Rowwise& op) const { return name(op.kind); }
  std::string_view operator()(const Rope&) const { return "rope"; }
  std::string_view operator()(const TopK&) const { return "topk"; }
  std::string_view operator()(const SoftmaxTopK&) const { return "softmax_topk"; }
  std::string_view operator()(const Embedding&) const { return "embedding"; }
  std::string_view operator()(const Scan& op) const { return name(op.kind); }
  std::string_view operator()(const Spmv&) const { return "spmv"; }
  std::string_view operator()(const GemmSparse24&) const { return "gemm_sparse24"; }
  std::string_view operator()(const Recurrence&) const { return "recurrence"; }
  std::string_view operator()(const CausalConv&) const { return "causal_conv"; }
  std::string_view operator()(const MoePermute&) const { return "moe_permute"; }
  std::string_view operator()(const Collective& op) const { return name(op.kind); }
  std::string_view operator()(const Transfer& op) const { return name(op.kind); }
};

}  // namespace

std::string_view op_name(const Op& op) { return std::visit(NameOf{}, op); }

std::string_view name(RowwiseKind kind) { return pick(kRowwise, kind); }
std::string_view name(ScanKind kind) { return pick(kScan, kind); }
std::string_view name(RecurrentKind kind) { return pick(kRecurrent, kind); }
std::string_view name(CollectiveKind kind) { return pick(kCollective, kind); }
std::string_view name(TransferKind kind) { return pick(kTransfer, kind); }

}  // namespace plumbline
