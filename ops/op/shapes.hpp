// One plain struct per operator: what it computes, in elements, for one rank. No machine, no kernel.
//
// Row-major throughout. Names follow the contract's table; each struct's comment is the operator's definition.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "arch/dtype.hpp"

namespace plumbline {

/// y[M,N] = x[M,K] W[N,K]^T, `batch` independent copies of all three.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Precision precision;
  bool bias = false;
  bool operator==(const Gemm&) const = default;
};

/// T tokens, each through `topk` of E experts: y_e[t_e,N] = x_e[t_e,K] W_e[N,K]^T. `skew` in [0,100]: percent by which
/// the hottest expert exceeds the mean load; 0 = balanced. All `topk` experts of a token read the same row of x[T,K];
/// for the down projection, whose T x topk input rows all differ, pass tokens = T x topk and topk = 1.
struct GroupedGemm {
  std::int64_t experts = 0, topk = 0, tokens = 0, n = 0, k = 0;
  double skew = 0;
  Precision precision;
  bool operator==(const GroupedGemm&) const = default;
};

/// softmax(Q K^T / sqrt(D) + mask) V for B sequences of S new tokens over Skv >= S cached-and-new tokens.
/// Causal: query i (of S) sees keys 0 .. Skv-S+i. window > 0: only the last `window` of those.
struct AttentionPrefill {
  std::int64_t batch = 0, q_heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0, q_len = 0, kv_len = 0;
  bool causal = true;
  std::int64_t window = 0;
  /// Whether the launch also rotates Q and K and appends K,V to the cache, reading them from the fused QKV result:
  /// 1 yes, 0 no, -1 "as this kernel set's serving stacks do" (resolved by the planner).
  int append = -1;
  DType dtype = DType::bf16, kv_dtype = DType::bf16;
  bool operator==(const AttentionPrefill&) const = default;
};

/// One new token of each of B sequences over S cached tokens. page: tokens a page (0: contiguous).
struct AttentionDecode {
  std::int64_t batch = 0, q_heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0, context = 0;
  std::int64_t page = 0, window = 0;
  DType dtype = DType::bf16, kv_dtype = DType::bf16;
  bool operator==(const AttentionDecode&) const = default;
};

/// Absorbed multi-head latent attention, one new token a sequence: every head reads the same S latents of width
/// Dc + Dr; scores over Dc + Dr, values over Dc.
struct MlaDecode {
  std::int64_t batch = 0, heads = 0, context = 0, latent = 0, rope = 0;
  DType dtype = DType::bf16, kv_dtype = DType::bf16;
  bool operator==(const MlaDecode&) const = default;
};

enum class RowwiseKind {
  layernorm,
  rmsnorm,
  softmax,
  silu,
  gelu,
  add,
  copy,
  sum_rows,
  argmax,
  transpose_copy,
  swiglu,
  relu,
  scale,
  mask,
  dropout,
  quantize,
  adamw,
  dropout_backward,
  softmax_backward,
  scale_mask_softmax_dropout,
  scale_mask_softmax_dropout_backward,
  count_
};

/// One pass over rows x cols of the output (sum_rows and argmax: of the input). `residual`: a second input is added
/// first and the sum written out too (fused add + norm).
///
/// The training attention chain, on scores x[rows, cols] of one mask row m[cols], `keep` in {0, 1} drawn for each
/// element with probability 1 - d of being 1:
///   scale x a | mask x + m | softmax | dropout x keep / (1 - d), keep written as bytes
///   dropout_backward dy keep / (1 - d), keep read | softmax_backward p (dy - sum(dy p)) of dy and p
///   scale_mask_softmax_dropout: the first four at once; writes the result and each row's log-sum-exp (fp32). No keep:
///     its counter-based random numbers are drawn again where they are needed.
///   scale_mask_softmax_dropout_backward: from scores, dy and log-sum-exp to the gradient of the scores. It computes
///     the probabilities again, so that forward need not write them.
struct Rowwise {
  RowwiseKind kind = RowwiseKind::copy;
  std::int64_t rows = 0, cols = 0;
  bool residual = false;
  DType input = DType::bf16, output = DType::bf16;
  bool operator==(const Rowwise&) const = default;
};

