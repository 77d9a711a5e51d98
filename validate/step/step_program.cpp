#include "validate/step/step_program.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "arch/error.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kAlignment = 256, kValue = 2, kIndex = 4;  // a value: bf16 or fp16
/// The largest of some thousand standard normal values, which row-wise quantization puts at 448.
constexpr double kRowMaximum = 3.9, kLargestE4m3 = 448;

std::size_t bytes_of(DType type, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * (type == DType::fp8 ? 1 : kValue);
}

/// What flows from an operator to the next one.
struct Flow {
  StepOperand at;
  DType type = DType::bf16;
  std::int64_t elements = 0;
};

class Builder {
 public:
  Builder(const StepPrediction& step, const Workload& workload, const StepScratch& scratch, std::int64_t rank)
      : step_(step), workload_(workload), scratch_(scratch), rank_(rank), outputs_(step.graph.nodes.size()) {}

  StepProgram build() {
    if (workload_.phase == Phase::train) throw NotModelled("a training step is not run; expected prefill or decode");
    const Graph& graph = step_.graph;
    for (const Segment& segment : graph.segments) {
      for (std::int64_t layer = 0; layer < segment.repeat; ++layer) {
        for (int i = segment.first; i < segment.first + segment.size; ++i) emit(i, layer);
      }
    }
    place();
    return std::move(program_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw NotModelled("step: " + std::string(node_->name) + ": no kernel of ours for " + what);
  }
  void need(bool good, const std::string& what) const {
    if (!good) refuse(what);
  }

  void emit(int index, std::int64_t layer) {
    node_ = &step_.graph.nodes[static_cast<std::size_t>(index)];
    const int before = index - 1;
    const bool alone = node_->stream == 0 || std::holds_alternative<Collective>(node_->op);
    need(node_->depends[1] < 0 && node_->depends[0] == before && alone, "a branch of the graph");
    StepLaunch& launch = program_.launches.emplace_back();
    launch.node = index;
    launch.layer = layer;
    launch.op = node_->op;
    launch_ = &launch;
    std::visit([this](const auto& shape) { wire(shape); }, node_->op);
  }

  int add(std::string name, std::size_t bytes, StepFill fill, float sigma = 1, float mean = 0) {
    StepBuffer buffer;
    buffer.name = std::move(name);
    buffer.bytes = bytes;
    buffer.fill = fill;
    buffer.sigma = sigma;
    buffer.mean = mean;
    program_.buffers.push_back(std::move(buffer));
    return static_cast<int>(program_.buffers.size()) - 1;
  }
  /// Of this layer alone: normal values.
  StepOperand own(const char* what, DType type, std::int64_t elements, float sigma = 1, float mean = 0) {
    const std::string name = "layer " + std::to_string(launch_->layer) + " " + node_->name + " " + what;
    const int buffer = add(name, bytes_of(type, elements), StepFill::normal, sigma, mean);
    program_.buffers.back().type = type;
    return {buffer, 0};
  }
  /// Of the operator, in all layers; `which` tells its outputs apart.
  StepOperand shared(const char* what, std::size_t which, std::size_t bytes, StepFill fill = StepFill::nothing) {
    int& buffer = outputs_[static_cast<std::size_t>(launch_->node)][which];
    if (buffer < 0) buffer = add(std::string(node_->name) + " " + what, bytes, fill);
    return {buffer, 0};
  }
  StepOperand integers(const char* name, int& buffer, std::vector<std::int32_t> values) {
    if (buffer < 0) {
      buffer = add(name, values.size() * kIndex, StepFill::integers);
      program_.buffers.back().integers = std::move(values);
    }
    return {buffer, 0};
  }

  void flow_to(StepOperand y, DType type, std::int64_t elements) { flow_ = {y, type, elements}; }

  void wire(const Embedding& s) {
    need(s.dtype == DType::bf16 || s.dtype == DType::fp16, "this type");
    program_.type = s.dtype;
    rows_ = s.rows;
    const std::int64_t vocabulary = head_columns();
    need(vocabulary > 0, "a model without logits");
    const std::int64_t ranks = workload_.parallel.tensor;
    launch_->weight = own("table", s.dtype, (vocabulary + (ranks > 1 ? 1 : 0)) * s.cols);
    if (ranks > 1) program_.buffers.back().zeros_behind = bytes_of(s.dtype, s.cols);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(s.rows));
    std::minstd_rand random(1);
    for (std::int32_t& id : ids) {
      const auto token = static_cast<std::int64_t>(random() % static_cast<unsigned>(vocabulary * ranks));
      id = static_cast<std::int32_t>(token / vocabulary == rank_ ? token % vocabulary : vocabulary);
    }
    launch_->x = program_.ids = integers("token ids", ids_, std::move(ids));
    launch_->y = shared("output", 0, bytes_of(s.dtype, s.rows * s.cols));
    flow_to(launch_->y, s.dtype, s.rows * s.cols);
  }

