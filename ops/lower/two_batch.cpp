#include "ops/lower/two_batch.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "ops/resolve/ranks.hpp"

namespace plumbline::lowering {

Halves::Halves(const Step& s) : last_{s.last, s.last} {
  if (s.batch > 1) {
    parts_ = {Part{ceil_div(s.batch, 2), s.q_len, s.kv_len, s.all_keys},
              Part{s.batch / 2, s.q_len, s.kv_len, s.all_keys}};
    return;
  }
  const std::int64_t second = s.q_len / 2;
  parts_ = {Part{1, s.q_len - second, s.kv_len - second, s.all_keys - second}, Part{1, second, s.kv_len, s.all_keys}};
}

void Halves::begin(Step& s, std::size_t half) const {
  const Part& part = parts_[half];
  s.half = static_cast<int>(half);
  s.batch = part.batch;
  s.q_len = part.q_len;
  s.kv_len = part.kv_len;
  s.all_keys = part.all_keys;
  s.last = last_[half];
}

/// Nodes from `first` on are those of one half behind those of the other. What a half launches up to its next exchange,
/// that with it, stays together.
void Halves::launch_in_turns(Graph& graph, std::size_t first) {
  const std::size_t count = graph.nodes.size() - first;
  std::vector<std::pair<int, std::size_t>> order(count);  // turn, node
  std::array<int, 2> turn{0, 1};
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes[first + i];
    int& now = turn[static_cast<std::size_t>(node.half)];
    order[i] = {now, i};
    if (node.stream != 0) now += 2;
  }
  std::sort(order.begin(), order.end());
  std::vector<int> place(count);
  for (std::size_t i = 0; i < count; ++i) place[order[i].second] = static_cast<int>(first + i);
  std::vector<Node> nodes(graph.nodes.begin() + static_cast<std::ptrdiff_t>(first), graph.nodes.end());
  const auto moved = [&](int node) {
    return node < static_cast<int>(first) ? node : place[static_cast<std::size_t>(node) - first];
  };
  for (std::size_t i = 0; i < count; ++i) {
    for (int& other : nodes[i].depends) other = moved(other);
    graph.nodes[static_cast<std::size_t>(place[i])] = nodes[i];
  }
  for (int& last : last_) last = moved(last);
}

void Halves::join(Step& s) const {
  s.last = last_[0];
  s.join = last_[1];
}

