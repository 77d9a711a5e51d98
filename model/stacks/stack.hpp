// A stack: whose kernels run an operator, what a serving stack fuses, and how its launches reach the GPU. A small file
// of data/stacks:
//
//   { "schema": 1, "name": "trt-llm", "title": "TensorRT-LLM",
//     "providers": [ {"provider": "cublas"}, {"provider": "trtllm"}, {"provider": "generic"} ],
//     "prefill_appends": true, "fusion": "typical", "runtime": "graph",
//     "overlap": "two-batch",
//     "collective_call": {"fixed": "4.4 us", "more_than_two": "1.9 us", "source": "..."},
//     "host": {"each_launch": "35 us", "each_further_launch": "4 us", "each_layer": "0 us", "each_experts_layer": "0 us",
//              "narrow_launch": "27 us", "each_step": "0 us", "each_prompt": "0 us", "each_sequence": "0 us",
//              "training": {...} (training_host.hpp) or "each_training_launch": "32 us",
//              "training_hosts": {"quick": 0.8, "slow": 1.4, "apart": 0.1}, "source": "..."},
//       or {"borrowed_from": "vllm-2023", "within": 2.1, "each_step": "0 us", "calls_each_hand_over": 16, "source": "..."}:
//       launches take what they take there
//     "gap_in_graph": {"time": "0.35 us", "source": "..."},
//     "token_exchange": {"sms": 20, "source": "..."},
//     "rounds_routed_rows": true, "attention_rotates": true,
//     "scores_kept": {"bytes": "4 B", "source": "..."},
//     "prefill_at_once": {"tokens": 2048, "source": "..."} }
//
// An operator is planned by the first provider of the list that has a kernel for it. `ops` of a provider limits it to
// those operators; `stands_in` says that its kernels stand in for ones that the stack's own author has not written, so
// that their predictions are inherited, never calibrated.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/stacks/provider.hpp"
#include "model/stacks/training_host.hpp"
#include "model/types.hpp"
#include "ops/graph/workload.hpp"

