// The walk over a model: which stacks run on how many tokens, a segment for each kind of layer, head, loss, optimizer.
//
// Prefill reads `prompt` tokens a sequence. What that means depends on the kind of model:
//
// * A decoder reads the prompt, behind what the cache holds already (`cached`: chunked prefill). It computes logits of the last token of each sequence, as serving does, and a greedy
//   choice.
// * An encoder (BERT) reads the prompt. It computes logits of all tokens if there is a head.
// * In an encoder-decoder with an encoder of fixed length (Whisper: 1500 frames) the encoder runs over that length and
//   the decoder over the prompt. Without a fixed length (T5) the encoder runs over the prompt and the decoder over its
//   start token. Decode is a decoder step with cross attention over the encoder's tokens.
// * A vision model (ViT) reads one image a sequence: its fixed number of patches, or the prompt if it has none. Patch
//   embedding is not modelled.
// * A diffusion model (DiT, MMDiT) does one denoising step over the latent tokens of the stack's picture (the prompt if
//   it has none), beside the text tokens of models with double-stream layers. Single-stream layers see both.
//
// A vision tower beside a language model does not run: the prompt is text. Multi-token prediction layers do not either.
#include "ops/lower/lower.hpp"

#include <algorithm>
#include <string>

#include "arch/error.hpp"
#include "ops/lower/parts.hpp"
#include "ops/memory/memory.hpp"
#include "ops/resolve/resolve.hpp"

