// The walk over a model: which stacks run on how many tokens, a segment for each kind of layer, head, loss, optimizer.
//
// Prefill reads `prompt` tokens a sequence. What that means depends on the kind of model:
//
// * A decoder reads the prompt, behind what the cache holds already (`cached`: chunked prefill). It computes logits of the
//   last token of each sequence, as serving does, and a greedy choice.
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
#include <cmath>
#include <optional>
#include <string>

#include "arch/error.hpp"
#include "ops/lower/async_tp.hpp"
#include "ops/lower/parts.hpp"
#include "ops/lower/two_batch.hpp"
#include "ops/memory/memory.hpp"
#include "ops/resolve/ranks.hpp"
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

/// Of a batch's tokens, those that the residual stream of this rank holds.
std::int64_t share_of_tokens(const Step& s, std::int64_t tokens) {
  const ParallelPlan& plan = s.workload.parallel;
  return s.scattered && !plan.attention_data ? ceil_div(tokens, plan.tensor) : tokens;
}

void enter(Step& s, const Llm& llm, const StackSpec& stack) {
  const Lengths n = lengths_of(llm, s.workload, stack);
  s.hidden = stack.hidden > 0 ? stack.hidden : llm.hidden;
  const ParallelPlan& plan = s.workload.parallel;
  s.scattered = scattered(llm, s.workload);
  // attention's own sequences; else tokens of all of them are split
  s.batch = plan.attention_data ? ceil_div(s.workload.batch, plan.tensor) : s.workload.batch;
  s.q_len = n.q_len;
  s.kv_len = n.kv_len;
  s.all_keys = n.all_keys;
  s.tokens = share_of_tokens(s, s.batch * n.q_len);
  s.cross_len = n.cross_len;
  s.text_tokens = n.text_tokens;
  s.decode = s.workload.phase == Phase::decode && stack.role == Role::decoder;
  s.cache = stack.role == Role::decoder && !s.train();
  s.padded = stack.role == Role::encoder;
}

/// Width of the embedding's rows where it is less than the layers' and the head's matrix is the same one (ALBERT, ELECTRA,
/// OPT-350m): rows are projected to the layers' width, and the head's input back to theirs (modeling_albert.py of
/// transformers 5.17: embedding_hidden_mapping_in; AlbertMLMHead's dense, activation and LayerNorm before the tied decoder).
std::int64_t tied_width(const Llm& llm, std::int64_t hidden) {
  const double rows = static_cast<double>(llm.vocab);
  const bool own_head = llm.head_params > rows;  // more than a bias
  if (!llm.tied_embeddings || own_head || !(llm.embedding_params > 0)) return hidden;
  const double width = std::round(llm.embedding_params / rows);
  const bool whole = std::abs(width * rows - llm.embedding_params) < 0.5;
  return whole ? std::min(static_cast<std::int64_t>(width), hidden) : hidden;
}

void embed(Step& s, const Llm& llm, const StackSpec& stack) {
  if ((stack.role != Role::decoder && stack.role != Role::encoder) || llm.vocab == 0 || stack.fixed_tokens > 0) return;
  s.open("embedding", 1);
  // Tensor ranks hold a part of the vocabulary each; ranks with sequences of their own hold all of it.
  const bool whole = s.workload.parallel.attention_data;
  const std::int64_t rows = whole ? s.tokens : s.replica_tokens();
  s.table_rows = llm.vocab;
  const std::int64_t width = tied_width(llm, s.hidden);
  s.add("embedding"_node, Embedding{rows, width, s.types.base});
  if (width < s.hidden) s.gemm("embedding_proj"_node, rows, s.hidden, width, s.types.plain);
  if (!whole) s.all_reduce("embedding_all_reduce"_node, "embedding_reduce_scatter"_node, rows);
  s.close();
}

std::int64_t layers_of_kind(const StackSpec& stack, int kind) {
  std::int64_t n = 0;
  for (const int k : stack.order) n += k == kind;
  return n;
}

/// Parts of the batch that pass through the layers one behind the other.
std::int64_t parts_of_batch(const Step& s) {
  const Workload& w = s.workload;
  if (w.prefill_at_once == 0 || !s.cache || s.decode || w.parallel.pipeline > 1 || in_halves(w.overlap)) return 1;
  std::int64_t parts = 1;
  while (s.batch / parts * s.q_len > w.prefill_at_once && s.batch / parts % 2 == 0) parts *= 2;
  return parts;
}

