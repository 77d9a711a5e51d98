#include "kernels/run/iteration.hpp"

#include <algorithm>
#include <utility>

#include "kernels/attention/attention.hpp"
#include "kernels/common/measure.cuh"
#include "kernels/gemm/gemm.hpp"
#include "kernels/run/arena.hpp"
#include "kernels/run/iteration_places.hpp"
#include "kernels/run/iteration_shapes.hpp"
#include "kernels/run/step.hpp"
#include "kernels/training/training.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kAlignment = 256;

/// What the backward pass needs of a layer's forward pass.
struct Kept {
  void *x = nullptr, *attention_normed = nullptr, *q = nullptr, *k = nullptr, *v = nullptr, *attended = nullptr,
       *middle = nullptr, *ffn_normed = nullptr, *gate_up = nullptr, *act = nullptr;
  float* lse = nullptr;
};

}  // namespace

std::int64_t TrainedModel::parameter_count() const { return final_norm_place(*this) + hidden; }

/// Device memory, each piece an allocation of its own.
struct TrainingIteration::Memory {
  std::vector<std::unique_ptr<DeviceBuffer>> pieces;
  std::size_t bytes = 0;

  template <class T = void>
  T* add(std::int64_t elements, std::size_t each) {
    const std::size_t size = (static_cast<std::size_t>(elements) * each + kAlignment - 1) / kAlignment * kAlignment;
    pieces.push_back(std::make_unique<DeviceBuffer>(std::max(size, kAlignment)));
    bytes += size;
    return static_cast<T*>(pieces.back()->as<void>());
  }
  void* values(std::int64_t elements) { return add(elements, 2); }
  float* floats(std::int64_t elements) { return add<float>(elements, 4); }

  std::int64_t parameters = 0;
  void* weights = nullptr;
  float *gradients = nullptr, *first = nullptr, *second = nullptr, *master = nullptr;
  std::int32_t *ids = nullptr, *targets = nullptr, *positions = nullptr, *rows = nullptr, *step = nullptr;
  float *frequency = nullptr, *loss = nullptr, *lse = nullptr, *loss_sum = nullptr, *norm = nullptr,
        *corrections = nullptr;
  void *norm_scratch = nullptr, *sum_scratch = nullptr, *split_sums = nullptr;
};

/// Makes buffers and launches.
struct TrainingIteration::Builder {
  TrainingIteration& it;
  Memory& mem;
  const TrainedModel& m;
  const TrainingBatch& batch;
  const TrainingPlans& plans;
  std::int64_t t, layer = -1;
  std::vector<Kept> kept;
  void *qkv, *projected, *last, *normed, *logits, *d_stream, *d_middle, *d_normed, *d_passed, *d_act, *d_gate_up,
      *d_attended, *dq, *dk, *dv, *dqkv, *backward_workspace;
  std::size_t split_bytes = 0;

  Builder(TrainingIteration& iteration, const TrainingPlans& with)
      : it(iteration),
        mem(*iteration.memory_),
        m(iteration.model_),
        batch(iteration.batch_),
        plans(with),
        t(iteration.batch_.tokens()) {}

  void add(std::string name, std::function<void(StreamHandle)> enqueue, std::optional<Op> op = {}) {
    it.launches_.push_back({std::move(name), layer, std::move(op), std::move(enqueue)});
  }

  void* weight(std::int64_t place) const { return static_cast<char*>(mem.weights) + 2 * place; }
  float* gradient(std::int64_t place) const { return mem.gradients + place; }
  AttentionPrefill prefill() const { return forward_of(backward_shape()); }
  AttentionBackward backward_shape() const {
    AttentionBackward s;
    s.batch = batch.sequences;
    s.q_heads = m.q_heads;
    s.kv_heads = m.kv_heads;
    s.q_len = s.kv_len = batch.length;
    s.qk_dim = s.v_dim = m.head_dim;
    return s;
  }

