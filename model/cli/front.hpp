// What predict-model answers to the words of its command line, for programs and for other languages.
#pragma once

#include <string>
#include <vector>

#include "arch/error.hpp"
#include "model/cli/ranks.hpp"

namespace plumbline::cli {

/// Runs the command that `words` are, without the program's name. What it would print on stdout goes to `into`, where that
/// is not null; files that it is told to write are written. Throws Error for what can't be answered; `where` is then what
/// stands before the message: "predict-model llm". Any number of threads may ask at once, each with its own strings.
/// `ranks`: the processes of this run, where there are several; null: this one.
ExitCode answer(std::vector<std::string> words, std::string* into, std::string& where, Ranks* ranks = nullptr);

/// The same for a program: answers go to stdout, and every error becomes one line on stderr (of the first rank) and an exit
/// code (contract: exit codes).
int run_program(const std::vector<std::string>& words, Ranks* ranks = nullptr);

}  // namespace plumbline::cli
