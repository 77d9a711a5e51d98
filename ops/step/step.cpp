#include "ops/step/step.hpp"

namespace plumbline::lowering {

void Step::open(const char* name, std::int64_t repeat) {
  repeat_ = repeat;
  graph.segments.push_back({name, repeat, static_cast<int>(graph.nodes.size()), 0});
}

void Step::close() {
  Segment& segment = graph.segments.back();
  segment.size = static_cast<int>(graph.nodes.size()) - segment.first;
  if (segment.size == 0) graph.segments.pop_back();
}

void Step::add_gradient(std::size_t i) {
  const Node node = graph.nodes[i];  // a copy: appending moves the nodes
  const NodeName* name = names_[i];
  for (const Gradient::Node& part : gradient_of(node.op, node.role)) {
    add({name, node.role}, part.op, node.stream);
    graph.nodes.back().name = name->of(part.part);
  }
}

void Step::gemm(NodeTag tag, std::int64_t m, std::int64_t n, std::int64_t k, const Precision& precision, bool bias,
                std::int64_t copies) {
  add(tag, Gemm{m, n, k, copies, precision, bias});
}

void Step::row(NodeTag tag, RowwiseKind kind, std::int64_t rows, std::int64_t cols, bool residual) {
  add(tag, Rowwise{kind, rows, cols, residual, types.base, types.base});
}

void Step::quantize(NodeTag tag, std::int64_t rows, std::int64_t cols, const Precision& consumer) {
  if (max() || !types.quantizes(consumer)) return;
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
