#include "ops/rewrite/rewrite.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "arch/error.hpp"
#include "ops/graph/exchange.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, kStepNames> kStep{
    "w",     "batch",   "seqs",    "fresh",   "cached", "p",     "tied",        "adds",
    "vocab", "width",   "block",   "group",   "heads",  "drops", "scores_drop", "rotary",
    "table", "undrawn", "stacked", "tensors", "again",  "made",  "inner_drop"};

/// What the rules ask of the step.
struct Asked {
  const Workload& workload;
  std::string_view model_type;
  double parameter = 0, tied = 0, adds = 0, vocabulary = 0, width = 0, block = 0, group = 0, heads = 0;
  double drops = 0;
  double scores_drop = 0, rotary = 1;
  double table = 0, undrawn = 0, stacked = 0, tensors = 0, made = 0, inner_drop = 0;
  bool autocast = false;
  std::string_view activation{};
  bool decode() const { return workload.phase == Phase::decode; }
};

/// Those of lists, where each is whole on the rank.
double whole_tensors(const Graph& graph, const ParallelPlan& p) {
  const bool whole = p.tensor == 1 && p.pipeline == 1 && p.expert == 1 && graph.eager.sharded_units == 0;
  return whole ? static_cast<double>(graph.eager.tensors) : 0;
}

Asked asked_of(const Graph& graph, const Workload& w, std::string_view model_type, const Vocabulary& v) {
  if (w.phase != Phase::train) {
    Asked asked{w, model_type};
    asked.group = v.group;
    asked.heads = v.heads;
    asked.rotary = v.rotary;
    asked.activation = v.activation;
    return asked;
  }
  const auto parts = static_cast<double>(graph.pipeline.micro_batches);
  const DType base = w.precision_given ? w.precision.output : DType::bf16;
  return {w,
          model_type,
          bits(w.training.gradient) / 8.0,
          v.tied ? 1.0 : 0.0,
          (parts - 1) / parts,
          static_cast<double>(v.tokens),
          static_cast<double>(v.width),
          static_cast<double>(w.training.fp8_block()),
          v.group,
          v.heads,
          v.drops ? 1.0 : 0.0,
          v.scores_drop ? 1.0 : 0.0,
          v.rotary,
          v.table,
          v.undrawn,
          v.stacked,
          whole_tensors(graph, w.parallel),
          bits(w.training.made_gradient(base)) / 8.0,
          v.inner_drop ? 1.0 : 0.0,
          w.training.autocast(base),
          v.activation};
}