/// Rotary embedding of `heads` heads of width D for every token, in place.
struct Rope {
  std::int64_t tokens = 0, heads = 0, head_dim = 0;
  DType dtype = DType::bf16;
  bool operator==(const Rope&) const = default;
};

/// The k largest of each row, values and indices (int32).
struct TopK {
  std::int64_t rows = 0, cols = 0, k = 0;
  DType dtype = DType::bf16;
  bool operator==(const TopK&) const = default;
};

/// The k largest probabilities of softmax(row) for each row, values and indices (int32): what sampling needs of logits.
struct SoftmaxTopK {
  std::int64_t rows = 0, cols = 0, k = 0;
  DType dtype = DType::bf16;
  bool operator==(const SoftmaxTopK&) const = default;
};

/// rows random rows of width cols gathered from a table.
struct Embedding {
  std::int64_t rows = 0, cols = 0;
  DType dtype = DType::bf16;
  bool operator==(const Embedding&) const = default;
};

enum class ScanKind { sum_all, cumsum };
struct Scan {
  ScanKind kind = ScanKind::sum_all;
  std::int64_t n = 0;
  DType dtype = DType::fp32;
  bool operator==(const Scan&) const = default;
};

/// CSR matrix (32-bit indices) times a dense vector.
struct Spmv {
  std::int64_t rows = 0, cols = 0, nnz = 0;
  DType dtype = DType::fp32;
  bool operator==(const Spmv&) const = default;
};

/// As Gemm, with W 2:4 sparse (half the values, 2 bits of metadata a kept value).
struct GemmSparse24 {
  std::int64_t m = 0, n = 0, k = 0;
  Precision precision;
  bool operator==(const GemmSparse24&) const = default;
};

enum class RecurrentKind { mamba1, mamba2, gated_delta_net };

/// The state recurrence of one layer for B sequences of S tokens (S = 1: decode), without its projections:
/// h = a h + b x^T (mamba) or the gated delta rule; y = h c. State a head: head_dim x state.
struct Recurrence {
  RecurrentKind kind = RecurrentKind::mamba2;
  std::int64_t batch = 0, seq = 0, heads = 0, head_dim = 0, state = 0, groups = 1;
  DType dtype = DType::bf16, state_dtype = DType::fp32;
  bool operator==(const Recurrence&) const = default;
};

/// Depthwise causal convolution along time, `width` taps, over channels.
struct CausalConv {
  std::int64_t batch = 0, seq = 0, channels = 0, width = 0;
  DType dtype = DType::bf16;
  bool operator==(const CausalConv&) const = default;
};

/// Moves routed tokens to (or back from) expert order: reads `tokens` rows, writes tokens x topk rows (dispatch) or the
/// reverse with a weighted sum (combine).
struct MoePermute {
  std::int64_t tokens = 0, topk = 0, cols = 0;
  bool combine = false;
  DType dtype = DType::bf16;
  bool operator==(const MoePermute&) const = default;
};

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, all_to_all };
/// bytes = the larger buffer of one rank (nccl-tests' `size`).
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t bytes = 0, gpus = 1;
  DType dtype = DType::bf16;
  bool operator==(const Collective&) const = default;
};

enum class TransferKind { send_recv, h2d, d2h, d2d };
struct Transfer {
  TransferKind kind = TransferKind::d2d;
  std::int64_t bytes = 0;
  bool operator==(const Transfer&) const = default;
};

using Op =
    std::variant<Gemm, GroupedGemm, AttentionPrefill, AttentionDecode, MlaDecode, Rowwise, Rope, TopK, SoftmaxTopK,
                 Embedding, Scan, Spmv, GemmSparse24, Recurrence, CausalConv, MoePermute, Collective, Transfer>;

/// The contract's name of the operator: "gemm", "rmsnorm", "all_reduce", ... Not in the contract's table, ours: "relu",
/// "scale", "mask", "dropout", "quantize", "adamw", the training attention chain's, "softmax_topk", "recurrence",
/// "causal_conv", "moe_permute".
std::string_view op_name(const Op& op);

std::string_view name(RowwiseKind kind);
std::string_view name(ScanKind kind);
std::string_view name(RecurrentKind kind);
std::string_view name(CollectiveKind kind);
std::string_view name(TransferKind kind);

}  // namespace plumbline
