// Reading and writing whole files, and finding the data folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arch/units.hpp"

namespace plumbline {

/// Whole file as text. Throws BadInput when it can't be read or is larger than `limit`.
std::string read_text_file(const std::string& path, Bytes limit = 64.0 * units::MiB);

/// Writes the whole text as OutputSink does (arch/sink.hpp): nothing half-written, nothing replaced that is no regular
/// file. An empty path is stdout. Throws BadInput.
void write_text_file(const std::string& path, std::string_view text);

/// The data folder: the one of `set_data_folder`, else $PLUMBLINE_DATA, else the installed one (beside the executable, or
/// of the package that the program was linked with), else the source tree's. Throws BadInput, naming PLUMBLINE_DATA, when
/// what was chosen is no such folder or there is none.
std::string data_folder();

/// Chooses the data folder of this process from now on, before PLUMBLINE_DATA; "" chooses none. Throws BadInput for a
/// folder without GPUs, models or calibrations in it. What was loaded before stays as it is.
void set_data_folder(const std::string& path);

/// Where the package's data are that a program was linked with: called before main by the source file that the installed
/// CMake package adds to it (cmake/installed_data.cpp). `folder` must live as long as the process.
void know_installed_data(const char* folder) noexcept;

/// Names (without ".json") of a part of the data folder ("gpus", "models", "clusters"), sorted. Throws BadInput when the
/// data folder has no such part.
std::vector<std::string> data_names(const std::string& part);

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