namespace plumbline::lowering {
namespace {

using Role = StackSpec::Role;

const char* segment_name(const StackSpec& stack, const LayerSpec& l) {
  if (stack.role == Role::vision) return "vision_layer";
  if (stack.role == Role::encoder) return "encoder_layer";
  if (stack.role == Role::diffusion) return l.double_stream ? "double_stream_layer" : "diffusion_layer";
  const bool moe = l.ffn && l.ffn->is_moe();
  if (!l.mixer && !l.cross) return moe ? "moe_only_layer" : "ffn_only_layer";
  const SegmentNames names = l.mixer ? l.mixer->segment() : SegmentNames{};
  return moe ? names.experts : names.dense;
}

void enter(Step& s, const Llm& llm, const StackSpec& stack) {
  const Lengths n = lengths_of(llm, s.workload, stack);
  s.hidden = stack.hidden > 0 ? stack.hidden : llm.hidden;
  s.batch = s.workload.batch;
  s.q_len = n.q_len;
  s.kv_len = n.kv_len;
  s.tokens = s.batch * n.q_len;
  s.cross_len = n.cross_len;
  s.text_tokens = n.text_tokens;
  s.decode = s.workload.phase == Phase::decode && stack.role == Role::decoder;
  s.cache = stack.role == Role::decoder && !s.train();
  s.padded = stack.role == Role::encoder;
}

void embed(Step& s, const Llm& llm, const StackSpec& stack) {
  if ((stack.role != Role::decoder && stack.role != Role::encoder) || llm.vocab == 0 || stack.fixed_tokens > 0) return;
  s.open("embedding", 1);
  s.add("embedding"_node, Embedding{s.tokens, s.hidden, s.types.base});
  s.all_reduce("embedding_all_reduce"_node, s.tokens);
  s.close();
}

std::int64_t layers_of_kind(const StackSpec& stack, int kind) {
  std::int64_t n = 0;
  for (const int k : stack.order) n += k == kind;
  return n;
}

void walk(Step& s, const Llm& llm, const StackSpec& stack) {
  enter(s, llm, stack);
  embed(s, llm, stack);
  const std::int64_t latents = s.q_len, text = s.text_tokens;
  for (std::size_t i = 0; i < stack.kinds.size(); ++i) {
    const LayerSpec& kind = stack.kinds[i];
    const std::int64_t repeat = layers_of_kind(stack, static_cast<int>(i));
    if (repeat == 0) continue;
    s.q_len = s.kv_len = kind.double_stream ? latents : latents + text;
    if (text == 0) s.kv_len = lengths_of(llm, s.workload, stack).kv_len;
    s.tokens = s.batch * s.q_len;
    s.dropout = s.train() && trains_with_dropout(kind, stack.role);
    s.open(segment_name(stack, kind), repeat);
    layer(s, kind);
    s.close();
  }
  s.dropout = false;
  s.q_len = latents;
  s.tokens = s.batch * latents;
  if (&stack == &llm.main()) return;  // its last norm belongs to the head
  s.open("encoder_end", 1);
  s.norm("encoder_norm"_node, stack.kinds.front().norm, s.tokens, s.hidden);
  s.close();
}

/// Cross entropy over the vocabulary: eager code casts to fp32 and keeps it; the fused kernel (Liger, Apex) overwrites
/// the logits with their gradient in the forward pass, so the backward pass has no kernel of it.
void loss(Step& s, std::int64_t rows, std::int64_t vocab) {
  if (s.none()) {
    s.add("loss_cast"_node, Rowwise{RowwiseKind::copy, rows, vocab, false, s.types.base, DType::fp32});
    s.add("loss_softmax"_node, Rowwise{RowwiseKind::softmax, rows, vocab, false, DType::fp32, DType::fp32});
  } else {
    s.row("loss"_node.as(NodeRole::loss), RowwiseKind::softmax, rows, vocab);
  }
}

void head(Step& s, const Llm& llm) {
  const StackSpec& main = llm.main();
  const NormKind norm = main.kinds.front().norm;
  s.open("head", 1);
  s.norm("final_norm"_node, norm, s.tokens, s.hidden);
  if (llm.has_head && llm.vocab > 0) {
    const bool last_only = main.role == Role::decoder && !s.train();
    const std::int64_t rows = last_only ? s.batch : s.tokens, vocab = s.share(llm.vocab);
    s.gemm("lm_head"_node, rows, vocab, s.hidden, s.types.plain);
    if (s.train()) loss(s, rows, vocab);
    else if (last_only) s.row("sample"_node, RowwiseKind::argmax, rows, vocab);
  }
  s.close();
}

/// Gradients over data-parallel ranks, then Adam over this rank's parameters (count rounded up to whole rows).
void update(Step& s, const Llm& llm) {
  const double params = local_params(llm, s.workload);
  s.pass = Pass::update;
  s.open("optimizer", 1);
  if (const std::int64_t ranks = s.workload.parallel.data; ranks > 1) {
    const auto bytes = static_cast<std::int64_t>(storage(s.types.base, params).in(units::B));
    s.add("grad_all_reduce"_node, Collective{CollectiveKind::all_reduce, bytes, ranks, s.types.base}, 1);
  }
  s.row("adamw"_node, RowwiseKind::adamw, ceil_div(static_cast<std::int64_t>(params), llm.hidden), llm.hidden);
  s.close();
}

const char* role_text(Role role) {
  switch (role) {
    case Role::decoder: return "decoder";
    case Role::encoder: return "encoder";
    case Role::vision: return "vision encoder";
    case Role::diffusion: return "diffusion transformer";
  }
  return "model";
}

void refuse_impossible(const Llm& llm, const Workload& workload) {
  const std::string place = llm.file.empty() ? llm.name : llm.file;
  if (llm.stacks.empty() || llm.main().kinds.empty()) throw BadInput(place + ": expected a model with layers");
  const Role role = llm.main().role;
  if (workload.phase == Phase::decode && role != Role::decoder) {
    throw BadInput(place + ": phase decode: expected prefill or train: " + role_text(role) +
                   " writes no tokens one by one");
  }
  if (workload.cached == 0) return;
  const bool encodes = std::any_of(llm.stacks.begin(), llm.stacks.end(),
                                   [](const StackSpec& stack) { return stack.role == Role::encoder; });
  if (role != Role::decoder || encodes) {
    throw BadInput(place + ": prefill behind a cached context: expected a decoder alone, whose prompt can be read in " +
                   "chunks; found " + (encodes && role == Role::decoder ? "one behind an encoder" : role_text(role)));
  }
}

double step_tokens(const Llm& llm, const Workload& w) {
  const double sequences = static_cast<double>(w.batch * w.parallel.data);
  if (w.phase == Phase::decode) return sequences;
  const StackSpec& main = llm.main();
  return sequences * static_cast<double>(main.fixed_tokens > 0 ? main.fixed_tokens : w.prompt);
}

}  // namespace

void lower_any(const Llm& llm, const Workload& workload, Graph& graph) {
  refuse_impossible(llm, workload);
  graph.nodes.clear();
  graph.segments.clear();
  Step s(workload, types_of(llm, workload), graph);
  for (std::size_t i = llm.stacks.size(); i-- > 0;) {  // the main stack is first in the list and last to run
    if (runs(llm, workload, llm.stacks[i])) walk(s, llm, llm.stacks[i]);
  }
  head(s, llm);
  if (s.train()) {
    backward(s);
    update(s, llm);
  }
  graph.memory = memory_need(llm, workload);
  graph.tokens = step_tokens(llm, workload);
}

}  // namespace plumbline::lowering

namespace plumbline {

void lower(const Llm& llm, const Workload& workload, Graph& graph) {
  check(workload);
  lowering::lower_any(llm, workload, graph);
}

Graph lower(const Llm& llm, const Workload& workload) {
  Graph graph;
  lower(llm, workload, graph);
  return graph;
}

}  // namespace plumbline
