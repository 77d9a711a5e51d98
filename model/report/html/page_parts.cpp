#include "model/report/html/page_parts.hpp"

#include <algorithm>

#include "arch/format.hpp"
#include "model/report/columns.hpp"
#include "model/report/html/markup.hpp"
#include "model/report/html/stacked_bar.hpp"

namespace plumbline::html {
namespace {

std::string most_text(const std::optional<std::int64_t>& most) { return most ? std::to_string(*most) : "unlimited"; }

/// What would fit: by memory alone, whatever the time.
std::string would_fit(const Fit& fit) {
  const bool none = fit.max_batch == 0 && fit.max_context == 0;
  std::string out = none ? "No batch and no length fits"
                         : "At most batch " + most_text(fit.max_batch) + " at this length, length " +
                               most_text(fit.max_context) + " at this batch";
  if (!fit.fits) {
    const std::int64_t gpus = fit.fewest_gpus.value_or(Fit::kMostGpus);
    out += "; fewest GPUs of this kind: " + std::string(fit.fewest_gpus ? "" : "more than ") + std::to_string(gpus) +
           " (by memory alone)";
  }
  return out + ".";
}

}  // namespace

std::string fit_verdict(const MemoryNeed& held, const Fit& fit) {
  const Bytes need = held.total(), capacity = fit.capacity;
  std::string text = format(need) + " of " + format(capacity) + " (" + percent(need / capacity) + ")";
  if (fit.reserve > Bytes{}) text += ", beside " + format(fit.reserve) + " kept for the runtime";
  text += ". " + would_fit(fit);
  if (!fit.fits) text += " The times below are those of a card that had room for it.";
  return std::string("<div class=\"verdict ") + (fit.fits ? "good" : "bad") + "\"><b>" +
         (fit.fits ? "fits" : "DOES NOT FIT") + "</b>" + escaped(text) + "</div>\n";
}

std::string memory_section(const MemoryNeed& need, const Fit& fit) {
  const Bytes capacity = fit.capacity;
  std::vector<Part> parts;
  const auto add = [&](const char* label, Bytes bytes, const char* css) {
    if (bytes > Bytes{}) parts.push_back({label, format(bytes), bytes / capacity, css});
  };
  add("weights", need.weights, "c0");
  add("KV cache", need.kv_cache, "c1");
  add("activations", need.activations, "c2");
  add("gradients", need.gradients, "c3");
  add("optimizer", need.optimizer, "c6");
  add("workspace", need.workspace, "c5");
  add("runtime", fit.reserve, "other");
  add("free", capacity - need.total() - fit.reserve, "free");
  const std::string limit = "capacity " + format(capacity);
  return section("Memory", stacked_bar(parts, "memory of the GPU", limit) + legend(parts) +
                               note("Shares are of the capacity, " + format(capacity) + "."));
}

std::vector<NamedShare> time_shares(const TimeShare& share) {
  std::vector<NamedShare> all{{"compute", share.compute, "c1"},
                              {"memory", share.memory, "c0"},
                              {"network", share.network, "c2"},
                              {"latency", share.latency, "other"},
                              {"launch", share.launch, "gap"}};
  std::erase_if(all, [](const NamedShare& s) { return !(s.share > 0); });
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  return all;
}

}  // namespace plumbline::html
