// Shared by the files that make runners.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/run/runner.hpp"
#include "kernels/run/runner_layout.hpp"

namespace plumbline {

Runner make_gemm_runner(const Gemm& shape, const GemmPlan& plan, Arena& arena, StreamHandle stream);
Runner make_prefill_runner(const AttentionPrefill& shape, const AttentionPlan& plan, Arena& arena, StreamHandle stream);
Runner make_backward_runner(const AttentionBackward& shape, const AttentionPlan& plan, Arena& arena,
                            StreamHandle stream);
Runner make_decode_runner(const AttentionDecode& shape, const AttentionPlan& plan, Arena& arena, StreamHandle stream);

bool is_chain(RowwiseKind kind);
Runner make_chain_runner(const Rowwise& shape, Arena& arena, StreamHandle stream);

/// Gradients in bf16, or in fp32.
Runner make_adamw_runner(const Rowwise& shape, Arena& arena, StreamHandle stream);
Runner make_norm_backward_runner(const Rowwise& shape, Arena& arena, StreamHandle stream);

/// Gradients of activations, sums of columns, losses and their gradients.
bool is_training(RowwiseKind kind);
Runner make_training_runner(const Rowwise& shape, Arena& arena, StreamHandle stream);
Runner make_scatter_runner(const EmbeddingBackward& shape, Arena& arena, StreamHandle stream);
Runner make_norm_all_runner(const Scan& shape, Arena& arena, StreamHandle stream);

/// Bytes of the product of dims, each element `each` bytes.
template <class... Dims>
std::size_t bytes_of(std::size_t each, Dims... dims) {
  return (each * ... * static_cast<std::size_t>(dims));
}

/// Throws NotModelled with what there is no kernel for, when `good` is false.
void need(bool good, const std::string& what);

/// Fills in what every runner has.
Runner start_runner(const RunnerLayout& layout, const Arena& arena, std::string plan);

}  // namespace plumbline
