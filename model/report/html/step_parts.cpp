#include "model/report/html/step_parts.hpp"

#include <algorithm>
#include <utility>

#include "arch/format.hpp"
#include "model/report/html/style.hpp"

namespace plumbline::html {
namespace {

/// Of the step: operators that take less are folded into one part.
constexpr double kSmallest = 0.01;

std::vector<std::pair<std::string, Seconds>> by_label(const StepPrediction& step) {
  std::vector<std::pair<std::string, Seconds>> sums;
  for (const NodePrediction& n : step.nodes) {
    const std::string label = label_of(*n.node);
    auto found = std::find_if(sums.begin(), sums.end(), [&](const auto& s) { return s.first == label; });
    if (found == sums.end()) found = sums.insert(sums.end(), {label, Seconds{}});
    found->second += total_of(n);
  }
  std::stable_sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return sums;
}

}  // namespace

std::string label_of(const Node& node) {
  return node.pass == Pass::backward ? std::string(node.name) + " (bwd)" : node.name;
}

Seconds total_of(const NodePrediction& node) {
  return static_cast<double>(node.node->count) * node.waited_for() * (node.op.time + node.tax);
}

std::string_view StepParts::css(const Node& node) const {
  const auto found = colour.find(label_of(node));
  return found == colour.end() ? std::string_view("other") : std::string_view(found->second);
}

StepParts step_parts(const StepPrediction& step) {
  StepParts out;
  Seconds other, gaps;
  std::size_t folded = 0;
  std::string last;
  for (const auto& [label, time] : by_label(step)) {
    const double share = time / step.latency;
    if (out.parts.size() < kColours && share >= kSmallest) {
      const std::string css = "c" + std::to_string(out.parts.size());
      out.colour[label] = css;
      out.parts.push_back({label, format(time), share, css});
    } else {
      other += time;
      last = label;
      ++folded;
    }
  }
  for (const NodePrediction& n : step.nodes) gaps += static_cast<double>(n.node->count) * n.waited_for() * n.gap;
  if (folded > 0) {
    const std::string label = folded == 1 ? last : "other (" + std::to_string(folded) + ")";
    out.parts.push_back({label, format(other), other / step.latency, "other"});
  }
  if (gaps > Seconds{}) out.parts.push_back({"launch gaps", format(gaps), gaps / step.latency, "gap"});
  return out;
}

}  // namespace plumbline::html
