// The commands of predict-model behind their words: parses and calls. Programs print what it gives back or throws.
#include "model/cli/front.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <sstream>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/printable.hpp"
#include "model/cli/command.hpp"
#include "model/cli/common.hpp"
#include "model/cli/sweep_ranks.hpp"

namespace plumbline::cli {
namespace {

std::vector<std::string> option_names(const CLI::App& root) {
  const auto chosen = root.get_subcommands();
  const CLI::App* app = chosen.empty() ? &root : chosen.front();
  std::vector<std::string> names;
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// What CLI11 could not place, with the nearest option or command.
std::string unplaced(const CLI::App& root) {
  const std::vector<std::string> rest = root.remaining(true);
  if (rest.empty()) return "unexpected argument";
  const std::string flag = rest.front().substr(0, rest.front().find('='));
  if (flag.size() > 1 && flag.front() == '-') {
    const std::vector<std::string> names = option_names(root);
    const std::string near = did_you_mean(flag, names), unknown = "unknown option '" + flag + "'";
    const auto chosen = root.get_subcommands();
    if (chosen.empty() && near.empty())
      return unknown + "; expected a command first, such as llm, op or list (see --help)";
    if (std::find(names.begin(), names.end(), flag) != names.end())
      return flag + ": expected behind the command, '" + chosen.front()->get_name() + "'";
    return unknown + (near.empty() ? " (see " + root.get_name() + " " + chosen.front()->get_name() + " --help)" : near);
  }
  return "unexpected argument '" + rest.front() + "'";
}

/// "predict-model llm" for messages. Throws BadInput for a command that is not there.
std::string place(const CLI::App& root, const std::vector<std::string>& words) {
  if (words.front().starts_with('-')) return root.get_name();
  std::vector<std::string> commands;
  for (const CLI::App* command : root.get_subcommands(nullptr)) commands.push_back(command->get_name());
  const std::string& asked = words.front();
  if (std::find(commands.begin(), commands.end(), asked) != commands.end()) return root.get_name() + " " + asked;
  throw BadInput("unknown command '" + asked + "'" + did_you_mean(asked, commands));
}

/// CLI11's counts of values: "--batch: At Most 1 required but received 2", "--top: 1 required N missing".
std::string in_our_words(std::string text) {
  constexpr std::string_view kTwice = ": At Most 1 required but received ", kLacks = ": 1 required ", kEnd = " missing";
  if (const auto at = text.find(kTwice); at != std::string::npos) {
    return text.substr(0, at) + ": expected once, found " + text.substr(at + kTwice.size()) + " times";
  }
  if (const auto at = text.find(kLacks); at != std::string::npos && text.ends_with(kEnd)) {
    const std::size_t shape = at + kLacks.size();
    return text.substr(0, at) + ": expected " + text.substr(shape, text.size() - kEnd.size() - shape) +
           ", found nothing";
  }
  return text;
}

/// What is wrong with the command line, in our words where CLI11's are not enough.
std::string complaint(const CLI::App& root, const std::string& where, const CLI::ParseError& error) {
  // CLI11 looks for missing options before it minds unknown ones; a misspelt option is both.
  const auto chosen = root.get_subcommands();
  const bool takes_others = !chosen.empty() && chosen.front()->get_allow_extras();
  if (!takes_others && !root.remaining(true).empty()) return unplaced(root);
  if (chosen.empty()) return "expected a command, such as llm, op or list (see --help)";
  return in_our_words(error.what()) + " (see " + where + " --help)";
}

void set_up(CLI::App& root, Action& action, const Surroundings& surroundings) {
  root.name("predict-model");
  root.require_subcommand(1);
  root.set_version_flag("-v,--version", std::string("plumbline ") + PLUMBLINE_VERSION);
  format_help(root);
  const Command commands(root, surroundings);
  add_llm_command(commands, action);
  add_op_command(commands, action);
  add_ops_command(commands, action);
  add_plan_command(commands, action);
  add_gpu_command(commands, action);
  add_cluster_command(commands, action);
  add_list_command(commands, action);
  add_sweep_command(commands, action);
  add_sensitivity_command(commands, action);
  add_solve_command(commands, action);
  add_diff_command(commands, action);
  root.footer(
      "'predict-model COMMAND --help' explains a command. Start with:\n"
      "  predict-model list gpus\n"
      "  predict-model llm --model llama-3.1-8b --gpu h200 --phase decode\n"
      "  predict-model op gemm M=4096 N=4096 K=4096 --gpu h200\n"
      "Exit codes: 0 done, 1 does not fit, 2 bad input or usage, 3 partly not modelled, 70 internal error.");
}

/// Nothing at all asks for the short help; `help llm` for what `llm --help` prints.
std::vector<std::string> as_asked(std::vector<std::string> words) {
  if (words.empty()) return {"--help"};
  if (words.front() != "help") return words;
  words.erase(words.begin());
  if (words.size() > 1) throw BadInput("help: expected one command, found '" + words[1] + "' too");
  words.emplace_back("--help");
  return words;
}

/// --help and --version.
ExitCode say(const CLI::App& root, const CLI::Success& asked, std::string* into) {
  std::ostringstream text;
  root.exit(asked, text, text);
  if (into != nullptr) *into += text.str();
  else if (!(std::cout << text.str()).flush()) throw BadInput("stdout: write failed");
  return ExitCode::done;
}

}  // namespace

ExitCode answer(std::vector<std::string> words, std::string* into, std::string& where, Ranks* ranks) {
  where = "predict-model";
  CLI::App root("Predicts the time of transformer operators and models on GPUs, and says why.");
  Action action;
  set_up(root, action, {into, ranks});
  words = as_asked(std::move(words));
  where = place(root, words);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    root.parse(words);
  } catch (const CLI::Success& asked) {
    return say(root, asked, into);
  } catch (const CLI::ParseError& error) {
    throw BadInput(complaint(root, where, error));
  }
  data_folder();  // one that is not there is said of every command, not only of those that read it
  return action();
}

int run_program(const std::vector<std::string>& words, Ranks* ranks) {
  const auto say_error = [ranks](const std::string& text) {
    if (ranks != nullptr && ranks->rank() > 0) decline_to_serve(*ranks, text);
    else std::cerr << message_line(text);
  };
  std::string where = "predict-model";
  ExitCode exit = ExitCode::our_bug;
  try {
    exit = answer(words, nullptr, where, ranks);
  } catch (const Error& error) {
    say_error(where + ": " + error.what());
    exit = error.code();
  } catch (const std::exception& bug) {
    say_error(std::string("plumbline: internal error: ") + bug.what());
  }
  return ranks != nullptr && ranks->rank() > 0 ? 0 : static_cast<int>(exit);
}

}  // namespace plumbline::cli
