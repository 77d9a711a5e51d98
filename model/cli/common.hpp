// What the commands of predict-model share: flags, their checks, and where the output goes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/cli/command.hpp"
#include "model/predict.hpp"
#include "model/question/words.hpp"
#include "model/report/columns.hpp"
#include "model/words.hpp"

namespace plumbline::cli {

/// What main runs once the whole command line has been read and found sound.
using Action = std::function<ExitCode()>;

// One function a file of commands; each registers its commands with the root and sets `action` when one is chosen.
void add_llm_command(const Command& root, Action& action);
void add_op_command(const Command& root, Action& action);
void add_ops_command(const Command& root, Action& action);
void add_gpu_command(const Command& root, Action& action);
void add_cluster_command(const Command& root, Action& action);
void add_plan_command(const Command& root, Action& action);
void add_list_command(const Command& root, Action& action);
void add_sweep_command(const Command& root, Action& action);
void add_sensitivity_command(const Command& root, Action& action);
void add_solve_command(const Command& root, Action& action);
void add_diff_command(const Command& root, Action& action);

enum class Format { table, json, csv, trace, html, graph, jsonl, profiler, svg };
inline constexpr std::array<Word<Format>, 9> kFormatWords{{{"table", Format::table},
                                                           {"json", Format::json},
                                                           {"csv", Format::csv},
                                                           {"trace", Format::trace},
                                                           {"html", Format::html},
                                                           {"graph", Format::graph},
                                                           {"jsonl", Format::jsonl},
                                                           {"profiler", Format::profiler},
                                                           {"svg", Format::svg}}};

struct MachineFlags {
  std::string gpu;
  std::vector<Override> overrides;
  StackChoice stack;
  ClockMode clock = ClockMode::burst;
  std::optional<Watts> power_cap;
  std::optional<Hertz> sm_clock;
  DataPattern data = DataPattern::normal;
  std::string cluster;           ///< empty: the one that the GPU's descriptor names
  std::string calibration_file;  ///< empty: the GPU's own, or its family's
};

struct OutputFlags {
  Format format = Format::table;
  std::string file;             ///< empty: stdout, or
  std::string* into = nullptr;  ///< ... the string of the one who asked
};

/// --gpu and --set; the command itself says when --gpu is required where `required` is false.
void add_gpu_flags(const Command& app, MachineFlags& flags, bool required = true);
void add_set_flag(const Command& app, MachineFlags& flags);
void add_stack_flags(const Command& app, StackChoice& stack);  ///< --stack, --kernels and --attention
/// The same, and what machine options there are.
void add_machine_flags(const Command& app, MachineFlags& flags, bool gpu_required = true);
void add_output_flags(const Command& app, OutputFlags& flags, std::vector<Format> formats);

/// Says on stderr what the format has no room for: CSV and traces hold figures alone.
void tell_beside(const OutputFlags& flags, const std::vector<std::string>& remarks);

/// The GPU under its calibration. Refuses --power-cap and --data for one whose energies are not on file.
Machine open_machine(const MachineFlags& flags);

/// To the file (written beside, then renamed), to the asker's string or to stdout. Throws when it can't be written.
void deliver(const OutputFlags& flags, std::string_view text);
/// Colour only for a table on a terminal, and never under NO_COLOR (no-color.org) or TERM=dumb.
TextStyle style_for(const OutputFlags& flags);

/// An option that takes one of `words`; its present value is the default that the help shows.
template <class E, std::size_t N>
Option add_choice(const Command& app, const std::string& flag, const std::array<Word<E>, N>& words, E& target,
                  const std::string& help, bool show_default = true) {
  const std::string text = show_default ? help + " [" + std::string(word_of(words, target)) + "]" : help;
  return app.value(flag, joined_words(words), text,
                   [flag, &words, &target](const std::string& value) { target = chosen_word(flag, words, value); });
}

}  // namespace plumbline::cli