  /// Columns of the last GEMM: the vocabulary, whose table the embedding reads.
  std::int64_t head_columns() const {
    std::int64_t columns = 0;
    for (const Node& node : step_.graph.nodes) {
      if (const auto* gemm = std::get_if<Gemm>(&node.op)) columns = gemm->n;
    }
    return columns;
  }

  void wire(const Gemm& s) {
    const bool fp8 = s.precision == *parse_precision("fp8");
    const bool plain = s.precision == *parse_precision(program_.type == DType::fp16 ? "fp16" : "bf16");
    need((plain || (fp8 && program_.type == DType::bf16)) && !s.bias && s.batch == 1,
         "gemm of this type, or with bias");
    const DType in = fp8 ? DType::fp8 : program_.type;
    need(flow_.type == in && flow_.elements >= s.m * s.k, "gemm of this input");
    launch_->x = flow_.at;
    launch_->x.offset += bytes_of(in, flow_.elements - s.m * s.k);  // a head reads the last rows
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.k)));
    launch_->weight = own("weight", in, s.n * s.k, fp8 ? 1.0F : scale);
    if (fp8) launch_->gemm_scale = scale * static_cast<float>(kRowMaximum / kLargestE4m3);
    launch_->y = shared("output", 0, bytes_of(program_.type, s.m * s.n));
    const GemmPlan& plan = step_.nodes[static_cast<std::size_t>(launch_->node)].op.gemm_plan;
    if (const std::size_t bytes = scratch_.gemm(s, plan); bytes > 0) {
      launch_->workspace = shared("workspace", 1, bytes, StepFill::zeros);
    }
    program_.logits = launch_->y;
    flow_to(launch_->y, program_.type, s.m * s.n);
  }

  /// Of what the operator before left on all ranks. All-reduces add in place; of a reduce-scatter each rank keeps its rows,
  /// which it takes to an all-gather later. Before the head the ranks gather the last of their rows.
  void wire(const Collective& s) {
    const std::string what(name(s.kind));
    const bool gathers = s.kind == CollectiveKind::all_gather, scatters = s.kind == CollectiveKind::reduce_scatter;
    need((s.kind == CollectiveKind::all_reduce || gathers || scatters) && s.dtype == DType::bf16,
         what + " of this type");
    need(s.gpus == workload_.parallel.tensor, what + " of these ranks");
    const std::int64_t whole = s.bytes / static_cast<std::int64_t>(kValue);
    need(flow_.type == DType::bf16 && s.bytes % static_cast<std::int64_t>(kValue) == 0 &&
             (s.kind == CollectiveKind::all_reduce || whole % s.gpus == 0),
         what + " of this input");
    const std::int64_t in = gathers ? whole / s.gpus : whole, out = scatters ? whole / s.gpus : whole;
    const bool last_rows = gathers && workload_.parallel.sequence && in < flow_.elements;
    need(flow_.elements == in || last_rows, what + " of this input");
    launch_->x = flow_.at;
    launch_->x.offset += bytes_of(DType::bf16, flow_.elements - in);
    launch_->y = in == out ? flow_.at : shared("output", 0, bytes_of(DType::bf16, out));
    flow_to(launch_->y, DType::bf16, out);
  }

  void wire(const Rowwise& s) {
    const bool quantize = s.kind == RowwiseKind::quantize;
    const std::string what(name(s.kind));
    need(s.input == program_.type && s.output == (quantize ? DType::fp8 : s.input) && flow_.type == s.input,
         what + " of this type");
    const std::int64_t n = s.rows * s.cols;
    launch_->x = flow_.at;
    switch (s.kind) {
      case RowwiseKind::rmsnorm:
      case RowwiseKind::layernorm: return norm(s, n);
      case RowwiseKind::swiglu: need(flow_.elements == 2 * n, what + " of this input"); break;
      case RowwiseKind::quantize:
      case RowwiseKind::argmax: need(flow_.elements == n, what + " of this input"); break;
      default:
        if (!row_of(s.kind).activation) refuse(what + " in a step");
        need(flow_.elements == n, what + " of this input");
    }
    if (s.kind == RowwiseKind::argmax) {
      // What is chosen is the next decode step's input; a prefill's ids stay as they are.
      launch_->y = workload_.phase == Phase::decode && s.rows == rows_ && workload_.parallel.tensor == 1
                       ? StepOperand{ids_, 0}
                       : shared("output", 0, static_cast<std::size_t>(s.rows) * kIndex);
      program_.choice = launch_->y;
      return flow_to(launch_->y, s.input, 0);
    }
    launch_->y = shared("output", 0, bytes_of(s.output, n));
    if (quantize) launch_->scale = shared("scales", 1, static_cast<std::size_t>(s.rows) * 4);
    flow_to(launch_->y, s.output, n);
  }

  /// Of the residual stream, of what flows, or (fewer elements than flow) of the heads at the front of QKV, in place.
  void norm(const Rowwise& s, std::int64_t n) {
    need(flow_.elements >= n, "a norm of this input");
    launch_->weight = own("weight", s.input, s.cols, 0.1F, 1);
    program_.buffers.back().replicated = true;
    if (s.kind == RowwiseKind::layernorm) {
      launch_->bias = own("bias", s.input, s.cols, 0.1F);
      program_.buffers.back().replicated = true;
    }
    if (s.residual) {
      need(flow_.elements == n, "a norm of this input");
      for (int& buffer : residual_) {
        if (buffer < 0) buffer = add("residual stream", bytes_of(s.input, n), StepFill::zeros);
      }
      if (!residual_written_) {
        launch_->second = {add("zeros before the first layer", bytes_of(s.input, n), StepFill::zeros), 0};
      } else {
        launch_->second = {residual_[0], 0};
      }
      launch_->sum = {residual_[1], 0};
      std::swap(residual_[0], residual_[1]);
      residual_written_ = true;
    }
    if (n < flow_.elements) {
      launch_->y = flow_.at;
      return;
    }
    launch_->y = shared("output", 0, bytes_of(s.input, n));
    flow_to(launch_->y, s.input, n);
  }

  void wire(const Rope& s) {
    need(s.dtype == program_.type && flow_.type == s.dtype, "rope of this type");
    const Heads h = heads_behind();
    need(s.heads == h.q + 2 * h.kv && flow_.elements == s.tokens * s.heads * s.head_dim, "rope of these heads");
    launch_->x = flow_.at;
    launch_->q_heads = h.q;
    launch_->y = shared("queries", 0, bytes_of(s.dtype, s.tokens * h.q * s.head_dim));
    const std::int64_t cache = h.cache_rows * h.kv * s.head_dim;
    keys_ = launch_->k = own("keys", s.dtype, cache);
    values_ = launch_->v = own("values", s.dtype, cache);
    set_places(s.tokens, h);
    launch_->rows = {append_rows_, 0};
    launch_->positions = {positions_, 0};
    if (frequency_ < 0) {
      frequency_ =
          add("inverse frequencies", static_cast<std::size_t>(s.head_dim / 2) * 4, StepFill::inverse_frequency);
    }
    launch_->frequency = {frequency_, 0};
    flow_to(launch_->y, s.dtype, s.tokens * h.q * s.head_dim);
  }

  struct Heads {
    std::int64_t q = 0, kv = 0, cache_rows = 0, length = 0, page = 0;
  };
  /// Of the attention that follows.
  Heads heads_behind() const {
    for (std::size_t i = static_cast<std::size_t>(launch_->node); i < step_.graph.nodes.size(); ++i) {
      const Op& op = step_.graph.nodes[i].op;
      if (const auto* p = std::get_if<AttentionPrefill>(&op)) {
        return {p->q_heads, p->kv_heads, p->batch * p->kv_len, p->kv_len, 0};
      }
      if (const auto* d = std::get_if<AttentionDecode>(&op)) {
        const std::int64_t width = d->page > 0 ? (d->context + d->page - 1) / d->page : 0;
        const std::int64_t each = d->page > 0 ? width * d->page : d->context;
        return {d->q_heads, d->kv_heads, d->batch * each, d->context, d->page};
      }
    }
    refuse("rope without attention behind it");
  }

  /// Where each token stands in its sequence, and which row of the cache is its own.
  void set_places(std::int64_t tokens, const Heads& h) {
    if (positions_ >= 0) return;
    const bool decode = workload_.phase == Phase::decode;
    const std::int64_t each = decode ? 1 : h.length;
    const std::int64_t width = h.page > 0 ? (h.length + h.page - 1) / h.page : 0;
    std::vector<std::int32_t> table;
    if (h.page > 0) table = shuffled_page_table(tokens / each, width);
    std::vector<std::int32_t> positions, rows;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t sequence = t / each, position = decode ? h.length - 1 : t % each;
      std::int64_t row = sequence * h.length + position;
      if (h.page > 0) {
        row = table[static_cast<std::size_t>(sequence * width + position / h.page)] * h.page + position % h.page;
      }
      positions.push_back(static_cast<std::int32_t>(position));
      rows.push_back(static_cast<std::int32_t>(row));
    }
    integers("positions", positions_, std::move(positions));
    integers("cache rows of the new tokens", append_rows_, std::move(rows));
    if (h.page > 0) integers("page table", table_, std::move(table));
  }

  void wire(const AttentionPrefill& s) {
    need(s.dtype == program_.type && s.kv_dtype == s.dtype && s.qk_dim == s.v_dim && s.window == 0 && keys_.there(),
         "attention of this type, or windowed");
    need(s.q_len == s.kv_len && flow_.elements == s.batch * s.q_len * s.q_heads * s.qk_dim, "attention of this input");
    attention(s.batch * s.q_len * s.q_heads * s.v_dim);
  }
  void wire(const AttentionDecode& s) {
    need(s.dtype == program_.type && s.kv_dtype == s.dtype && s.qk_dim == s.v_dim && s.window == 0 && keys_.there(),
         "attention of this type, or windowed");
    need(flow_.elements == s.batch * s.q_heads * s.qk_dim, "attention of this input");
    const AttentionPlan& plan = step_.nodes[static_cast<std::size_t>(launch_->node)].op.attention_plan;
    if (const std::size_t bytes = scratch_.decode(s, plan); bytes > 0) {
      launch_->workspace = shared("workspace", 1, bytes, StepFill::zeros);
    }
    if (s.page > 0) launch_->table = {table_, 0};
    attention(s.batch * s.q_heads * s.v_dim);
  }
  void attention(std::int64_t elements) {
    launch_->x = flow_.at;
    launch_->k = keys_;
    launch_->v = values_;
    launch_->y = shared("output", 0, bytes_of(program_.type, elements));
    flow_to(launch_->y, program_.type, elements);
  }

  template <class Other>
  void wire(const Other& s) {
    refuse(std::string(op_name(s)) + " in a step");
  }

  void place() {
    for (StepBuffer& buffer : program_.buffers) {
      buffer.offset = program_.bytes;
      program_.bytes += (buffer.bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
  }

  const StepPrediction& step_;
  const Workload& workload_;
  const StepScratch& scratch_;
  std::int64_t rank_ = 0;
  struct Outputs : std::array<int, 2> {
    Outputs() { fill(-1); }
  };
  std::vector<Outputs> outputs_;
  StepProgram program_;
  const Node* node_ = nullptr;
  StepLaunch* launch_ = nullptr;
  Flow flow_;
  StepOperand keys_, values_;
  std::array<int, 2> residual_{-1, -1};
  bool residual_written_ = false;
  int ids_ = -1, positions_ = -1, append_rows_ = -1, table_ = -1, frequency_ = -1;
  std::int64_t rows_ = 0;
};

}  // namespace

std::vector<std::int32_t> shuffled_page_table(std::int64_t sequences, std::int64_t width) {
  std::vector<std::int32_t> table(static_cast<std::size_t>(sequences * width));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::minstd_rand(static_cast<unsigned>(table.size())));
  return table;
}

StepProgram step_program(const StepPrediction& step, const Workload& workload, const StepScratch& scratch,
                         std::int64_t rank) {
  return Builder(step, workload, scratch, rank).build();
}

}  // namespace plumbline
