#include "ops/step/step.hpp"

#include <algorithm>

namespace plumbline::lowering {

void Step::open(const char* name, std::int64_t repeat) {
  repeat_ = repeat;
  gathered_for_products.clear();
  graph.segments.push_back({name, repeat, static_cast<int>(graph.nodes.size()), 0});
}

void Step::close() {
  Segment& segment = graph.segments.back();
  segment.size = static_cast<int>(graph.nodes.size()) - segment.first;
  if (segment.size == 0) graph.segments.pop_back();
}

bool Step::sums_bias_apart(const Op& op) const {
  const auto* product = std::get_if<Gemm>(&op);
  const auto* sparse = std::get_if<GemmSparse24>(&op);
  const bool bias = (product != nullptr && product->bias) || (sparse != nullptr && sparse->bias);
  return bias && (none() || workload.training.written_out);
}

void Step::add_gradient(std::size_t i) {
  for (const auto& [first, end] : not_kept_) {
    if (static_cast<int>(i) + 1 == end) recompute(first, end);
  }
  const Node node = graph.nodes[i];  // a copy: appending moves the nodes
  const NodeName* name = names_[i];
  for (const Gradient::Node& part : gradient_of(node.op, node.role)) {
    Op op = part.op;
    auto* product = std::get_if<Gemm>(&op);
    if (product != nullptr && part.part == GradientPart::dw) {  // of weights: added to those of micro-batches before
      product->precision.output = workload.training.made_gradient(types.base);
      product->accumulate = true;
    }
    auto* experts = std::get_if<GroupedGemm>(&op);
    if (experts != nullptr && part.part == GradientPart::dw) {
      experts->precision.output = workload.training.made_gradient(types.base);
      experts->accumulate = true;
    }
    if (auto* table = std::get_if<EmbeddingBackward>(&op)) table->table = table_rows;
    add({name, node.role}, op, node.stream);
    graph.nodes.back().name = name->of(part.part);
    graph.nodes.back().of = static_cast<int>(i);
    graph.nodes.back().of_weights = part.part == GradientPart::dw;
    if (part.part == GradientPart::dw && sums_bias_apart(node.op)) {
      const auto& of_weights = std::get<Gemm>(op);  // [N,K] of M rows
      row({name, node.role}, RowwiseKind::sum_columns, of_weights.k, of_weights.m);
      graph.nodes.back().name = name->db;
      graph.nodes.back().of = static_cast<int>(i);
      graph.nodes.back().of_weights = true;
    }
  }
}

std::vector<std::int64_t> Step::matrices_of(int i) const {
  const auto found = joined_.find(i);
  if (found != joined_.end()) return found->second;
  return {std::get<Gemm>(graph.nodes[static_cast<std::size_t>(i)].op).n};
}

void Step::recompute(int first, int end) {
  for (int i = first; i < end; ++i) {
    const Node node = graph.nodes[static_cast<std::size_t>(i)];  // a copy: appending moves the nodes
    const NodeName* name = names_[static_cast<std::size_t>(i)];
    add({name, node.role}, node.op, node.stream);
    graph.nodes.back().name = name->recompute;
    graph.nodes.back().again = true;
    graph.nodes.back().of = i;
  }
}

void Step::gemm(NodeTag tag, std::int64_t m, std::int64_t n, std::int64_t k, const Precision& precision, bool bias,
                std::int64_t copies) {
  Gemm product{m, n, k, copies, precision, bias};
  product.block = types.block_of(precision);
  if (train() && workload.training.fp8 == Fp8Recipe::block && precision.math == DType::fp8) product.block = 128;
  add(tag, product);
}

void Step::ffn_linear(NodeTag prune, NodeTag tag, std::int64_t m, std::int64_t n, std::int64_t k, bool bias) {
  if (!train() || workload.training.sparse == SparseWeights::none) return linear(tag, m, n, k, bias);
  add(prune, Sparsify24{n, k, types.linear.weight});
  add(tag, GemmSparse24{m, n, k, types.linear, bias});
}

void Step::row(NodeTag tag, RowwiseKind kind, std::int64_t rows, std::int64_t cols, bool residual) {
  add(tag, Rowwise{kind, rows, cols, residual, types.base, types.base});
}

void Step::quantize(NodeTag tag, std::int64_t rows, std::int64_t cols, const Precision& consumer) {
  if (max() || !types.quantizes(consumer)) return;
  if (const std::int64_t block = types.block_of(consumer); block > 0) {
    return add(tag, QuantizeDynamic{rows, cols, block, types.base});
  }
  add(tag, Rowwise{RowwiseKind::quantize, rows, cols, false, types.base, consumer.input});
}

void Step::collective(NodeTag tag, CollectiveKind kind, Bytes bytes, DType type, std::int64_t ranks,
                      std::int64_t apart) {
  if (ranks == 1) return;
  Collective c;
  c.kind = kind;
  c.bytes = whole_bytes(bytes);
  c.gpus = ranks;
  c.dtype = type;
  c.stride = apart;
  add(tag, c, 1);
}

void Step::copy_host(NodeTag tag, TransferKind kind, Bytes bytes) {
  Transfer copy;
  copy.kind = kind;
  copy.bytes = std::max<std::int64_t>(1, whole_bytes(bytes));
  add(tag, copy, 1);
}

void Step::all_reduce(NodeTag tag, NodeTag scatter, std::int64_t rows) {
  const Bytes bytes = storage(types.base, static_cast<double>(rows) * static_cast<double>(hidden));
  const auto kind = scattered ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  collective(scattered ? scatter : tag, kind, bytes, types.base, tp());
}

void Step::all_gather(NodeTag tag, std::int64_t rows, std::int64_t cols, DType type, std::int64_t ranks,
                      std::int64_t apart) {
  const Bytes bytes = storage(type, static_cast<double>(rows) * static_cast<double>(cols));
  collective(tag, CollectiveKind::all_gather, bytes, type, ranks, apart);
}

}  // namespace plumbline::lowering
