// From the lowered graph of a step to what a card runs: every operator with the buffers it reads and writes, and where
// those lie in one block of memory. No CUDA in here.
//
// Weights and caches are every layer's own; activations are one buffer an operator of the graph, which the layers
// share; the residual stream goes to and fro between two. A producer's output is its consumer's input. The last row of
// logits feeds the next step's embedding (decode).
//
// With tensor parallelism it is one rank's share: its heads, its columns of the feed-forward part and of the vocabulary.
// All ranks' programs have the same buffers at the same places; sums over the ranks happen in place, in the buffer of
// the matrix product before. Norms are the same on all ranks, other weights each rank's own. A token whose row of
// the table is another rank's reads a row of zeros. What is gathered of all ranks lies rank by rank, rows of logits too,
// so that the choice is made in other rows than a trained model's, and nothing is fed back. With sequence parallelism the
// residual stream and the norms are of a rank's own rows: a reduce-scatter in place of each sum, an all-gather before each
// product; a prefill's logits are of the last rows of each rank.
//
// What is run: dense decoders of rotated attention at `Fusion::typical`, layers a plain chain: embedding, norms with
// the residual add, bf16, fp16 and fp8 GEMM without bias, rope with the cache append, causal prefill attention, decode
// attention, gated and plain activations, greedy choice. Refused with a reason: experts, latent, windowed and cross
// attention, biases, parallel blocks, encoders, recurrences.
//
// Where values, not work, differ from a trained model's: the first layer adds zeros to the embedding and the final norm
// adds nothing (the graph folds layers, ops/lower/layer.cpp); a prefill's logits are of the last `batch` rows; a norm
// of Q and K heads takes the first of the QKV rows as if they lay together.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "model/predict.hpp"

namespace plumbline {

enum class StepFill { nothing, zeros, normal, integers, inverse_frequency };

struct StepBuffer {
  std::string name;  ///< "layer 3 qkv_proj weight"
  std::size_t bytes = 0, offset = 0;
  StepFill fill = StepFill::nothing;
  DType type = DType::bf16;  ///< of normal values: bf16, fp16 or fp8
  float mean = 0, sigma = 1;
  std::vector<std::int32_t> integers;
  std::size_t zeros_behind = 0;  ///< of `bytes`: the last ones, which are zeros
  bool replicated = false;       ///< all ranks hold the same random numbers
};

/// Part of a buffer: from `offset` on.
struct StepOperand {
  int buffer = -1;
  std::size_t offset = 0;
  bool there() const { return buffer >= 0; }
};

struct StepLaunch {
  int node = 0;  ///< of the graph
  std::int64_t layer = 0;
  Op op;
  StepOperand x, second, weight, bias, y, sum, scale;
  StepOperand k, v, table;                 ///< attention: its cache; rope: where K and V are appended
  StepOperand rows, positions, frequency;  ///< rope
  StepOperand workspace;
  std::int64_t q_heads = 0;  ///< rope
  float gemm_scale = 1;      ///< product of the operands' scales (fp8)
};

struct StepProgram {
  DType type = DType::bf16;  ///< of activations: bf16 or fp16
  std::vector<StepBuffer> buffers;
  std::vector<StepLaunch> launches;
  std::size_t bytes = 0;  ///< of all buffers, each at a multiple of 256
  StepOperand ids, logits, choice;
};

/// How much scratch a launch needs: the kernels know. In the order GEMM, decode attention.
struct StepScratch {
  std::size_t (*gemm)(const Gemm&, const GemmPlan&) = nullptr;
  std::size_t (*decode)(const AttentionDecode&, const AttentionPlan&) = nullptr;
};

/// The program of one rank of workload.parallel.tensor. Throws NotModelled, naming the operator, for a graph that is not
/// run.
StepProgram step_program(const StepPrediction& step, const Workload& workload, const StepScratch& scratch,
                         std::int64_t rank = 0);

/// Pages of a cache in random order: table[sequence * width + page] of `sequences` x `width` pages.
std::vector<std::int32_t> shuffled_page_table(std::int64_t sequences, std::int64_t width);

}  // namespace plumbline
