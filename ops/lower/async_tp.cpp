#include "ops/lower/async_tp.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace plumbline::lowering {
namespace {

using Depends = std::array<int, 2>;

/// A flag to each of the others, and theirs: one way across the links, which is about as long as a load from memory
/// (CustomOp::chain; two H200: 0.65 us, data/measurements/h200/links).
Op barrier() {
  CustomOp flags;
  flags.chain = 1;
  flags.ctas = 1;
  flags.threads = 32;
  return flags;
}

/// Adds up `parts` in fp32, 1024 elements a CTA of 128 threads (triton_reduce_partials_first_dim).
Op sum_of(double parts, std::int64_t elements, DType type) {
  constexpr std::int64_t kElementsACta = 1024;
  CustomOp sum;
  sum.read = parts * storage(type, static_cast<double>(elements));
  sum.write = storage(type, static_cast<double>(elements));
  sum.fp32 = (parts - 1) * static_cast<double>(elements) * units::FLOP;
  sum.ctas = ceil_div(elements, kElementsACta);
  sum.threads = 128;
  return sum;
}

/// The same operator on so many of its rows.
Op of_rows(const Op& op, std::int64_t rows) {
  Op part = op;
  if (auto* product = std::get_if<Gemm>(&part)) product->m = rows;
  if (auto* row = std::get_if<Rowwise>(&part)) row->rows = rows;
  if (auto* rounds = std::get_if<QuantizeDynamic>(&part)) rounds->rows = rows;
  return part;
}

bool is_row_wise(const Op& op) {
  return std::holds_alternative<Rowwise>(op) || std::holds_alternative<QuantizeDynamic>(op);
}

class Shards {
 public:
  explicit Shards(Step& s)
      : s_(s),
        first_(static_cast<std::size_t>(s.graph.segments.back().first)),
        ranks_(s.workload.parallel.tensor),
        old_(s.graph.nodes.begin() + static_cast<std::ptrdiff_t>(first_), s.graph.nodes.end()),
        place_(old_.size()) {
    s.graph.nodes.resize(first_);
  }

  void run() {
    for (std::size_t i = 0; i < old_.size();) {
      if (const std::size_t product = product_of_gathered(i); product > i) {
        gather(i, product);
        i = product + 1;
      } else if (scatters(i)) {
        scatter(i);
        i += 2;
      } else {
        const Node& node = old_[i];
        place_[i] = put(node, node.name, node.op, node.stream, moved(node.depends));
        s_.graph.nodes.back().role = node.role;
        ++i;
      }
    }
    s_.last = moved(s_.last);
    s_.join = moved(s_.join);
  }

 private:
  int moved(int node) const {
    const auto number = static_cast<std::size_t>(std::max(node, 0));
    return node < 0 || number < first_ ? node : place_[number - first_];
  }
  Depends moved(const Depends& depends) const { return {moved(depends[0]), moved(depends[1])}; }
  int number(std::size_t old) const { return static_cast<int>(first_ + old); }

  int put(const Node& like, const char* name, const Op& op, int stream, const Depends& depends) {
    Node node = like;
    node.name = name;
    node.op = op;
    node.stream = stream;
    node.depends = depends;
    node.role = NodeRole::plain;
    s_.graph.nodes.push_back(std::move(node));
    return static_cast<int>(s_.graph.nodes.size()) - 1;
  }
  int put_barrier(const Node& like, int stream, const Depends& depends) {
    return put(like, "shard_barrier", barrier(), stream, depends);
  }

  const Collective* exchange(std::size_t i, CollectiveKind kind) const {
    const auto* c = i < old_.size() ? std::get_if<Collective>(&old_[i].op) : nullptr;
    return c != nullptr && c->kind == kind && c->gpus == ranks_ && c->stride == 1 ? c : nullptr;
  }

  /// Follows the node before it, and nothing else.
  bool follows(std::size_t i) const {
    return i > 0 && i < old_.size() && old_[i].depends == Depends{number(i - 1), -1};
  }

  const Gemm* product(std::size_t i) const {
    const auto* gemm = i < old_.size() ? std::get_if<Gemm>(&old_[i].op) : nullptr;
    return gemm != nullptr && gemm->batch == 1 && gemm->m >= ranks_ ? gemm : nullptr;
  }

