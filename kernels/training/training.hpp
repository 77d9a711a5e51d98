// Launchers of the kernels that training needs beside those of the forward pass, in plain C++; the rules of launch.hpp.
//
// Gradients of activations are bf16, gradients of parameters fp32: these are added to what is there. Where several CTAs
// add to one value (norm weights, biases, rows of the embedding), the order of the sums differs between runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/launch.hpp"
#include "kernels/rows/adamw.hpp"

namespace plumbline {

/// A pass over rows x cols of bf16.
struct Rows {
  std::int64_t rows = 0, cols = 0;
};

/// Of y = norm(x) gamma (+ beta), epsilon kNormEpsilon; the row's statistics are found again from x.
struct NormBackwardBuffers {
  const void* dy = nullptr;
  const void* x = nullptr;         ///< what was normalised
  const void* gamma = nullptr;     ///< [cols]
  const void* residual = nullptr;  ///< null, or the gradient that passes the norm by, which is added to dx
  void* dx = nullptr;
  float* dgamma = nullptr;  ///< [cols], added to
  float* dbeta = nullptr;   ///< layernorm: [cols], added to
};
/// Rows of up to 16 Ki columns.
void launch_norm_backward(NormKind kind, const Rows& shape, const NormBackwardBuffers& buffers, StreamHandle stream);
KernelPlan norm_backward_plan(NormKind kind, const Rows& shape);

/// dx[rows, cols] = dy f'(x) of gelu (by erf), silu or relu.
void launch_activation_backward(RowwiseKind kind, const Rows& shape, const void* dy, const void* x, void* dx,
                                StreamHandle stream);
/// Of y = silu(gate) up, x and dx [rows, 2 cols]: gate, then up.
void launch_swiglu_backward(const Rows& shape, const void* dy, const void* x, void* dx, StreamHandle stream);

/// The gradient of launch_rope_append without a cache: dq [tokens, q_heads, D], dk and dv [tokens, kv_heads, D] are
/// turned back (dv is not turned) and put side by side, dqkv [tokens, q_heads + 2 kv_heads, D]. `shape.heads` is the sum;
/// D a multiple of 16.
struct RopeBackwardBuffers {
  const void* dq = nullptr;
  const void* dk = nullptr;
  const void* dv = nullptr;
  void* dqkv = nullptr;
  const std::int32_t* positions = nullptr;
  const float* inverse_frequency = nullptr;
  std::int64_t q_heads = 0;
};
void launch_rope_backward(const Rope& shape, const RopeBackwardBuffers& buffers, StreamHandle stream);

/// table[ids[i], :] += dy[i, :]; dy bf16, the table fp32; 16-byte rows where cols is a multiple of 8.
void launch_embedding_backward(const Rows& shape, const void* dy, const std::int32_t* ids, float* table,
                               StreamHandle stream);

/// sums[c] += the sum of dy[:, c]: a bias's gradient.
void launch_column_sums(const Rows& shape, const void* dy, float* sums, StreamHandle stream);

/// loss[r] = lse[r] - logits[r, target[r]], lse the logarithm of the row's sum of exponentials; one pass. A negative
/// target is none: its loss is 0.
void launch_cross_entropy(const Rows& shape, const void* logits, const std::int32_t* targets, float* loss, float* lse,
                          StreamHandle stream);
/// dlogits = scale (softmax(logits) - [column is the target]); may be in place. Rows without a target get zeros.
void launch_cross_entropy_backward(const Rows& shape, const void* logits, const std::int32_t* targets, const float* lse,
                                   float scale, void* dlogits, StreamHandle stream);

/// norm[0] = the square root of the sum of squares of x[n]; norm[1] = min(1, most / (norm[0] + 1e-6)), what clipping
/// multiplies gradients by (torch.nn.utils.clip_grad_norm_). Added in an order that does not change between runs.
/// `scratch` holds gradient_norm_scratch_bytes(), zeroed once before its first use; launches that share it must not
/// overlap.
std::size_t gradient_norm_scratch_bytes();
void launch_gradient_norm(const float* x, std::int64_t n, double most, float* norm, void* scratch, StreamHandle stream);

/// launch_adamw with fp32 gradients: 30 bytes an element. The gradient is multiplied by settings.gradient_scale and by
/// *clip (null: 1).
struct AdamwFloats {
  const float* gradient = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  float* master = nullptr;
  void* weights = nullptr;
  const float* clip = nullptr;
  const float* corrections = nullptr;  ///< null (settings.step says them), or as launch_adamw_step left them
};
void launch_adamw_floats(std::int64_t n, const AdamwSettings& settings, const AdamwFloats& buffers,
                         StreamHandle stream);
/// For graphs that are launched again and again: step[0] += 1, and what depends on it, corrections[0] =
/// rate / (1 - beta1^step), corrections[1] = 1 / sqrt(1 - beta2^step).
void launch_adamw_step(const AdamwSettings& settings, std::int32_t* step, float* corrections, StreamHandle stream);

/// x[0, n) = 0, as gradients begin.
void launch_clear_floats(float* x, std::int64_t n, StreamHandle stream);
/// Floats from bf16, as master weights begin.
void launch_widen(const void* from, float* to, std::int64_t n, StreamHandle stream);

}  // namespace plumbline
