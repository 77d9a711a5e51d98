// What is asked of the model: phase, sizes, precision, fusion, and how it is spread over ranks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/dtype.hpp"

namespace plumbline {

enum class Phase { prefill, decode, train };
enum class Fusion { none, typical, max };

/// Per parameter, beside the weight that layers read and its gradient: what an update keeps and moves
/// (ops/lower/update.cpp has each one's source). `adamw_fused`: where a framework trains eagerly, the update in one pass
/// over all tensors (torch.optim.AdamW's fused=True) and not a pass for each of its steps; elsewhere the same as adamw.
/// `adamw_loop`: there a loop over tensors, a launch for each step of each (foreach=False).
enum class Optimizer { sgd, sgd_plain, adam, adamw, adamw_fused, adamw_loop, adafactor, muon, adam8bit };

/// What the backward pass computes again instead of keeping it: nothing; scores and probabilities of attention that is
/// written out (flash attention keeps none); each layer whole, from its input (Korthikanti et al., arXiv 2205.05198,
/// section 5); in each layer everything but attention, sums over ranks and every other product (the per-operator policy of
/// torchtitan's activation checkpointing, torchtitan/models/llama3/infra/parallelize.py; products as the stack fuses them).
enum class Recompute { none, selective, full, products };

/// Whether gradients are scaled where their norm exceeds a limit: as the framework does by itself (eager PyTorch does not,
/// stacks that fuse take the norm in front of the update and scale in it), not, or so.
enum class Clipping { stack, none, norm };

/// What shares a scale where training multiplies in fp8: a tensor, whose largest magnitude a pass of its own finds; 128 columns
/// of a row of activations and gradients and 128 x 128 of weights (DeepSeek-V3, arXiv 2412.19437, section 3.3.2); 32 elements,
/// by scales that Blackwell's matrix units take with the operands (OCP Microscaling, mxfp8).
enum class Fp8Recipe { tensor, block, mx };

/// What waits in the host's memory: nothing; the optimizer's states, while the passes run (Megatron-Core's
/// OptimizerStateOffloader: they come for the update, which the GPU makes, and go back behind it); what each layer keeps for
/// its backward pass (Transformer Engine's cpu_offload).
enum class Offload { none, optimizer, activations };

/// Which weights are trained 2:4 sparse: none, or those of dense feed-forward parts (Hu et al., arXiv 2404.01847). Each forward
/// pass prunes them and compresses both ways what is left, as PyTorch's semi-structured training does; forward products and
/// gradients of inputs read these copies, gradients of weights are those of dense ones, which the optimizer updates.
enum class SparseWeights { none, ffn };

/// In which order a stage of a pipeline works on its micro-batches.
enum class PipelineSchedule { gpipe, one_f_one_b, interleaved, zero_bubble, dual_pipe, dual_pipe_v };
/// Each rank of a pipeline holds two stages: its own, and the one in its place from the other end.
constexpr bool holds_two_stages(PipelineSchedule s) {
  return s == PipelineSchedule::dual_pipe || s == PipelineSchedule::dual_pipe_v;
}
/// Stages that a model is cut into over so many ranks of a pipeline: of DualPipe's V form each has two that no other holds.
constexpr std::int64_t stages_over(std::int64_t ranks, PipelineSchedule s) {
  return ranks > 1 && s == PipelineSchedule::dual_pipe_v ? 2 * ranks : ranks;
}

struct Training {
  Optimizer optimizer = Optimizer::adamw;
  DType gradient = DType::fp32;  ///< what gradients of weights are added up and reduced in
  bool gradient_given = false;   ///< by a user; else the stack's own way stands
  /// As an eager framework trains (PyTorch's autograd and torch.optim): parameters, their gradients and the optimizer's
  /// states have one type, `gradient`; where it is wider than the layers' own, they read casts of the parameters
  /// (autocast). Memory is what autograd keeps (ops/memory/eager.cpp). Of stacks whose launches are on file.
  bool eager = false;
  /// Eager, sharded (FSDP): where `gradient` is wider than the layers' type, shares of parameters and states have it and
  /// gradients are reduced in it, while what is gathered and the gradients that products make have the layers' type
  /// (MixedPrecisionPolicy); nothing is cast by layers.
  bool wide_shares = false;
  /// Eager, sharded: PyTorch's first FSDP (FullyShardedDataParallel), in which a unit's parameters are one flat tensor, in
  /// place of fully_shard.
  bool flat_shards = false;
  Clipping clipping = Clipping::stack;
  bool clips() const { return clipping == Clipping::norm || (clipping == Clipping::stack && !eager); }
  /// Eager, where layers read casts of wider parameters.
  bool autocast(DType layers) const { return eager && !wide_shares && bits(gradient) > bits(layers); }
  /// What products make gradients of weights in.
  DType made_gradient(DType layers) const { return wide_shares ? layers : gradient; }
  Offload offload = Offload::none;
  Fp8Recipe fp8 = Fp8Recipe::tensor;
  SparseWeights sparse = SparseWeights::none;
  /// Elements that share a scale; 0: all.
  std::int64_t fp8_block() const { return fp8 == Fp8Recipe::block ? 128 : fp8 == Fp8Recipe::mx ? 32 : 0; }
  Recompute recompute = Recompute::none;
  /// Of `full`, where so many of the first layers alone are computed again (Megatron's recompute_method block); 0: all.
  std::int64_t recomputed_layers = 0;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  /// Sequences of a replica that go forward and backward at a time; 0: one in a pipeline, else all of them.
  std::int64_t micro_batch = 0;
  /// Attention as products with scores that are stored, and a kernel each for scale, mask and softmax together and for
  /// dropout (Megatron-LM before flash attention); else flash attention, at fusions that have it.
  bool written_out = false;
  /// Bytes of each score that attention keeps for the backward pass, where scores are stored; 0: what its operators keep,
  /// each a kernel of its own.
  double score_bytes = 0;
  bool two_stages() const { return holds_two_stages(schedule); }
  std::int64_t chunks = 1;  ///< parts of the model that a stage has, one behind the other (interleaved)
};

/// How a step is spread over ranks. Neighbouring ranks are those of one tensor-parallel group; around it lie the context
/// ranks, the replicas (data), and outermost the pipeline's stages. Experts live on the same ranks: a stage's tensor x
/// context x data ranks are cut into groups of `expert`, each of which holds all experts (ops/resolve/ranks.hpp).
struct ParallelPlan {
  std::int64_t tensor = 1, pipeline = 1, data = 1, expert = 1, context = 1;
  int zero = 0;
  /// Norms and the residual stream are split over the tensor ranks by tokens: a reduce-scatter behind a part and an
  /// all-gather in front of it stand for its all-reduce (arXiv 2205.05198, section 4.2.2).
  bool sequence = false;
  /// Mixers are not split over the tensor ranks: each runs them whole on sequences of its own (SGLang's data-parallel
  /// attention); feed-forward parts are split as before.
  bool attention_data = false;
  /// Parts of a replica's batch that are in a pipeline at a time; 0: one for each stage, where there are sequences enough.
  std::int64_t micro_batches = 0;

