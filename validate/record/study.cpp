#include "validate/record/study.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"
#include "validate/record/held_out.hpp"
#include "validate/record/measurement.hpp"

namespace plumbline {

namespace {

/// The case of one record; throws without the place in front.
StudyCase read_case(std::string_view op, std::string_view dtype, std::string_view shape, std::string_view cache,
                    std::string_view clock, std::string_view data) {
  StudyCase what;
  what.op = parse_op(op, dtype, shape);
  what.shape = shape_text(what.op);
  if (!cache.empty()) what.cache = read_cache_state(cache, "cache");
  if (!clock.empty()) what.clock = read_clock_mode(clock, "clock");
  if (!data.empty()) what.data = read_data_pattern(data, "data");
  return what;
}

}  // namespace

std::string_view name(CacheState cache) {
  switch (cache) {
    case CacheState::cold: return "cold";
    case CacheState::warm: return "warm";
    case CacheState::read_through: return "read-through";
  }
  return "";
}

CacheState read_cache_state(std::string_view text, const std::string& place) {
  if (text == "cold") return CacheState::cold;
  if (text == "warm") return CacheState::warm;
  if (text == "read-through") return CacheState::read_through;
  throw BadInput(place + ": expected cold, warm or read-through, found '" + std::string(text) + "'" +
                 did_you_mean(text, {"cold", "warm", "read-through"}));
}

DataPattern read_data_pattern(std::string_view text, const std::string& place) {
  if (const auto pattern = parse_data_pattern(text)) return *pattern;
  throw BadInput(place + ": expected normal, zeros, ternary or uniform, found '" + std::string(text) + "'" +
                 did_you_mean(text, {"normal", "zeros", "ternary", "uniform"}));
}

KernelSet read_kernel_set(std::string_view text, const std::string& place) {
  if (text == "own") return KernelSet::own;
  if (text == "library") return KernelSet::library;
  throw BadInput(place + ": expected own or library, found '" + std::string(text) + "'" +
                 did_you_mean(text, {"own", "library"}));
}

std::string_view key_of(KernelSet kernels) {
  switch (kernels) {
    case KernelSet::own: return "own";
    case KernelSet::library: return "library";
    case KernelSet::ideal: break;
  }
  return "ideal";
}

std::vector<StudyCase> parse_study(std::string_view csv, const std::string& place) {
  CsvReader reader(csv, place);
  const CsvHeader header(reader);
  const std::size_t op = header.require("op"), dtype = header.require("dtype"), shape = header.require("shape");
  const auto cache = header.find("cache"), clock = header.find("clock"), data = header.find("data"),
             held_out = header.find("held_out");
  const std::filesystem::path file(place);
  const std::string study = file.stem().string();
  std::vector<StudyCase> cases;
  std::set<std::string> seen;
  while (reader.next()) {
    const auto fields = reader.fields();
    const std::string row_place = place + ":" + std::to_string(reader.line());
    if (fields.size() != header.size()) {
      throw BadInput(row_place + ": expected " + std::to_string(header.size()) + " fields, found " +
                     std::to_string(fields.size()));
    }
    try {
      cases.push_back(read_case(fields[op], fields[dtype], fields[shape], cache ? fields[*cache] : "",
                                clock ? fields[*clock] : "", data ? fields[*data] : ""));
      cases.back().held_out = held_out && read_held_out_flag(fields[*held_out], "held_out");
    } catch (const BadInput& error) {
      throw BadInput(row_place + ": " + error.what());
    }
    cases.back().study = study;
    cases.back().place = file.filename().string() + ":" + std::to_string(reader.line());  // stays in recordings
    if (!seen.insert(case_key(cases.back())).second) {
      throw BadInput(row_place + ": expected each case once, found " + case_text(cases.back()) + " again");
    }
  }
  if (cases.empty()) throw BadInput(place + ": expected cases, found none");
  return cases;
}

std::vector<StudyCase> read_study(const std::string& file) { return parse_study(read_text_file(file), file); }

std::string study_file(std::string_view name) {
  return (std::filesystem::path(data_folder()) / "studies" / name).string() + ".csv";
}

std::vector<StudyCase> cases_of_ops(std::vector<StudyCase> cases, const std::vector<std::string>& ops) {
  if (ops.empty()) return cases;
  for (const std::string& op : ops) {
    if (std::find(op_names().begin(), op_names().end(), op) == op_names().end()) {
      throw BadInput("--ops '" + op + "': expected an operator's name" + did_you_mean(op, op_names()));
    }
  }
  std::erase_if(
      cases, [&](const StudyCase& what) { return std::find(ops.begin(), ops.end(), op_name(what.op)) == ops.end(); });
  if (cases.empty()) throw BadInput("--ops: none of the cases is of these operators");
  return cases;
}

std::string case_key(const StudyCase& what) {
  std::string key(op_name(what.op));
  for (const std::string_view part :
       {dtype_text(what.op), std::string_view(what.shape), name(what.cache), text_of(what.clock)}) {
    key += '|';
    key += part;
  }
  if (what.data != DataPattern::normal) (key += '|') += name(what.data);
  return key;
}

std::string case_text(const StudyCase& what) {
  std::string text(op_name(what.op));
  for (const std::string_view part : {dtype_text(what.op), std::string_view(what.shape)}) {
    if (!part.empty()) text += ' ';
    text += part;
  }
  text += ", " + std::string(name(what.cache)) + " " + std::string(text_of(what.clock));
  if (what.data != DataPattern::normal) (text += ' ') += name(what.data);
  return text;
}

bool has_library_kernel(const Op& op) {
  const auto* gemm = std::get_if<Gemm>(&op);
  if (gemm == nullptr || gemm->layout != WeightLayout::nk || gemm->precision.input != gemm->precision.weight)
    return false;
  return gemm->precision.math == DType::bf16 || gemm->precision.math == DType::fp8;
}

}  // namespace plumbline
