#include "validate/fit/band_rows.hpp"

#include <filesystem>

#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/gpu/gpu.hpp"
#include "arch/json_reader.hpp"
#include "ops/table/table.hpp"
#include "validate/compare/report.hpp"
#include "validate/record/measurement_csv.hpp"
#include "validate/record/recorded.hpp"
#include "validate/record/study.hpp"

namespace plumbline {

namespace {

std::string measurements(const std::string& file) { return data_folder() + "/measurements/" + file; }

BandSource read_source(const JsonValue& v) {
  v.refuse_unknown_keys({"gpu", "kernels", "recording", "rows", "where", "min_us"});
  BandSource source;
  source.gpu = load_gpu(v.at("gpu").as_string()).name;
  source.kernels = read_kernel_set(v.at("kernels").as_string(), v.at("kernels").place());
  if (const auto recording = v.find("recording")) source.recording = recording->as_string();
  if (const auto rows = v.find("rows")) source.rows = rows->as_string();
  if (source.recording.empty() == source.rows.empty()) v.fail("expected either \"recording\" or \"rows\"");
  if (const auto where = v.find("where")) {
    for (const JsonValue& filter : where->elements()) source.where.push_back(parse_row_filter(filter.as_string()));
  }
  if (const auto least = v.find("min_us")) source.at_least = least->as_number() * units::us;
  return source;
}

std::vector<Measurement> recorded_rows(const BandSource& source, Half half) {
  std::vector<Measurement> rows;
  for (const Measurement& c : read_recording(measurements(source.recording)).cases) {
    if (c.kernels != source.kernels || !c.fault.empty()) continue;
    if ((c.held_out != HeldOut::no) != (half == Half::heldout)) continue;
    if (!keeps_case(source.where, c.what, c.kernel)) continue;
    rows.push_back(c);
    rows.back().origin.gpu = source.gpu;
  }
  return rows;
}

std::vector<Measurement> published_rows(const BandSource& source, Half half, std::vector<std::string>& refused) {
  const std::string file = measurements(source.rows + (half == Half::train ? ".train.csv" : ".heldout.csv"));
  Measurements read;
  if (half == Half::heldout && !std::filesystem::exists(file)) return {};  // a set that is all training
  read_measurements(read_text_file(file), file, source.where, read);
  if (!read.bad.empty()) throw BadInput(read.bad.front());
  // Whose call was timed is another question than how warm and how throttled the card was, which bands are to hold. So are
  // replays of the very same operands, which say nothing of a call that finds none of them in L2.
  const Protocols protocols = Protocols::beside(file);
  for (Measurement& row : read.rows) {
    const Protocol protocol = protocols.of(row.what.op, row.origin.stack);
    if (protocol.alone || protocol.rotates_all || protocol.own_times_of_bits > 0 || protocol.without_clears ||
        protocol.around_layer > Seconds{})
      row.origin.protocol = protocol;
  }
  if (half == Half::train) {
    for (std::string& row : refuse_held_out(read.rows, "validate fit-bands")) refused.push_back(std::move(row));
  } else {
    for (const Measurement& row : read.rows) {
      if (row.held_out == HeldOut::no)
        throw BadInput(row.what.place + ": expected a held-out row, found one to train on");
    }
  }
  return std::move(read.rows);
}

}  // namespace

std::vector<BandSource> parse_band_sources(const std::string& json_text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json_text, place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"note", "sources", "steps"});
  std::vector<BandSource> sources;
  for (const JsonValue& v : root.at("sources").elements()) sources.push_back(read_source(v));
  return sources;
}

std::vector<StepSource> parse_step_sources(const std::string& json_text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json_text, place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"note", "sources", "steps"});
  std::vector<StepSource> sources;
  const auto steps = root.find("steps");
  if (!steps) return sources;
  for (const JsonValue& v : steps->elements()) {
    v.refuse_unknown_keys({"gpu", "recording", "rows"});
    const auto path = [&](const char* key) {
      const auto name = v.find_string(key);
      return name ? measurements(*name) : std::string();
    };
    sources.push_back({load_gpu(v.at("gpu").as_string()).name, path("recording"), path("rows")});
    if (sources.back().recording.empty() == sources.back().rows.empty()) v.fail("expected recording or rows");
  }
  return sources;
}

BandRows read_band_rows(const std::vector<BandSource>& sources, Half half) {
  BandRows out;
  for (const BandSource& source : sources) {
    auto rows = source.recording.empty() ? published_rows(source, half, out.refused) : recorded_rows(source, half);
    for (Measurement& row : rows) {
      if (row.time < source.at_least || row.what.data != DataPattern::normal) continue;
      out.rows.push_back({std::move(row), source.gpu, source.kernels});
    }
  }
  return out;
}

}  // namespace plumbline
