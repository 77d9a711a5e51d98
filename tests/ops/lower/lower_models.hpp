// Models written out by hand (published configs), with parameter counts from the reference formulas, so that tests of
// lowering don't depend on the loader. And sums over the nodes of a graph.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ops/facts/work.hpp"
#include "ops/lower/lower.hpp"
#include "ops/mixer/attention.hpp"
#include "ops/mixer/compressed.hpp"
#include "ops/mixer/delta_net.hpp"
#include "ops/mixer/mamba1.hpp"
#include "ops/mixer/mamba2.hpp"
#include "ops/mixer/mla.hpp"
#include "tests/support/workloads.hpp"

namespace plumbline::testing_support {

inline double d(std::int64_t n) { return static_cast<double>(n); }

inline AttentionSpec gqa(std::int64_t q, std::int64_t kv, std::int64_t dim) {
  AttentionSpec a;
  a.q_heads = q;
  a.kv_heads = kv;
  a.qk_dim = a.v_dim = dim;
  return a;
}

inline FfnSpec gated(std::int64_t width) {
  FfnSpec f;
  f.width = width;
  return f;
}

inline FfnSpec moe(std::int64_t experts, std::int64_t topk, std::int64_t width, std::int64_t shared = 0) {
  FfnSpec f;
  f.experts = experts;
  f.topk = topk;
  f.expert_width = width;
  f.shared_width = shared;
  return f;
}

/// Weights of the matrix products of a part, those a token uses; of recurrences none.
inline double matrix_elements(const AttentionSpec& a, double h) {
  const double q = d(a.q_heads), qk = d(a.qk_dim), v = d(a.v_dim);
  return h * q * qk * (a.output_gate ? 2 : 1) + h * d(a.kv_heads) * (qk + v) + q * v * h;
}
inline double matrix_elements(const MlaSpec& a, double h) {
  const double q = d(a.heads), rq = d(a.q_lora_rank), rkv = d(a.kv_lora_rank), v = d(a.v_dim);
  const double query = rq > 0 ? h * rq + rq * q * d(a.qk_dim()) : h * q * d(a.qk_dim());
  return query + h * (rkv + d(a.rope_dim)) + rkv * q * (d(a.nope_dim) + v) + q * v * h;
}
inline double matrix_elements(const LayerMixer& mixer, double h) {
  if (const auto* a = mixer.as<AttentionSpec>()) return matrix_elements(*a, h);
  if (const auto* a = mixer.as<CrossAttentionSpec>()) return matrix_elements(a->attention, h);
  if (const auto* a = mixer.as<MlaSpec>()) return matrix_elements(*a, h);
  if (const auto* a = mixer.as<CompressedSpec>()) return 2 * h * d(a->heads + 1) * d(a->dim);
  return 0;
}

inline double active_elements(const FfnSpec& f, double h) {
  const double matrices = f.gated ? 3 : 2;
  double n = matrices * h * d(f.width);
  if (f.is_moe())
    n += d(f.topk) * matrices * h * d(f.expert_width) + h * d(f.experts) + matrices * h * d(f.shared_width);
  return n;
}

/// Elements of a layer's active weight matrices; `count` then sets the layer's parameters (no biases).
inline double active_matrices(const LayerSpec& l, double h) {
  double n = 0;
  n += matrix_elements(l.mixer, h) + matrix_elements(l.cross, h);
  if (l.ffn) n += active_elements(*l.ffn, h);
  return n;
}

inline void count(LayerSpec& l, double h) {
  double vectors = d(l.norms) * h * d(l.norm_vectors);
  if (const auto* a = l.mixer.as<MlaSpec>()) vectors += d(a->q_lora_rank + a->kv_lora_rank);
  l.active_params = active_matrices(l, h) + vectors;
  l.params = l.active_params;
  l.expert_params = 0;
  if (l.ffn && l.ffn->is_moe()) {
    const double one = (l.ffn->gated ? 3 : 2) * h * d(l.ffn->expert_width);
    l.expert_params = d(l.ffn->experts) * one;
    l.params += d(l.ffn->experts - l.ffn->topk) * one;
  }
}

inline LayerSpec layer(const LayerMixer& mixer, FfnSpec f) {
  LayerSpec l;
  l.mixer = mixer;
  l.ffn = f;
  return l;
}

/// Kinds with how many layers there are of each.
inline Llm model(const char* name, std::int64_t hidden, std::int64_t vocab,
                 const std::vector<std::pair<LayerSpec, int>>& kinds, bool tied = false) {
  Llm m;
  m.name = name;
  m.hidden = hidden;
  m.vocab = vocab;
  m.tied_embeddings = tied;
  StackSpec s;
  s.hidden = hidden;
  m.embedding_params = d(vocab) * d(hidden);
  m.head_params = tied ? 0 : m.embedding_params;
  m.params = m.active_params = m.embedding_params + m.head_params;
  for (const auto& [kind, repeat] : kinds) {
    s.kinds.push_back(kind);
    count(s.kinds.back(), d(hidden));
    for (int i = 0; i < repeat; ++i) s.order.push_back(static_cast<int>(s.kinds.size()) - 1);
    m.params += repeat * s.kinds.back().params;
    m.active_params += repeat * s.kinds.back().active_params;
  }
  s.other_params = d(hidden) * (s.kinds.front().norm == NormKind::layer ? 2 : 1);
  m.params += s.other_params;
  m.active_params += s.other_params;
  m.stacks.push_back(s);
  return m;
}

inline Llm llama_8b() { return model("llama-3.1-8b", 4096, 128256, {{layer(gqa(32, 8, 128), gated(14336)), 32}}); }
inline Llm llama_70b() { return model("llama-3.1-70b", 8192, 128256, {{layer(gqa(64, 8, 128), gated(28672)), 80}}); }
inline Llm mixtral() { return model("mixtral-8x7b", 4096, 32000, {{layer(gqa(32, 8, 128), moe(8, 2, 14336)), 32}}); }

inline MlaSpec mla() {
  MlaSpec a;
  a.heads = 128;
  a.v_dim = 128;
  a.q_lora_rank = 1536;
  a.kv_lora_rank = 512;
  a.rope_dim = 64;
  a.nope_dim = 128;
  return a;
}

inline Llm deepseek_v3() {
  Llm m = model("deepseek-v3", 7168, 129280,
                {{layer(mla(), gated(18432)), 3}, {layer(mla(), moe(256, 8, 2048, 2048)), 58}});
  m.quantization = {DType::fp8, DType::fp8, DType::fp8, DType::bf16, "fp8"};
  return m;
}

inline Llm deepseek_v32() {
  MlaSpec a = mla();
  a.index = {64, 128, 2048};
  Llm m = model("deepseek-v3.2", 7168, 129280, {{layer(a, gated(18432)), 3}, {layer(a, moe(256, 8, 2048, 2048)), 58}});
  m.quantization = {DType::fp8, DType::fp8, DType::fp8, DType::bf16, "fp8"};
  return m;
}

/// DeepSeek-V4-like: a window beside a stream pooled 4:1 with an indexer, and one pooled 128:1.
inline Llm compressed() {
  CompressedSpec a;
  a.heads = 64;
  a.dim = 512;
  a.q_lora_rank = 1024;
  a.rope_dim = 64;
  a.window = 128;
  a.out_groups = 8;
  a.out_lora_rank = 1024;
  a.ratio = 128;
  CompressedSpec indexed = a;
  indexed.ratio = 4;
  indexed.index = {64, 128, 512};
  return model("compressed", 4096, 129280,
               {{layer(a, moe(256, 6, 2048, 2048)), 20}, {layer(indexed, moe(256, 6, 2048, 2048)), 20}});
}

inline Llm gpt_oss() {
  AttentionSpec full = gqa(64, 8, 64), window = full;
  full.qkv_bias = full.out_bias = full.sinks = true;
  window = full;
  window.window = 128;
  Llm m = model("gpt-oss-120b", 2880, 201088,
                {{layer(window, moe(128, 4, 2880)), 18}, {layer(full, moe(128, 4, 2880)), 18}});
  m.quantization.experts = DType::mxfp4;
  m.quantization.method = "mxfp4";
  return m;
}

inline Mamba2Spec mamba2_mixer() {
  Mamba2Spec r;
  r.inner = 5120;
  r.heads = 80;
  r.head_dim = 64;
  r.state = 128;
  r.conv = 4;
  return r;
}

inline Llm mamba2() {
  LayerSpec l;
  l.mixer = mamba2_mixer();
  l.norms = 1;
  return model("mamba2-2.7b", 2560, 50288, {{l, 64}}, true);
}

inline Llm jamba() {
  LayerSpec mamba;
  Mamba1Spec r;
  r.inner = 8192;
  r.state = 16;
  r.conv = 4;
  r.dt_rank = 256;
  mamba.mixer = r;
  LayerSpec mamba_moe = mamba;
  mamba.ffn = gated(14336);
  mamba_moe.ffn = moe(16, 2, 14336);
  return model("jamba", 4096, 65536, {{mamba, 12}, {mamba_moe, 16}, {layer(gqa(32, 8, 128), gated(14336)), 4}});
}

inline Llm qwen3_next() {
  LayerSpec linear;
  DeltaNetSpec r;
  r.heads = 32;
  r.head_dim = 128;
  r.key_heads = 16;
  r.key_dim = 128;
  r.conv = 4;
  linear.mixer = r;
  linear.ffn = moe(512, 10, 512, 512);
  AttentionSpec a = gqa(16, 2, 256);
  a.output_gate = true;
  a.qk_norm = 1;
  return model("qwen3-next", 2048, 151936, {{linear, 36}, {layer(a, moe(512, 10, 512, 512)), 12}});
}

inline Llm gemma2() {
  AttentionSpec full = gqa(16, 8, 256), window = full;
  window.window = 4096;
  FfnSpec f = gated(14336);
  f.activation = Activation::gelu;
  LayerSpec slide = layer(window, f), all = layer(full, f);
  slide.norms = all.norms = 4;
  return model("gemma-2-9b", 3584, 256000, {{slide, 21}, {all, 21}}, true);
}

inline Llm llama4() {
  AttentionSpec chunk = gqa(40, 8, 128), full = chunk;
  chunk.window = 8192;
  chunk.chunked = true;
  full.rope = false;
  FfnSpec experts = moe(16, 1, 8192, 8192);
  return model("llama-4-scout", 5120, 202048, {{layer(chunk, experts), 36}, {layer(full, experts), 12}});
}

inline FfnSpec plain(std::int64_t width) {
  FfnSpec f = gated(width);
  f.gated = false;
  f.bias = true;
  f.activation = Activation::gelu;
  return f;
}

/// LayerNorm, FFN without gate, biases: GPT-2, BERT, ViT.
inline LayerSpec classic(std::int64_t heads, std::int64_t dim, bool causal) {
  AttentionSpec a = gqa(heads, heads, dim);
  a.causal = causal;
  a.rope = false;
  a.qkv_bias = a.out_bias = true;
  LayerSpec l = layer(a, plain(4 * heads * dim));
  l.norm = NormKind::layer;
  l.norm_vectors = 2;
  return l;
}

inline Llm gpt2() { return model("gpt2", 768, 50257, {{classic(12, 64, true), 12}}, true); }

inline Llm bert() {
  Llm m = model("bert-base", 768, 30522, {{classic(12, 64, false), 12}}, true);
  m.stacks.front().role = StackSpec::Role::encoder;
  m.has_head = false;
  return m;
}

inline Llm vit() {
  Llm m = model("vit-l", 1024, 0, {{classic(16, 64, false), 24}}, true);
  m.stacks.front().role = StackSpec::Role::vision;
  m.stacks.front().fixed_tokens = 197;
  m.has_head = false;
  return m;
}

/// Encoder and decoder; `frames`: fixed encoder tokens (Whisper), 0: the prompt (T5).
inline Llm t5(std::int64_t frames = 0) {
  AttentionSpec a = gqa(16, 16, 64);
  a.rope = false;
  FfnSpec f = plain(4096);
  f.bias = false;
  LayerSpec decoder = layer(a, f);
  AttentionSpec over_encoder = a;
  over_encoder.causal = false;
  decoder.cross = CrossAttentionSpec(over_encoder);
  decoder.norms = 3;
  Llm m = model("t5-large", 1024, 32128, {{decoder, 24}}, true);
  a.causal = false;
  const Llm encoder = model("encoder", 1024, 0, {{layer(a, f), 24}});
  m.stacks.push_back(encoder.stacks.front());
  m.stacks.back().role = StackSpec::Role::encoder;
  m.stacks.back().fixed_tokens = frames;
  m.params += encoder.params;
  return m;
}

/// FLUX.1-dev-like: 19 double-stream and 38 single-stream layers, h = 3072.
inline Llm flux() {
  AttentionSpec a = gqa(24, 24, 128);
  a.causal = false;
  a.qk_norm = 1;
  LayerSpec pair = layer(a, plain(12288)), single = pair;
  pair.double_stream = true;
  pair.modulation_width = std::int64_t{12} * 3072;
  single.parallel_block = true;
  single.norms = 1;
  single.modulation_width = std::int64_t{3} * 3072;
  Llm m = model("flux", 3072, 0, {{pair, 19}, {single, 38}}, true);
  m.stacks.front().role = StackSpec::Role::diffusion;
  m.stacks.front().text_tokens = 512;
  m.has_head = false;
  return m;
}

inline std::vector<Llm> all_models() {
  return {llama_8b(), llama_70b(), mixtral(), deepseek_v3(), deepseek_v32(), compressed(),
          gpt_oss(),  mamba2(),    jamba(),   qwen3_next(),  gemma2(),       llama4(),
          gpt2(),     bert(),      vit(),     t5(),          t5(1500),       flux()};
}

inline Workload train(std::int64_t batch, std::int64_t prompt, Fusion fusion = Fusion::typical) {
  Workload w = prefill(batch, prompt, fusion);
  w.phase = Phase::train;
  return w;
}

inline bool is_decoder(const Llm& m) { return m.main().role == StackSpec::Role::decoder; }

/// Weight GEMMs and grouped GEMMs; the batched GEMMs of attention and of MLA's absorbed form are told apart by `batch`.
inline bool is_weight_gemm(const Node& n) {
  if (const auto* g = std::get_if<Gemm>(&n.op)) return g->batch == 1;
  return std::holds_alternative<GroupedGemm>(n.op);
}
inline bool is_gemm(const Node& n) {
  return std::holds_alternative<Gemm>(n.op) || std::holds_alternative<GroupedGemm>(n.op);
}

template <class Which>
double tensor_flops(const Graph& g, Which which) {
  double sum = 0;
  for (const Node& n : g.nodes) {
    if (which(n)) sum += d(n.count) * work(n.op).tensor.in(units::FLOP);
  }
  return sum;
}
inline double tensor_flops(const Graph& g) {
  return tensor_flops(g, [](const Node&) { return true; });
}

inline double total_bytes(const Graph& g) {
  double sum = 0;
  for (const Node& n : g.nodes) sum += d(n.count) * work(n.op).bytes().in(units::B);
  return sum;
}

inline std::int64_t launches(const Graph& g) {
  std::int64_t sum = 0;
  for (const Node& n : g.nodes) sum += n.count;
  return sum;
}

inline const Node* find(const Graph& g, std::string_view name, Pass pass = Pass::forward) {
  for (const Node& n : g.nodes) {
    if (n.name == name && n.pass == pass) return &n;
  }
  return nullptr;
}

template <class Shape>
const Shape& shape_of(const Graph& g, std::string_view name, Pass pass = Pass::forward) {
  const Node* node = find(g, name, pass);
  if (node == nullptr) throw std::runtime_error("no node named " + std::string(name));
  return std::get<Shape>(node->op);
}

/// Operations of a step's two ends with weights: of `rows` the head, of `tokens` what brings rows of an embedding that is
/// narrower than the layers (ALBERT, ELECTRA) to their width, and before a tied head back.
inline double ends_flops(const Llm& llm, double tokens, double rows) {
  const bool narrow = llm.tied_embeddings && llm.head_params <= d(llm.vocab) && llm.embedding_params > 0 &&
                      llm.embedding_params < d(llm.vocab) * d(llm.hidden);
  const double width = narrow ? llm.embedding_params / d(llm.vocab) : d(llm.hidden);
  const double projections = narrow ? (tokens + rows) * width * d(llm.hidden) : 0;
  return 2 * (rows * d(llm.vocab) * width + projections);
}

/// What a prefill of two sequences of 512 tokens multiplies with weights, over what its active weights ask for: two operations
/// a weight and token. Norms, biases, convolutions and vectors of heads are what may be missing.
inline double multiplied_weights(const Llm& llm, const StackSpec& main) {
  const double tokens = 2 * 512;
  const double layers = llm.active_params - llm.embedding_params - llm.head_params - main.other_params;
  const double rows = !llm.has_head ? 0 : main.role == StackSpec::Role::decoder ? 2 : tokens;
  const double expected = 2 * tokens * layers * main.passes + ends_flops(llm, tokens, rows);
  const Graph graph = lower(llm, prefill(2, 512, Fusion::max));
  return tensor_flops(graph, [](const Node& n) { return is_weight_gemm(n); }) / expected;
}

}  // namespace plumbline::testing_support
