#include "model/report/study/study_inputs.hpp"

#include <algorithm>
#include <filesystem>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/json_reader.hpp"
#include "arch/sha256.hpp"
#include "model/machines.hpp"
#include "model/question/question.hpp"
#include "model/report/html/markup.hpp"

namespace plumbline {
namespace {

/// Values that the study gives a flag.
std::vector<std::string> values_of(const Study& study, const std::string& name) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& value) {
    if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
  };
  for (const StudySetting& each : study.base) {
    if (each.name == name) add(each.value);
  }
  for (const StudyAxis& axis : study.axes) {
    for (std::size_t i = 0; i < axis.names.size(); ++i) {
      if (axis.names[i] != name) continue;
      for (const auto& values : axis.values) add(values[i]);
    }
  }
  return out;
}

/// What a file says of itself: the first sentence or part of one.
std::string source_of(const std::string& text, const std::string& path) {
  try {
    const JsonDocument document = JsonDocument::parse(text, path);
    const std::string source = document.root().find_string("source").value_or("");
    return source.substr(0, source.find_first_of(";:"));
  } catch (const Error&) {  // whoever reads it will say so
    return "";
  }
}

void add_file(const std::string& what, const std::string& name, const std::string& part, std::vector<StudyInput>& out) {
  const bool own = looks_like_path(name);
  const std::string path = own ? name : data_folder() + "/" + part + "/" + name + ".json";
  if (!std::filesystem::is_regular_file(path)) return;
  const std::string shown = own ? name : "data/" + part + "/" + name + ".json";
  if (std::any_of(out.begin(), out.end(), [&](const StudyInput& each) { return each.file == shown; })) return;
  const std::string text = read_text_file(path);
  out.push_back({what, name, shown, Sha256::of(text), source_of(text, path)});
}

}  // namespace

std::vector<StudyInput> study_inputs(const Study& study) {
  std::vector<StudyInput> out;
  for (const std::string& name : values_of(study, "model")) add_file("model", name, "models", out);
  for (const std::string& name : values_of(study, "gpu")) {
    std::string known = name;
    try {
      if (!looks_like_path(name)) known = machines().gpu(name).name;
    } catch (const Error&) {
      continue;
    }
    add_file("GPU", known, "gpus", out);
    add_file("calibration", known, "calibration", out);
  }
  std::vector<std::string> stacks = values_of(study, "stack");
  const std::vector<std::string> phases = values_of(study, "phase");
  const bool trains = std::find(phases.begin(), phases.end(), "train") != phases.end();
  if (stacks.empty()) stacks.emplace_back(trains ? kTrainingStack : StackChoice().name);
  for (const std::string& name : stacks) add_file("stack", name, "stacks", out);
  for (const std::string& name : values_of(study, "cluster")) add_file("cluster", name, "clusters", out);
  return out;
}

std::string inputs_markup(const std::vector<const Study*>& studies) {
  std::vector<StudyInput> all;
  for (const Study* study : studies) {
    for (StudyInput& each : study_inputs(*study)) {
      const bool known =
          std::any_of(all.begin(), all.end(), [&](const StudyInput& other) { return other.file == each.file; });
      if (!known) all.push_back(std::move(each));
    }
  }
  std::vector<std::pair<std::string, std::string>> lines;
  for (const StudyInput& each : all) {
    lines.emplace_back(each.what + " " + each.name, each.file);
    lines.emplace_back("source", each.source.empty() ? "number by number" : each.source);
    lines.emplace_back("SHA-256", each.sha256);
  }
  return html::facts(lines) + html::note("By " + program_version() + ". Each file says where its numbers are from.");
}

std::string program_version() { return std::string("plumbline ") + PLUMBLINE_VERSION; }

}  // namespace plumbline
