#include "ops/op/keys.hpp"

#include <algorithm>
#include <vector>

namespace plumbline {
namespace {

constexpr Key optional(std::string_view name, KeyType type, std::int64_t fallback) {
  return {name, type, false, fallback};
}
constexpr Key dtype_key(std::string_view name) { return optional(name, KeyType::dtype, -1); }

// The order of a row of keys is that of KeyValues in the functions below it.
constexpr std::array<Key, 9> kGemm{{{"M"},
                                    {"N"},
                                    {"K"},
                                    optional("batch", KeyType::size, 1),
                                    optional("bias", KeyType::flag, 0),
                                    dtype_key("in"),
                                    dtype_key("weight"),
                                    dtype_key("out"),
                                    dtype_key("math")}};
constexpr std::array<Key, 10> kGroupedGemm{{{"E"},
                                            {"topk"},
                                            {"T"},
                                            {"N"},
                                            {"K"},
                                            optional("skew", KeyType::percent, 0),
                                            dtype_key("in"),
                                            dtype_key("weight"),
                                            dtype_key("out"),
                                            dtype_key("math")}};
constexpr std::array<Key, 7> kSparse{
    {{"M"}, {"N"}, {"K"}, dtype_key("in"), dtype_key("weight"), dtype_key("out"), dtype_key("math")}};
constexpr std::array<Key, 11> kPrefill{{{"B"},
                                        {"Hq"},
                                        {"Hkv"},
                                        {"D"},
                                        {"S"},
                                        {"causal", KeyType::flag},
                                        optional("Skv", KeyType::size, 0),
                                        optional("window", KeyType::count, 0),
                                        optional("append", KeyType::flag, -1),
                                        optional("Dv", KeyType::size, 0),
                                        dtype_key("kv")}};
constexpr std::array<Key, 9> kDecode{{{"B"},
                                      {"Hq"},
                                      {"Hkv"},
                                      {"D"},
                                      {"S"},
                                      optional("page", KeyType::count, 0),
                                      optional("window", KeyType::count, 0),
                                      optional("Dv", KeyType::size, 0),
                                      dtype_key("kv")}};
constexpr std::array<Key, 6> kMla{{{"B"}, {"H"}, {"S"}, {"Dc"}, {"Dr"}, dtype_key("kv")}};
constexpr std::array<Key, 4> kRowwise{{{"rows"}, {"cols"}, optional("residual", KeyType::flag, 0), dtype_key("out")}};
constexpr std::array<Key, 3> kRope{{{"tokens"}, {"heads"}, {"D"}}};
constexpr std::array<Key, 3> kTopK{{{"rows"}, {"cols"}, {"k"}}};
constexpr std::array<Key, 2> kEmbedding{{{"rows"}, {"cols"}}};
constexpr std::array<Key, 1> kScan{{{"n"}}};
constexpr std::array<Key, 3> kSpmv{{{"rows"}, {"cols"}, {"nnz"}}};
constexpr std::array<Key, 8> kRecurrence{{{"kind", KeyType::recurrence},
                                          {"B"},
                                          {"S"},
                                          {"H"},
                                          {"D"},
                                          {"state"},
                                          optional("groups", KeyType::size, 1),
                                          dtype_key("state_dtype")}};
constexpr std::array<Key, 4> kConv{{{"B"}, {"S"}, {"channels"}, {"width"}}};
constexpr std::array<Key, 4> kPermute{{{"tokens"}, {"topk"}, {"cols"}, optional("combine", KeyType::flag, 0)}};
constexpr std::array<Key, 2> kCollective{{{"bytes"}, {"gpus"}}};
constexpr std::array<Key, 1> kTransfer{{{"bytes"}}};

DType type_or(std::int64_t given, DType other) { return given < 0 ? other : static_cast<DType>(given); }
std::int64_t unless(DType type, DType usual) { return type == usual ? -1 : static_cast<std::int64_t>(type); }

/// `in`, `weight`, `out`, `math` start at key `i`.
Precision precision_from(const KeyValues& v, std::size_t i, const Precision& base) {
  return {type_or(v[i], base.input), type_or(v[i + 1], base.weight), type_or(v[i + 2], base.output),
          type_or(v[i + 3], base.math)};
}
void take_precision(const Precision& precision, KeyValues& v, std::size_t i) {
  const Precision base = *parse_precision(base_precision(precision));
  v.number[i] = unless(precision.input, base.input);
  v.number[i + 1] = unless(precision.weight, base.weight);
  v.number[i + 2] = unless(precision.output, base.output);
  v.number[i + 3] = unless(precision.math, base.math);
}

Op make_gemm(const KeyValues& v, const Precision& p, int) {
  return Gemm{v[0], v[1], v[2], v[3], precision_from(v, 5, p), v[4] != 0};
}
void take_gemm(const Op& op, KeyValues& v) {
  const auto& s = std::get<Gemm>(op);
  v.number = {s.m, s.n, s.k, s.batch, s.bias ? 1 : 0};
  take_precision(s.precision, v, 5);
}

Op make_grouped(const KeyValues& v, const Precision& p, int) {
  return GroupedGemm{v[0], v[1], v[2], v[3], v[4], v.percent, precision_from(v, 6, p)};
}
void take_grouped(const Op& op, KeyValues& v) {
  const auto& s = std::get<GroupedGemm>(op);
  v.number = {s.experts, s.topk, s.tokens, s.n, s.k};
  v.percent = s.skew;
  take_precision(s.precision, v, 6);
}

Op make_sparse(const KeyValues& v, const Precision& p, int) {
  return GemmSparse24{v[0], v[1], v[2], precision_from(v, 3, p)};
}
void take_sparse(const Op& op, KeyValues& v) {
  const auto& s = std::get<GemmSparse24>(op);
  v.number = {s.m, s.n, s.k};
  take_precision(s.precision, v, 3);
}

Op make_prefill(const KeyValues& v, const Precision& p, int) {
  AttentionPrefill s{v[0], v[1], v[2], v[3], v[9] > 0 ? v[9] : v[3], v[4], v[6] > 0 ? v[6] : v[4]};
  s.causal = v[5] != 0;
  s.window = v[7];
  s.append = static_cast<int>(v[8]);
  s.dtype = p.input;
  s.kv_dtype = type_or(v[10], s.dtype);
  return s;
}
void take_prefill(const Op& op, KeyValues& v) {
  const auto& s = std::get<AttentionPrefill>(op);
  v.number = {s.batch, s.q_heads, s.kv_heads, s.qk_dim, s.q_len, s.causal ? 1 : 0};
  v.number[6] = s.kv_len == s.q_len ? 0 : s.kv_len;
  v.number[7] = s.window;
  v.number[8] = s.append;
  v.number[9] = s.v_dim == s.qk_dim ? 0 : s.v_dim;
  v.number[10] = unless(s.kv_dtype, s.dtype);
}

Op make_decode(const KeyValues& v, const Precision& p, int) {
  AttentionDecode s{v[0], v[1], v[2], v[3], v[7] > 0 ? v[7] : v[3], v[4], v[5], v[6]};
  s.dtype = p.input;
  s.kv_dtype = type_or(v[8], s.dtype);
  return s;
}
void take_decode(const Op& op, KeyValues& v) {
  const auto& s = std::get<AttentionDecode>(op);
  v.number = {s.batch, s.q_heads, s.kv_heads, s.qk_dim, s.context, s.page, s.window};
  v.number[7] = s.v_dim == s.qk_dim ? 0 : s.v_dim;
  v.number[8] = unless(s.kv_dtype, s.dtype);
}

Op make_mla(const KeyValues& v, const Precision& p, int) {
  return MlaDecode{v[0], v[1], v[2], v[3], v[4], p.input, type_or(v[5], p.input)};
}
void take_mla(const Op& op, KeyValues& v) {
  const auto& s = std::get<MlaDecode>(op);
  v.number = {s.batch, s.heads, s.context, s.latent, s.rope, unless(s.kv_dtype, s.dtype)};
}

/// Quantize answers in fp8 unless told; the others in the type they read.
DType rowwise_output(RowwiseKind kind, DType input) { return kind == RowwiseKind::quantize ? DType::fp8 : input; }

Op make_rowwise(const KeyValues& v, const Precision& p, int number) {
  const auto kind = static_cast<RowwiseKind>(number);
  return Rowwise{kind, v[0], v[1], v[2] != 0, p.input, type_or(v[3], rowwise_output(kind, p.input))};
}
void take_rowwise(const Op& op, KeyValues& v) {
  const auto& s = std::get<Rowwise>(op);
  v.number = {s.rows, s.cols, s.residual ? 1 : 0, unless(s.output, rowwise_output(s.kind, s.input))};
}

Op make_rope(const KeyValues& v, const Precision& p, int) { return Rope{v[0], v[1], v[2], p.input}; }
void take_rope(const Op& op, KeyValues& v) {
  const auto& s = std::get<Rope>(op);
  v.number = {s.tokens, s.heads, s.head_dim};
}

Op make_topk(const KeyValues& v, const Precision& p, int) { return TopK{v[0], v[1], v[2], p.input}; }
void take_topk(const Op& op, KeyValues& v) {
  const auto& s = std::get<TopK>(op);
  v.number = {s.rows, s.cols, s.k};
}

Op make_softmax_topk(const KeyValues& v, const Precision& p, int) { return SoftmaxTopK{v[0], v[1], v[2], p.input}; }
void take_softmax_topk(const Op& op, KeyValues& v) {
  const auto& s = std::get<SoftmaxTopK>(op);
  v.number = {s.rows, s.cols, s.k};
}

Op make_embedding(const KeyValues& v, const Precision& p, int) { return Embedding{v[0], v[1], p.input}; }
void take_embedding(const Op& op, KeyValues& v) {
  const auto& s = std::get<Embedding>(op);
  v.number = {s.rows, s.cols};
}

Op make_scan(const KeyValues& v, const Precision& p, int kind) {
  return Scan{static_cast<ScanKind>(kind), v[0], p.input};
}
void take_scan(const Op& op, KeyValues& v) { v.number = {std::get<Scan>(op).n}; }

Op make_spmv(const KeyValues& v, const Precision& p, int) { return Spmv{v[0], v[1], v[2], p.input}; }
void take_spmv(const Op& op, KeyValues& v) {
  const auto& s = std::get<Spmv>(op);
  v.number = {s.rows, s.cols, s.nnz};
}

Op make_recurrence(const KeyValues& v, const Precision& p, int) {
  return Recurrence{static_cast<RecurrentKind>(v[0]), v[1], v[2], v[3], v[4], v[5], v[6], p.input,
                    type_or(v[7], DType::fp32)};
}
void take_recurrence(const Op& op, KeyValues& v) {
  const auto& s = std::get<Recurrence>(op);
  v.number = {static_cast<std::int64_t>(s.kind), s.batch, s.seq, s.heads, s.head_dim, s.state, s.groups,
              unless(s.state_dtype, DType::fp32)};
}

Op make_conv(const KeyValues& v, const Precision& p, int) { return CausalConv{v[0], v[1], v[2], v[3], p.input}; }
void take_conv(const Op& op, KeyValues& v) {
  const auto& s = std::get<CausalConv>(op);
  v.number = {s.batch, s.seq, s.channels, s.width};
}

Op make_permute(const KeyValues& v, const Precision& p, int) {
  return MoePermute{v[0], v[1], v[2], v[3] != 0, p.input};
}
void take_permute(const Op& op, KeyValues& v) {
  const auto& s = std::get<MoePermute>(op);
  v.number = {s.tokens, s.topk, s.cols, s.combine ? 1 : 0};
}

Op make_collective(const KeyValues& v, const Precision& p, int kind) {
  return Collective{static_cast<CollectiveKind>(kind), v[0], v[1], p.input};
}
void take_collective(const Op& op, KeyValues& v) {
  const auto& s = std::get<Collective>(op);
  v.number = {s.bytes, s.gpus};
}

Op make_transfer(const KeyValues& v, const Precision&, int kind) {
  return Transfer{static_cast<TransferKind>(kind), v[0]};
}
void take_transfer(const Op& op, KeyValues& v) { v.number = {std::get<Transfer>(op).bytes}; }

/// The contract's order first, then ours.
std::vector<OpSpec> build_specs() {
  std::vector<OpSpec> specs{{"gemm", kGemm, make_gemm, take_gemm, 0, true},
                            {"grouped_gemm", kGroupedGemm, make_grouped, take_grouped, 0, true},
                            {"attention_prefill", kPrefill, make_prefill, take_prefill},
                            {"attention_decode", kDecode, make_decode, take_decode},
                            {"mla_decode", kMla, make_mla, take_mla}};
  const auto add_rowwise = [&](RowwiseKind first, RowwiseKind last, bool ours) {
    for (int kind = static_cast<int>(first); kind <= static_cast<int>(last); ++kind) {
      const std::string_view op = name(static_cast<RowwiseKind>(kind));
      specs.push_back({op, kRowwise, make_rowwise, take_rowwise, kind, false, ours});
    }
  };
  add_rowwise(RowwiseKind::layernorm, RowwiseKind::swiglu, false);
  specs.push_back({"rope", kRope, make_rope, take_rope});
  specs.push_back({"topk", kTopK, make_topk, take_topk});
  specs.push_back({"embedding", kEmbedding, make_embedding, take_embedding});
  for (ScanKind kind : {ScanKind::sum_all, ScanKind::cumsum}) {
    specs.push_back({name(kind), kScan, make_scan, take_scan, static_cast<int>(kind)});
  }
  specs.push_back({"spmv", kSpmv, make_spmv, take_spmv});
  specs.push_back({"gemm_sparse24", kSparse, make_sparse, take_sparse, 0, true});
  for (CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                              CollectiveKind::all_to_all}) {
    specs.push_back({name(kind), kCollective, make_collective, take_collective, static_cast<int>(kind)});
  }
  for (TransferKind kind : {TransferKind::send_recv, TransferKind::h2d, TransferKind::d2h, TransferKind::d2d}) {
    specs.push_back({name(kind), kTransfer, make_transfer, take_transfer, static_cast<int>(kind)});
  }
  add_rowwise(RowwiseKind::relu, RowwiseKind::scale_mask_softmax_dropout_backward, true);
  specs.push_back({"softmax_topk", kTopK, make_softmax_topk, take_softmax_topk, 0, false, true});
  specs.push_back({"recurrence", kRecurrence, make_recurrence, take_recurrence, 0, false, true});
  specs.push_back({"causal_conv", kConv, make_conv, take_conv, 0, false, true});
  specs.push_back({"moe_permute", kPermute, make_permute, take_permute, 0, false, true});
  return specs;
}

}  // namespace

std::span<const OpSpec> op_specs() {
  static const std::vector<OpSpec> specs = build_specs();
  return specs;
}

std::span<const std::string_view> precision_names() {
  static constexpr std::array<std::string_view, 10> kNames{"bf16", "fp16", "fp32",  "tf32",  "fp64",
                                                           "fp8",  "int8", "w4a16", "mxfp4", "nvfp4"};
  return kNames;
}

std::string_view base_precision(const Precision& precision) {
  std::string_view best;
  int fewest = 5;
  for (std::string_view candidate : precision_names()) {
    const Precision p = *parse_precision(candidate);
    const int differing = (p.input != precision.input) + (p.weight != precision.weight) +
                          (p.output != precision.output) + (p.math != precision.math);
    if (differing < fewest) {
      fewest = differing;
      best = candidate;
    }
  }
  return best;
}

DType single_dtype(const Op& op) {
  return std::visit(
      [](const auto& s) {
        if constexpr (requires { s.dtype; }) return s.dtype;
        else if constexpr (requires { s.input; }) return s.input;
        else return DType::bf16;
      },
      op);
}

}  // namespace plumbline
