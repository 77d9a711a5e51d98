#include "model/cli/common.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "arch/calibration/calibration.hpp"
#include "arch/format.hpp"
#include "arch/sink.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline::cli {

void add_set_flag(const Command& app, MachineFlags& flags) {
  app.repeated("--set", "PATH=VALUE", "another descriptor number: memory.bandwidth=6TB/s, sm_count=+20% (repeatable)",
               [&flags](const std::string& text) {
                 const std::size_t equals = text.find('=');
                 if (equals == 0 || equals == text.npos) {
                   throw BadInput("--set: expected PATH=VALUE such as memory.bandwidth=6TB/s, found '" + text + "'");
                 }
                 flags.overrides.push_back({text.substr(0, equals), text.substr(equals + 1)});
               });
}

void add_gpu_flags(const Command& app, MachineFlags& flags, bool required) {
  const Option gpu =
      app.text("--gpu", "NAME|FILE.json", "a name from 'predict-model list gpus', or a descriptor file", flags.gpu);
  if (required) gpu.required();
  add_set_flag(app, flags);
}

void add_stack_flags(const Command& app, StackChoice& stack) {
  app.text("--stack", "NAME|FILE.json",
           "whose kernels run: a name from 'predict-model list stacks', or a file [" + stack.name + "]", stack.name);
  app.value("--kernels", joined_words(kKernelSetWords),
            "with this project's before the stack's, without, or the roofline floor",
            [&stack](const std::string& text) { stack.kernels = chosen_word("--kernels", kKernelSetWords, text); });
  app.value("--attention", "PROVIDER", "whose attention runs where it is not this project's [the stack's]",
            [&stack](const std::string& text) { stack.attention = text; });
  app.value("--collective", "auto|A[:P]",
            "how collectives go: ring, tree, nvls, hierarchical, one-shot, ... (docs/predict-model.md); of NCCL "
            "also P: ll, ll128, simple [auto]",
            [&stack](const std::string& text) { set_collective(stack, "--collective", text); });
}

void add_machine_flags(const Command& app, MachineFlags& flags, bool gpu_required) {
  add_gpu_flags(app, flags, gpu_required);
  add_stack_flags(app, flags.stack);
  add_choice(app, "--clock", kClockWords, flags.clock,
             "a short run at the boost clock, or the clock that long runs settle at");
  app.value("--power-cap", "W", "board power limit that steady runs keep to [the board's own]",
            [&flags](const std::string& text) { flags.power_cap = watts_of("--power-cap", text); });
  app.value("--sm-clock", "MHz", "SM clock locked below what the power cap leaves [not locked]",
            [&flags](const std::string& text) { flags.sm_clock = megahertz_of("--sm-clock", text); });
  add_choice(app, "--data", kDataPatternWords, flags.data, "what operands hold: power depends on the bits that change");
  app.text("--cluster", "NAME|FILE.json", "what joins the GPUs: a name from 'list clusters', or a file [the GPU's own]",
           flags.cluster);
  app.text("--calibration", "FILE.json", "coefficients that 'validate' measured or fitted [the GPU's own]",
           flags.calibration_file);
}

void add_output_flags(const Command& app, OutputFlags& flags, std::vector<Format> formats) {
  std::string shown;
  for (const Format format : formats) shown += (shown.empty() ? "" : "|") + std::string(word_of(kFormatWords, format));
  const std::string first(word_of(kFormatWords, formats.front()));
  flags.format = formats.front();
  flags.into = app.around().into;
  app.value("--format", shown, "how to print it [" + first + "]",
            [&flags, shown, formats = std::move(formats)](const std::string& text) {
              flags.format = chosen_word("--format", kFormatWords, text);
              if (std::find(formats.begin(), formats.end(), flags.format) == formats.end()) {
                throw BadInput("--format: expected " + shown + " with this command; found '" + text + "'");
              }
            });
  app.text("--out", "FILE", "write to this file (beside it first, then renamed) instead of stdout", flags.file);
}

Machine open_machine(const MachineFlags& flags) {
  const MachineOptions options{flags.stack, flags.clock, flags.power_cap, flags.data, flags.sm_clock, flags.cluster};
  return machines().get({flags.gpu, options, flags.calibration_file, flags.overrides});
}

void tell_beside(const OutputFlags& flags, const std::vector<std::string>& remarks) {
  if (flags.format != Format::csv && flags.format != Format::trace) return;
  for (const std::string& remark : remarks) std::cerr << "predict-model: " << remark << "\n";
}

void deliver(const OutputFlags& flags, std::string_view text) {
  if (flags.file.empty() && flags.into != nullptr) {
    *flags.into += text;
    return;
  }
  OutputSink sink(flags.file);
  sink.write(text);
  sink.commit();
}

TextStyle style_for(const OutputFlags& flags) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool refused =
      (no_color != nullptr && *no_color != '\0') || (terminal != nullptr && std::string_view(terminal) == "dumb");
  return TextStyle{flags.format == Format::table && flags.file.empty() && flags.into == nullptr && !refused &&
                   ::isatty(STDOUT_FILENO) == 1};
}

}  // namespace plumbline::cli
