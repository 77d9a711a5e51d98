#include "ops/rewrite/rewrite.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "arch/error.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, kStepNames> kStep{"w", "batch", "seqs", "fresh", "cached"};

template <class Names>
bool listed(const Names& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

/// The value of each of expression_names(), for one node.
void values_of(const Op& op, const Workload& w, std::vector<double>& values) {
  values.clear();
  const void* shape = shape_address(op);
  for (const Key& key : keys_of(op)) values.push_back(key.get(shape));
  const bool decode = w.phase == Phase::decode;
  const double cached = static_cast<double>(decode ? w.context : w.cached);
  const double sequences = static_cast<double>(w.batch);
  values.insert(values.end(), {bits(single_dtype(op)) / 8.0, sequences, sequences,
                               decode ? 1.0 : static_cast<double>(w.prompt), cached});
}

Op launch_of(const LaunchRule& rule, const Node& node, const std::vector<double>& values) {
  if (rule.op == nullptr) return node.op;
  const DType type = rule.type.value_or(single_dtype(node.op));
  Op op = rule.op->make(rule.op->kind, {type, type, type, type});
  void* shape = shape_address(op);
  for (const LaunchRule::KeyRule& each : rule.keys) {
    const double value = each.value(values);
    if (!std::isfinite(value)) {
      throw BadInput("launch '" + rule.name + "' of node '" + node.name + "': key '" + std::string(each.key->name) +
                     "' is no number");
    }
    each.key->set(shape, each.key->type == KeyType::percent ? value : std::round(value));
  }
  check(op);
  return op;
}

/// How often it runs for its node.
std::int64_t times_of(const LaunchRule& rule, const Node& node, const std::vector<double>& values) {
  if (!rule.times) return 1;
  constexpr double kMost = 1e6;
  const double times = std::round((*rule.times)(values));
  if (times >= 0 && times <= kMost) return static_cast<std::int64_t>(times);
  throw BadInput("launch '" + rule.name + "' of node '" + node.name + "': times: expected 0 to 1000000");
}

/// Kept with the graph, so that a name lives as long as it does.
const char* kept_name(Graph& graph, const char* node, const std::string& launch) {
  if (!graph.names || graph.names.use_count() > 1) {
    graph.names = graph.names ? std::make_shared<Graph::Names>(*graph.names) : std::make_shared<Graph::Names>();
  }
  return graph.names->insert(std::string(node) + "." + launch).first->c_str();
}

}  // namespace

std::vector<std::string> expression_names(std::string_view op) {
  const Operator* found = find_operator(op);
  if (found == nullptr) throw BadInput("no operator is called '" + std::string(op) + "'");
  std::vector<std::string> names;
  for (const Key& key : found->keys) names.emplace_back(key.name);
  names.insert(names.end(), kStep.begin(), kStep.end());
  return names;
}

bool NodeRule::is_for(const Node& node, std::string_view model_type, bool decode) const {
  return (decode ? in_decode : in_prefill) && op_name(node.op) == op && listed(nodes, node.name) &&
         listed(model_types, model_type);
}

void rewrite(Graph& graph, const Rewrites& rewrites, const Workload& workload, std::string_view model_type) {
  if (rewrites.empty()) return;
  std::vector<Node> before;
  before.swap(graph.nodes);
  std::vector<int> last_of(before.size(), -1);  // the launch that a node's followers wait for
  std::vector<double> values;
  std::size_t next = 0;
  const bool decode = workload.phase == Phase::decode;
  for (Segment& segment : graph.segments) {
    const int first = static_cast<int>(graph.nodes.size());
    for (int i = 0; i < segment.size; ++i, ++next) {
      const Node& node = before[next];
      std::array<int, 2> waits = node.depends;
      for (int& other : waits) other = other < 0 ? other : last_of[static_cast<std::size_t>(other)];
      const auto rule = std::find_if(rewrites.rules.begin(), rewrites.rules.end(),
                                     [&](const NodeRule& each) { return each.is_for(node, model_type, decode); });
      if (rule == rewrites.rules.end()) {
        graph.nodes.push_back(node);
        graph.nodes.back().depends = waits;
        last_of[next] = static_cast<int>(graph.nodes.size()) - 1;
        continue;
      }
      values_of(node.op, workload, values);
      last_of[next] = std::max(waits[0], waits[1]);
      for (const LaunchRule& launch : rule->launches) {
        const std::int64_t times = times_of(launch, node, values);
        if (times == 0) continue;
        Node made = node;
        made.count = node.count * times;
        made.op = launch_of(launch, node, values);
        made.name = kept_name(graph, node.name, launch.name);
        made.role = NodeRole::plain;
        made.launch = true;
        made.depends = waits;
        graph.nodes.push_back(made);
        last_of[next] = static_cast<int>(graph.nodes.size()) - 1;
        waits = {last_of[next], -1};
      }
    }
    segment.first = first;
    segment.size = static_cast<int>(graph.nodes.size()) - first;
  }
}

}  // namespace plumbline
