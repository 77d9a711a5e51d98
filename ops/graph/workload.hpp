// What is asked of the model: phase, sizes, precision, fusion, and how it is spread over ranks.
#pragma once

#include <cstdint>

#include "arch/dtype.hpp"

namespace plumbline {

enum class Phase { prefill, decode, train };
enum class Fusion { none, typical, max };

/// Degrees of parallelism. Several GPUs are a later issue: anything but 1 is refused by `check` as not modelled yet.
struct ParallelPlan {
  std::int64_t tensor = 1, pipeline = 1, data = 1, expert = 1, context = 1;
  int zero = 0;
  std::int64_t ranks() const { return tensor * pipeline * data * context; }
};

struct Workload {
  Phase phase = Phase::decode;
  std::int64_t batch = 1;  ///< sequences
  /// Tokens a sequence (prefill, train); in decode what the encoder of an encoder-decoder read.
  std::int64_t prompt = 1024;
  std::int64_t context = 1024;  ///< tokens already cached (decode)
  /// Prefill: tokens a sequence that are in the cache already, so that the prompt is a chunk behind them (chunked
  /// prefill, or a prefix that was found in the cache). Of decoders without an encoder.
  std::int64_t cached = 0;
  std::int64_t page = 0;  ///< tokens a page of the KV cache that decode reads (0: contiguous)
  /// Unset: what the model file says (bf16 when it is not quantized).
  bool precision_given = false;
  Precision precision;
  bool kv_dtype_given = false;
  DType kv_dtype = DType::bf16;
  Fusion fusion = Fusion::typical;
  ParallelPlan parallel;
};

/// Throws BadInput for sizes below 1 (context and cached may be 0) or more than 2^40 tokens in all, NotModelled for parallel
/// degrees above 1, tensor parallelism aside.
void check(const Workload& workload);

}  // namespace plumbline
