// Reading and writing whole files, and finding the data folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arch/units.hpp"

namespace plumbline {

/// Whole file as text. Throws BadInput when it can't be read or is larger than `limit`.
std::string read_text_file(const std::string& path, Bytes limit = 64.0 * units::MiB);

/// Writes beside `path`, then renames: nothing half-written. Throws BadInput.
void write_text_file(const std::string& path, std::string_view text);

/// The data folder: $PLUMBLINE_DATA, else the installed one beside the executable, else the source tree's.
std::string data_folder();

/// Names (without ".json") of the JSON files in a folder, sorted; empty when there is no such folder.
std::vector<std::string> json_file_names(const std::string& folder);

/// True when the text looks like a path ("/", ".json", or an existing file) rather than a short name.
bool looks_like_path(const std::string& text);

/// The candidate closest to `text`: edit distance at most a third of its length, or one is a prefix of the other; ""
/// when none is close.
std::string nearest_name(std::string_view text, const std::vector<std::string>& candidates);

/// " (did you mean 'x'?)" for the nearest name, or "".
std::string did_you_mean(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace plumbline