  void allocate_state() {
    const std::int64_t p = mem.parameters = m.parameter_count();
    mem.weights = mem.values(p);
    mem.gradients = mem.floats(p);
    mem.first = mem.floats(p);
    mem.second = mem.floats(p);
    mem.master = mem.floats(p);
    for (std::int32_t** integers : {&mem.ids, &mem.targets, &mem.positions, &mem.rows}) {
      *integers = mem.add<std::int32_t>(t, 4);
    }
    mem.step = mem.add<std::int32_t>(1, 4);
    mem.frequency = mem.floats(m.head_dim / 2);
    mem.loss = mem.floats(t);
    mem.lse = mem.floats(t);
    mem.loss_sum = mem.floats(1);
    mem.norm = mem.floats(2);
    mem.corrections = mem.floats(2);
    mem.norm_scratch = mem.add(static_cast<std::int64_t>(gradient_norm_scratch_bytes()), 1);
    mem.sum_scratch = mem.add(static_cast<std::int64_t>(sum_all_scratch_bytes()), 1);
  }

  void allocate_activations() {
    const std::int64_t h = t * m.hidden, q = t * m.q_heads * m.head_dim, kv = t * m.kv_heads * m.head_dim;
    for (std::int64_t i = 0; i < m.layers; ++i) {
      Kept k;
      k.x = mem.values(h);
      k.attention_normed = mem.values(h);
      k.q = mem.values(q);
      k.k = mem.values(kv);
      k.v = mem.values(kv);
      k.attended = mem.values(q);
      k.lse = mem.floats(t * m.q_heads);
      k.middle = mem.values(h);
      k.ffn_normed = mem.values(h);
      k.gate_up = mem.values(2 * t * m.intermediate);
      k.act = mem.values(t * m.intermediate);
      kept.push_back(k);
    }
    for (void** piece : {&projected, &last, &normed, &d_stream, &d_middle, &d_normed, &d_passed})
      *piece = mem.values(h);
    qkv = mem.values(q + 2 * kv);
    logits = mem.values(t * m.vocabulary);
    allocate_gradients(q, kv);
  }

  /// Of a layer's backward pass: the head's has read the logits' gradient by then, in whose place these lie while there is room.
  void allocate_gradients(std::int64_t q, std::int64_t kv) {
    char* at = static_cast<char*>(logits);
    const char* end = at + 2 * t * m.vocabulary;
    const auto take = [&](std::int64_t bytes) -> void* {
      const std::int64_t whole = (bytes + static_cast<std::int64_t>(kAlignment) - 1) /
                                 static_cast<std::int64_t>(kAlignment) * static_cast<std::int64_t>(kAlignment);
      if (whole > end - at) return mem.add(bytes, 1);
      at += whole;
      return at - whole;
    };
    dqkv = take(2 * (q + 2 * kv));
    for (void** piece : {&dq, &d_attended}) *piece = take(2 * q);
    for (void** piece : {&dk, &dv}) *piece = take(2 * kv);
    d_act = take(2 * t * m.intermediate);
    d_gate_up = take(4 * t * m.intermediate);
    backward_workspace = take(static_cast<std::int64_t>(backward_workspace_bytes(backward_shape())));
  }

  // --- operators ------------------------------------------------------------------------------------------------