  /// The product that reads what node `i` gathers, behind a kernel that quantizes it where there is one; `i`: there is none.
  std::size_t product_of_gathered(std::size_t i) const {
    const auto& marked = s_.gathered_for_products;
    const Collective* c = exchange(i, CollectiveKind::all_gather);
    if (c == nullptr || std::find(marked.begin(), marked.end(), number(i)) == marked.end()) return i;
    std::size_t j = i + 1;
    while (follows(j) && is_row_wise(old_[j].op)) ++j;
    const Gemm* gemm = product(j);
    if (gemm == nullptr || !follows(j)) return i;
    const Bytes read = storage(c->dtype, static_cast<double>(gemm->m) * static_cast<double>(gemm->k));
    return c->bytes == whole_bytes(read) ? j : i;
  }

  bool scatters(std::size_t i) const {
    const Gemm* gemm = product(i);
    const Collective* c = exchange(i + 1, CollectiveKind::reduce_scatter);
    if (gemm == nullptr || c == nullptr || !follows(i + 1)) return false;
    return c->bytes == whole_bytes(storage(c->dtype, static_cast<double>(gemm->m) * static_cast<double>(gemm->n)));
  }

  /// Nodes from `from` to the product `to` on the tokens of one rank.
  int multiply(std::size_t from, std::size_t to, Depends depends) {
    const std::int64_t rows = ceil_div(std::get<Gemm>(old_[to].op).m, ranks_);
    int last = -1;
    for (std::size_t i = from; i <= to; ++i) {
      last = put(old_[i], old_[i].name, of_rows(old_[i].op, rows), 0, depends);
      depends = {last, -1};
    }
    return last;
  }

  /// The farthest of the ranks is as far as it goes.
  Op copy_of(std::int64_t bytes) const { return Transfer{TransferKind::p2p_copy, bytes, ranks_ - 1}; }

  void gather(std::size_t i, std::size_t to) {
    const Node& gathered = old_[i];
    const std::int64_t part = ceil_div(std::get<Collective>(gathered.op).bytes, ranks_);
    const Op stage = Transfer{TransferKind::d2d, part}, copy = copy_of(part);
    const int staged = put(gathered, "shard_staging", stage, 0, moved(gathered.depends));
    const int ready = put_barrier(gathered, 0, {staged, -1});
    int before_last = -1, last = multiply(i + 1, to, {ready, -1});
    for (std::int64_t step = 1; step < ranks_; ++step) {
      const int come = put(gathered, "shard_copy", copy, 1, {ready, before_last});
      before_last = std::exchange(last, multiply(i + 1, to, {come, -1}));
    }
    const int done = put_barrier(gathered, 0, {last, -1});
    std::fill(place_.begin() + static_cast<std::ptrdiff_t>(i), place_.begin() + static_cast<std::ptrdiff_t>(to) + 1,
              done);
  }

  void scatter(std::size_t i) {
    const Node &multiplies = old_[i], &scattered = old_[i + 1];
    const auto& gemm = std::get<Gemm>(multiplies.op);
    const auto& c = std::get<Collective>(scattered.op);
    const Op copy = copy_of(ceil_div(c.bytes, ranks_));
    const int begun = put_barrier(scattered, 0, moved(multiplies.depends));
    int before_last = -1, last = -1;  // copies that have left their buffers, of which there are two
    for (std::int64_t step = 1; step < ranks_; ++step) {
      const int made = multiply(i, i, {begun, before_last});
      const int ready = put_barrier(scattered, 1, {made, -1});
      const int gone = put(scattered, "shard_copy", copy, 1, {ready, -1});
      before_last = std::exchange(last, put_barrier(scattered, 1, {gone, -1}));
    }
    // its stream has every other step
    const int own = multiply(i, i, {begun, ranks_ % 2 == 0 ? before_last : last});
    const int done = put_barrier(scattered, 0, {own, last});
    place_[i] = own;
    place_[i + 1] = put(scattered, "shard_sum",
                        sum_of(static_cast<double>(ranks_), ceil_div(gemm.m, ranks_) * gemm.n, c.dtype), 0, {done, -1});
  }

  Step& s_;
  const std::size_t first_;
  const std::int64_t ranks_;
  const std::vector<Node> old_;
  std::vector<int> place_;  ///< of each old node, the one that ends where it did
};

}  // namespace

void exchange_in_shards(Step& s) {
  if (s.workload.parallel.tensor > 1) Shards(s).run();
}

}  // namespace plumbline::lowering
