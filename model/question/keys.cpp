// The flags of llm and op that say what is asked, in one table for all that set them by name.
#include <algorithm>
#include <array>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/question/question.hpp"
#include "model/question/training.hpp"
#include "model/question/words.hpp"
#include "ops/table/table.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

using Text = const std::string&;

constexpr std::int64_t kMostRanks = 1 << 20;

template <std::int64_t ParallelPlan::*degree>
void set_degree(Inquiry& q, Text place, Text text) {
  q.llm.workload.parallel.*degree = whole_number(place, text, 1, kMostRanks);
}

bool yes_or_no(Text place, Text text) {
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  throw BadInput(place + ": expected 1 or 0, found '" + text + "'");
}

void set_context(Inquiry& q, Text place, Text text) {
  q.llm.workload.context = whole_number(place, text, 0);
  q.llm.context_given = true;
}

void set_prompt(Inquiry& q, Text place, Text text) {
  q.llm.workload.prompt = whole_number(place, text, 1);
  q.llm.prompt_given = true;
}

void set_output(Inquiry& q, Text place, Text text) {
  q.llm.output = whole_number(place, text, 1);
  q.llm.output_given = true;
}

void set_phase(Inquiry& q, Text place, Text text) {
  q.llm.phase = chosen_word(place, kAskedPhaseWords, text);
  q.llm.phase_given = true;
}

void set_gpus(Inquiry& q, Text place, Text text) {
  q.llm.parallel.gpus = whole_number(place, text, 1, kMostRanks);
  q.llm.parallel.gpus_given = true;
}

void set_tensor(Inquiry& q, Text place, Text text) {
  set_degree<&ParallelPlan::tensor>(q, place, text);
  q.llm.parallel.tensor_given = true;
}

void set_dtype(Inquiry& q, Text place, Text text) {
  if (q.of_op) q.op.dtype = text;
  else set_precision(place, text, q.llm.workload);
}

void set_stack(Inquiry& q, Text /*place*/, Text text) {
  q.machine.options.stack.name = text;
  q.stack_given = true;
}

template <void (*set)(LlmQuestion&, Text, Text)>
void set_training(Inquiry& q, Text place, Text text) {
  set(q.llm, place, text);
}

void set_cache(Inquiry& q, Text place, Text text) {
  if (text != "cold" && text != "warm") {
    throw BadInput(place + ": expected cold or warm; found '" + text + "'" + did_you_mean(text, {"cold", "warm"}));
  }
  q.op.warm = text == "warm";
}

