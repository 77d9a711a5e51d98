// How published rows were timed: what a timed call found in L2, how long the card had been busy by then, what lay
// between calls. A prediction of the operator alone is turned into one of the row with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arch/units.hpp"
#include "model/predict.hpp"
#include "ops/shape/shapes.hpp"

namespace plumbline {

class JsonValue;

/// Calls in one graph that take turns on operands of their own, that graph replayed.
struct Protocol {
  bool known = false;
  bool alone = false;   ///< collectives as benchmarks call them, by no serving stack; all else is of GEMM
  bool queued = false;  ///< ... one behind the other on a stream; else captured in a graph
  CollectiveChoice collective = CollectiveChoice::automatic;  ///< ... and how their data go
  bool rotates_all = false;  ///< all operands take turns; else the weights alone: input and output are one buffer each
  /// Scalars of the kernels were fitted to such rows as if nothing lay in L2: on the measured cards they know what repeats
  /// take.
  bool scalars_know = false;
  double least_copies = 1, most_copies = 1;  ///< calls in the graph
  double fill_l2 = 0;                        ///< as many as it takes to fill L2 so many times; 0: always the most
  double warm_up = 0, runs = 1;              ///< replays before those that are timed, and those
  Seconds between_graphs;                    ///< beyond the kernels' own times, for each replay
  /// Products of operands this wide are rows of launches' own times, without what lies between launches; 0: none.
  /// (Other types' kernels are fitted to such rows as they are.)
  double own_times_of_bits = 0;
  /// Rows hold no memset that clears a counter before a kernel, nor what lies between the two; all else is theirs.
  bool without_clears = false;
  /// Products of operands this wide are of zeros, which a cap leaves alone; 0: none.
  double zeros_of_bits = 0;
  /// What a program takes to issue a call where no graph holds it: the card waits for it, and a row says no less. Usually,
  /// and what one row in twenty stays below and beyond.
  Seconds host_call, host_call_low, host_call_high;
  /// What a profiler of layers sees beside the kernel, of one call behind other layers: those have filled L2 with their
  /// weights, and left this one's input there.
  Seconds around_layer;
};

/// The rules of the folder that a measurement file lies in, or of the one above: `protocol.json`; where there is no such
/// file those of the shipped tables of serving stacks, which go by a stack's name and version ("trtllm-1.3"). Throws
/// BadInput for a file that does not read.
class Protocols {
 public:
  Protocols() = default;
  static Protocols beside(const std::string& measurement_file);
  static Protocols parse(const std::string& json, const std::string& place);
  /// `batched`: of several products at once, which a rule of their own may be for; `narrow`: of narrow weights.
  Protocol of(const std::string& op, const std::string& stack, bool batched = false, bool narrow = false) const;
  Protocol of(const Op& op, const std::string& stack) const;

 private:
  explicit Protocols(const JsonValue& root);
  struct Rule {
    std::string op, stack;
    Protocol protocol;
    bool batched = false;  ///< of products with a batch alone
    bool narrow = false;   ///< of products whose weights have 8 bits and less alone
  };
  std::vector<Rule> rules_;
};

/// Of a row of `validate run --gpus`: our collectives, ranks aligned by a barrier and some calls in a graph, by the
/// algorithm that `kernel` names ("one_shot", "push.early"), whichever the plan would have taken. Not known of all
/// else.
Protocol timed_among_gpus(const Op& op, std::string_view stack, std::string_view kernel);

/// Seconds that the row would say: the operator with what L2 holds of its operands, at the clock that the regulator has
/// reached by then, and a replay's share. `scratch` is left with the operator at the last clock that was tried.
Seconds predict_as_timed(const Op& op, const Protocol& protocol, const Machine& machine, Predictor& predictor,
                         OpPrediction& scratch);

/// Turns a prediction into what a row of own times says, where `protocol` has such rows. Of products in two launches
/// nothing is left out: the second begins beside the end of the first, so that what both take themselves is 1.0 us more
/// than they take together, about what lies between them and before (a median of 71 with K cut, H200, 2026-11-28).
void leave_out_gaps(const Op& op, const Protocol& protocol, const Machine& machine, OpPrediction& out);

/// What L2 holds of a GEMM's operands under `protocol`.
Resident resident_of(const Gemm& shape, const Protocol& protocol, const Machine& machine);

}  // namespace plumbline
