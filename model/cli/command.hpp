// A command of predict-model and its options, as commands see them. The parser behind them is CLI11, whose header takes a
// compiler longer than all the rest of a command: command.cpp and front.cpp alone include it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/cli/ranks.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace plumbline::cli {

/// An option that a command has, to say more of it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  const Option& required() const;
  /// The option may stand without its value, which is "" then.
  const Option& value_optional() const;
  /// Not shown by --help.
  const Option& hidden() const;

 private:
  CLI::Option* option_;
};

/// Around a command: where answers go instead of stdout (null: to stdout), and the processes of the run (null: this one).
struct Surroundings {
  std::string* into = nullptr;
  Ranks* ranks = nullptr;
};

/// A handle: copies speak of the same command, which lives as long as the root's.
class Command {
 public:
  explicit Command(CLI::App& app, const Surroundings& around = {}) : app_(&app), around_(around) {}

  Command subcommand(const std::string& name, const std::string& help) const;

  // An option, or a positional argument where `flag` has no dashes, whose value the help shows as `shape`.
  Option text(const std::string& flag, const std::string& shape, const std::string& help, std::string& target) const;
  /// Calls `action(value)`, which may throw BadInput.
  Option value(const std::string& flag, const std::string& shape, const std::string& help,
               const std::function<void(const std::string&)>& action) const;
  /// As many values as follow.
  Option texts(const std::string& flag, const std::string& shape, const std::string& help,
               std::vector<std::string>& target) const;
  /// One value each time that the option is given.
  Option repeated(const std::string& flag, const std::string& shape, const std::string& help,
                  const std::function<void(const std::string&)>& action) const;
  /// An option without a value.
  void toggle(const std::string& flag, const std::string& help, bool& target) const;

  // Once the command line is read.
  bool given(const std::string& flag) const;
  std::vector<std::string> all_given() const;
  void footer(const std::string& text) const;
  /// `chosen` runs when the command line names this command and is sound.
  void when_chosen(const std::function<void()>& chosen) const;
  /// Words that are none of the command's options are left to it: others(), in their order.
  void leave_others() const;
  std::vector<std::string> others() const;
  const Surroundings& around() const { return around_; }

 private:
  CLI::App* app_;
  Surroundings around_;
};

/// Help pages at most 110 columns wide, whatever an option says of itself.
void format_help(CLI::App& root);

}  // namespace plumbline::cli