template <class Names>
bool listed(const Names& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

/// The value of each of expression_names(), for one node.
void values_of(const Op& op, const Asked& asked, std::vector<double>& values) {
  const Workload& w = asked.workload;
  values.clear();
  const void* shape = shape_address(op);
  for (const Key& key : keys_of(op)) values.push_back(key.get(shape));
  const bool decode = w.phase == Phase::decode;
  const double cached = static_cast<double>(decode ? w.context : w.cached);
  const double sequences = static_cast<double>(w.batch);
  values.insert(values.end(), {bits(single_dtype(op)) / 8.0,
                               sequences,
                               sequences,
                               decode ? 1.0 : static_cast<double>(w.prompt),
                               cached,
                               asked.parameter,
                               asked.tied,
                               asked.adds,
                               asked.vocabulary,
                               asked.width,
                               asked.block,
                               asked.group,
                               asked.heads,
                               asked.drops,
                               asked.scores_drop,
                               asked.rotary,
                               asked.table,
                               asked.undrawn,
                               asked.stacked,
                               asked.tensors,
                               w.phase == Phase::train && w.training.recompute == Recompute::full ? 1.0 : 0.0,
                               asked.made,
                               asked.inner_drop});
}

/// The launch's operator without sizes: in the rule's type, else in that of the operator that it is for. A product that stands
/// for another one has the types of that one's operands, and what shares a scale of them.
Op made_in(const LaunchRule& rule, const Op& source) {
  const DType type = rule.type.value_or(single_dtype(source));
  Op op = rule.op->make(rule.op->kind, {type, type, type, type});
  if (rule.type) return op;
  std::visit(
      [&source](auto& made) {
        if constexpr (requires { made.precision.weight; }) {
          const auto* given = std::get_if<std::decay_t<decltype(made)>>(&source);
          if (given == nullptr) return;
          made.precision = given->precision;
          if constexpr (requires { made.block; }) made.block = given->block;
        }
      },
      op);
  return op;
}

/// A rule gives all keys that its operator requires (parse_rewrites).
Op launch_of(const LaunchRule& rule, const Node& node, const std::vector<double>& values) {
  if (rule.op == nullptr) return node.op;
  Op op = made_in(rule, node.op);
  void* shape = shape_address(op);
  std::vector<double> all;
  if (!rule.lets.empty()) all = values;
  for (const Expression& each : rule.lets) all.push_back(each(all));
  for (const LaunchRule::KeyRule& each : rule.keys) {
    const double value = each.value(rule.lets.empty() ? values : all);
    if (!std::isfinite(value)) {
      throw BadInput("launch '" + rule.name + "' of node '" + node.name + "': key '" + std::string(each.key->name) +
                     "' is no number");
    }
    each.key->set(shape, each.key->type == KeyType::percent ? value : std::round(value));
    check_key(op, *each.key);
  }
  // However a framework keeps wide weights, those of 8 bits and less are put in the order that their kernels read.
  if (auto* product = std::get_if<Gemm>(&op); product != nullptr && bits(product->precision.weight) <= 8) {
    product->layout = WeightLayout::nk;
  }
  check_relations(op);
  return op;
}

bool is_product(const Node* node) { return node != nullptr && std::holds_alternative<Gemm>(node->op); }

/// A gather or scatter of tensor ranks' tokens that goes in parts beside a product: parts lie where the product reads or writes
/// them, so that a framework has no launches around it. `before`, `behind`: what stands there in its segment.
bool in_parts(const Node& node, const Node* before, const Node* behind, const Workload& w) {
  return w.overlap == Overlap::iteration && is_tensor_exchange(node) &&
         is_product(stands_before_its_product(node) ? behind : before);
}

/// Nodes of a backward segment that are computed again and that nothing of the gradient reads.
struct Ending {
  std::size_t product = SIZE_MAX;  ///< the last one, whose operands alone are read
  std::size_t behind = SIZE_MAX;   ///< and all that follow
};

bool keeps_nothing(const Node& node) {
  const auto* row = std::get_if<Rowwise>(&node.op);
  return row != nullptr && (row->kind == RowwiseKind::add || row->kind == RowwiseKind::scale);
}

Ending ending_of(const std::vector<Node>& nodes, std::size_t first, std::size_t size) {
  std::size_t end = first;
  while (end < first + size && nodes[end].again) ++end;
  Ending ending;
  std::size_t last = end;
  while (last > first && keeps_nothing(nodes[last - 1])) --last;
  if (last > first && is_product(&nodes[last - 1])) ending.product = last - 1;
  if (last < end) ending.behind = last;
  return ending;
}

/// How often it runs for its node.
std::int64_t times_of(const LaunchRule& rule, const Node& node, const std::vector<double>& values) {
  if (!rule.times) return 1;
  constexpr double kMost = 1e6;
  const double times = std::round((*rule.times)(values));
  if (times >= 0 && times <= kMost) return static_cast<std::int64_t>(times);
  throw BadInput("launch '" + rule.name + "' of node '" + node.name + "': times: expected 0 to 1000000");
}

/// Names of one graph's launches.
class KeptNames {
 public:
  explicit KeptNames(Graph& graph) : graph_(graph) {}

  /// "node.launch", of a gradient "node.d_launch": kept with the graph, so that a name lives as long as it does.
  const char* name(const char* node, bool gradient, const std::string& launch) {
    if (!graph_.names || graph_.names.use_count() > 1) {
      graph_.names = graph_.names ? std::make_shared<Graph::Names>(*graph_.names) : std::make_shared<Graph::Names>();
    }
    text_.assign(node).append(gradient ? ".d_" : ".").append(launch);
    return graph_.names->insert(text_).first->c_str();
  }

 private:
  Graph& graph_;
  std::string text_;
};

}  // namespace