  std::int64_t ranks() const { return tensor * pipeline * data * context; }
  /// ... of one stage.
  std::int64_t stage_ranks() const { return tensor * data * context; }
  bool operator==(const ParallelPlan&) const = default;
};

/// The degrees by the words that flags and reports have for them.
struct NamedDegree {
  const char* word;
  std::int64_t degree;
};
inline std::array<NamedDegree, 5> degrees(const ParallelPlan& p) {
  return {{{"tp", p.tensor}, {"pp", p.pipeline}, {"cp", p.context}, {"dp", p.data}, {"ep", p.expert}}};
}

/// Makes the degrees multiply to `gpus`: tensor ranks are what the others leave, where nobody gave them. False where they
/// don't. Throws BadInput for degrees below 1 or more than 2^20 GPUs in all.
bool settle_tensor(ParallelPlan& plan, std::int64_t gpus, bool tensor_given);

/// What of the communication runs beside compute. `two_batch`: a rank's sequences are worked on as two halves, so that what
/// one half exchanges travels while the other computes (SGLang's two-batch overlap, vLLM's dual batch overlap); a single
/// prompt is cut into two chunks. `sends`: a stage of a pipeline hands a micro-batch on while it works on the next. `full`:
/// both. `async_tp`: where tokens are split over the tensor ranks, a product works on what has come of its input while more
/// comes, and what it has made goes out while it makes more (ops/lower/async_tp.hpp).
enum class Overlap { none, two_batch, sends, full, async_tp, replicas, iteration, experts };
constexpr bool in_halves(Overlap o) { return o == Overlap::two_batch || o == Overlap::full; }
constexpr bool in_shards(Overlap o) { return o == Overlap::async_tp; }
/// Of training alone (model/schedule/exchanges.hpp). `replicas`: what replicas exchange travels beside the pass that makes or
/// reads it, as FSDP prefetches and Megatron overlaps gradients' sums and parameters' gathers; `iteration`: and what tensor
/// ranks exchange beside a product travels in parts beside it (Transformer Engine's user buffers, asynchronous tensor
/// parallelism); `experts`: as `replicas`, and tokens travel to experts and back in the pass of one micro-batch while another
/// pass, of the micro-batch before or behind it, computes (Megatron-Core's overlap_moe_expert_parallel_comm).
constexpr bool experts_beside(Overlap o) { return o == Overlap::experts; }
constexpr bool replicas_beside(Overlap o) {
  return o == Overlap::replicas || o == Overlap::iteration || experts_beside(o);
}
constexpr bool sends_beside(Overlap o) { return o == Overlap::sends || o == Overlap::full; }

/// How tokens spread over the experts of a layer. Unset: evenly.
struct ExpertLoad {
  /// The i-th most popular of E experts gets a share proportional to i^-power; those of a layer are dealt out to the ranks
  /// that hold them in turn.
  double power = 0;
  /// Tokens that went to each expert, in the model's order, of which ranks hold neighbouring ones; empty: none given.
  std::vector<double> counts{};

