// Which stacks of a model run in a step, and on how many tokens. What prefill means for each kind of model stands at
// the head of ops/lower/lower.cpp.
#include "ops/resolve/resolve.hpp"

namespace plumbline::lowering {
namespace {

using Role = StackSpec::Role;

const StackSpec* encoder_of(const Llm& llm) {
  if (llm.main().role != Role::decoder) return nullptr;
  for (const StackSpec& stack : llm.stacks) {
    if (stack.role == Role::encoder) return &stack;
  }
  return nullptr;
}

}  // namespace

bool trains_with_dropout(const LayerSpec& l, StackSpec::Role role) {
  const bool text = role == Role::decoder || role == Role::encoder;
  if (!text || (l.norm != NormKind::layer && !l.drops) || l.keeps_all) return false;
  if (l.ffn) return (!l.ffn->gated || l.drops) && !l.ffn->is_moe();
  return l.mixer && !l.feed && !l.written_out;  // an attention by itself, as a graph file can have it
}

Lengths lengths_of(const Llm& llm, const Workload& w, const StackSpec& stack) {
  const StackSpec* encoder = encoder_of(llm);
  const std::int64_t source = encoder == nullptr ? 0 : encoder->fixed_tokens > 0 ? encoder->fixed_tokens : w.prompt;
  Lengths n;
  if (stack.role == Role::decoder) {
    n.cross_len = source;
    const bool start_token_only = encoder != nullptr && encoder->fixed_tokens == 0 && w.phase == Phase::prefill;
    const std::int64_t ranks = w.parallel.context;
    const bool one_token = w.phase == Phase::decode || start_token_only;
    const std::int64_t fresh = one_token ? 1 : w.prompt;
    n.all_keys = w.phase == Phase::decode ? w.context + 1 : fresh + w.cached;
    n.kept = ceil_div(n.all_keys, ranks);
    n.q_len = one_token ? 1 : ceil_div(fresh, ranks);
    n.kv_len = w.phase == Phase::decode ? n.kept : w.cached + ceil_div(fresh + n.q_len, 2);
    return n;
  }
  n.text_tokens = stack.text_tokens;
  n.cross_len = stack.cross_tokens;
  n.q_len = n.kv_len = stack.fixed_tokens > 0 ? stack.fixed_tokens : w.prompt;
  n.all_keys = n.kept = n.kv_len;
  return n;
}

bool runs(const Llm& llm, const Workload& workload, const StackSpec& stack) {
  if (&stack == &llm.main()) return true;
  return stack.role == Role::encoder && encoder_of(llm) != nullptr && workload.phase != Phase::decode;
}

}  // namespace plumbline::lowering
