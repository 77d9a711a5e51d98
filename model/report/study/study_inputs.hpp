// What a study's answers were made of: each file by its place and its checksum, and the program's version.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/study.hpp"

namespace plumbline {

struct StudyInput {
  std::string what, name, file, sha256;  ///< "GPU", "h200_sxm", "data/gpus/h200_sxm.json", 64 digits
  std::string source;                    ///< what the file says of itself; "": that of its numbers, one by one
};

/// Models, GPUs with their calibrations, stacks and clusters that the study names, each once, in this order. A name that
/// no file has is left out, as the study's points say so.
std::vector<StudyInput> study_inputs(const Study& study);

/// The same as a table of a page: those of all these studies, each once.
std::string inputs_markup(const std::vector<const Study*>& studies);

/// "plumbline 0.1.0".
std::string program_version();

}  // namespace plumbline
