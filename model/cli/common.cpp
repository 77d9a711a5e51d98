#include "model/cli/common.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "arch/calibration/calibration.hpp"
#include "arch/format.hpp"
#include "arch/sink.hpp"
#include "model/stacks/stack.hpp"
#include "ops/whole_number.hpp"

namespace plumbline::cli {

CLI::Option* add_value(CLI::App& app, const std::string& flag, const std::string& shape, const std::string& help,
                       const std::function<void(const std::string&)>& action) {
  return app.add_option_function<std::string>(flag, action, help)->type_name(shape);
}

std::int64_t whole_number(const std::string& flag, const std::string& text, std::int64_t least, std::int64_t most) {
  std::string_view digits = text;
  std::int64_t unit = 1;
  if (!digits.empty() && (digits.back() == 'k' || digits.back() == 'K')) unit = std::int64_t{1} << 10;
  if (!digits.empty() && digits.back() == 'M') unit = std::int64_t{1} << 20;
  if (unit > 1) digits.remove_suffix(1);
  const std::optional<std::int64_t> value = parse_whole(digits);
  if (!value || *value > most / unit || *value * unit < least) {
    throw BadInput(flag + ": expected a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
                   ", found '" + text + "'");
  }
  return *value * unit;
}

void add_set_flag(CLI::App& app, MachineFlags& flags) {
  app.add_option_function<std::vector<std::string>>(
         "--set",
         [&flags](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const std::size_t equals = text.find('=');
             if (equals == 0 || equals == text.npos) {
               throw BadInput("--set: expected PATH=VALUE such as memory.bandwidth=6TB/s, found '" + text + "'");
             }
             flags.overrides.push_back({text.substr(0, equals), text.substr(equals + 1)});
           }
         },
         "another descriptor number: memory.bandwidth=6TB/s, sm_count=+20% (repeatable)")
      ->type_name("PATH=VALUE")
      ->type_size(1)
      ->allow_extra_args(false);
}

void add_gpu_flags(CLI::App& app, MachineFlags& flags) {
  app.add_option("--gpu", flags.gpu, "a name from 'predict-model list gpus', or a descriptor file")
      ->type_name("NAME|FILE.json")
      ->required();
  add_set_flag(app, flags);
}

void add_stack_flags(CLI::App& app, StackChoice& stack) {
  app.add_option("--stack", stack.name,
                 "whose kernels run: a name from 'predict-model list stacks', or a file [" + stack.name + "]")
      ->type_name("NAME|FILE.json");
  add_value(app, "--kernels", joined_words(kKernelSetWords),
            "with this project's before the stack's, without, or the roofline floor",
            [&stack](const std::string& text) { stack.kernels = chosen_word("--kernels", kKernelSetWords, text); });
  add_value(app, "--attention", "PROVIDER", "whose attention runs where it is not this project's [the stack's]",
            [&stack](const std::string& text) { stack.attention = text; });
  add_choice(app, "--collective", kCollectiveWords, stack.collective,
             "how the data of collectives go, instead of as the library would choose");
}

namespace {

bool is_bare_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == text.npos;
}

}  // namespace

void add_machine_flags(CLI::App& app, MachineFlags& flags) {
  add_gpu_flags(app, flags);
  add_stack_flags(app, flags.stack);
  add_choice(app, "--clock", kClockWords, flags.clock,
             "a short run at the boost clock, or the clock that long runs settle at");
  add_value(app, "--power-cap", "W", "board power limit that steady runs keep to [the board's own]",
            [&flags](const std::string& text) {
              try {
                flags.power_cap = parse_watts(is_bare_number(text) ? text + " W" : text);
              } catch (const BadInput& bad) {
                throw BadInput(std::string("--power-cap: ") + bad.what());
              }
            });
  add_value(app, "--sm-clock", "MHz", "SM clock locked below what the power cap leaves [not locked]",
            [&flags](const std::string& text) {
              try {
                flags.sm_clock = parse_hertz(is_bare_number(text) ? text + " MHz" : text);
              } catch (const BadInput& bad) {
                throw BadInput(std::string("--sm-clock: ") + bad.what());
              }
            });
  add_choice(app, "--data", kDataPatternWords, flags.data, "what operands hold: power depends on the bits that change");
  app.add_option("--cluster", flags.cluster,
                 "what joins the GPUs: a name from 'list clusters', or a file [the GPU's own]")
      ->type_name("NAME|FILE.json");
  app.add_option("--calibration", flags.calibration_file,
                 "coefficients that 'validate' measured or fitted [the GPU's own]")
      ->type_name("FILE.json");
}

void add_output_flags(CLI::App& app, OutputFlags& flags, std::vector<Format> formats) {
  std::string shown;
  for (const Format format : formats) shown += (shown.empty() ? "" : "|") + std::string(word_of(kFormatWords, format));
  const std::string first(word_of(kFormatWords, formats.front()));
  flags.format = formats.front();
  add_value(app, "--format", shown, "how to print it [" + first + "]",
            [&flags, shown, formats = std::move(formats)](const std::string& text) {
              flags.format = chosen_word("--format", kFormatWords, text);
              if (std::find(formats.begin(), formats.end(), flags.format) == formats.end()) {
                throw BadInput("--format: expected " + shown + " with this command; found '" + text + "'");
              }
            });
  app.add_option("--out", flags.file, "write to this file (beside it first, then renamed) instead of stdout")
      ->type_name("FILE");
}

Machine open_machine(const MachineFlags& flags) {
  const MachineOptions options{flags.stack, flags.clock, flags.power_cap, flags.data, flags.sm_clock, flags.cluster};
  return machines().get({flags.gpu, options, flags.calibration_file, flags.overrides});
}

void refuse_idle_attention(const StackChoice& stack, const std::vector<std::string_view>& used,
                           const std::string& what) {
  if (stack.attention.empty()) return;
  const std::string_view provider = attention_provider(stack.attention);
  if (std::find(used.begin(), used.end(), provider) != used.end()) return;
  throw BadInput("--attention " + stack.attention + ": runs no operator of " + what);
}

void refuse_idle_collective(const StackChoice& stack, bool any, const std::string& what) {
  if (stack.collective == CollectiveChoice::automatic || any) return;
  throw BadInput("--collective " + std::string(word_of(kCollectiveWords, stack.collective)) + ": no collective in " +
                 what);
}

void tell_beside(const OutputFlags& flags, const std::vector<std::string>& remarks) {
  if (flags.format != Format::csv && flags.format != Format::trace) return;
  for (const std::string& remark : remarks) std::cerr << "predict-model: " << remark << "\n";
}

void deliver(const OutputFlags& flags, std::string_view text) {
  OutputSink sink(flags.file);
  sink.write(text);
  sink.commit();
}

TextStyle style_for(const OutputFlags& flags) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool refused =
      (no_color != nullptr && *no_color != '\0') || (terminal != nullptr && std::string_view(terminal) == "dumb");
  return TextStyle{flags.format == Format::table && flags.file.empty() && !refused && ::isatty(STDOUT_FILENO) == 1};
}

}  // namespace plumbline::cli
