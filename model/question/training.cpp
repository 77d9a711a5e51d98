#include "model/question/training.hpp"

#include "model/question/words.hpp"
#include "model/words.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostParts = 1 << 20;

Training& training_of(LlmQuestion& q, const std::string& flag) {
  if (q.training_given.empty()) q.training_given = flag;
  return q.workload.training;
}

}  // namespace

void set_micro_batch(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).micro_batch = whole_number(flag, text, 1, kMostParts);
}

void set_optimizer(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).optimizer = chosen_word(flag, kOptimizerWords, text);
}

void set_gradient(LlmQuestion& q, const std::string& flag, const std::string& text) {
  const std::optional<DType> type = parse_dtype(text);
  if (!type || (*type != DType::fp32 && *type != DType::bf16 && *type != DType::fp16)) {
    throw BadInput(flag + ": expected fp32, bf16 or fp16; found '" + text + "'");
  }
  training_of(q, flag).gradient = *type;
  training_of(q, flag).gradient_given = true;
}

void set_clipping(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).clipping = chosen_word(flag, kClippingWords, text);
}

void set_offload(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).offload = chosen_word(flag, kOffloadWords, text);
}

void set_fp8_recipe(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).fp8 = chosen_word(flag, kFp8RecipeWords, text);
}

void set_sparse_weights(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).sparse = chosen_word(flag, kSparseWords, text);
}

void set_recompute(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).recompute = chosen_word(flag, kRecomputeWords, text);
}

void set_recomputed_layers(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).recomputed_layers = whole_number(flag, text, 1, kMostParts);
}

void set_schedule(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).schedule = chosen_word(flag, kScheduleWords, text);
}

void set_chunks(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).chunks = whole_number(flag, text, 1, kMostParts);
}

/// Which of PyTorch's two kinds shards where an eager framework does.
void set_fsdp(LlmQuestion& q, const std::string& flag, const std::string& text) {
  training_of(q, flag).flat_shards = whole_number(flag, text, 1, 2) == 1;
}

void set_zero(LlmQuestion& q, const std::string& flag, const std::string& text) {
  (void)training_of(q, flag);
  q.workload.parallel.zero = static_cast<int>(whole_number(flag, text, 0, 3));
}

}  // namespace plumbline