namespace {

/// A vision tower beside a language model does not run.
bool runs_alone(const Llm& llm) {
  return llm.main().role == StackSpec::Role::decoder &&
         std::all_of(llm.stacks.begin(), llm.stacks.end(), [&](const StackSpec& stack) {
           return stack.role == StackSpec::Role::vision || &stack == &llm.main();
         });
}

void refuse_halves(const Llm& llm, const Workload& w, const std::string& place) {
  const ParallelPlan& p = w.parallel;
  if (p.tensor == 1 && p.context == 1 && p.expert == 1) {
    throw BadInput(place + "expected ranks that exchange data within a layer (tp, cp or ep above 1)");
  }
  if (!runs_alone(llm) || w.phase == Phase::train) {
    throw NotModelled(place + "modelled of a decoder's prefill and decode alone");
  }
  const std::int64_t sequences = rank_workload(w).batch;
  const std::int64_t each = p.attention_data ? ceil_div(sequences, p.tensor) : sequences;
  if (each > 1) return;
  if (w.phase == Phase::decode || w.prompt < 2) {
    throw BadInput(place + "expected two sequences at least that a rank works on at a time, found one");
  }
  if (p.context > 1) throw NotModelled(place + "a single sequence on several context ranks is not modelled");
}

void refuse_sends(const Workload& w, const std::string& place) {
  if (w.parallel.pipeline == 1) throw BadInput(place + "expected a pipeline of two stages at least (pp above 1)");
  if (micro_batches(w) == 1) throw BadInput(place + "expected two micro-batches at least, found one");
}

void refuse_shards(const Llm& llm, const Workload& w, const std::string& place) {
  if (w.parallel.tensor == 1 || !scattered(llm, w)) {
    throw BadInput(place + "expected tokens that are split over the tensor ranks (sp, with tp above 1)");
  }
  if (!runs_alone(llm) || w.phase == Phase::train) {
    throw NotModelled(place + "modelled of a decoder's prefill and decode alone");
  }
}

/// Of training: what travels beside a pass.
void refuse_exchanges(const Workload& w, const std::string& place) {
  if (w.phase != Phase::train) throw BadInput(place + "has a meaning with phase train alone");
  if (w.parallel.data * w.parallel.context > 1 || (w.overlap == Overlap::iteration && w.parallel.tensor > 1)) return;
  throw BadInput(place + "expected ranks that exchange something: replicas (dp above 1)" +
                 (w.overlap == Overlap::iteration ? ", or tensor ranks" : ""));
}

/// Of training: tokens of experts beside the pass of another micro-batch, as Megatron-Core has it
/// (pipeline_parallel/schedules.py and combined_1f1b.py; what it refuses it refuses in training/arguments.py).
void refuse_experts(const Llm& llm, const Workload& w, const std::string& place) {
  if (w.phase != Phase::train) throw BadInput(place + "has a meaning with phase train alone");
  const auto& kinds = llm.main().kinds;
  const bool exchanged = std::any_of(kinds.begin(), kinds.end(), [&](const LayerSpec& l) {
    return l.ffn && l.ffn->is_moe() && expert_plan(w, *l.ffn).exchanged;
  });
  if (!exchanged) throw BadInput(place + "expected experts on other ranks than the tokens (ep above tp)");
  if (micro_batches(w) == 1) throw BadInput(place + "expected two micro-batches at least, found one");
  const bool chunks = w.training.schedule == PipelineSchedule::interleaved && w.training.chunks > 1;
  if (w.parallel.pipeline > 1 && !chunks) {
    throw NotModelled(place +
                      "in a pipeline expected schedule interleaved with vp of 2 at least, or dualpipe without overlap");
  }
  if (w.training.recompute == Recompute::full) {
    throw NotModelled(place +
                      "two passes run together, none of which computes a layer again; expected recompute none, "
                      "selective or products");
  }
  if (w.parallel.zero > 1) {
    throw NotModelled(place +
                      "with zero 2 and 3 replicas exchange in each pass too, on the same links; expected 0 or 1");
  }
}

}  // namespace

void refuse_overlap(const Llm& llm, const Workload& w) {
  const std::string place = (llm.file.empty() ? llm.name : llm.file) + ": overlap ";
  if (in_halves(w.overlap)) refuse_halves(llm, w, place + "two-batch: ");
  if (sends_beside(w.overlap)) refuse_sends(w, place + "sends: ");
  if (in_shards(w.overlap)) refuse_shards(llm, w, place + "async-tp: ");
  if (experts_beside(w.overlap)) {
    refuse_experts(llm, w, place + "experts: ");
  } else if (replicas_beside(w.overlap)) {
    refuse_exchanges(w, place + (w.overlap == Overlap::replicas ? "replicas: " : "iteration: "));
  }
}

Overlap possible_overlap(Overlap wanted, const Llm& llm, const Workload& workload) {
  const auto possible = [&](Overlap part) {
    Workload asked = workload;
    asked.overlap = part;
    try {
      refuse_overlap(llm, asked);
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  if (replicas_beside(wanted)) return possible(wanted) ? wanted : Overlap::none;
  const bool halves = in_halves(wanted) && possible(Overlap::two_batch);
  const bool sends = sends_beside(wanted) && possible(Overlap::sends);
  if (halves && sends) return Overlap::full;
  if (halves || sends) return halves ? Overlap::two_batch : Overlap::sends;
  const bool shards = (wanted == Overlap::full || in_shards(wanted)) && possible(Overlap::async_tp);
  return shards ? Overlap::async_tp : Overlap::none;
}

}  // namespace plumbline::lowering