  /// Of a gradient of weights both operands lie across, which the graph calls km; its kernel (fp32 results) goes by kn.
  void product(const std::string& name, const Gemm& of_graph, const void* x, const void* w, void* y) {
    const GemmPlan plan = plans.gemm(of_graph);
    Gemm s = of_graph;
    if (s.layout == WeightLayout::km) s.layout = WeightLayout::kn;
    if (const char* refusal = gemm_refusal(s, plan); *refusal != '\0') {
      throw NotModelled("training: " + name + ": " + refusal);
    }
    split_bytes = std::max(split_bytes, gemm_workspace_bytes(s, plan));
    Memory& o = mem;
    add(
        name,
        [&o, s, plan, x, w, y](StreamHandle to) {
          launch_gemm(s, plan, {x, w, y, o.split_sums, 1}, to);
        },
        Op(of_graph));
  }
  /// y[T, out] = x[T, in] W[out, in]^T.
  void forward(const char* name, const void* x, const void* w, void* y, std::int64_t out, std::int64_t in) {
    product(name, forward_shape(t, out, in), x, w, y);
  }
  /// dX = dY W, then dW += dY^T X.
  void gradients(const char* name, const void* dy, const void* x, std::int64_t place, void* dx, std::int64_t out,
                 std::int64_t in) {
    product(std::string(name) + ".dx (bwd)", input_gradient_shape(t, out, in), dy, weight(place), dx);
    product(std::string(name) + ".dw (bwd)", weight_gradient_shape(t, out, in), dy, x, gradient(place));
  }
  void norm(const char* name, const void* x, std::int64_t place, void* y) {
    Rowwise s;
    s.kind = RowwiseKind::rmsnorm;
    s.rows = t;
    s.cols = m.hidden;
    RowwiseBuffers b;
    b.x = x;
    b.weight = weight(place);
    b.y = y;
    add(name, [s, b](StreamHandle to) { launch_rowwise(s, b, to); });
  }
  void norm_gradient(const char* name, const void* dy, const void* x, std::int64_t place, void* dx) {
    const NormBackwardBuffers b{dy, x, weight(place), nullptr, dx, gradient(place), nullptr};
    const Rows s{t, m.hidden};
    add(name, [s, b](StreamHandle to) { launch_norm_backward(NormKind::rms, s, b, to); });
  }
  void sum(const char* name, const void* a, const void* b, void* y) {
    Rowwise s;
    s.kind = RowwiseKind::add;
    s.rows = t;
    s.cols = m.hidden;
    RowwiseBuffers buffers;
    buffers.x = a;
    buffers.second = b;
    buffers.y = y;
    add(name, [s, buffers](StreamHandle to) { launch_rowwise(s, buffers, to); });
  }
  Rope rope() const {
    Rope s;
    s.tokens = t;
    s.heads = m.heads();
    s.head_dim = m.head_dim;
    return s;
  }

  void layer_forward(const Kept& k, void* out) {
    const LayerPlaces at(m, layer);
    norm("attn_norm", k.x, at.attention_norm, k.attention_normed);
    forward("qkv_proj", k.attention_normed, weight(at.qkv), qkv, m.heads() * m.head_dim, m.hidden);
    const RopeAppend append{qkv, k.q, k.k, k.v, mem.rows, mem.positions, mem.frequency, m.q_heads};
    add("rope", [s = rope(), append](StreamHandle to) { launch_rope_append(s, append, to); });
    const AttentionPrefill s = prefill();
    const AttentionPlan plan = plans.attention(s);
    add(
        "attention",
        [s, plan, k](StreamHandle to) {
          launch_attention_prefill(s, plan, {k.q, k.k, k.v, k.attended, k.lse}, to);
        },
        Op(s));
    forward("o_proj", k.attended, weight(at.output), projected, m.hidden, m.q_heads * m.head_dim);
    sum("attn_residual_add", k.x, projected, k.middle);
    norm("ffn_norm", k.middle, at.ffn_norm, k.ffn_normed);
    forward("gate_up_proj", k.ffn_normed, weight(at.gate_up), k.gate_up, 2 * m.intermediate, m.hidden);
    Rowwise act;
    act.kind = RowwiseKind::swiglu;
    act.rows = t;
    act.cols = m.intermediate;
    RowwiseBuffers b;
    b.x = k.gate_up;
    b.y = k.act;
    add("ffn_act", [act, b](StreamHandle to) { launch_rowwise(act, b, to); });
    forward("down_proj", k.act, weight(at.down), projected, m.hidden, m.intermediate);
    sum("ffn_residual_add", k.middle, projected, out);
  }