namespace plumbline {

struct Rewrites;  // ops/rewrite/rewrite.hpp

/// What the host takes for a step.
struct HostTime {
  /// Beside the GPU, where launches go one by one, of each call that launches (host_calls()); 0: the file does not say, and
  /// such a step is refused.
  Seconds each_launch;
  /// Of each launch more that a library makes in one call; 0: nobody found it, each_launch.
  Seconds each_further_launch;
  /// Beside its launches, of each layer and of each that has experts: modules, shapes and views in Python.
  Seconds each_layer, each_experts_layer;
  /// A launch of the narrow model that a host is measured by (tools/measure_host.py), on the host that the three times above
  /// are of: they go with it. 0: nobody measured it beside this stack.
  Seconds narrow_launch;
  /// Of a call in forward and backward passes, where it trains and nobody found what their phases take; 0: each_launch.
  Seconds each_training_launch;
  TrainingHost training;  ///< what they take, phase by phase
  /// Hosts are unlike: of times of training what quick and slow ones take of those above (5 and 95 %), and by how much ranks
  /// of one machine are apart at a time (a standard deviation, as ln). 0: nobody found it.
  struct Hosts {
    double quick = 0, slow = 0, apart = 0;
  };
  Hosts training_hosts;
  /// Between one step and the next, while the GPU has nothing to do, however launches reach it: scheduler, inputs, sampler,
  /// what a call from Python costs. A prefill's own, and of each sequence of the step.
  Seconds each_step, each_prompt, each_sequence;
  /// Of a pipeline in training, where the framework synchronizes around hand-overs: calls of each_launch that its GPU waits
  /// for behind each, those of forward and backward passes in the mean.
  double calls_each_hand_over = 0;
  std::string measured;  ///< whose these times are, where the machine's own host was measured; "": the stack's
  /// The stack whose times of launches and layers these are, where nobody measured this one launched one by one; and how
  /// many times more or less it may take.
  std::string borrowed_from;
  double within = 1;
};

struct Stack {
  struct Entry {
    const Provider* provider = nullptr;
    std::vector<std::string> ops;  ///< names; empty: any that the provider has a kernel for
    bool stands_in = false;
  };
  std::string name, title;
  bool recorded =
      true;  ///< steps that were recorded of the stack of its name are its own: not of a file that was changed
  std::vector<Entry> providers;
  /// Its prefill attention rotates queries and keys and appends to the cache, where the operator does not say.
  bool prefill_appends = false;
  Fusion fusion = Fusion::typical;
  Runtime runtime = Runtime::graph;
  Overlap overlap = Overlap::none;  ///< what of the communication it runs beside compute, where a plan has any
  /// At fusion `none`: attention is one kernel, and each node becomes the launches that the framework runs for it.
  bool fused_attention = false;
  std::vector<std::string> unfused_models;  ///< whose source has no fused attention: what `fused_attention` is not for
  bool written_out_attention = false;       ///< Training::written_out, where it trains
  std::shared_ptr<const Rewrites> rewrites;
  std::shared_ptr<const Rewrites> training;  ///< the same of an iteration of training (Training::eager)
  /// Bytes of each score that a backward pass needs, where the stack's own kernels keep other tensors than those of
  /// PyTorch (Training::score_bytes); 0: those.
  Bytes score_kept;
  HostTime host;
  /// From one kernel's end to the next one's start in a CUDA graph, where its kernels' durations are a profiler's, which
  /// hold the start and the drain that the calibration's gap has; 0: the calibration's gap and change of kernels.
  Seconds gap_in_graph;
  std::int64_t prefill_at_once =
      0;  ///< the most tokens that its layers read at once (Workload::prefill_at_once); 0: all
  CollectiveCall collective_call;
  CollectiveChoice collective = CollectiveChoice::automatic;    ///< a user's, of no file
  CollectiveProtocol protocol = CollectiveProtocol::automatic;  ///< the same
  /// Tokens go to experts of other ranks by kernels that know each token's experts, in prefill on so many SMs; 0: by an
  /// all-to-all.
  std::int64_t exchange_sms = 0;
  bool rounds_routed_rows = false;  ///< Workload::rounds_routed_rows
  bool attention_rotates = false;   ///< Workload::attention_rotates

  /// Its section of calibrations and reports: the floor, ours where our kernels come first, else the libraries'.
  KernelSet kernels() const;
  /// Parameters, gradients and states as an eager framework has them (Training::eager): its launches stand for operators of
  /// the model's source. A stack that fuses names launches for some of its own.
  bool trains_eagerly() const { return training && fusion == Fusion::none; }
  bool fuses_attention_of(std::string_view model_type) const {
    const auto found = std::find(unfused_models.begin(), unfused_models.end(), model_type);
    return fused_attention && found == unfused_models.end();
  }
};

/// Reads a stack. Throws BadInput naming the place for an unknown key, provider or operator, a list without providers,
/// or a provider that is listed twice.
Stack parse_stack(const std::string& text, const std::string& place);

/// `stack` with the kernels of another one: its providers, and the first one's attention where the libraries' runs.
Stack with_kernels(const Stack& stack, const Stack& kernels);
/// `stack` with prefill and decode attention of that provider where it is not ours. Throws BadInput for a provider that
/// is not known or has no attention.
Stack with_attention(const Stack& stack, std::string_view provider);

/// The name of the provider that `--attention` means by `word`; empty where none does.
std::string_view attention_provider(std::string_view word);
/// Words of the providers that with_attention() takes.
std::vector<std::string> attention_words();

/// The stack with the parts of `choice` replaced. `load` gives a stack by name.
template <class Load>
Stack choose_stack(const StackChoice& choice, const Load& load) {
  Stack stack = load(choice.name);
  if (choice.kernels && *choice.kernels != stack.kernels()) {
    stack = with_kernels(stack, load(usual_stack(*choice.kernels).name));
  }
  if (!choice.attention.empty()) stack = with_attention(stack, choice.attention);
  stack.collective = choice.collective;
  stack.protocol = choice.protocol;
  return stack;
}

}  // namespace plumbline