void walk(Step& s, const Llm& llm, const StackSpec& stack) {
  enter(s, llm, stack);
  embed(s, llm, stack);
  const std::int64_t batch = s.batch, parts = parts_of_batch(s);
  s.batch /= parts;
  const std::int64_t latents = s.q_len, text = s.text_tokens;
  std::optional<Halves> halves;
  if (in_halves(s.workload.overlap)) halves.emplace(s);
  for (std::size_t i = 0; i < stack.kinds.size(); ++i) {
    const LayerSpec& kind = stack.kinds[i];
    const std::int64_t repeat = layers_of_kind(stack, static_cast<int>(i));
    if (repeat == 0) continue;
    s.q_len = s.kv_len = kind.double_stream ? latents : latents + text;
    if (text == 0) s.kv_len = lengths_of(llm, s.workload, stack).kv_len;
    s.tokens = share_of_tokens(s, s.batch * s.q_len);
    s.dropout = s.train() && trains_with_dropout(kind, stack.role);
    s.open(segment_name(stack, kind), repeat * parts);
    if (halves) {
      halves->layer(
          s, [&](std::int64_t tokens) { return share_of_tokens(s, tokens); }, [&] { layer(s, kind); });
    } else {
      layer(s, kind);
    }
    if (in_shards(s.workload.overlap)) exchange_in_shards(s);
    if (s.offloads_activations()) {
      const Bytes kept = kept_of_layer(llm, s.workload, stack, i);
      s.copy_to_host("activations_to_host"_node, kept);
    }
    s.close();
    s.graph.segments.back().layers = true;
    s.graph.segments.back().crosses = static_cast<bool>(kind.cross);
    s.kind_segments.emplace_back(static_cast<int>(s.graph.segments.size()) - 1, static_cast<int>(i));
  }
  if (halves) halves->join(s);
  s.dropout = false;
  s.batch = batch;
  s.q_len = latents;
  s.tokens = share_of_tokens(s, s.batch * latents);
  if (&stack == &llm.main()) return;  // its last norm belongs to the head
  s.open("encoder_end", 1);
  s.norm("encoder_norm"_node, stack.kinds.front().norm, s.tokens, s.hidden);
  s.close();
}

/// Of ranks that have the logits of a part of the vocabulary each: the largest logit of each token, the sum of their
/// exponentials and the logit of its label, in fp32 (Megatron-LM's mpu/cross_entropy.py, DTensor's loss parallelism). Fused
/// kernels exchange the last two together (megatron/core/fusions/fused_cross_entropy.py).
void sums_of_loss(Step& s, std::int64_t rows) {
  const bool apart = s.none() || s.workload.training.written_out;
  const Bytes numbers = storage(DType::fp32, static_cast<double>(rows));
  s.collective("loss_largest_all_reduce"_node, CollectiveKind::all_reduce, numbers, DType::fp32, s.tp());
  s.collective("loss_sum_all_reduce"_node, CollectiveKind::all_reduce, apart ? numbers : 2 * numbers, DType::fp32,
               s.tp());
  if (apart) s.collective("loss_label_all_reduce"_node, CollectiveKind::all_reduce, numbers, DType::fp32, s.tp());
}

/// Cross entropy over the vocabulary: eager code casts to fp32 and keeps it; the fused kernel (Liger, Apex) overwrites
/// the logits with their gradient in the forward pass, so the backward pass has no kernel of it.
void loss(Step& s, std::int64_t rows, std::int64_t vocab) {
  if (s.none() || s.workload.training.written_out) {
    s.add("loss_cast"_node, Rowwise{RowwiseKind::copy, rows, vocab, false, s.types.base, DType::fp32});
    s.add("loss_softmax"_node, Rowwise{RowwiseKind::softmax, rows, vocab, false, DType::fp32, DType::fp32});
  } else {
    s.row("loss"_node.as(NodeRole::loss), RowwiseKind::cross_entropy_fused, rows, vocab);
  }
  sums_of_loss(s, rows);
}

/// Each tensor rank has the logits of its part of the vocabulary; a choice is made among all of them.
void choose_token(Step& s, std::int64_t rows, std::int64_t vocab, bool greedy) {
  s.all_gather("logits_all_gather"_node, rows, vocab * s.tp(), s.types.base, s.tp());
  if (greedy) s.row("sample"_node, RowwiseKind::argmax, rows, vocab * s.tp());
}

void head(Step& s, const Llm& llm) {
  const StackSpec& main = llm.main();
  const NormKind norm = main.kinds.front().norm;
  s.open("head", 1);
  s.norm("final_norm"_node, norm, s.tokens, s.hidden);
  if (llm.has_head && llm.vocab > 0) {
    const bool last_only = main.role == Role::decoder && !s.train();
    const std::int64_t rows = last_only ? s.workload.batch : s.replica_tokens(), vocab = s.share(llm.vocab);
    if (s.scattered) s.all_gather("head_all_gather"_node, rows, s.hidden, s.types.base, s.tp());
    const std::int64_t width = tied_width(llm, s.hidden);
    if (width < s.hidden) {
      s.gemm("head_proj"_node, rows, width, s.hidden, s.types.plain);
      if (main.role == Role::encoder) {
        s.row("head_act"_node, RowwiseKind::gelu, rows, width);
        s.norm("head_norm"_node, norm, rows, width);
      }
    }
    s.gemm("lm_head"_node, rows, vocab, width, s.types.plain);
    if (s.train()) loss(s, rows, vocab);
    else choose_token(s, rows, vocab, last_only);
  }
  s.close();
}