  /// d_stream: the gradient of the layer's output, which becomes that of its input.
  void layer_backward(const Kept& k) {
    const LayerPlaces at(m, layer);
    gradients("down_proj", d_stream, k.act, at.down, d_act, m.hidden, m.intermediate);
    const Rows act{t, m.intermediate};
    add("ffn_act (bwd)", [act, dy = d_act, x = k.gate_up, dx = d_gate_up](StreamHandle to) {
      launch_swiglu_backward(act, dy, x, dx, to);
    });
    gradients("gate_up_proj", d_gate_up, k.ffn_normed, at.gate_up, d_normed, 2 * m.intermediate, m.hidden);
    norm_gradient("ffn_norm (bwd)", d_normed, k.middle, at.ffn_norm, d_passed);
    sum("ffn_residual_add (bwd)", d_stream, d_passed, d_middle);
    gradients("o_proj", d_middle, k.attended, at.output, d_attended, m.hidden, m.q_heads * m.head_dim);
    const AttentionBackward s = backward_shape();
    const AttentionPlan plan = plans.backward(s);
    const BackwardBuffers b{k.q, k.k, k.v, k.attended, d_attended, k.lse, dq, dk, dv, backward_workspace};
    add(
        "attention (bwd)", [s, plan, b](StreamHandle to) { launch_attention_backward(s, plan, b, to); }, Op(s));
    const RopeBackwardBuffers turn{dq, dk, dv, dqkv, mem.positions, mem.frequency, m.q_heads};
    add("rope (bwd)", [s = rope(), turn](StreamHandle to) { launch_rope_backward(s, turn, to); });
    gradients("qkv_proj", dqkv, k.attention_normed, at.qkv, d_normed, m.heads() * m.head_dim, m.hidden);
    norm_gradient("attn_norm (bwd)", d_normed, k.x, at.attention_norm, d_passed);
    sum("attn_residual_add (bwd)", d_middle, d_passed, d_stream);
  }

  void head() {
    const std::int64_t place = final_norm_place(m), targets = it.targets();
    norm("final_norm", last, place, normed);
    forward("lm_head", normed, weight(0), logits, m.vocabulary, m.hidden);
    const Rows s{t, m.vocabulary};
    Memory& o = mem;
    add("loss", [s, &o, x = logits](StreamHandle to) { launch_cross_entropy(s, x, o.targets, o.loss, o.lse, to); });
    const auto scale = static_cast<float>(1.0 / static_cast<double>(targets * batch.replicas));
    add("loss (bwd)", [s, &o, x = logits, scale](StreamHandle to) {
      launch_cross_entropy_backward(s, x, o.targets, o.lse, scale, x, to);
    });
    add("loss sum", [&o, n = t](StreamHandle to) {
      launch_sum_all(Scan{ScanKind::sum_all, n, DType::fp32}, o.loss, o.loss_sum, o.sum_scratch, to);
    });
    gradients("lm_head", logits, normed, 0, d_normed, m.vocabulary, m.hidden);
    norm_gradient("final_norm (bwd)", d_normed, last, place, d_stream);
  }