constexpr auto kKeys = std::to_array<QuestionKey>(
    {{"model", "NAME|FILE", true, false, false, false, [](Inquiry& q, Text, Text t) { q.llm.model = t; }},
     {"phase", "WORD", true, false, false, false, set_phase},
     {"batch", "N", true, false, false, false,
      [](Inquiry& q, Text p, Text t) { q.llm.workload.batch = whole_number(p, t, 1); }},
     {"prompt", "N", true, false, false, false, set_prompt},
     {"context", "N", true, false, false, false, set_context},
     {"output", "N", true, false, false, false, set_output},
     {"dtype", "D", true, true, false, false, set_dtype},
     {"kv-dtype", "D", true, false, false, false,
      [](Inquiry& q, Text p, Text t) { set_kv_dtype(p, t, q.llm.workload); }},
     {"runtime", "WORD", true, false, false, false,
      [](Inquiry& q, Text p, Text t) { q.llm.runtime = chosen_word(p, kRuntimeWords, t); }},
     {"fusion", "WORD", true, false, false, false,
      [](Inquiry& q, Text p, Text t) { q.llm.fusion = chosen_word(p, kFusionWords, t); }},
     {"reserve", "P", true, false, false, false, [](Inquiry& q, Text, Text t) { q.llm.reserve = t; }},
     {"gpus", "N", true, false, false, false, set_gpus},
     {"tp", "N", true, false, false, false, set_tensor},
     {"pp", "N", true, false, false, false, set_degree<&ParallelPlan::pipeline>},
     {"dp", "N", true, false, false, false, set_degree<&ParallelPlan::data>},
     {"ep", "N", true, false, false, false, set_degree<&ParallelPlan::expert>},
     {"cp", "N", true, false, false, false, set_degree<&ParallelPlan::context>},
     {"micro-batches", "N", true, false, false, false, set_degree<&ParallelPlan::micro_batches>},
     {"sp", "0|1", true, false, true, false,
      [](Inquiry& q, Text p, Text t) { q.llm.workload.parallel.sequence = yes_or_no(p, t); }},
     {"attention-dp", "0|1", true, false, true, false,
      [](Inquiry& q, Text p, Text t) { q.llm.workload.parallel.attention_data = yes_or_no(p, t); }},
     {"overlap", "WORD", true, false, false, false,
      [](Inquiry& q, Text p, Text t) { q.llm.parallel.overlap = chosen_word(p, kOverlapChoiceWords, t); }},
     {"expert-load", "LOAD", true, false, false, false,
      [](Inquiry& q, Text p, Text t) { q.llm.workload.expert_load = expert_load_of(p, t); }},
     {"micro-batch", "N", true, false, false, false, set_training<set_micro_batch>},
     {"optimizer", "WORD", true, false, false, false, set_training<set_optimizer>},
     {"grad-dtype", "TYPE", true, false, false, false, set_training<set_gradient>},
     {"clip", "WORD", true, false, false, false, set_training<set_clipping>},
     {"offload", "WORD", true, false, false, false, set_training<set_offload>},
     {"fp8-recipe", "WORD", true, false, false, false, set_training<set_fp8_recipe>},
     {"sparse24", "WORD", true, false, false, false, set_training<set_sparse_weights>},
     {"recompute", "WORD", true, false, false, false, set_training<set_recompute>},
     {"recompute-layers", "N", true, false, false, false, set_training<set_recomputed_layers>},
     {"schedule", "WORD", true, false, false, false, set_training<set_schedule>},
     {"vp", "N", true, false, false, false, set_training<set_chunks>},
     {"zero", "0..3", true, false, false, false, set_training<set_zero>},
     {"fsdp", "1|2", true, false, false, false, set_training<set_fsdp>},
     {"label", "TEXT", true, true, false, false, [](Inquiry&, Text, Text) {}},  // names a point of a study
     {"cache", "cold|warm", false, true, false, false, set_cache},
     {"gpu", "NAME|FILE", true, true, false, true, [](Inquiry& q, Text, Text t) { q.machine.gpu = t; }},
     {"stack", "NAME|FILE", true, true, false, true, set_stack},
     {"kernels", "WORD", true, true, false, true,
      [](Inquiry& q, Text p, Text t) { q.machine.options.stack.kernels = chosen_word(p, kKernelSetWords, t); }},
     {"attention", "PROVIDER", true, true, false, true,
      [](Inquiry& q, Text, Text t) { q.machine.options.stack.attention = t; }},
     {"collective", "WORD", true, true, false, true,
      [](Inquiry& q, Text p, Text t) { set_collective(q.machine.options.stack, p, t); }},
     {"host", "FILE|TIME", true, false, false, true,
      [](Inquiry& q, Text, Text t) { q.machine.options.stack.host = t; }},
     {"clock", "WORD", true, true, false, true,
      [](Inquiry& q, Text p, Text t) { q.machine.options.clock = chosen_word(p, kClockWords, t); }},
     {"power-cap", "W", true, true, false, true,
      [](Inquiry& q, Text p, Text t) { q.machine.options.power_cap = watts_of(p, t); }},
     {"sm-clock", "MHz", true, true, false, true,
      [](Inquiry& q, Text p, Text t) { q.machine.options.sm_clock = megahertz_of(p, t); }},
     {"data", "WORD", true, true, false, true,
      [](Inquiry& q, Text p, Text t) { q.machine.options.data = chosen_word(p, kDataPatternWords, t); }},
     {"cluster", "NAME|FILE", true, true, false, true, [](Inquiry& q, Text, Text t) { q.machine.options.cluster = t; }},
     {"calibration", "FILE", true, true, false, true,
      [](Inquiry& q, Text, Text t) { q.machine.calibration_file = t; }}});

constexpr std::string_view kSetPrefix = "set.";

bool set_shape_key(Inquiry& q, const std::string& name, const std::string& text) {
  const Operator* known = find_operator(q.op.op);
  if (known == nullptr || !takes_key(*known, name)) return false;
  for (auto& [key, value] : q.op.keys) {
    if (key == name) {
      value = text;
      return true;
    }
  }
  q.op.keys.emplace_back(name, text);
  return true;
}

void set_number(Inquiry& q, const std::string& path, const std::string& text) {
  for (Override& known : q.machine.overrides) {
    if (known.path == path) {
      known.value = text;
      return;
    }
  }
  q.machine.overrides.push_back({path, text});
}

const QuestionKey* find_key(bool of_op, const std::string& name) {
  for (const QuestionKey& key : kKeys) {
    if (key.name == name && (of_op ? key.of_op : key.of_llm)) return &key;
  }
  return nullptr;
}

[[noreturn]] void refuse_name(const Inquiry& q, const std::string& name, const std::string& place) {
  std::vector<std::string> known;
  for (const QuestionKey& key : kKeys) {
    if (q.of_op ? key.of_op : key.of_llm) known.emplace_back(key.name);
  }
  if (const Operator* op = find_operator(q.op.op)) {
    for (const Key& key : op->keys) known.emplace_back(key.name);
  }
  throw BadInput(place + ": unknown flag of " + (q.of_op ? "op" : "llm") + did_you_mean(name, known));
}

}  // namespace

std::span<const QuestionKey> question_keys() { return kKeys; }

void set_question(Inquiry& q, const std::string& name, const std::string& text, const std::string& place) {
  if (text.empty()) throw BadInput(place + ": expected a value, found nothing");
  if (name.starts_with(kSetPrefix)) return set_number(q, name.substr(kSetPrefix.size()), text);
  if (q.of_op && name == "op") {
    if (find_operator(text) == nullptr) parse_op(text, "", "");  // throws with the nearest
    q.op.op = text;
    return;
  }
  if (const QuestionKey* key = find_key(q.of_op, name)) return key->set(q, place, text);
  if (q.of_op && set_shape_key(q, name, text)) return;
  refuse_name(q, name, place);
}

bool is_of_machine(bool of_op, const std::string& name) {
  if (name.starts_with(kSetPrefix)) return true;
  const QuestionKey* key = find_key(of_op, name);
  return key != nullptr && key->of_machine;
}

}  // namespace plumbline