std::vector<std::string> expression_names(std::string_view op) {
  const Operator* found = find_operator(op);
  if (found == nullptr) throw BadInput("no operator is called '" + std::string(op) + "'");
  std::vector<std::string> names;
  for (const Key& key : found->keys) names.emplace_back(key.name);
  names.insert(names.end(), kStep.begin(), kStep.end());
  return names;
}

bool NodeRule::is_for(const Source& source, bool decode, bool casts) const {
  return (casts || !autocast) && (decode ? in_decode : in_prefill) && listed(model_types, source.model_type) &&
         listed(activations, source.activation);
}

bool NodeRule::is_for(std::string_view node, std::string_view of, Pass in) const {
  return pass == in && of == op && listed(nodes, node);
}

namespace {

/// One walk over a graph's nodes.
class Rewriting {
 public:
  Rewriting(Graph& graph, const Rewrites& rewrites, const Asked& asked)
      : graph_(graph), rewrites_(rewrites), asked_(asked), names_(graph) {
    before_.swap(graph.nodes);
    constexpr std::size_t kLaunchesOfNode = 4;  // so many that the list is seldom moved
    graph.nodes.reserve(kLaunchesOfNode * before_.size());
    last_of_.resize(before_.size(), -1);
    const NodeRule::Source source{asked.model_type, asked.activation};
    for (const NodeRule& rule : rewrites.rules) {
      if (rule.is_for(source, asked.decode(), asked.autocast)) rules_[pass_index(rule.pass)].push_back(&rule);
    }
  }

  void run() {
    std::size_t next = 0;
    for (Segment& segment : graph_.segments) {
      const int first = static_cast<int>(graph_.nodes.size());
      const bool stops = rewrites_.stops_early && asked_.workload.training.recompute == Recompute::full;
      ending_ = stops ? ending_of(before_, next, static_cast<std::size_t>(segment.size)) : Ending{};
      for (int i = 0; i < segment.size; ++i, ++next) {
        const Node* before = i > 0 ? &graph_.nodes.back() : nullptr;
        const Node* behind = i + 1 < segment.size ? &before_[next + 1] : nullptr;
        in_parts_ = in_parts(before_[next], before, behind, asked_.workload);
        node(next);
      }
      segment.first = first;
      segment.size = static_cast<int>(graph_.nodes.size()) - first;
    }
  }

 private:
  void node(std::size_t i) {
    const Node& node = before_[i];
    std::array<int, 2> waits = node.depends;
    for (int& other : waits) other = other < 0 ? other : last_of_[static_cast<std::size_t>(other)];
    const bool gradient = node.pass == Pass::backward && node.of >= 0 && !node.again;
    const Node& source = gradient ? before_[static_cast<std::size_t>(node.of)] : node;
    const Pass in = node.again ? Pass::forward : node.pass;
    const NodeRule* rule = rule_of(source, in);
    if (node.again && (i >= ending_.behind || (i == ending_.product && rule == nullptr))) {
      last_of_[i] = std::max(waits[0], waits[1]);
      return;
    }
    if (rule == nullptr || in_parts_) {
      graph_.nodes.push_back(node);
      graph_.nodes.back().depends = waits;
      last_of_[i] = static_cast<int>(graph_.nodes.size()) - 1;
      return;
    }
    last_of_[i] = std::max(waits[0], waits[1]);
    // the rule's launches stand for all nodes of a gradient, which lie side by side
    const bool done = gradient && i > 0 && before_[i - 1].of == node.of && before_[i - 1].pass == Pass::backward &&
                      !before_[i - 1].again && before_[i - 1].segment == node.segment;
    if (!done) launches(*rule, node, source, waits, i);
  }

