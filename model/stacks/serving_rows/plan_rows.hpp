// Row-wise kernels of serving stacks, planned by their sources: who gets a row, in how many turns a CTA goes through it, which of
// its loads wait for others, and what that issues. (FlashInfer 0.6.13: include/flashinfer/norm.cuh, activation.cuh, pos_enc.cuh;
// vLLM 0.11.2: csrc/layernorm_kernels.cu, activation_kernels.cu, pos_encoding_kernels.cu; PyTorch 2.11.) Instructions a vector and
// registers are those of nvcc 13.0 for sm_90a: another compiler's or another card's may differ by a tenth.
#pragma once

#include "model/stacks/provider.hpp"

namespace plumbline::serving_rows {

enum class Library { flashinfer, vllm };

/// What a launch's CTAs do, all alike.
struct RowLaunch {
  double ctas = 1, threads = 32;
  std::int64_t registers = 32;
  Bytes shared;
  double instructions = 0;  ///< of warps, a CTA
  double sfu = 0;           ///< a CTA
  /// Waits of a CTA that come one after the other: for what memory brings if L2 does not hold it, for what its SM or L2 holds by
  /// then, and for what all CTAs read (weights), which memory brings to the first of them.
  double memory_waits = 1, near_waits = 0, common_waits = 0;
  /// Turns that a CTA takes to begin, of the rate at which the GPU begins them: two of FlashInfer's norms, whose shared memory is
  /// asked for at the launch (198,912 CTAs of 32 threads take 241 us on an H200, vLLM's 122).
  double begins = 1;
  bool parts = false;  ///< CTAs of a row count, and the last one merges: a counter is cleared before
  Bytes l2_beside;     ///< that a CTA asks of L2 beside the operator's bytes
  Bytes read, write;   ///< of the launch
};

RowLaunch rmsnorm_launch(Library library, const Rowwise& op, const Work& work);
RowLaunch swiglu_launch(Library library, const Rowwise& op, const Work& work);
RowLaunch rope_launch(Library library, const Rope& op, const Work& work, const Rates& rates);
/// PyTorch's gather of rows, and its reduction of a row to the place of its largest value; false: of
/// rows that others of its kernels take.
bool embedding_launch(const Embedding& op, const Work& work, RowLaunch& launch);
bool argmax_launch(const Rowwise& op, const Work& work, const Rates& rates, RowLaunch& launch);

/// `family`: `start_clk`, a CTA's way to its first loads and from its last stores; `overlap`, once CTAs have drifted apart;
/// `counter`, what clearing one takes and the merge of a row's parts.
Demand demand_of(const RowLaunch& launch, const Question& question, const FamilyScalars& family);

}  // namespace plumbline::serving_rows
