// Words of a command line that are flags of llm or op, with lists, as the commands of studies take them.
#pragma once

#include <string>
#include <vector>

#include "model/study.hpp"

namespace plumbline::cli {

/// "llm FLAGS", "op NAME key=value FLAGS" or "STUDY.json FLAGS", whose flags stand in place of the file's. Throws BadInput
/// for words that none of them takes.
Study study_of_words(const std::vector<std::string>& words);

/// The names of a list between commas.
std::vector<std::string> names_of_list(const std::string& flag, const std::string& text);

}  // namespace plumbline::cli