  bool even() const { return power == 0 && counts.empty(); }
};

struct Workload {
  Phase phase = Phase::decode;
  std::int64_t batch = 1;  ///< sequences, of all replicas together
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
  /// At fusion `none`: attention is one kernel all the same (PyTorch's scaled_dot_product_attention).
  bool fused_attention = false;
  /// Prefill: the most tokens that layers read at once; a batch of more is halved until a part holds no more (or is odd),
  /// and its parts pass through all layers one behind the other. 0: all at once. Without pipeline and overlap.
  std::int64_t prefill_at_once = 0;
  ParallelPlan parallel;
  Training training;  ///< of phase train
  ExpertLoad expert_load;
  Overlap overlap = Overlap::none;
  /// Tokens go to experts of other ranks by kernels that know each token's experts (ExpertExchange, ops/shape/collective.hpp):
  /// in decode by those of low latency, else on so many SMs. 0: by an all-to-all of all routed rows. Predictions set it to
  /// what the stack does.
  std::int64_t exchange_sms = 0;
  /// Where experts' operands have scales of blocks, routed rows are rounded where their experts are, behind the permutation,
  /// not tokens before it. Predictions set it to what the stack does.
  bool rounds_routed_rows = false;
  /// At fusion `typical`, of layers that keep keys and values: the attention's own launches rotate queries and keys and write
  /// the cache (TensorRT-LLM's), no node before it does. Predictions set it to what the stack does.
  bool attention_rotates = false;
};

/// Training::eager, with gradients of the type that layers have where nobody gave one.
void train_eagerly(Workload& workload);

/// Throws BadInput for sizes below 1 (context and cached may be 0), more than 2^40 tokens in all, or a parallel plan that
/// no model allows; what a model's own sizes forbid, `lower` refuses.
void check(const Workload& workload);

}  // namespace plumbline
