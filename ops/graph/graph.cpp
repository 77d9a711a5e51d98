#include "ops/graph/graph.hpp"

#include <algorithm>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

/// Where nodes stand once `removed` of them at `at` are one: those behind move up, those among them are the new one. A
/// node that is put in between takes the place of the one before it in the eyes of the nodes behind.
int moved(int node, int at, int removed) {
  if (node < 0) return node;
  const int last = removed > 0 ? at : at - 1;
  if (node < last) return node;
  if (node < at + removed) return at;
  return node - removed + 1;
}

void splice(Graph& graph, int at, int removed, Node node) {
  auto& nodes = graph.nodes;
  for (auto node_behind = nodes.begin() + at + removed; node_behind != nodes.end(); ++node_behind) {
    for (int& other : node_behind->depends) other = moved(other, at, removed);
  }
  for (Segment& segment : graph.segments) {
    if (segment.first > at) segment.first += 1 - removed;
  }
  graph.segments[static_cast<std::size_t>(node.segment)].size += 1 - removed;
  nodes.erase(nodes.begin() + at, nodes.begin() + at + removed);
  nodes.insert(nodes.begin() + at, std::move(node));
}

/// The node of that name from `from` on, up to `end`; `end` where there is none.
int find(const Graph& graph, int from, int end, std::string_view name) {
  while (from < end && graph.nodes[static_cast<std::size_t>(from)].name != name) ++from;
  return from;
}

[[noreturn]] void not_there(const Graph& graph, std::string_view name) {
  std::vector<std::string> known;
  for (const Node& node : graph.nodes) known.emplace_back(node.name);
  throw BadInput("graph: no node '" + std::string(name) + "'" + did_you_mean(name, known));
}

}  // namespace

void replace_nodes(Graph& graph, std::string_view first, std::string_view last, const char* name, const Op& op) {
  bool found = false;
  for (std::size_t i = 0; i < graph.segments.size(); ++i) {
    const int end = graph.segments[i].first + graph.segments[i].size;
    const int from = find(graph, graph.segments[i].first, end, first), to = find(graph, from, end, last);
    if (to == end) continue;
    Node node = graph.nodes[static_cast<std::size_t>(from)];
    node.name = name;
    node.op = op;
    node.role = NodeRole::plain;
    splice(graph, from, to - from + 1, node);
    found = true;
  }
  if (found) return;
  const int nodes = static_cast<int>(graph.nodes.size());
  for (const std::string_view missing : {first, last}) {
    if (find(graph, 0, nodes, missing) == nodes) not_there(graph, missing);
  }
  throw BadInput("graph: no segment has '" + std::string(first) + "' and behind it '" + std::string(last) + "'");
}

void insert_after(Graph& graph, std::string_view after, const char* name, const Op& op) {
  bool found = false;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    if (graph.nodes[static_cast<std::size_t>(i)].name != after) continue;
    Node node = graph.nodes[static_cast<std::size_t>(i)];
    node.name = name;
    node.op = op;
    node.role = NodeRole::plain;
    node.depends = {i, -1};
    splice(graph, ++i, 0, node);
    found = true;
  }
  if (!found) not_there(graph, after);
}

void check(const Graph& graph) {
  if (graph.nodes.empty()) throw BadInput("graph: expected a node at least");
  int next = 0;
  for (std::size_t i = 0; i < graph.segments.size(); ++i) {
    const Segment& segment = graph.segments[i];
    if (segment.first != next || segment.size < 0 || segment.repeat < 1) {
      throw BadInput("graph: segment '" + std::string(segment.name) + "': expected it at node " + std::to_string(next) +
                     " and repeated once at least");
    }
    next += segment.size;
    if (next > static_cast<int>(graph.nodes.size())) break;
    for (int n = segment.first; n < next; ++n) {
      const Node& node = graph.nodes[static_cast<std::size_t>(n)];
      if (node.segment != static_cast<int>(i) || node.count < 1) {
        throw BadInput("graph: node '" + std::string(node.name) +
                       "': expected a count from 1 and the segment that it is in");
      }
      if (graph.side_by_side && std::max(node.depends[0], node.depends[1]) >= n) {
        throw BadInput("graph: node '" + std::string(node.name) + "': expected it to depend on nodes before it");
      }
      check(node.op);
    }
  }
  if (next != static_cast<int>(graph.nodes.size())) {
    throw BadInput("graph: expected segments of " + std::to_string(graph.nodes.size()) + " nodes in all, found " +
                   std::to_string(next));
  }
}

}  // namespace plumbline