  void build(const AdamwSettings& settings, double clip_norm) {
    allocate_state();
    allocate_activations();
    Memory& o = mem;
    const std::int64_t h = m.hidden, p = o.parameters;
    add("zero_grad", [&o, p](StreamHandle to) { launch_clear_floats(o.gradients, p, to); });
    Embedding lookup;
    lookup.rows = t;
    lookup.cols = h;
    add("embedding",
        [&o, lookup, y = kept.front().x](StreamHandle to) { launch_embedding(lookup, o.weights, o.ids, y, to); });
    for (layer = 0; layer < m.layers; ++layer) {
      const auto i = static_cast<std::size_t>(layer);
      layer_forward(kept[i], i + 1 < kept.size() ? kept[i + 1].x : last);
    }
    layer = -1;
    head();
    for (layer = m.layers; layer-- > 0;) layer_backward(kept[static_cast<std::size_t>(layer)]);
    layer = -1;
    add("embedding (bwd)", [&o, s = Rows{t, h}, dy = d_stream](StreamHandle to) {
      launch_embedding_backward(s, dy, o.ids, o.gradients, to);
    });
    if (batch.replicas > 1) add("grad_all_reduce", {});
    add("grad_norm", [&o, p, clip_norm](StreamHandle to) {
      launch_gradient_norm(o.gradients, p, clip_norm, o.norm, o.norm_scratch, to);
    });
    add("adamw step", [&o, settings](StreamHandle to) { launch_adamw_step(settings, o.step, o.corrections, to); });
    add("adamw", [&o, p, settings](StreamHandle to) {
      launch_adamw_floats(p, settings, {o.gradients, o.first, o.second, o.master, o.weights, o.norm + 1, o.corrections},
                          to);
    });
    o.split_sums = mem.add(static_cast<std::int64_t>(split_bytes), 1);
  }
};

TrainingIteration::TrainingIteration(const TrainedModel& model, const TrainingBatch& batch,
                                     const AdamwSettings& settings, double clip_norm, const TrainingPlans& plans)
    : model_(model), batch_(batch), memory_(std::make_unique<Memory>()) {
  Builder(*this, plans).build(settings, clip_norm);
  bytes_ = memory_->bytes;
}
TrainingIteration::~TrainingIteration() = default;

void TrainingIteration::start(float sigma, std::uint64_t seed, StreamHandle stream) {
  Memory& o = *memory_;
  const auto p = static_cast<std::size_t>(o.parameters);
  fill_normal(o.weights, 2 * p, DType::bf16, 0, sigma, seed, stream);
  const auto ones = [&](std::int64_t place) {
    fill_normal(static_cast<char*>(o.weights) + 2 * place, 2 * static_cast<std::size_t>(model_.hidden), DType::bf16, 1,
                0, seed, stream);
  };
  for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
    ones(LayerPlaces(model_, layer).attention_norm);
    ones(LayerPlaces(model_, layer).ffn_norm);
  }
  ones(final_norm_place(model_));
  launch_widen(o.weights, o.master, o.parameters, stream);
  for (float* state : {o.first, o.second}) clear(state, 4 * p, stream);
  clear(o.step, 4, stream);
  clear(o.norm_scratch, gradient_norm_scratch_bytes(), stream);
  clear(o.sum_scratch, sum_all_scratch_bytes(), stream);
  fill_inverse_frequency(o.frequency, model_.head_dim, static_cast<float>(model_.rope_base), stream);
  fill_counting(o.positions, batch_.tokens(), batch_.length, stream);
  fill_counting(o.rows, batch_.tokens(), batch_.tokens(), stream);
}

void TrainingIteration::set_tokens(const std::vector<std::int32_t>& ids, StreamHandle stream) {
  std::vector<std::int32_t> targets(ids.size(), -1);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    if ((static_cast<std::int64_t>(i) + 1) % batch_.length != 0) targets[i] = ids[i + 1];
  }
  upload(memory_->ids, ids.data(), ids.size() * 4, stream);
  upload(memory_->targets, targets.data(), targets.size() * 4, stream);
}

void TrainingIteration::enqueue(StreamHandle stream) const {
  for (const TrainingLaunch& launch : launches_) launch.enqueue(stream);
}

const void* TrainingIteration::weights() const { return memory_->weights; }
const float* TrainingIteration::gradients() const { return memory_->gradients; }
const float* TrainingIteration::loss_sum() const { return memory_->loss_sum; }
const float* TrainingIteration::norm() const { return memory_->norm; }
std::int64_t TrainingIteration::targets() const { return batch_.sequences * (batch_.length - 1); }

}  // namespace plumbline
