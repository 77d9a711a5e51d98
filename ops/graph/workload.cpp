#include "ops/graph/workload.hpp"

#include <string>

#include "arch/error.hpp"

namespace plumbline {
namespace {

/// Of a size, and of the tokens of a step: products with any width of a model stay far inside 64 bits.
constexpr std::int64_t kMost = std::int64_t{1} << 40;

void at_least(std::int64_t value, std::int64_t least, const char* flag) {
  if (value >= least && value <= kMost) return;
  throw BadInput(std::string(flag) + ": expected a whole number from " + std::to_string(least) + " to 2^40, found " +
                 std::to_string(value));
}

void few_enough(std::int64_t batch, std::int64_t length, const char* flag) {
  if (length <= kMost / batch) return;
  throw BadInput(std::string("batch ") + std::to_string(batch) + ", " + flag + " " + std::to_string(length) +
                 ": expected at most 2^40 tokens in all");
}

void one_rank(std::int64_t degree, const char* flag) {
  at_least(degree, 1, flag);
  if (degree > 1)
    throw NotModelled(std::string(flag) + " " + std::to_string(degree) + ": several GPUs are not modelled yet");
}

}  // namespace

void check(const Workload& workload) {
  at_least(workload.batch, 1, "batch");
  if (workload.phase == Phase::decode) at_least(workload.context, 0, "context");
  at_least(workload.cached, 0, "cached context");
  if (workload.cached > 0 && workload.phase != Phase::prefill) {
    throw BadInput("cached context: expected it of a prefill alone");
  }
  at_least(workload.page, 0, "page");
  at_least(workload.prompt, 1, "prompt");  // in decode: what the encoder of an encoder-decoder read
  few_enough(workload.batch, workload.prompt, "prompt");
  if (workload.cached > 0) few_enough(workload.batch, workload.cached + workload.prompt, "cached context and prompt");
  if (workload.phase == Phase::decode) few_enough(workload.batch, workload.context + 1, "context");
  at_least(workload.parallel.tensor, 1, "tp");
  one_rank(workload.parallel.pipeline, "pp");
  one_rank(workload.parallel.data, "dp");
  one_rank(workload.parallel.expert, "ep");
  one_rank(workload.parallel.context, "cp");
  if (workload.parallel.zero < 0 || workload.parallel.zero > 3) throw BadInput("zero: expected 0, 1, 2 or 3");
  if (workload.parallel.zero > 0) throw NotModelled("zero: several GPUs are not modelled yet");
}

}  // namespace plumbline
