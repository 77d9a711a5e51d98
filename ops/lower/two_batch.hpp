// Layers whose rank works on two halves of its batch side by side: what one half exchanges travels while the other
// computes.
#pragma once

#include <array>
#include <cstdint>

#include "ops/llm/llm.hpp"
#include "ops/step/step.hpp"

namespace plumbline::lowering {

/// The halves of what `s` works on, and the node that each has come to. Sequences are dealt to both; a single prompt is cut
/// into two chunks, of which the second sees the keys of the first.
class Halves {
 public:
  explicit Halves(const Step& s);

  /// The layer `kind` of both halves, in the open segment, in the order in which they are launched: up to its first
  /// exchange the one half, then the other, and so on (SGLang, python/sglang/srt/two_batch_overlap.py). `tokens`: of so
  /// many of a batch, those that the residual stream of this rank holds.
  template <class Tokens, class Layer>
  void layer(Step& s, const Tokens& tokens, const Layer& one) {
    const std::size_t first = s.graph.nodes.size();
    const std::array<std::int64_t, 4> whole{s.batch, s.q_len, s.kv_len, s.all_keys};
    for (std::size_t h = 0; h < 2; ++h) {
      begin(s, h);
      s.tokens = tokens(s.batch * s.q_len);
      one();
      last_[h] = s.last;
    }
    s.half = 0;
    s.batch = whole[0];
    s.q_len = whole[1];
    s.kv_len = whole[2];
    s.all_keys = whole[3];
    launch_in_turns(s.graph, first);
  }
  /// What comes next waits for both.
  void join(Step& s) const;

 private:
  struct Part {
    std::int64_t batch, q_len, kv_len, all_keys;
  };
  void begin(Step& s, std::size_t half) const;
  void launch_in_turns(Graph& graph, std::size_t first);

  std::array<Part, 2> parts_;
  std::array<int, 2> last_;
};

/// Throws BadInput where `workload.overlap` asks for what the plan has not: two halves of one GPU, of ranks that exchange
/// nothing within a layer, of a single token; sends of one stage, or of one micro-batch; shards of tokens that are not split
/// over tensor ranks.
void refuse_overlap(const Llm& llm, const Workload& workload);
/// As much of `wanted` as the model and its plan have. Of `full`, where it has neither halves nor sends, shards.
Overlap possible_overlap(Overlap wanted, const Llm& llm, const Workload& workload);

}  // namespace plumbline::lowering