/// Of one rank without a pipeline: each micro-batch runs all but the update.
void repeat_micro_batches(Graph& graph) {
  const std::int64_t parts = graph.pipeline.micro_batches;
  if (parts == 1) return;
  for (Segment& segment : graph.segments) {
    if (!segment.once) segment.repeat *= parts;
  }
  for (Node& node : graph.nodes) node.count = graph.segments[static_cast<std::size_t>(node.segment)].repeat;
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

void refuse_recipe(const Workload& w, const Types& types) {
  if (w.phase != Phase::train || w.training.fp8 == Fp8Recipe::tensor) return;
  if (types.linear.math == DType::fp8 || types.experts.math == DType::fp8) return;
  throw BadInput("fp8-recipe: expected weights that are multiplied in fp8 (--dtype fp8); found " +
                 std::string(name(types.linear.math)));
}

void refuse_sparse(const Workload& w, const Types& types) {
  const Training& t = w.training;
  if (w.phase != Phase::train || t.sparse == SparseWeights::none) return;
  if (t.eager) {
    throw NotModelled(
        "sparse24: what an eager framework launches for such weights is not on file; expected a stack that "
        "fuses, such as megatron");
  }
  if (t.recompute == Recompute::products) throw NotModelled("sparse24: with recompute products is not modelled");
  if (bits(types.linear.math) == 16) return;
  throw BadInput("sparse24: expected weights of 16 bits; found " + std::string(name(types.linear.math)));
}

void refuse_nothing_sparse(const Workload& w, const Graph& graph) {
  if (w.phase != Phase::train || w.training.sparse == SparseWeights::none) return;
  const bool any = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                               [](const Node& node) { return std::holds_alternative<Sparsify24>(node.op); });
  if (!any) throw BadInput("sparse24: expected a model with dense feed-forward parts; found none");
}

double step_tokens(const Llm& llm, const Workload& w) {
  const auto sequences = static_cast<double>(w.batch);
  if (w.phase == Phase::decode) return sequences;
  const StackSpec& main = llm.main();
  return sequences * static_cast<double>(main.fixed_tokens > 0 ? main.fixed_tokens : w.prompt);
}

}  // namespace

void lower_any(const Llm& llm, const Workload& workload, Graph& graph) {
  refuse_impossible(llm, workload);
  graph.nodes.clear();
  graph.segments.clear();
  graph.pipeline.stages = workload.parallel.pipeline;
  graph.pipeline.micro_batches = micro_batches(workload);
  graph.pipeline.repeats.clear();
  graph.pipeline.schedule = workload.training.schedule;
  graph.pipeline.chunks = workload.training.chunks;
  graph.ranks = workload.parallel.ranks();
  // replicas of a model that is served go their own ways, unless they share experts
  const bool apart = workload.phase != Phase::train && workload.parallel.expert == 1;
  graph.together = apart ? graph.ranks / workload.parallel.data : graph.ranks;
  graph.side_by_side = in_halves(workload.overlap) || in_shards(workload.overlap);
  graph.pipeline.sends_beside = sends_beside(workload.overlap);
  graph.exposed_apart = workload.phase == Phase::train && workload.training.eager;
  graph.replicas_beside = replicas_beside(workload.overlap) || graph.exposed_apart;
  graph.eager = {};
  graph.copies_beside = workload.phase == Phase::train && workload.training.offload != Offload::none;
  graph.tensor_beside = workload.overlap == Overlap::iteration;
  graph.experts_beside = experts_beside(workload.overlap);
  const Workload rank = rank_workload(workload);
  Step s(rank, types_of(llm, workload), graph);
  refuse_recipe(workload, s.types);
  refuse_sparse(workload, s.types);
  for (std::size_t i = llm.stacks.size(); i-- > 0;) {  // the main stack is first in the list and last to run
    if (runs(llm, workload, llm.stacks[i])) walk(s, llm, llm.stacks[i]);
  }
  head(s, llm);
  refuse_nothing_sparse(workload, graph);
  const std::int64_t pipeline = workload.parallel.pipeline;
  if (pipeline > 1) hand_over(s);
  if (s.train()) {
    backward(s, llm);
    for (const std::int64_t stage : updating_stages(s.workload)) update(s, llm, stage);
    if (pipeline == 1) repeat_micro_batches(graph);
  }
  if (pipeline > 1) divide_among_stages(s, llm);
  graph.memory = memory_need(llm, workload);
  graph.tokens = step_tokens(llm, workload);
}

}  // namespace plumbline::lowering

namespace plumbline {

void lower(const Llm& llm, const Workload& workload, Graph& graph) {
  check(workload);
  lowering::refuse_plan(llm, workload);
  lowering::refuse_overlap(llm, workload);
  lowering::lower_any(llm, workload, graph);
}

Graph lower(const Llm& llm, const Workload& workload) {
  Graph graph;
  lower(llm, workload, graph);
  return graph;
}

}  // namespace plumbline
