// A question as `predict-model llm` and `op` take it: its flags by their long names. Commands that ask many questions
// (studies) set them by name; what a question means is settled here for all commands alike.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/stack.hpp"
#include "model/words.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"

namespace plumbline {

enum class AskedPhase { prefill, decode, generate, train };
inline constexpr std::array<Word<AskedPhase>, 4> kAskedPhaseWords{{{"prefill", AskedPhase::prefill},
                                                                   {"decode", AskedPhase::decode},
                                                                   {"generate", AskedPhase::generate},
                                                                   {"train", AskedPhase::train}}};

/// --overlap: just that; `stack` and `full`: what the plan has of what the stack does, or of all that is modelled.
enum class OverlapChoice { none, stack, two_batch, sends, full, async_tp, replicas, iteration, experts };
inline constexpr std::array<Word<OverlapChoice>, 9> kOverlapChoiceWords{{{"none", OverlapChoice::none},
                                                                         {"stack", OverlapChoice::stack},
                                                                         {"two-batch", OverlapChoice::two_batch},
                                                                         {"sends", OverlapChoice::sends},
                                                                         {"full", OverlapChoice::full},
                                                                         {"async-tp", OverlapChoice::async_tp},
                                                                         {"replicas", OverlapChoice::replicas},
                                                                         {"iteration", OverlapChoice::iteration},
                                                                         {"experts", OverlapChoice::experts}}};

/// What a plan of several GPUs leaves to be settled.
struct ParallelChoice {
  std::int64_t gpus = 1;
  bool gpus_given = false, tensor_given = false;
  OverlapChoice overlap = OverlapChoice::stack;
};

/// Of a model.
struct LlmQuestion {
  std::string model;
  AskedPhase phase = AskedPhase::decode;
  Workload workload;
  std::int64_t output = 256;       ///< tokens that each sequence writes (generate)
  std::optional<Runtime> runtime;  ///< else the stack's
  std::optional<Fusion> fusion;
  ParallelChoice parallel;
  std::string reserve;  ///< "": the usual share
  bool phase_given = false, prompt_given = false, context_given = false, output_given = false;
  std::string training_given;  ///< the first flag that has a meaning in training alone; "": none was given
};

/// Of an operator.
struct OpQuestion {
  std::string op, dtype;
  std::vector<std::pair<std::string, std::string>> keys;  ///< of its shape
  bool warm = false;

  Op shape() const;  ///< Throws BadInput as parse_op() does.
};

/// Whose kernels train, unless the user says.
inline constexpr const char* kTrainingStack = "megatron";

struct Inquiry {
  bool of_op = false;
  LlmQuestion llm;
  OpQuestion op;
  MachineKey machine;
  bool stack_given = false;

  bool trains_by_default() const { return !of_op && llm.phase == AskedPhase::train && !stack_given; }
};

/// A flag of llm or op that says what is asked, by its long name.
struct QuestionKey {
  std::string_view name, shape;
  bool of_llm, of_op;
  bool toggle;      ///< stands without a value on a command line
  bool of_machine;  ///< says which machine
  void (*set)(Inquiry& question, const std::string& place, const std::string& text);
};
std::span<const QuestionKey> question_keys();

/// Sets the flag `name`, of `op` also a key of its shape, and "set.PATH" a number of the descriptor. `place` stands before
/// messages. Throws BadInput for a name that the command does not have, with the nearest, and for a value it can't take.
void set_question(Inquiry& question, const std::string& name, const std::string& text, const std::string& place);
/// Whether `name` says which machine; throws as set_question().
bool is_of_machine(bool of_op, const std::string& name);

/// Makes the degrees and --gpus agree: without --tp, tensor ranks are what the other degrees leave. Throws BadInput where
/// they don't multiply to --gpus.
void settle_degrees(const ParallelChoice& choice, ParallelPlan& plan);
/// Takes fused attention back where the stack writes attention out for the model: its memory and launches are others.
void settle_attention(const Llm& llm, const Stack& stack, Workload& workload);
/// What of the communication runs beside compute. Throws BadInput where something was asked for that the plan has not.
Overlap settle_overlap(OverlapChoice choice, const Llm& llm, const Workload& workload, const Stack& stack);
/// The step that is asked about, of `generate` its prefill, but for what overlaps.
Workload settled_sizes(const LlmQuestion& question, const Stack& stack);
/// Throws BadInput for a length that has no meaning in the phase.
void refuse_idle_lengths(const LlmQuestion& question, const Llm& llm);

/// Throws BadInput for --attention where none of `used` is its provider: the flag would have changed nothing.
void refuse_idle_attention(const StackChoice& stack, const std::vector<std::string_view>& used,
                           const std::string& what);
/// The same for --collective where none is asked about: `any` is false.
void refuse_idle_collective(const StackChoice& stack, bool any, const std::string& what);
/// Whether the operator, by itself, is a collective that can go as the user said, or be refused with the reason.
bool has_said_way(const StackChoice& stack, const Op& op);
/// Both, of a step.
void refuse_idle_choices(const StackChoice& stack, const StepPrediction& step);

}  // namespace plumbline