  /// The first that is for the node; null: it runs as it is.
  const NodeRule* rule_of(const Node& node, Pass in) const {
    constexpr std::string_view kAgain = ".recompute";
    std::string_view name = node.name;
    if (node.again && name.ends_with(kAgain)) name.remove_suffix(kAgain.size());
    const std::string_view op = op_name(node.op);
    const std::vector<const NodeRule*>& rules = rules_[pass_index(in)];
    const auto found =
        std::find_if(rules.begin(), rules.end(), [&](const NodeRule* each) { return each->is_for(name, op, in); });
    return found == rules.end() ? nullptr : *found;
  }

  static std::size_t pass_index(Pass pass) { return static_cast<std::size_t>(pass); }

  /// A launch of a rule, as it comes out for an operator.
  struct Launch {
    std::int64_t times = 0;
    Op op;
  };
  /// A rule that was worked out for a node's operator: layers have alike norms, and what is computed again is what was computed
  /// before.
  struct Worked {
    const NodeRule* rule;
    const Node* source;  // of before_
    std::size_t first;   // of launches_
  };
  std::span<const Launch> of(const Worked& each) const {
    return std::span(launches_).subspan(each.first, each.rule->launches.size());
  }

  /// The rule's launches for the operator of `source`, in their order.
  std::span<const Launch> worked_out(const NodeRule& rule, const Node& source) {
    for (const Worked& each : worked_) {
      if (each.rule == &rule && each.source->op == source.op) return of(each);
    }
    worked_.push_back({&rule, &source, launches_.size()});
    values_of(source.op, asked_, values_);
    for (const LaunchRule& launch : rule.launches) {
      const std::int64_t times = times_of(launch, source, values_);
      launches_.push_back({times, times == 0 ? source.op : launch_of(launch, source, values_)});
    }
    return of(worked_.back());
  }

  void launches(const NodeRule& rule, const Node& node, const Node& source, std::array<int, 2> waits, std::size_t i) {
    if (rule.lists > 0) {
      ++graph_.eager.walks;
      graph_.eager.lists += rule.lists;
    }
    const std::span<const Launch> worked = worked_out(rule, source);
    for (std::size_t k = 0; k < worked.size(); ++k) {
      const LaunchRule& launch = rule.launches[k];
      if (i == ending_.product && (launch.op == nullptr || launch.op->name == "gemm")) return;
      if (i == ending_.product && launch.in_call) continue;
      if (worked[k].times == 0) continue;
      Node& made = graph_.nodes.emplace_back(node);
      made.count = node.count * worked[k].times;
      made.op = worked[k].op;
      made.name = names_.name(source.name, rule.pass == Pass::backward, launch.name);
      if (launch.op != nullptr) made.role = NodeRole::plain;
      made.launch = true;
      made.in_call = launch.in_call;
      made.calls = launch.calls;
      made.waits = launch.waits;
      made.depends = waits;
      last_of_[i] = static_cast<int>(graph_.nodes.size()) - 1;
      waits = {last_of_[i], -1};
    }
  }

  Graph& graph_;
  const Rewrites& rewrites_;
  const Asked& asked_;
  KeptNames names_;
  std::array<std::vector<const NodeRule*>, 3> rules_;  // those of this step and model by their pass, in their order
  std::vector<Node> before_;
  std::vector<Worked> worked_;
  std::vector<Launch> launches_;
  std::vector<int> last_of_;  // the launch that a node's followers wait for
  std::vector<double> values_;
  Ending ending_;
  bool in_parts_ = false;  // the node at hand goes in parts beside a product
};

}  // namespace

bool Rewrites::is_held(std::string_view model_type) const { return listed(held, model_type); }

bool Rewrites::is_tied(std::string_view model_type) const { return !ties.empty() && listed(ties, model_type); }

bool Rewrites::casts_of(std::string_view model_type) const {
  return std::any_of(rules.begin(), rules.end(), [&](const NodeRule& rule) {
    return rule.autocast && rule.op == "gemm" && listed(rule.model_types, model_type);
  });
}

void rewrite(Graph& graph, const Rewrites& rewrites, const Workload& workload, std::string_view model_type,
             const Vocabulary& vocabulary) {
  if (rewrites.empty()) return;
  const Asked asked = asked_of(graph, workload, model_type, vocabulary);
  Rewriting(graph, rewrites, asked).run();
}

}  // namespace plumbline
